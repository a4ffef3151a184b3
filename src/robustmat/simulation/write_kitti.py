"""Writes simulated drives in KITTI's two layouts, so that everything reads them like real ones.

Beside the layout stands `identities.json`, the simulator's own truth. Coordinates are the town's in both layouts: GPS
readings are laid out around one fixed place, and odometry poses are given in the town's frame turned to camera axes,
so two drives of one town share a world.
"""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from robustmat.files import write_text
from robustmat.folders import filling
from robustmat.geometry.transforms import invert
from robustmat.simulation.drive import StreetDrive
from robustmat.simulation.rig import T_CAM0_LIDAR, T_CAMERA_CAM0, T_IMU_CAMERA, T_LIDAR_IMU
from robustmat.simulation.write_files import (
    Progress,
    camera_of,
    numbers,
    points_of,
    pose_of,
    write_floats,
    write_frames,
    write_labels,
    write_picture,
)
from robustmat.types import Array, Camera, Frame

ORIGIN = (49.0, 8.4, 110.0)  # latitude, longitude, altitude of the town's (0, 0, 0)
EARTH_RADIUS = 6378137.0
FIRST_MOMENT = datetime(2011, 9, 26, 12, 0, tzinfo=UTC)

# The odometry world: x east, y down, z north, as a camera that looks north sees it.
T_ODOMETRY_TOWN: Array = np.array([[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1.0]])


def write_kitti_raw(
    drive: StreetDrive,
    root: Path | str,
    date: str = "2011_09_26",
    number: str = "0001",
    progress: Progress | None = None,
) -> Path:
    """Write a drive as KITTI raw and return its folder. Read it with `origin=ORIGIN` to get the town's coordinates."""
    folder = Path(root) / date / f"{date}_drive_{number.zfill(4)}_sync"
    camera = camera_of(drive)
    with filling(folder):
        _write_raw_calibration(folder.parent, camera)
        moments = [FIRST_MOMENT + timedelta(seconds=frame.time or 0.0) for frame in drive.frames]
        stamps = "".join(f"{moment:%Y-%m-%d %H:%M:%S.%f}000\n" for moment in moments)
        for sensor in ("image_02", "oxts", "velodyne_points"):
            write_text(folder / sensor / "timestamps.txt", stamps)

        def write(_: int, frame: Frame, name: str) -> None:
            write_picture(folder / f"image_02/data/{name}.png", frame.image)
            write_labels(folder / f"semantics_02/data/{name}.png", frame)
            write_floats(folder / f"velodyne_points/data/{name}.bin", points_of(frame))
            write_text(folder / f"oxts/data/{name}.txt", _oxts_line(pose_of(frame) @ invert(T_IMU_CAMERA)))

        write_frames(drive, folder, [f"{i:010d}" for i in range(len(drive.frames))], write, progress)
    return folder


def write_kitti_odometry(
    drive: StreetDrive, root: Path | str, sequence: str = "00", progress: Progress | None = None
) -> Path:
    """Write a drive as a KITTI odometry sequence (camera 2) and return its folder."""
    root = Path(root)
    folder = root / "sequences" / sequence
    camera = camera_of(drive)
    rows = {f"P{k}": _projection(camera, 0.0 if k in (0, 1) else T_CAMERA_CAM0[0, 3]) for k in range(4)}
    rows["Tr"] = T_CAM0_LIDAR[:3]
    with filling(folder):
        write_text(folder / "calib.txt", "".join(f"{key}: {numbers(value)}\n" for key, value in rows.items()))
        write_text(folder / "times.txt", "".join(f"{frame.time or 0.0:.6e}\n" for frame in drive.frames))
        poses = [T_ODOMETRY_TOWN @ pose_of(frame) @ T_CAMERA_CAM0 for frame in drive.frames]
        write_text(root / "poses" / f"{sequence}.txt", "".join(f"{numbers(pose[:3])}\n" for pose in poses))

        def write(_: int, frame: Frame, name: str) -> None:
            write_picture(folder / f"image_2/{name}.png", frame.image)
            write_labels(folder / f"semantics_2/{name}.png", frame)
            write_floats(folder / f"velodyne/{name}.bin", points_of(frame))

        write_frames(drive, folder, [f"{i:06d}" for i in range(len(drive.frames))], write, progress)
    return folder


def _projection(camera: Camera, shift: float) -> Array:
    """P = K [I | t] [3, 4] of a camera that sees points `shift` metres further right than camera 0 does."""
    return np.asarray(camera.matrix @ np.column_stack([np.eye(3), [shift, 0.0, 0.0]]))


def _write_raw_calibration(folder: Path, camera: Camera) -> None:
    size = f"{camera.width:.6e} {camera.height:.6e}"
    lines = ["calib_time: 26-Sep-2011 12:00:00", "corner_dist: 9.950000e-02"]
    for k in range(4):
        shift = 0.0 if k in (0, 1) else float(T_CAMERA_CAM0[0, 3])
        lines += [
            f"S_{k:02d}: {size}",
            f"K_{k:02d}: {numbers(camera.matrix)}",
            f"D_{k:02d}: {numbers(np.zeros(5))}",
            f"R_{k:02d}: {numbers(np.eye(3))}",
            f"T_{k:02d}: {numbers(np.array([shift, 0.0, 0.0]))}",
            f"S_rect_{k:02d}: {size}",
            f"R_rect_{k:02d}: {numbers(np.eye(3))}",
            f"P_rect_{k:02d}: {numbers(_projection(camera, shift))}",
        ]
    write_text(folder / "calib_cam_to_cam.txt", "\n".join(lines) + "\n")
    for name, T in (("velo_to_cam", T_CAM0_LIDAR), ("imu_to_velo", T_LIDAR_IMU)):
        rows = ["calib_time: 26-Sep-2011 12:00:00", f"R: {numbers(T[:3, :3])}", f"T: {numbers(T[:3, 3])}"]
        write_text(folder / f"calib_{name}.txt", "\n".join(rows) + "\n")


def _oxts_line(T_world_imu: Array) -> str:
    """The 30 fields of a GPS/IMU reading; speeds and rates, which nobody here reads, are zero."""
    east, north, up = T_world_imu[:3, 3]
    scale = math.cos(math.radians(ORIGIN[0]))
    longitude = ORIGIN[1] + math.degrees(east / (scale * EARTH_RADIUS))
    start = math.log(math.tan(math.pi / 4 + math.radians(ORIGIN[0]) / 2))
    latitude = math.degrees(2 * math.atan(math.exp(start + north / (scale * EARTH_RADIUS))) - math.pi / 2)
    turn = T_world_imu[:3, :3]
    roll, yaw = math.atan2(turn[2, 1], turn[2, 2]), math.atan2(turn[1, 0], turn[0, 0])
    pitch = math.asin(max(-1.0, min(1.0, -turn[2, 0])))
    place = f"{latitude:.13f} {longitude:.13f} {ORIGIN[2] + up:.9f} {roll:.12f} {pitch:.12f} {yaw:.12f}"
    return f"{place} {' '.join(['0'] * 17)} 0.05 0.02 4 8 4 4 0\n"
