"""Readers of drives on disk: each turns one folder layout into lazy `Frame`s.

A new layout is one module with an `open_...` function that returns a `Drive`, and one line in `SOURCES`.
"""

from collections.abc import Callable

from robustmat.sources.drive import Drive
from robustmat.sources.kitti_odometry import open_kitti_odometry
from robustmat.sources.kitti_raw import open_kitti_raw

SOURCES: dict[str, Callable[..., Drive]] = {
    "kitti-raw": open_kitti_raw,
    "kitti-odometry": open_kitti_odometry,
}

__all__ = ["SOURCES", "Drive", "open_kitti_odometry", "open_kitti_raw"]
