"""The one place in the world that a set of sightings is of: bearings of several frames, and LiDAR where it agrees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.landmarks.config import DEFAULT, PlaceConfig
from robustmat.landmarks.sightings import Indices, Sightings
from robustmat.types import CATEGORIES, Array


@dataclass(frozen=True)
class Place:
    """A place in the world, how well it is known (metres, the worst direction), and whether LiDAR says so."""

    point: Array  # [3]
    spread: float
    by_lidar: bool


def find_place(seen: Sightings, members: Indices, config: PlaceConfig = DEFAULT.places) -> Place | None:
    """The place of an object by its sightings; None if they agree on none, or too loosely.

    LiDAR is the better ruler, but may have met the wall behind or a branch before: its place counts only if it falls
    into the boxes of the sightings. Otherwise the bearings decide.
    """
    measured = lidar_place(seen, members, config)
    if measured is not None and hits(seen, members, measured, config).mean() >= config.agreeing:
        return Place(measured, 0.0, True)
    crossing = triangulate(seen, members, config)
    if crossing is None:
        return None
    point, spread = crossing
    nearest = float(np.linalg.norm(seen.views.eyes()[seen.frame[members]] - point, axis=1).min())
    if (
        spread > min(max(config.widest, config.widest_share * nearest), config.widest_of_all)
        or hits(seen, members, point, config).mean() < config.agreeing
    ):
        return None
    return Place(point, spread, False)


def lidar_place(seen: Sightings, members: Indices, config: PlaceConfig = DEFAULT.places) -> Array | None:
    """Where most of the sightings' LiDAR positions lie, within the tolerance; None if fewer than half agree."""
    positions = seen.position[members]
    positions = positions[np.isfinite(positions).all(axis=1)]
    if len(positions) < config.fewest_positions:
        return None
    level = positions - _vertical_share(seen, members) * np.outer(positions @ _up(seen, members), _up(seen, members))
    distance = np.linalg.norm(level[:, None] - level[None], axis=2)
    near = distance <= DEFAULT.identities.cluster_radius(CATEGORIES[seen.category[members[0]]])
    best = near[np.argmax(near.sum(1))]
    if best.sum() < max(config.fewest_positions, config.agreeing_positions * len(positions)):
        return None
    return np.asarray(np.median(positions[best], axis=0))


def triangulate(seen: Sightings, members: Indices, config: PlaceConfig = DEFAULT.places) -> tuple[Array, float] | None:
    """The point [3] nearest to the bearings of the boxes' middles, in pixels, and its spread in metres.

    Iterated least squares with weights that let outliers go. Poles count sideways; their middle's height does not.
    """
    if len(members) < 2:
        return None
    frames = seen.frame[members]
    T = seen.views.T_camera_world[frames]
    bearing = (seen.middle()[members] - 0.5 - seen.views.centre[frames]) / seen.views.focal[frames]  # [M, 2]
    extent = seen.extent()[members]
    focal = seen.views.focal[frames]
    spread = (config.pixels + config.share * extent) / focal + config.bearing
    spread[seen.is_pole()[members], 1] = (0.5 * extent / focal)[seen.is_pole()[members], 1] + config.bearing
    cut = seen.cut()[members]
    spread[:, 0] += np.where(cut[:, [0, 2]].any(1), extent[:, 0] / focal[:, 0], 0)
    spread[:, 1] += np.where(cut[:, [1, 3]].any(1), extent[:, 1] / focal[:, 1], 0)
    # (r_xy - bearing r_z) . (p - eye) = 0 for each axis; divided by the depth it is an angle.
    rows = T[:, :2, :3] - bearing[:, :, None] * T[:, 2:3, :3]  # [M, 2, 3]
    right = -(T[:, :2, 3] - bearing * T[:, 2:3, 3])  # [M, 2]
    depth = np.full(len(members), 20.0)
    trust = np.ones((len(members), 2))
    for _ in range(config.iterations):
        weight = np.sqrt(trust) / (spread * depth[:, None])
        A, b = (weight[..., None] * rows).reshape(-1, 3), (weight * right).reshape(-1)
        information = A.T @ A
        if np.linalg.cond(information) > 1e12:
            return None
        point = np.linalg.solve(information, A.T @ b)
        depth = np.einsum("mj,j->m", T[:, 2, :3], point) + T[:, 2, 3]
        if (depth < 0.5).mean() > 0.2:
            return None
        depth = np.maximum(depth, 0.5)
        off = (rows @ point - right) / (spread * depth[:, None])
        trust = 1 / (1 + (off / config.outlier) ** 2)
    worst = 1 / np.sqrt(max(float(np.linalg.eigvalsh(information)[0]), 1e-12))
    return np.asarray(point), worst


def hits(seen: Sightings, members: Indices, point: Array, config: PlaceConfig = DEFAULT.places) -> NDArray[np.bool_]:
    """[M]: whether the point [3] falls into the box of each sighting; poles are asked sideways only.

    A box that the image's border cuts off goes on beyond it, by as much again as is seen of it.
    """
    frames = seen.frame[members]
    pixels, _ = seen.views.project(frames, point[None])
    pixels = pixels[:, 0]
    slack = config.beside * seen.views.focal[frames]
    box, extent, cut = seen.box[members], seen.extent()[members], seen.cut()[members]
    low = box[:, :2] - slack - np.where(cut[:, :2], extent, 0)
    high = box[:, 2:] + slack + np.where(cut[:, 2:], extent, 0)
    inside = (pixels >= low) & (pixels <= high)
    inside[:, 1] |= seen.is_pole()[members] & (pixels[:, 1] < 1e5)
    return np.asarray(inside.all(axis=1))


def _up(seen: Sightings, members: Indices) -> Array:
    """The world's up [3], as the cameras hold it."""
    down = seen.views.T_camera_world[seen.frame[members], 1, :3].mean(axis=0)
    return np.asarray(-down / np.linalg.norm(down))


def _vertical_share(seen: Sightings, members: Indices) -> float:
    """How much of the height does not count: how much of a pole is seen changes with the frame."""
    return 0.9 if bool(seen.is_pole()[members[0]]) else 0.0
