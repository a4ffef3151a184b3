"""A drive through a town: frames that are rendered when they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError
from robustmat.simulation.layout import LANE
from robustmat.simulation.lidar import Sweep, scan
from robustmat.simulation.looks import find_look
from robustmat.simulation.render import View, kitti_camera, render
from robustmat.simulation.rig import T_CAMERA_LIDAR, camera_pose
from robustmat.simulation.scene import Part
from robustmat.simulation.town import Town
from robustmat.simulation.traffic import Traffic, make_traffic
from robustmat.simulation.truth import SeenLandmark, visible_landmarks
from robustmat.sources.drive import Drive
from robustmat.types import Array, Camera, Frame, Image

FRAME_TIME = 0.1  # seconds


@dataclass(frozen=True)
class Lane:
    """A way to drive the round: metres left of its centreline, and whether along it or against it."""

    offset: float
    forward: bool = True


LANES: dict[str, Lane] = {
    "right": Lane(-LANE / 2),
    "left": Lane(LANE / 2),
    "middle": Lane(0.0),
    "oncoming": Lane(LANE / 2, forward=False),
}


@dataclass(frozen=True, kw_only=True)
class StreetDrive(Drive):
    """A simulated drive, and what the simulator knows about each frame."""

    town: Town
    view: Callable[[int], View]  # the rendering of frame i; the last two are remembered
    sweep: Callable[[int, Sweep, Array], NDArray[np.float32]]  # frame i by another LiDAR at T_camera_lidar

    def truth(self, i: int) -> tuple[SeenLandmark, ...]:
        """The landmarks that frame `i` shows."""
        frame = self.frames[i]
        assert frame.T_world_camera is not None
        assert frame.camera is not None
        return visible_landmarks(self.town, self.view(i), frame.T_world_camera, frame.camera)


@dataclass(frozen=True, eq=False)
class Sensors:
    """The camera and the LiDAR of one drive: what they give at frame i, computed when asked for."""

    town: Town
    poses: tuple[Array, ...]  # T_world_camera
    look: str
    camera: Camera
    traffic: Traffic
    drive_seed: int
    recent: dict[int, View] = field(default_factory=dict)  # the last two renderings

    def view(self, i: int) -> View:
        if i not in self.recent:  # a frame's picture and labels are asked for one after the other
            seeds = [self.town.seed, self.drive_seed, i, 1]
            self.recent[i] = render(self.town, self.poses[i], self.look, self.camera, self._movables(i), seeds)
            for oldest in list(self.recent)[:-2]:
                del self.recent[oldest]
        return self.recent[i]

    def image(self, i: int) -> Image:
        return self.view(i).image.copy()

    def semantics(self, i: int) -> NDArray[np.uint8]:
        return self.view(i).semantics.copy()

    def sweep(self, i: int, rays: Sweep, T_camera_lidar: Array) -> NDArray[np.float32]:
        seeds = [self.town.seed, self.drive_seed, i, 2]
        pose, movables = self.poses[i], self._movables(i)
        return scan(self.town, pose, self.look, self.camera, movables, seeds, rays, T_camera_lidar)

    def _movables(self, i: int) -> list[Part]:
        x, y = self.poses[i][:2, 3]
        return self.traffic.at(i * FRAME_TIME, x, y)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "recent": {}}


def find_lane(name: str) -> Lane:
    if name not in LANES:
        raise ConfigError(f"unknown lane {name!r}: choose one of {', '.join(LANES)}")
    return LANES[name]


def drive_town(
    town: Town,
    frames: int,
    *,
    look: str = "noon",
    lane: str = "right",
    start: float = 0.0,
    spacing: float = 1.0,
    drive_seed: int = 0,
    camera: Camera | None = None,
) -> StreetDrive:
    """Drive `frames` frames, `spacing` metres apart, from `start` metres along the round.

    The town's landmarks are the same in every drive; traffic, sway and grain belong to `drive_seed`. A drive
    longer than the round comes by the same places again.
    """
    find_look(look)
    way = find_lane(lane)
    if frames < 1 or spacing <= 0:
        raise ConfigError(f"a drive needs at least one frame and a positive spacing, not {frames} and {spacing}")
    camera = camera or kitti_camera()
    poses = _poses(town, frames, way, start, spacing, drive_seed)
    speed = (1.0 if way.forward else -1.0) * spacing / FRAME_TIME
    traffic = make_traffic(town, drive_seed, start, speed, way.offset)

    sensors = Sensors(town, tuple(poses), look, camera, traffic, drive_seed)

    def frame(i: int) -> Frame:
        return Frame(
            name=f"{i:010d}",
            load_image=partial(sensors.image, i),
            camera=camera,
            T_world_camera=poses[i],
            T_camera_lidar=T_CAMERA_LIDAR,
            load_points=partial(sensors.sweep, i, Sweep(), T_CAMERA_LIDAR),
            load_semantics=partial(sensors.semantics, i),
            time=i * FRAME_TIME,
        )

    return StreetDrive(
        name=f"{town.world}-{look}-{lane}-{drive_seed}",
        world=town.world,
        frames=tuple(frame(i) for i in range(frames)),
        image_paths=(None,) * frames,
        source={"layout": "street", "seed": town.seed, "look": look, "lane": lane, "drive_seed": drive_seed},
        town=town,
        view=sensors.view,
        sweep=sensors.sweep,
    )


def _poses(town: Town, frames: int, way: Lane, start: float, spacing: float, drive_seed: int) -> list[Array]:
    """T_world_camera of each frame: along the lane, with a driver's wander and the springs' sway."""
    rng = np.random.default_rng([town.seed, drive_seed, 99])
    phases = rng.uniform(0, 2 * np.pi, 6)
    run: Array = np.arange(frames, dtype=float) * spacing
    s: Array = np.asarray(start + (run if way.forward else -run))
    wander = 0.12 * np.sin(run / 17.0 + phases[0]) + 0.06 * np.sin(run / 5.3 + phases[1])
    pitch = np.radians(0.25 * np.sin(run / 3.1 + phases[2]) + 0.15 * np.sin(run / 1.7 + phases[3]))
    roll = np.radians(0.3 * np.sin(run / 4.7 + phases[4]))
    lift = 0.012 * np.sin(run / 2.3 + phases[5])
    places = town.route.beside(s, way.offset + wander)
    headings = town.route.at(s)[1] + (0.0 if way.forward else np.pi)
    headings = headings + 0.01 * np.cos(run / 17.0 + phases[0])
    return [
        camera_pose(float(x), float(y), float(h), float(p), float(r), float(z))
        for (x, y), h, p, r, z in zip(places, headings, pitch, roll, lift, strict=True)
    ]
