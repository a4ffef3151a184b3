"""Poses of a stretch adjusted together: the steps between frames, and bearings of landmarks that several frames saw.

A step between two frames drifts; a pole that twelve frames saw does not move. Each stretch is solved once (Gauss-Newton
on poses and places, with bearings weighed down as they disagree), and poses are final when the stretch has passed.
Poses are adjusted on the left: T_camera_world becomes exp(delta) T_camera_world.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from robustmat.geometry.transforms import invert, rigid
from robustmat.landmarks.sightings import Sightings
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.steps import Step
from robustmat.odometry.tracks import Track
from robustmat.types import Array

ROUNDS = 5
STRIDE = 4  # frames between two solved stretches
STRAIN = 28.0  # chi square of six, one in ten thousand: bearings that bend a step further are wrong somewhere
FLOOR = 1e-10 * np.eye(6)
FEWEST = 3  # sightings of a landmark within a stretch
POLE_UPRIGHT = 1e3  # pixels: how much of a pole is seen says nothing about heights
OUTLIER = 2.0  # standard deviations from which a bearing counts less and less


@dataclass(frozen=True)
class Bearings:
    """Sightings of landmarks in a stretch: which frame, which landmark, the pixel and its standard deviation."""

    frame: NDArray[np.int64]  # [N], place in the stretch
    landmark: NDArray[np.int64]  # [N]
    pixel: Array  # [N, 2]
    deviation: Array  # [N, 2]
    focal: Array  # [N, 2]
    centre: Array  # [N, 2]


def chained(steps: Sequence[Step]) -> Array:
    """T_world_camera [N, 4, 4] of steps laid end to end; the world is the first camera."""
    poses: dict[int, Array] = {}
    for step in steps:
        poses[step.frame] = np.eye(4) if step.reference < 0 else poses[step.reference] @ invert(step.T_b_a)
    return np.stack([poses[step.frame] for step in steps])


def adjusted(steps: Sequence[Step], seen: Sightings, tracks: Sequence[Track], config: OdometryConfig) -> Array:
    """The chained poses, adjusted stretch by stretch; only what lies behind a frame moves its pose."""
    poses = chained(steps)
    place = {step.frame: i for i, step in enumerate(steps)}
    rows = _rows(seen, tracks)
    for last in [*range(config.window - 1, len(steps) - 1, STRIDE), len(steps) - 1]:
        first = max(0, last - config.window + 1)
        before = poses[last].copy()
        steps_inside = [
            (step, place[step.reference] - first, place[step.frame] - first)
            for step in steps[first + 1 : last + 1]
            if place.get(step.reference, -1) >= first
        ]
        bearings = _bearings(seen, rows, first, last, config)
        stretch = _solve(poses[first : last + 1], steps_inside, bearings)
        poses[first : last + 1] = stretch
        poses[last + 1 :] = poses[last] @ invert(before) @ poses[last + 1 :]
    return poses


def _rows(seen: Sightings, tracks: Sequence[Track]) -> list[NDArray[np.int64]]:
    row = {key: i for i, key in enumerate(zip(seen.frame.tolist(), seen.number.tolist(), strict=True))}
    still = [track for track in tracks if not track.moving and len(track.sightings) >= FEWEST]
    return [np.array([row[key] for key in track.sightings if key in row], np.int64) for track in still]


def _bearings(
    seen: Sightings, rows: Sequence[NDArray[np.int64]], first: int, last: int, config: OdometryConfig
) -> Bearings | None:
    chosen = [some[(seen.frame[some] >= first) & (seen.frame[some] <= last)] for some in rows]
    chosen = [some for some in chosen if len(some) >= FEWEST]
    if not chosen:
        return None
    index = np.concatenate(chosen)
    extent, cut = seen.extent()[index], seen.cut()[index]
    deviation = config.box_pixels + config.box_share * extent
    deviation[:, 0] += np.where(cut[:, [0, 2]].any(axis=1), extent[:, 0], 0)
    deviation[:, 1] += np.where(cut[:, [1, 3]].any(axis=1), extent[:, 1], 0)
    deviation[seen.is_pole()[index], 1] = POLE_UPRIGHT
    frames = seen.frame[index]
    return Bearings(
        frames - first,
        np.repeat(np.arange(len(chosen)), [len(some) for some in chosen]),
        seen.middle()[index] - 0.5,
        deviation,
        seen.views.focal[frames],
        seen.views.centre[frames],
    )


def _solve(poses: Array, steps: Sequence[tuple[Step, int, int]], bearings: Bearings | None) -> Array:
    """Better T_world_camera [W, 4, 4] of a stretch, whose first pose stays."""
    if bearings is None or len(poses) < FEWEST or not steps:
        return poses
    T = np.stack([invert(pose) for pose in poses])  # T_camera_world
    points, good = _first_places(T, bearings)
    size = 6 * len(T)
    for _ in range(ROUNDS):
        H, g = np.zeros((size, size)), np.zeros(size)
        _add_steps(H, g, T, steps)
        B, C, gp = _add_bearings(H, g, T, points, good, bearings)
        # Places are eliminated: each touches nothing but its own bearings.
        reduced, right = H - np.einsum("lip,lpq,ljq->ij", B, C, B), g - np.einsum("lip,lpq,lq->i", B, C, gp)
        reduced[:6], reduced[:, :6], right[:6] = 0, 0, 0
        reduced[range(size), range(size)] += 1e-6
        reduced[range(6), range(6)] += 1
        delta = -np.linalg.solve(reduced, right)
        points = points - np.einsum("lpq,lq->lp", C, gp + np.einsum("liq,i->lq", B, delta))
        T = np.stack([_shift(one, delta[6 * i : 6 * i + 6]) for i, one in enumerate(T)])
    if not np.isfinite(T).all() or max(_strain(T, *one) for one in steps) > STRAIN:
        return poses
    return np.stack([invert(one) for one in T])


def _shift(T: Array, delta: Array) -> Array:
    R = Rotation.from_rotvec(delta[:3]).as_matrix()
    return rigid(R @ T[:3, :3], R @ T[:3, 3] + delta[3:])


def _first_places(T: Array, bearings: Bearings) -> tuple[Array, NDArray[np.bool_]]:
    """Linear triangulation of every landmark [L, 3], and whether it lies in front of its cameras."""
    count = int(bearings.landmark.max()) + 1
    points, good = np.zeros((count, 3)), np.zeros(count, np.bool_)
    flat = (bearings.pixel - bearings.centre) / bearings.focal
    spread = bearings.deviation / bearings.focal
    for landmark in range(count):
        some = np.flatnonzero(bearings.landmark == landmark)
        poses = T[bearings.frame[some]]
        lines = (poses[:, :2, :3] - flat[some][:, :, None] * poses[:, 2:3, :3]) / spread[some][:, :, None]
        right = -(poses[:, :2, 3] - flat[some] * poses[:, 2:3, 3]) / spread[some]
        information = np.einsum("sij,sik->jk", lines, lines)
        if np.linalg.cond(information) > 1e10:
            continue
        point = np.linalg.solve(information, np.einsum("sij,si->j", lines, right))
        depth = poses[:, 2, :3] @ point + poses[:, 2, 3]
        points[landmark], good[landmark] = point, bool((depth > 1.5).all() and (depth < 80).all())
    return points, good


def _strain(T: Array, step: Step, a: int, b: int) -> float:
    """How far bearings bent a measured step: its squared deviation, by its own covariance."""
    r, _ = _step_residual(T[a], T[b], step)
    return float(r @ np.linalg.solve(step.covariance + FLOOR, r))


def _step_residual(T_a: Array, T_b: Array, step: Step) -> tuple[Array, Array]:
    """Turn and shift [6] by which two poses differ from a measured step, and T_b_a."""
    T_b_a = T_b @ invert(T_a)
    off = T_b_a @ invert(step.T_b_a)
    return np.concatenate([Rotation.from_matrix(off[:3, :3]).as_rotvec(), off[:3, 3]]), T_b_a


def _add_steps(H: Array, g: Array, T: Array, steps: Sequence[tuple[Step, int, int]]) -> None:
    for step, a, b in steps:
        r, T_b_a = _step_residual(T[a], T[b], step)
        adjoint = np.zeros((6, 6))
        adjoint[:3, :3] = adjoint[3:, 3:] = T_b_a[:3, :3]
        x, y, z = T_b_a[:3, 3]
        adjoint[3:, :3] = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ T_b_a[:3, :3]
        W = np.linalg.inv(step.covariance + FLOOR)
        at, to = slice(6 * a, 6 * a + 6), slice(6 * b, 6 * b + 6)
        H[to, to] += W
        H[at, at] += adjoint.T @ W @ adjoint
        H[to, at] -= W @ adjoint
        H[at, to] -= adjoint.T @ W
        g[to] += W @ r
        g[at] -= adjoint.T @ W @ r


def _add_bearings(
    H: Array, g: Array, T: Array, points: Array, good: NDArray[np.bool_], bearings: Bearings
) -> tuple[Array, Array, Array]:
    """Add bearings to the poses' normal equations; returns (cross terms [L, 6W, 3], inverse blocks [L, 3, 3], g)."""
    count = len(points)
    blocks, right = np.tile(1e-4 * np.eye(3), (count, 1, 1)), np.zeros((count, 3))
    cross = np.zeros((count, len(g), 3))
    for n in range(len(bearings.frame)):
        landmark, i = int(bearings.landmark[n]), int(bearings.frame[n])
        if not good[landmark]:
            continue
        x, y, z = T[i, :3, :3] @ points[landmark] + T[i, :3, 3]
        if z < 0.5:
            continue
        fx, fy = bearings.focal[n]
        r = (np.array([fx * x / z, fy * y / z]) + bearings.centre[n] - bearings.pixel[n]) / bearings.deviation[n]
        slope = np.array([[fx / z, 0, -fx * x / z**2], [0, fy / z, -fy * y / z**2]]) / bearings.deviation[n][:, None]
        to_pose = slope @ np.concatenate([np.array([[0, z, -y], [-z, 0, x], [y, -x, 0]]), np.eye(3)], axis=1)  # [2, 6]
        to_point = slope @ T[i, :3, :3]  # [2, 3]
        weight = 1 / (1 + (r / OUTLIER) ** 2)
        at = slice(6 * i, 6 * i + 6)
        H[at, at] += to_pose.T @ (weight[:, None] * to_pose)
        g[at] += to_pose.T @ (weight * r)
        cross[landmark, at] += to_pose.T @ (weight[:, None] * to_point)
        blocks[landmark] += to_point.T @ (weight[:, None] * to_point)
        right[landmark] += to_point.T @ (weight * r)
    return cross, np.asarray(np.linalg.inv(blocks), np.float64), right
