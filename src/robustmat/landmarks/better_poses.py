"""A drive's poses, refined by its scans before anything is built from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.files import replacing
from robustmat.geometry.pose_graph import angle_between
from robustmat.geometry.registration import Refined, Scan, refine_poses
from robustmat.geometry.transforms import invert
from robustmat.landmarks.config import DEFAULT, LandmarkConfig
from robustmat.landmarks.reference_map import movable_points
from robustmat.types import Array, Frame


@dataclass(frozen=True)
class PoseReport:
    """What refinement did to the poses of a drive."""

    refined: bool
    registered: int = 0  # steps between neighbouring frames
    metres: tuple[float, float] = (0.0, 0.0)  # median and largest correction
    degrees: tuple[float, float] = (0.0, 0.0)
    by: str = "lidar"

    def to_json(self) -> dict[str, Any]:
        if not self.refined:
            return {"refined": False}
        return {
            "refined": True,
            "by": self.by,
            "registered_steps": self.registered,
            "corrections": {
                "metres": {"median": round(self.metres[0], 4), "max": round(self.metres[1], 4)},
                "degrees": {"median": round(self.degrees[0], 4), "max": round(self.degrees[1], 4)},
            },
        }


def with_better_poses(
    frames: Sequence[Frame],
    keep: Path | None = None,
    config: LandmarkConfig = DEFAULT,
    progress: Callable[[Sequence[Frame]], Iterable[Frame]] = lambda frames: frames,
) -> tuple[list[Frame], PoseReport]:
    """The frames with refined T_world_camera, and how far they moved. Frames without a pose stay as they are.

    Poses that are in the file `keep` already are taken from there; otherwise they are written to it.
    """
    posed = [i for i, frame in enumerate(frames) if frame.T_world_camera is not None]
    if not config.poses.refine or not any(frames[i].load_points for i in posed):
        return list(frames), PoseReport(refined=False)
    mounts = np.array([_mount(frames[i]) for i in posed])  # T_camera_body
    given = np.array([frames[i].T_world_camera for i in posed]) @ mounts
    poses, registered = kept_poses(keep, lambda: _refined([frames[i] for i in posed], given, config, progress))
    better = list(frames)
    for i, T_world_body, mount in zip(posed, poses, mounts, strict=True):
        better[i] = replace(frames[i], T_world_camera=T_world_body @ invert(mount))
    return better, report_of(given, poses, registered, "lidar")


def kept_poses(keep: Path | None, make: Callable[[], Refined]) -> tuple[Array, int]:
    """Poses and how many steps were registered: from the file `keep`, or made and written to it."""
    if keep is not None and keep.is_file():
        kept = np.load(keep, allow_pickle=False)
        return kept["poses"], int(kept["registered"])
    found = make()
    if keep is not None:
        with replacing(keep) as temporary, temporary.open("wb") as file:
            np.savez(file, poses=found.poses, registered=found.registered)
    return found.poses, found.registered


def report_of(given: Array, poses: Array, registered: int, by: str) -> PoseReport:
    """How far poses [N, 4, 4] moved."""
    metres = np.linalg.norm(poses[:, :3, 3] - given[:, :3, 3], axis=1)
    degrees = np.degrees(angle_between(given, poses))
    return PoseReport(True, registered, _median_and_max(metres), _median_and_max(degrees), by)


def _refined(
    frames: Sequence[Frame],
    given: Array,
    config: LandmarkConfig,
    progress: Callable[[Sequence[Frame]], Iterable[Frame]],
) -> Refined:
    def walk(numbers: Iterable[int]) -> Iterable[int]:
        for number, _ in zip(numbers, progress(frames), strict=True):
            yield number

    return refine_poses(given, [_still_points(frame, config) for frame in frames], config.poses, walk)


def _mount(frame: Frame) -> Array:
    """T_camera_body: the body is the LiDAR, or the camera itself where there is none."""
    return np.eye(4) if frame.T_camera_lidar is None else frame.T_camera_lidar


def _still_points(frame: Frame, config: LandmarkConfig) -> Scan | None:
    """The scan without traffic and people, which would pull the pose along."""
    if frame.load_points is None or frame.T_camera_lidar is None:
        return None

    def load() -> Array:
        points = frame.points_lidar
        assert points is not None
        xyz = points[:, :3].astype(np.float64)
        near = (xyz**2).sum(1) < config.map.reach**2
        return np.asarray(xyz[near & ~movable_points(xyz, frame, config.map)])

    return load


def _median_and_max(values: Array) -> tuple[float, float]:
    return float(np.median(values)), float(values.max())
