"""A LiDAR's sweep over the same panels that the camera sees: one exact ray per beam and step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.transforms import invert
from robustmat.simulation.raster import sized, spans
from robustmat.simulation.render import panels_seen
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.simulation.scene import Panel, Part
from robustmat.simulation.stage import Stage, stage_of
from robustmat.simulation.town import Town
from robustmat.types import Array, Camera

Grid = NDArray[np.float32]


@dataclass(frozen=True)
class Sweep:
    """The rays: angles in degrees, elevation up, azimuth to the left. Only the camera's side is swept."""

    beams: int = 64
    lowest: float = -24.0
    highest: float = 15.0
    half_width: float = 47.0
    step: float = 0.17
    reach: float = 80.0
    noise: float = 0.02  # metres
    dropout: float = 0.03


def scan(
    town: Town,
    T_world_camera: Array,
    look: str,
    camera: Camera,
    movables: Sequence[Part] = (),
    seed: int | Sequence[int] = 0,
    sweep: Sweep | None = None,
    T_camera_lidar: Array = T_CAMERA_LIDAR,
) -> NDArray[np.float32]:
    """Points [N, 4] in the LiDAR's frame: x, y, z, reflectance. What hides a thing from the ray is what is drawn."""
    sweep = sweep or Sweep()
    stage = stage_of(town, look)
    T_lidar_world = invert(T_world_camera @ T_camera_lidar)
    azimuth = np.radians(np.arange(sweep.half_width, -sweep.half_width, -sweep.step))
    elevation = np.radians(np.linspace(sweep.highest, sweep.lowest, sweep.beams))
    rays = np.stack(
        [
            np.cos(elevation)[:, None] * np.cos(azimuth)[None],
            np.cos(elevation)[:, None] * np.sin(azimuth)[None],
            np.broadcast_to(np.sin(elevation)[:, None], (elevation.size, azimuth.size)),
        ]
    ).astype(np.float32)  # [3, E, A]

    near = _ground(rays, T_lidar_world)  # 1 / range
    bright = np.full(near.shape, 0.25, np.float32)
    panels, _ = panels_seen(stage, T_world_camera, camera, movables)
    panels = [panel for panel in panels if not panel.decal]
    _cast(panels, T_lidar_world, stage, rays, near, bright, azimuth, elevation)

    rng = np.random.default_rng(seed)
    reach = 1 / np.maximum(near, 1e-6)
    kept = (near > 1 / sweep.reach) & (rng.random(near.shape) >= sweep.dropout) & (reach > 1.5)
    reach = reach + sweep.noise * rng.standard_normal(near.shape, dtype=np.float32)
    glint = np.clip(bright + 0.05 * rng.standard_normal(near.shape, dtype=np.float32), 0, 1)
    return np.concatenate([(rays * reach)[:, kept].T, glint[kept][:, None]], axis=1).astype(np.float32)


def _ground(rays: Grid, T_lidar_world: Array) -> Grid:
    up, height = T_lidar_world[:3, 2], float(np.linalg.inv(T_lidar_world)[2, 3])
    sink = -(np.float32(up[0]) * rays[0] + np.float32(up[1]) * rays[1] + np.float32(up[2]) * rays[2])
    return np.asarray(np.maximum(sink / np.float32(height), 0), np.float32)


def _cast(
    panels: Sequence[Panel],
    T_lidar_world: Array,
    stage: Stage,
    rays: Grid,
    near: Grid,
    bright: Grid,
    azimuth: Array,
    elevation: Array,
) -> None:
    """Let every panel catch the rays that meet it before anything else; `near` and `bright` change in place."""
    if not panels:
        return
    turn, shift = T_lidar_world[:3, :3], T_lidar_world[:3, 3]
    corner = np.array([p.corner for p in panels]) @ turn.T + shift
    right, down = np.array([p.right for p in panels]) @ turn.T, np.array([p.down for p in panels]) @ turn.T
    front = np.einsum("ni,ni->n", np.cross(right, down), corner) > 0
    front |= np.array([p.two_sided for p in panels])
    windows = _angular_bounds(corner, right, down)
    step_a, step_e = azimuth[0] - azimuth[1], elevation[0] - elevation[1]
    extents = spans(corner, right, down, 0, 1 / step_a)
    for i in np.flatnonzero(front).tolist():
        low_a, high_a, low_e, high_e = windows[i]
        columns = slice(
            max(int((azimuth[0] - high_a) / step_a), 0),
            min(int((azimuth[0] - low_a) / step_a) + 2, azimuth.size),
        )
        rows = slice(
            max(int((elevation[0] - high_e) / step_e), 0),
            min(int((elevation[0] - low_e) / step_e) + 2, elevation.size),
        )
        if columns.start >= columns.stop or rows.start >= rows.stop:
            continue
        basis = np.stack([right[i], down[i], corner[i]], axis=1)
        if abs(np.linalg.det(basis)) < 1e-9:
            continue
        solve = np.linalg.inv(basis).astype(np.float32)  # ray -> (u, v, 1) / range
        part = rays[:, rows, columns]
        u, v, closer = np.tensordot(solve, part, axes=1)
        hit = (closer > near[rows, columns]) & (u >= 0) & (v >= 0) & (u <= closer) & (v <= closer)
        if not hit.any():
            continue
        alpha = sized(panels[i], extents[i].tolist(), stage.bank).alpha
        if alpha is not None:  # a beam is about as wide as a step: it sees leaves as the camera does
            height, width = alpha.shape
            at_y, at_x = np.nonzero(hit)
            column = np.minimum((u[hit] / closer[hit] * width).astype(int), width - 1)
            row = np.minimum((v[hit] / closer[hit] * height).astype(int), height - 1)
            hit[at_y, at_x] = alpha[row, column] > 127
        near[rows, columns][hit] = closer[hit]
        bright[rows, columns][hit] = panels[i].reflectance


def _angular_bounds(corner: Array, right: Array, down: Array) -> Array:
    """For each panel an azimuth and elevation window [N, 4] (low, high, low, high) that surely holds it."""
    quads = np.stack([corner, corner + right, corner + right + down, corner + down], axis=1)  # [N, 4, 3]
    angles = np.arctan2(quads[..., 1], quads[..., 0])
    behind = (quads[..., 0] < 0.2).any(axis=1)
    low_a = np.where(behind, -np.pi, angles.min(axis=1))
    high_a = np.where(behind, np.pi, angles.max(axis=1))
    start, end = quads[..., :2], np.roll(quads[..., :2], -1, axis=1)
    edge = end - start
    share = -np.einsum("nki,nki->nk", start, edge) / np.maximum(np.einsum("nki,nki->nk", edge, edge), 1e-12)
    foot = start + np.clip(share, 0, 1)[..., None] * edge
    nearest = np.maximum(np.linalg.norm(foot, axis=2).min(axis=1), 0.05)
    farthest = np.linalg.norm(start, axis=2).max(axis=1)
    bottom, top = quads[..., 2].min(axis=1), quads[..., 2].max(axis=1)
    low_e = np.arctan2(bottom, np.where(bottom < 0, nearest, farthest))
    high_e = np.arctan2(top, np.where(top > 0, nearest, farthest))
    return np.stack([low_a, high_a, low_e, high_e], axis=1)
