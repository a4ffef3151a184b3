"""The layouts that a simulated drive can be written in, by name."""

from collections.abc import Callable
from pathlib import Path

from robustmat.simulation.write_boreas import write_boreas
from robustmat.simulation.write_folder import write_folder
from robustmat.simulation.write_kitti import write_kitti_odometry, write_kitti_raw
from robustmat.simulation.write_oxford import write_oxford

LAYOUTS: dict[str, Callable[..., Path]] = {
    "kitti-raw": write_kitti_raw,
    "kitti-odometry": write_kitti_odometry,
    "oxford": write_oxford,
    "boreas": write_boreas,
    "folder": write_folder,
}
