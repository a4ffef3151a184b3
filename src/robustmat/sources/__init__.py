"""Readers of drives on disk: each turns one folder layout into lazy `Frame`s.

A new layout is one module with a function that returns a `Drive`, and one line in `SOURCES`. `robustmat prepare` makes
a verb of every entry: the function's parameters are its options, the `Args:` section of its docstring is their help.
"""

from collections.abc import Callable

from robustmat.sources.boreas import open_boreas
from robustmat.sources.drive import Drive
from robustmat.sources.folder import open_folder
from robustmat.sources.kitti_odometry import open_kitti_odometry
from robustmat.sources.kitti_raw import open_kitti_raw
from robustmat.sources.oxford import open_oxford
from robustmat.sources.rosbag import open_rosbag

SOURCES: dict[str, Callable[..., Drive]] = {
    "kitti-raw": open_kitti_raw,
    "kitti-odometry": open_kitti_odometry,
    "oxford": open_oxford,
    "boreas": open_boreas,
    "folder": open_folder,
    "rosbag": open_rosbag,
}

__all__ = [
    "SOURCES",
    "Drive",
    "open_boreas",
    "open_folder",
    "open_kitti_odometry",
    "open_kitti_raw",
    "open_oxford",
    "open_rosbag",
]
