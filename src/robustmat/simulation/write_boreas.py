"""Writes simulated drives in the layout of Boreas.

The common east-north-up frame is the town's. Camera and LiDAR are asked for at one moment, but named some
milliseconds apart as the real ones are; each scan's pose is the true one, and its points carry no time of their own.
"""

import math
from pathlib import Path

import numpy as np

from robustmat.files import write_text
from robustmat.folders import filling
from robustmat.geometry.transforms import invert
from robustmat.simulation.drive import StreetDrive
from robustmat.simulation.rig import T_CAMERA_LIDAR, T_LIDAR_IMU
from robustmat.simulation.write_files import (
    Progress,
    camera_of,
    points_of,
    pose_of,
    rows,
    write_floats,
    write_frames,
    write_labels,
    write_picture,
)
from robustmat.sources.boreas import POSE_COLUMNS
from robustmat.types import Array, Frame

FIRST_TIME = 1_606_417_097_528_152  # microseconds
SCAN_DELAY = 12_347
LASERS = 128


def write_boreas(
    drive: StreetDrive, root: Path | str, sequence: str = "boreas-2020-11-26-13-58", progress: Progress | None = None
) -> Path:
    """Write a drive as a Boreas sequence and return its folder."""
    folder = Path(root) / sequence
    times = [FIRST_TIME + round((frame.time or 0.0) * 1e6) for frame in drive.frames]
    camera = camera_of(drive)
    projection = np.eye(4)
    projection[:3, :3] = camera.matrix
    with filling(folder):
        write_text(folder / "calib/P_camera.txt", rows(projection))
        write_text(folder / "calib/T_camera_lidar.txt", rows(T_CAMERA_LIDAR))
        write_text(folder / "calib/T_applanix_lidar.txt", rows(invert(T_LIDAR_IMU)))
        poses = [pose_of(frame) for frame in drive.frames]
        _write_poses(folder / "applanix/camera_poses.csv", times, poses)
        scan_times = [time + SCAN_DELAY for time in times]
        _write_poses(folder / "applanix/lidar_poses.csv", scan_times, [pose @ T_CAMERA_LIDAR for pose in poses])

        def write(i: int, frame: Frame, name: str) -> None:
            write_picture(folder / f"camera/{name}.png", frame.image)
            write_labels(folder / f"semantics/camera/{name}.png", frame)
            points = points_of(frame)
            laser, seconds = np.arange(len(points)) % LASERS, np.zeros(len(points))
            write_floats(folder / f"lidar/{scan_times[i]}.bin", np.column_stack([points, laser, seconds]))

        write_frames(drive, folder, [str(time) for time in times], write, progress)
    return folder


def _write_poses(path: Path, times: list[int], poses: list[Array]) -> None:
    """Speeds are those between neighbouring frames; the rates of turn, which nobody here needs, are zero."""
    places = np.array([pose[:3, 3] for pose in poses])
    seconds = np.array(times) / 1e6
    speeds = np.gradient(places, seconds - seconds[0], axis=0) if len(poses) > 1 else np.zeros_like(places)
    lines = [",".join(POSE_COLUMNS)]
    for time, pose, speed in zip(times, poses, speeds, strict=True):
        values = [*pose[:3, 3], *speed, *_angles(pose[:3, :3]), 0.0, 0.0, 0.0]
        lines.append(f"{time}," + ",".join(repr(float(value)) for value in values))
    write_text(path, "\n".join(lines) + "\n")


def _angles(turn: Array) -> tuple[float, float, float]:
    """roll, pitch, heading such that the passive roll(r) pitch(p) yaw(h) is `turn`."""
    return (
        math.atan2(turn[1, 2], turn[2, 2]),
        math.atan2(-turn[0, 2], math.hypot(turn[1, 2], turn[2, 2])),
        math.atan2(turn[0, 1], turn[0, 0]),
    )
