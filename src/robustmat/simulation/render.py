"""A camera's view of a town: picture, classes, identities and depth of every pixel."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.transforms import invert
from robustmat.simulation import labels, raster
from robustmat.simulation.ground import FAR_GRASS, TEXEL, TILE
from robustmat.simulation.opencv import remapped, shrunk
from robustmat.simulation.scene import Panel, Part, turned_to
from robustmat.simulation.sensor import expose, through_air
from robustmat.simulation.sky import look_up
from robustmat.simulation.stage import Stage, stage_of
from robustmat.simulation.town import Town
from robustmat.types import Array, Camera, Image

SIGHT = 130.0  # metres; beyond it there is only the far band of the sky


def kitti_camera(scale: float = 1.0) -> Camera:
    """KITTI's rectified colour camera; `scale` makes everything smaller, for quick tests."""
    focal, cx, cy = 721.5377 * scale, 609.5593 * scale, 172.854 * scale
    matrix = np.array([[focal, 0.0, cx], [0.0, focal, cy], [0.0, 0.0, 1.0]])
    return Camera(matrix, round(1242 * scale), round(375 * scale))


@dataclass(frozen=True, eq=False)
class View:
    """What a camera sees."""

    image: Image  # [H, W, 3]
    semantics: NDArray[np.uint8]  # [H, W], Cityscapes train ids, 19 window
    identities: NDArray[np.int32]  # [H, W], 0 where there is no landmark
    depth: NDArray[np.float32]  # [H, W], metres along the optical axis, inf for sky


def render(
    town: Town,
    T_world_camera: Array,
    look: str = "noon",
    camera: Camera | None = None,
    movables: Sequence[Part] = (),
    sensor_seed: int | Sequence[int] = 0,
) -> View:
    """See the town from a pose; `movables` are the vehicles and people of the moment."""
    stage = stage_of(town, look)
    camera = camera or kitti_camera()
    canvas = _backdrop(stage, T_world_camera, camera)
    T_camera_world = invert(T_world_camera)
    panels, suns = panels_seen(stage, T_world_camera, camera, movables)
    gains = stage.lights(panels, suns) if panels else np.ones((0, 3))
    for placed in raster.place(panels, T_camera_world, camera):
        raster.paint(canvas, placed, stage.bank, gains[placed.number])
    hazy = through_air(canvas.rgb, canvas.near, stage.look)
    image = expose(hazy, stage.look, np.random.default_rng(sensor_seed))
    with np.errstate(divide="ignore"):
        depth = np.where(canvas.near > 0, 1 / canvas.near, np.inf).astype(np.float32)
    return View(image, canvas.labels, canvas.identities, depth)


def panels_seen(
    stage: Stage, T_world_camera: Array, camera: Camera, movables: Sequence[Part]
) -> tuple[list[Panel], list[float]]:
    """Panels that may be in view, struts turned to the camera, each with its share of sun."""
    eye, forward = T_world_camera[:3, 3], T_world_camera[:3, 2]
    spread = float(np.arctan(np.hypot(camera.width, camera.height) * 0.56 / camera.matrix[0, 0]))
    parts = stage.town.parts.near(eye, forward, SIGHT, spread)
    suns = [stage.sun_on(part) for part in parts]
    return turned_to([*parts, *movables], eye), suns + [stage.sun_on(part) for part in movables]


def _backdrop(stage: Stage, T_world_camera: Array, camera: Camera) -> raster.Canvas:
    """Sky and ground, which fill every pixel."""
    turn, eye = T_world_camera[:3, :3], T_world_camera[:3, 3]
    height, width = camera.height, camera.width
    x = ((np.arange(width) - camera.matrix[0, 2]) / camera.matrix[0, 0]).astype(np.float32)
    y = ((np.arange(height) - camera.matrix[1, 2]) / camera.matrix[1, 1]).astype(np.float32)
    # Depth along the optical axis of the ground under a pixel is -eye_z / (turn[2] . ray).
    a, b, c = (-turn[2] / eye[2]).tolist()
    near = np.maximum(a * x[None, :] + (b * y[:, None] + c), 0)  # [H, W]
    near[near < 1 / 400] = 0.0
    named = np.full((height, width), labels.TERRAIN, np.uint8)
    rgb = np.zeros((height, width, 3), np.uint8)
    rows = int(np.clip(np.flatnonzero((near <= 0).any(axis=1)).max(initial=-1) + 1, 0, height))
    if rows:
        rgb[:rows], named[:rows] = look_up(stage.sky, stage.sky_labels, turn, camera, rows)
    _lay_ground(stage, rgb, named, near, turn, eye, x, y)
    return raster.Canvas(rgb, near, named, np.zeros((height, width), np.int32))


