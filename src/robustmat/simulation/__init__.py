"""A simulated street: procedural towns, driven and seen by a camera and a LiDAR.

    town = build_town(seed=7)
    drive = drive_town(town, frames=50, look="evening", lane="left")
    write_kitti_raw(drive, "kitti", "2011_09_26", "0001")

A town is geometry (`layout`, `town`); a look is a day (`looks`); a stage is a town under a look (`stage`); `render` and
`lidar` see it; `drive` moves through it; `write_kitti`, `write_oxford`, `write_boreas`, `write_folder` put it on disk.
"""

from robustmat.simulation.drive import LANES, StreetDrive, drive_town
from robustmat.simulation.looks import LOOKS
from robustmat.simulation.render import View, kitti_camera, render
from robustmat.simulation.town import Town, build_town
from robustmat.simulation.write_boreas import write_boreas
from robustmat.simulation.write_folder import write_folder
from robustmat.simulation.write_kitti import write_kitti_odometry, write_kitti_raw
from robustmat.simulation.write_layouts import LAYOUTS
from robustmat.simulation.write_oxford import write_oxford

__all__ = [
    "LANES",
    "LAYOUTS",
    "LOOKS",
    "StreetDrive",
    "Town",
    "View",
    "build_town",
    "drive_town",
    "kitti_camera",
    "render",
    "write_boreas",
    "write_folder",
    "write_kitti_odometry",
    "write_kitti_raw",
    "write_oxford",
]
