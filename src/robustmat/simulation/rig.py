"""The car's sensors: where camera and LiDAR sit, in the manner of KITTI's car.

The camera is camera 2 of the rig; camera 0, to which KITTI's poses refer, sits 6 cm to its left. The LiDAR is
above and behind, and not quite level, so that nothing works by accident.
"""

import numpy as np

from robustmat.geometry.transforms import invert, rigid, rotation_from_roll_pitch_yaw
from robustmat.types import Array

CAMERA_HEIGHT = 1.65  # metres above the road
BASELINE = 0.06

# Axes: camera x right, y down, z ahead; LiDAR and IMU x ahead, y left, z up.
_AXES = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])

T_CAMERA_CAM0: Array = rigid(np.eye(3), np.array([BASELINE, 0.0, 0.0]))
T_CAM0_LIDAR: Array = rigid(_AXES @ rotation_from_roll_pitch_yaw(0.004, -0.006, 0.005), np.array([-0.01, -0.08, -0.27]))
T_CAMERA_LIDAR: Array = T_CAMERA_CAM0 @ T_CAM0_LIDAR
T_LIDAR_IMU: Array = rigid(rotation_from_roll_pitch_yaw(-0.003, 0.002, -0.001), np.array([-0.81, 0.32, -0.80]))
T_CAMERA_IMU: Array = T_CAMERA_LIDAR @ T_LIDAR_IMU
T_IMU_CAMERA: Array = invert(T_CAMERA_IMU)


def camera_pose(x: float, y: float, heading: float, pitch: float = 0.0, roll: float = 0.0, lift: float = 0.0) -> Array:
    """T_world_camera of a camera over (x, y) that looks along `heading`; pitch > 0 looks up."""
    level = rotation_from_roll_pitch_yaw(roll, -pitch, heading)  # world from body: x ahead, y left, z up
    return rigid(level @ _AXES.T, np.array([x, y, CAMERA_HEIGHT + lift]))
