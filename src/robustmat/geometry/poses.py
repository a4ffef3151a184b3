"""Poses between poses: where a sensor was at a moment that no reading was taken."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from robustmat.geometry.transforms import invert, rigid
from robustmat.types import Array


@dataclass(frozen=True)
class Trajectory:
    """Poses T_world_body [N, 4, 4] at strictly rising times [N]; whole numbers keep microseconds exact."""

    times: NDArray[np.int64]
    poses: Array

    def __post_init__(self) -> None:
        if len(self.times) != len(self.poses) or not len(self.times):
            raise ValueError(f"{len(self.times)} times for {len(self.poses)} poses")
        if (np.diff(self.times) <= 0).any():
            raise ValueError("times do not rise")

    def covers(self, times: NDArray[np.int64], longest_gap: int) -> NDArray[np.bool_]:
        """[M]: which times lie on a pose or between two that are not further apart than `longest_gap`."""
        last = len(self.times) - 1
        after = np.searchsorted(self.times, times)
        upper, lower = self.times[np.minimum(after, last)], self.times[np.maximum(after - 1, 0)]
        inside = (after > 0) & (after <= last) & (upper - lower <= longest_gap)
        return np.asarray(inside | (upper == times))

    def at(self, times: NDArray[np.int64]) -> Array:
        """T_world_body [M, 4, 4]: positions on straight lines, rotations on great circles between the readings.

        Times outside the trajectory get its first or last pose; ask `covers` where that matters.
        """
        times = np.clip(times, self.times[0], self.times[-1])
        upper = np.clip(np.searchsorted(self.times, times), 1, max(len(self.times) - 1, 1))
        if len(self.times) == 1:
            return np.repeat(self.poses, len(times), axis=0)
        lower = upper - 1
        share = (times - self.times[lower]) / (self.times[upper] - self.times[lower])
        a, b = self.poses[lower], self.poses[upper]
        turn = Rotation.from_matrix(np.swapaxes(a[:, :3, :3], 1, 2) @ b[:, :3, :3]).as_rotvec()
        between = np.zeros((len(times), 4, 4))
        between[:, :3, :3] = a[:, :3, :3] @ Rotation.from_rotvec(share[:, None] * turn).as_matrix()
        between[:, :3, 3] = a[:, :3, 3] + share[:, None] * (b[:, :3, 3] - a[:, :3, 3])
        between[:, 3, 3] = 1.0
        return between


def chain(steps: Array) -> Array:
    """T_first_i [N + 1, 4, 4] from steps T_i_next [N, 4, 4]: odometry laid end to end."""
    poses = [np.eye(4)]
    for step in steps:
        poses.append(poses[-1] @ step)
    return np.stack(poses)


def from_quaternion(translation: Array, quaternion: Array) -> Array:
    """[4, 4] from a translation [3] and a quaternion x, y, z, w [4] of any length but zero."""
    return rigid(Rotation.from_quat(quaternion).as_matrix(), translation)


def carried(points: Array, seconds: Array, velocity: Array, rate: Array) -> Array:
    """Points [N, 3], each seen `seconds` [N] after a moment, as the sensor would have seen them at that moment.

    `velocity` [3] (m/s) and `rate` [3] (rad/s) are the sensor's own, in its own axes, and taken as constant: the
    pose at time t relative to the moment is exp(t * twist).
    """
    angle = seconds[:, None] * rate
    turn = Rotation.from_rotvec(angle)
    size = np.linalg.norm(angle, axis=1)[:, None]
    way = seconds[:, None] * velocity
    # The left Jacobian of the rotation bends the straight way into an arc; its series serves where sines cancel.
    small = size < 1e-4
    safe = np.where(small, 1.0, size)
    first = np.where(small, 0.5 - size**2 / 24, (1 - np.cos(safe)) / safe**2)
    second = np.where(small, 1 / 6 - size**2 / 120, (safe - np.sin(safe)) / safe**3)
    once = np.cross(angle, way)
    arc = way + first * once + second * np.cross(angle, once)
    return np.asarray(turn.apply(points) + arc)


def relative(T_world_a: Array, T_world_b: Array) -> Array:
    """T_a_b of two frames whose poses in one world are known."""
    return invert(T_world_a) @ T_world_b
