"""LiDAR odometry with few points: each scan is registered to the map of those before it (`small_gicp`).

The question is how few points suffice, and which. Points on matched landmarks (poles, signs) are thin, upright and
stand still: with `share` above zero that part of the budget is spent on them, the rest evenly over the scan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.projection import project
from robustmat.geometry.transforms import invert, transform
from robustmat.landmarks.positions import nearest_cluster
from robustmat.odometry.steps import Measured
from robustmat.types import Array, Camera

THIN = 0.25  # metres: points nearer to each other say the same
HORIZON = 20  # scans that the map is made of
REACH = 2.0  # metres at which a point may find its partner
NEIGHBORS = 10  # points that tell a surface
LANDMARK_SHARE = 0.3  # of the points, at most, that lie on matched landmarks
FEWEST = 30


@dataclass(frozen=True)
class LidarOdometry:
    """Poses T_first_lidar [N, 4, 4]; which steps were registered; the points that a scan kept, on average."""

    poses: Array
    registered: NDArray[np.bool_]  # [N - 1]
    points: float


def matched_numbers(measured: Sequence[Measured]) -> list[set[int]]:
    """For every frame, the landmarks that were matched with an earlier or a later one, and do not move."""
    matched: list[set[int]] = [set() for _ in measured]
    place = {done.frame: i for i, done in enumerate(measured)}
    for i, done in enumerate(measured):
        for link in done.links:
            if link.b not in done.moving and link.earlier in place:
                matched[i].add(link.b)
                matched[place[link.earlier]].add(link.a)
    return matched


def on_landmarks(
    points_lidar: Array, boxes: Sequence[tuple[float, float, float, float]], camera: Camera, T_camera_lidar: Array
) -> NDArray[np.bool_]:
    """[N]: which points lie on the things in the boxes: what is nearest there, not the wall behind."""
    pixels, depth, index = project(transform(T_camera_lidar, points_lidar), camera)
    on = np.zeros(len(points_lidar), np.bool_)
    for x0, y0, x1, y1 in boxes:
        inside = np.flatnonzero(((pixels + 0.5 >= (x0, y0)) & (pixels + 0.5 <= (x1, y1))).all(axis=1))
        on[index[inside[nearest_cluster(depth[inside])]]] = True
    return on


def choose_points(
    points: Array, on: NDArray[np.bool_], budget: int, share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of at most `budget` points, up to `share` of them on landmarks, all drawn evenly."""
    landmark, other = np.flatnonzero(on), np.flatnonzero(~on)
    if share <= 0:
        landmark, other = np.zeros(0, np.int64), np.arange(len(points))
    kept = rng.permutation(landmark)[: round(share * budget)]
    return np.sort(np.concatenate([kept, rng.permutation(other)[: budget - len(kept)]])).astype(np.int64)


def lidar_odometry(
    scans: Sequence[tuple[Array, NDArray[np.bool_]]], budget: int, share: float = LANDMARK_SHARE, seed: int = 0
) -> LidarOdometry:
    """Register scans (points [N, 3] in the LiDAR's axes, and which of them lie on matched landmarks), one by one.

    Only `budget` points of each scan are used, for registering and for the map alike. All are thinned to one grid
    first, so that a near landmark does not fill the budget with one place.
    """
    import small_gicp

    poses, registered, counts = [np.eye(4)], [], []
    kept: list[Array] = []  # points of the last scans, in the axes of the first
    step = np.eye(4)
    for number, (points, on) in enumerate(scans):
        rng = np.random.default_rng([seed, number])
        thin = _thinned(points, on)
        chosen = points[thin[choose_points(points[thin], on[thin], budget, share, rng)]]
        counts.append(len(chosen))
        if number:
            guess, good = poses[-1] @ step, False
            if len(chosen) >= FEWEST and kept:
                (target, tree), (source, _) = _cloud(np.concatenate(kept)), _cloud(chosen)
                found = small_gicp.align(target, source, tree, guess, max_correspondence_distance=REACH)
                T = np.asarray(found.T_target_source)
                good = bool(np.isfinite(T).all() and np.linalg.norm((invert(guess) @ T)[:3, 3]) < REACH)
                guess = T if good else guess
            step = invert(poses[-1]) @ guess
            poses.append(guess)
            registered.append(good)
        if len(chosen) >= FEWEST:
            kept = [*kept[1 - HORIZON :], transform(poses[-1], chosen)]
    return LidarOdometry(np.stack(poses), np.array(registered, np.bool_), float(np.mean(counts)))


def _cloud(points: Array) -> tuple[Any, Any]:
    """Points with the surfaces that their neighbours tell, and a tree to search them."""
    import small_gicp

    cloud = small_gicp.PointCloud(points)
    tree = small_gicp.KdTree(cloud)
    small_gicp.estimate_covariances(cloud, tree, num_neighbors=NEIGHBORS)
    return cloud, tree


def _thinned(points: Array, on: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of one point for each cell of the grid, landmarks apart from the rest."""
    cells = np.concatenate([np.floor(points / THIN).astype(np.int64), on[:, None]], axis=1)
    return np.sort(np.unique(cells, axis=0, return_index=True)[1])
