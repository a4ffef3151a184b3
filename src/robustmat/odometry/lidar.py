"""LiDAR odometry with few points: each scan is registered to the map of those before it.

The question is how few points suffice, and which. Points on matched landmarks (poles, signs) are thin, upright and
stand still: with `share` above zero that part of the budget is spent on them, the rest evenly over the scan.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from robustmat.errors import InputError
from robustmat.geometry.projection import project
from robustmat.geometry.transforms import invert, rigid, transform
from robustmat.landmarks.positions import nearest_cluster
from robustmat.odometry.steps import Measured
from robustmat.types import Array, Camera, Frame

THIN = 0.25  # metres: points nearer to each other say the same
HORIZON = 20  # scans that the map is made of
REACH = 2.0  # metres at which a point may find its partner
NEIGHBORS = 10  # points that tell a surface
LANDMARK_SHARE = 0.3  # of the points, at most, that lie on matched landmarks
FEWEST = 30
THICKNESS = 0.03  # of surfaces whose longest axis is one: metres
UPRIGHT = 0.8  # cosine of the angle between a pole and the LiDAR's z axis
OUTLIER = 3.0  # standard deviations from which a pair counts less and less
WIDE, NARROWING = 30.0, 0.8  # times that tolerance at first, and its share from one step to the next
ROUNDS, ENOUGH = 30, 1e-4  # steps of Gauss-Newton at most; metres and radians that end it


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


def scans_of(frames: Iterable[Frame], measured: Sequence[Measured]) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """The scan of every frame, and which of its points lie on matched landmarks."""
    for frame, done, numbers in zip(frames, measured, matched_numbers(measured), strict=True):
        points = frame.points_lidar
        if points is None or frame.T_camera_lidar is None:
            raise InputError(f"no LiDAR scan beside frame {frame.name}")
        xyz = points[:, :3].astype(np.float64)
        on = np.zeros(len(xyz), np.bool_)
        if frame.camera is not None:
            boxes = [done.landmarks[number].box for number in sorted(numbers)]
            on = on_landmarks(xyz, boxes, frame.camera, frame.T_camera_lidar)
        yield xyz, on


def camera_poses(found: LidarOdometry, T_camera_lidar: Array) -> Array:
    """T_world_camera [N, 4, 4] of the LiDAR's poses; the world is the first camera."""
    return np.asarray(T_camera_lidar @ found.poses @ invert(T_camera_lidar))


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
    scans: Iterable[tuple[Array, NDArray[np.bool_]]], budget: int, share: float = LANDMARK_SHARE, seed: int = 0
) -> LidarOdometry:
    """Register scans (points [N, 3] in the LiDAR's axes, and which of them lie on matched landmarks), one by one.

    Only `budget` points of each scan are used, for registering and for the map alike; the surface around each is that
    of the whole scan. All are thinned to one grid first: a near landmark shall not fill the budget with one place.
    """
    poses: list[Array] = []
    registered, counts = [], []
    kept: list[Surfaces] = []  # of the last scans, in the axes of the first
    step = np.eye(4)
    for number, (points, on) in enumerate(scans):
        rng = np.random.default_rng([seed, number])
        thin = _thinned(points, on)
        chosen = surfaces(points, thin[choose_points(points[thin], on[thin], budget, share, rng)])
        counts.append(len(chosen.points))
        if not poses:
            poses.append(np.eye(4))
        else:
            guess, good = poses[-1] @ step, False
            if len(chosen.points) >= FEWEST and kept:
                T = register(joined(kept), chosen, guess)
                good = T is not None and float(np.linalg.norm((invert(guess) @ T)[:3, 3])) < REACH
                guess = T if T is not None and good else guess
            step = invert(poses[-1]) @ guess
            poses.append(guess)
            registered.append(good)
        if len(chosen.points) >= FEWEST:
            kept = [*kept[1 - HORIZON :], chosen.moved(poses[-1])]
    return LidarOdometry(np.stack(poses), np.array(registered, np.bool_), float(np.mean(counts)))


