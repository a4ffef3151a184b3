"""Rigid transforms as [4, 4] matrices.

A transform names both frames, destination first: `points_camera = transform(T_camera_lidar, points_lidar)`.
"""

import numpy as np

from robustmat.types import Array


def rigid(rotation: Array, translation: Array) -> Array:
    """[4, 4] from a [3, 3] rotation and a [3] translation."""
    T = np.eye(4)
    T[:3, :3] = rotation
    T[:3, 3] = translation
    return T


def invert(T_b_a: Array) -> Array:
    """T_a_b. Exact for rigid transforms, and cheaper than a general inverse."""
    rotation = T_b_a[:3, :3].T
    return rigid(rotation, -rotation @ T_b_a[:3, 3])


def transform(T_b_a: Array, points_a: Array) -> Array:
    """Points [N, 3] of frame a, seen from frame b."""
    return multiply(T_b_a[:3, :3], points_a) + T_b_a[:3, 3]


def multiply(matrix: Array, points: Array) -> Array:
    """matrix [M, 3] times each of the points [N, 3]: [N, M].

    Column by column, for a million points times three columns is the shape where BLAS threads mostly wait
    for each other (four times the processor time on a busy machine).
    """
    x, y, z = points.T
    return np.stack([row[0] * x + row[1] * y + row[2] * z for row in matrix], axis=1)


def rotation_from_roll_pitch_yaw(roll: float, pitch: float, yaw: float) -> Array:
    """[3, 3]: first roll about x, then pitch about y, then yaw about z, angles in radians."""
    cr, sr = np.cos(roll), np.sin(roll)
    cp, sp = np.cos(pitch), np.sin(pitch)
    cy, sy = np.cos(yaw), np.sin(yaw)
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def is_rigid(T: Array, tolerance: float = 1e-3) -> bool:
    """Whether T is finite and its rotation part is one (data files are rounded, hence the tolerance)."""
    if T.shape != (4, 4) or not np.isfinite(T).all():
        return False
    rotation = T[:3, :3]
    return bool(
        np.abs(rotation @ rotation.T - np.eye(3)).max() < tolerance
        and np.linalg.det(rotation) > 0
        and np.allclose(T[3], (0, 0, 0, 1))
    )