# Where the ground is sampled more densely: (nearest depth, samples per row, how often the picture is halved).
BANDS = ((0.0, 1, 0), (9.0, 3, 0), (20.0, 5, 1), (38.0, 6, 2), (75.0, 6, 3))
FAR_GROUND = 90.0  # metres of depth; beyond it the ground is one colour
FAR_TILES = 105.0  # so far the samples of a pixel nearer than that can reach
SPOT_STEP = 8  # pixels between those that are asked which tile they see
SPOT_MARGIN = 24  # texels; more than half the ground between two such pixels, and what interpolation reaches


def _lay_ground(
    stage: Stage,
    rgb: Image,
    named: NDArray[np.uint8],
    near: NDArray[np.float32],
    turn: Array,
    eye: Array,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
) -> None:
    row_depth = 1 / np.maximum(near.max(axis=1), 1e-6)  # [H]
    low = np.flatnonzero(near.max(axis=1) > 0)
    if low.size == 0:
        return
    look = stage.look
    far_light = np.asarray(look.ambient) + np.asarray(look.sun) * look.toward_sun[2]
    far_color = np.array(FAR_GRASS) if look.snow == 0 else np.array([0.85, 0.86, 0.88])
    border = tuple(float(v) for v in np.clip(far_color * far_light * 255, 0, 255))
    np.copyto(
        rgb[low[0] : low[-1] + 1], np.rint(border).astype(np.uint8), where=near[low[0] : low[-1] + 1, :, None] > 0
    )
    step = float(y[1] - y[0])
    bands = []
    edges = [*(band[0] for band in BANDS), FAR_GROUND]
    for (start, samples, level), end in zip(BANDS, edges[1:], strict=True):
        rows = low[(row_depth[low] >= start) & (row_depth[low] < end)]
        if rows.size:
            shifts = (np.arange(samples) + 0.5) / samples - 0.5
            fine_y = (y[rows][:, None] + shifts[None, :].astype(np.float32) * step).reshape(-1, 1)  # [R * samples, 1]
            bands.append((rows, samples, level, *_texels(turn, eye - [*stage.ground.origin, 0.0], x, fine_y)))
    ground = stage.paint_ground(_tiles_seen([(reach, map_x, map_y) for *_, reach, map_x, map_y in bands]))
    for rows, samples, level, _, map_x, map_y in bands:
        shrink = 1 / (1 << level)
        sampled = remapped(
            ground.pictures[level], map_x * shrink - 0.5, map_y * shrink - 0.5, border=cv2.BORDER_CONSTANT, value=border
        )
        if samples > 1:
            sampled = shrunk(sampled, (x.size, rows.size))
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        solid = near[part] > 1 / FAR_GROUND
        np.copyto(rgb[part], sampled, where=solid[..., None])
        middle = slice(samples // 2, None, samples)
        classes = remapped(
            ground.labels,
            np.ascontiguousarray(map_x[middle]) - 0.5,
            np.ascontiguousarray(map_y[middle]) - 0.5,
            cv2.INTER_NEAREST,
            cv2.BORDER_CONSTANT,
            labels.TERRAIN,
        )
        np.copyto(named[part], classes, where=solid)


Grid = NDArray[np.float32]


def _texels(turn: Array, eye: Array, x: Grid, y: Grid) -> tuple[Grid, Grid, Grid]:
    """Rays through columns `x` [W] and rows `y` [R, 1]: the depth at which they meet the ground, and where, in texels.

    [R, W] each; `eye` is counted from the ground's corner.
    """
    eye_x, eye_y, eye_z = eye.tolist()  # plain floats keep the arrays in single precision
    ray = [a * x[None, :] + (b * y + c) for a, b, c in turn.tolist()]
    reach = eye_z / np.maximum(-ray[2], eye_z / 400)
    return reach, (eye_x + reach * ray[0]) * (1 / TEXEL), (eye_y + reach * ray[1]) * (1 / TEXEL)


def _tiles_seen(maps: Sequence[tuple[Grid, Grid, Grid]]) -> NDArray[np.int64]:
    """Columns and rows [N, 2] of every tile that sampling the ground of `maps` (depth, x, y) may touch.

    All of them, and by the pose alone: what a frame shows must not depend on which frames were drawn before.
    """
    found = [np.zeros(0, np.int64)]
    for grids in maps:
        reach, *place = (np.concatenate([grid[:, ::SPOT_STEP], grid[:, -1:]], axis=1).ravel() for grid in grids)
        spots = np.stack(place)[:, reach < FAR_TILES]
        for shift_x in (-SPOT_MARGIN, SPOT_MARGIN):
            for shift_y in (-SPOT_MARGIN, SPOT_MARGIN):
                column, row = np.floor((spots + np.array([[shift_x], [shift_y]])) / TILE).astype(np.int64)
                found.append(np.unique((column << 20) + row))
    packed = np.unique(np.concatenate(found))
    row = (packed + (1 << 19)) % (1 << 20) - (1 << 19)
    return np.stack([(packed - row) >> 20, row], axis=1)