@dataclass(frozen=True)
class Surfaces:
    """Points [N, 3] and the shape of what they lie on [N, 3, 3]: thin along a wall's normal, all around a pole."""

    points: Array
    shape: Array

    def moved(self, T: Array) -> "Surfaces":
        return Surfaces(transform(T, self.points), T[:3, :3] @ self.shape @ T[:3, :3].T)


def joined(some: Sequence[Surfaces]) -> Surfaces:
    return Surfaces(np.concatenate([one.points for one in some]), np.concatenate([one.shape for one in some]))


def surfaces(points: Array, chosen: NDArray[np.int64]) -> Surfaces:
    """The chosen points with the shape that their neighbours in the whole scan tell, its longest axis one metre.

    Upright lines are poles. Others are lines of the scanner itself, which move along with it: they count as planes.
    """
    if len(points) < NEIGHBORS:
        return Surfaces(np.zeros((0, 3)), np.zeros((0, 3, 3)))
    _, near = cKDTree(points).query(points[chosen], NEIGHBORS)
    around = points[near] - points[near].mean(axis=1, keepdims=True)  # [N, K, 3]
    size, axes = np.linalg.eigh(np.swapaxes(around, 1, 2) @ around)
    size = np.maximum(size / np.maximum(size[:, -1:], 1e-9), THICKNESS**2)
    size[np.abs(axes[:, 2, 2]) < UPRIGHT, 1] = 1.0
    return Surfaces(points[chosen], axes @ (size[:, :, None] * np.swapaxes(axes, 1, 2)))


def register(target: Surfaces, source: Surfaces, T: Array) -> Array | None:
    """T_target_source by Gauss-Newton on the distances between surfaces (generalised ICP), from a first guess.

    `small_gicp` does the same faster, but takes surfaces only from the points it registers.
    """
    tree = cKDTree(target.points)
    for turn in range(ROUNDS):
        now = source.moved(T)
        width = max(1.0, WIDE * NARROWING**turn)  # the tolerance narrows as it goes
        distance, partner = tree.query(now.points, distance_upper_bound=REACH * min(1.0, 0.5 + width / WIDE))
        near = np.isfinite(distance)
        if near.sum() < FEWEST // 2:
            return None
        p, j = now.points[near], partner[near]
        off = target.points[j] - p
        weight = np.linalg.inv(target.shape[j] + now.shape[near])  # [M, 3, 3]
        square = np.einsum("mi,mij,mj->m", off, weight, off)
        weight = weight / (1 + square / (OUTLIER * width) ** 2)[:, None, None]
        centre = T[:3, 3]
        slope = np.zeros((len(p), 3, 6))
        x, y, z = (p - centre).T
        slope[:, 0, 1], slope[:, 0, 2], slope[:, 1, 0] = z, -y, -z
        slope[:, 1, 2], slope[:, 2, 0], slope[:, 2, 1] = x, y, -x
        slope[:, :, 3:] = np.eye(3)
        weighed = np.swapaxes(slope, 1, 2) @ weight  # [M, 6, 3]
        H, g = (weighed @ slope).sum(axis=0), np.einsum("mij,mj->i", weighed, off)
        step = np.linalg.solve(H + 1e-6 * np.eye(6), g)
        if not np.isfinite(step).all():
            return None
        turned = Rotation.from_rotvec(step[:3]).as_matrix()
        T = rigid(turned @ T[:3, :3], centre + step[3:])
        if width == 1.0 and np.abs(step).max() < ENOUGH:
            break
    return T


def _thinned(points: Array, on: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of one point for each cell of the grid, landmarks apart from the rest."""
    cells = np.concatenate([np.floor(points / THIN).astype(np.int64), on[:, None]], axis=1)
    return np.sort(np.unique(cells, axis=0, return_index=True)[1])
