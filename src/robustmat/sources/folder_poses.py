"""Which pose belongs to which image of one's own folder, from a TUM or a KITTI pose file.

TUM: `time x y z qx qy qz qw`; KITTI: the 12 numbers of the upper rows of T_world_camera.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustmat.errors import DataError
from robustmat.geometry.poses import Trajectory, from_quaternion
from robustmat.geometry.transforms import is_rigid
from robustmat.sources.tables import read_table
from robustmat.types import Array

LONGEST_GAP = 2_000_000  # microseconds; between farther poses nobody knows the way
TIMESTAMP_DIGITS = 10  # a name of so many digits is a time since 1970, not a frame number


def read_folder_poses(path: Path, images: Sequence[Path], times: Sequence[float] | None) -> tuple[Array, list[float]]:
    """T_world_camera [N, 4, 4] of each image, and the images' times where they are known by now (else empty).

    A TUM file is interpolated at the images' times if these are known: from `times`, or because the images are named
    by them. Otherwise poses belong to the images in the order of their names, or by frame number.
    """
    rows = read_table(path, (8, 12), "poses (TUM: time x y z qx qy qz qw; KITTI: 12 numbers a line)")
    poses = _tum_poses(rows, path) if rows.shape[1] == 8 else _kitti_poses(rows, path)
    if rows.shape[1] == 8:
        known = list(times) if times is not None else _times_of_names(images)
        if known:
            return _interpolated(rows[:, 0], poses, known, images, path), known
        if len(poses) == len(images):
            return poses, [float(time) for time in rows[:, 0]]
    elif len(poses) == len(images):
        return poses, []
    elif all(image.stem.isdecimal() and int(image.stem) < len(poses) for image in images):
        return poses[[int(image.stem) for image in images]], []
    raise DataError(
        f"{len(poses)} poses for {len(images)} images: {path}; give one line for each image in the order of their "
        "names, or name them by frame number (KITTI) or by time in seconds (TUM), or write their times to times.txt"
    )


def _tum_poses(rows: Array, path: Path) -> Array:
    poses = []
    for number, row in enumerate(rows, start=1):
        if not np.isfinite(row).all() or np.linalg.norm(row[4:]) < 1e-6:
            raise DataError(f"pose {number} is not finite or has no rotation: {path}")
        poses.append(from_quaternion(row[1:4], row[4:]))
    return np.array(poses).reshape(-1, 4, 4)


def _kitti_poses(rows: Array, path: Path) -> Array:
    bottom = np.tile(np.array([[[0.0, 0, 0, 1]]]), (len(rows), 1, 1))
    poses = np.concatenate([rows.reshape(-1, 3, 4), bottom], axis=1)
    for number, pose in enumerate(poses, start=1):
        if not is_rigid(pose):
            raise DataError(f"pose {number} is no finite rigid transform: {path}")
    return poses


def _times_of_names(images: Sequence[Path]) -> list[float]:
    """Seconds, if every image is named by its time: with a decimal point, or whole, as micro- or nanoseconds."""
    times = []
    for stem in (image.stem for image in images):
        digits = stem.replace(".", "", 1)
        if not digits.isdecimal() or ("." not in stem and len(digits) < TIMESTAMP_DIGITS):
            return []
        times.append(float(stem) / 10.0 ** max(len(digits) - TIMESTAMP_DIGITS, 0) if "." not in stem else float(stem))
    return times


def _interpolated(pose_times: Array, poses: Array, times: list[float], images: Sequence[Path], path: Path) -> Array:
    """In microseconds from the first pose on, which are whole numbers with room to spare."""
    start = pose_times[0] if len(pose_times) else 0.0
    whole = np.round((pose_times - start) * 1e6).astype(np.int64)
    if len(whole) == 0 or (np.diff(whole) <= 0).any():
        raise DataError(f"times of the poses do not rise: {path}; sort its lines and remove doubles")
    trajectory = Trajectory(whole, poses)
    wanted = np.round((np.array(times) - start) * 1e6).astype(np.int64)
    missing = np.flatnonzero(~trajectory.covers(wanted, LONGEST_GAP))
    if len(missing):
        first = int(missing[0])
        raise DataError(
            f"no pose for {images[first].name} at {times[first]:.6f} s: {path} covers {pose_times[0]:.6f} to "
            f"{pose_times[-1]:.6f} s with gaps of at most {LONGEST_GAP / 1e6:g} s; add poses or take the image out"
        )
    return trajectory.at(wanted)
