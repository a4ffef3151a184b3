"""KITTI's calibration and timestamp text files."""

from datetime import datetime
from pathlib import Path

import numpy as np

from robustmat.errors import DataError
from robustmat.files import read_text
from robustmat.geometry.transforms import is_rigid, rigid
from robustmat.types import Array

CALIBRATION = "KITTI calibration"


def read_calibration(path: Path) -> dict[str, list[str]]:
    """`key: values` lines; values stay text, for some (dates) are no numbers."""
    entries: dict[str, list[str]] = {}
    for line in read_text(path, CALIBRATION).splitlines():
        key, colon, values = line.partition(":")
        if colon:
            entries[key.strip()] = values.split()
    return entries


def numbers(entries: dict[str, list[str]], key: str, count: int, path: Path) -> Array:
    """The `count` numbers behind `key`, or an error that names the file and the key."""
    if key not in entries:
        there = ", ".join(sorted(entries)) or "nothing"
        raise DataError(f"{CALIBRATION} lacks the key '{key}': {path} (it has {there})")
    try:
        values = np.array([float(value) for value in entries[key]])
    except ValueError:
        raise DataError(f"{CALIBRATION}: '{key}' holds something that is no number: {path}") from None
    if len(values) != count:
        raise DataError(f"{CALIBRATION}: '{key}' needs {count} numbers, found {len(values)}: {path}")
    if not np.isfinite(values).all():
        raise DataError(f"{CALIBRATION}: '{key}' is not finite: {path}")
    return values


def rigid_entry(entries: dict[str, list[str]], path: Path) -> Array:
    """[4, 4] from the `R` and `T` of a raw calibration file."""
    T = rigid(numbers(entries, "R", 9, path).reshape(3, 3), numbers(entries, "T", 3, path))
    if not is_rigid(T):
        raise DataError(f"{CALIBRATION}: 'R' is no rotation: {path}")
    return T


def split_projection(P: Array, key: str, path: Path) -> tuple[Array, Array]:
    """K [3, 3] and T_camera_cam0 [4, 4] from a rectified projection matrix P [3, 4].

    P = K [I | t]: its fourth column is K t, where t moves points from rectified camera 0 to this camera.
    """
    matrix = P[:, :3]
    if abs(np.linalg.det(matrix)) < 1e-9:
        raise DataError(f"{CALIBRATION}: '{key}' is a singular projection: {path}")
    return matrix, rigid(np.eye(3), np.asarray(np.linalg.solve(matrix, P[:, 3]), dtype=np.float64))


def read_timestamps(path: Path) -> list[float] | None:
    """Seconds since the epoch of each frame number, or None if the drive has no such file."""
    if not path.exists():
        return None
    times = []
    for number, line in enumerate(read_text(path, "timestamps").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            moment, _, fraction = line.strip().partition(".")
            times.append(datetime.fromisoformat(f"{moment}+00:00").timestamp() + float(f"0.{fraction or 0}"))
        except ValueError:
            raise DataError(
                f"timestamps: line {number} is no date such as '2011-09-26 13:02:44.327963904': {path}"
            ) from None
    return times
