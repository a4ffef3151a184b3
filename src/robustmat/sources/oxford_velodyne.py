"""Oxford Radar RobotCar's Velodyne HDL-32E scans, as points (`.bin`) and as raw readings (`.png`).

A `.bin` holds float32, first all x, then all y, z and intensities. A raw `.png` has a column for every firing: 32 rows
of intensities, 64 of ranges (uint16 in 2 mm), 2 of the angle (uint16 in 0.01 degrees) and 8 of the time (int64,
microseconds). Axes: z down; a firing at angle 0 looks along -y, at 90 degrees along x.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.sources.drive import finite
from robustmat.sources.images import read_bytes
from robustmat.types import Array

RANGE_STEP = 0.002  # metres
ANGLE_STEP = 2 * np.pi / 36000  # radians
NEAREST = 1.0  # metres
FIRE_HEIGHT = 0.090805  # metres from the sensor's base up to where it fires
ROWS = 32 + 64 + 2 + 8
# The 32 beams, downwards, in radians as the development kit rounds them.
ELEVATIONS: Array = np.array(
    [
        *(-0.1862, -0.1628, -0.1396, -0.1164, -0.0930, -0.0698, -0.0466, -0.0232, 0.0, 0.0232, 0.0466),
        *(0.0698, 0.0930, 0.1164, 0.1396, 0.1628, 0.1862, 0.2094, 0.2327, 0.2560, 0.2793, 0.3025, 0.3259),
        *(0.3491, 0.3723, 0.3957, 0.4189, 0.4421, 0.4655, 0.4887, 0.5119, 0.5353),
    ]
)

Placing = Callable[[NDArray[np.int64]], Array]  # times [N] -> T_scan_sensor [N, 4, 4]


def read_velodyne_bin(path: Path) -> NDArray[np.float32]:
    """[N, 4] x, y, z, intensity."""
    try:
        size = path.stat().st_size
        if size % 16:
            raise DataError(
                f"LiDAR scan is truncated: {path} has {size} bytes, not a multiple of 16 "
                "(float32: all x, all y, all z, all intensities); copy it again"
            )
        return finite(np.fromfile(path, dtype="<f4").reshape(4, -1).T)
    except OSError as problem:
        raise DataError(f"LiDAR scan cannot be read: {path}: {problem}") from None


def read_velodyne_raw(path: Path, T_scan_sensor: Placing | None = None) -> NDArray[np.float32]:
    """[N, 4] x, y, z, intensity, each firing moved to where the scan's moment sees it if `T_scan_sensor` tells."""
    ranges, intensities, angles, times = _decode_raw(path)
    across = np.cos(ELEVATIONS)[:, None] * ranges
    down = np.sin(ELEVATIONS)[:, None] * ranges - FIRE_HEIGHT
    points = np.stack([np.sin(angles) * across, -np.cos(angles) * across, down], axis=-1)  # [32, firings, 3]
    if T_scan_sensor is not None:
        T = T_scan_sensor(times)
        points = np.einsum("nij,bnj->bni", T[:, :3, :3], points) + T[:, :3, 3]
    kept = ranges > NEAREST
    return np.column_stack([points[kept], intensities[kept]]).astype(np.float32)


def velodyne_loader(path: Path, T_scan_sensor: Placing | None) -> Callable[[], NDArray[np.float32]]:
    """Points of a scan of either kind; raw firings are brought to one moment by `T_scan_sensor`."""
    return (
        partial(read_velodyne_bin, path) if path.suffix == ".bin" else partial(read_velodyne_raw, path, T_scan_sensor)
    )


def _decode_raw(path: Path) -> tuple[Array, NDArray[np.uint8], Array, NDArray[np.int64]]:
    """Ranges [32, N] in metres, intensities [32, N], angles [N] in radians, times [N]."""
    readings = read_bytes(path, "raw LiDAR scan", "copy it again")
    if readings.shape[0] != ROWS:
        raise DataError(f"raw LiDAR scan has {readings.shape[0]} rows, expected {ROWS}: {path}; copy it again")
    columns = np.ascontiguousarray(readings.T)  # a firing's bytes in a row
    ranges = columns[:, 32:96].copy().view("<u2").T * RANGE_STEP
    angles = columns[:, 96:98].copy().view("<u2")[:, 0] * ANGLE_STEP
    return ranges, readings[:32], angles, columns[:, 98:].copy().view("<i8")[:, 0]
