"""Writes simulated drives in KITTI's two layouts, so that everything reads them like real ones.

Beside the layout stands `identities.json`, the simulator's own truth. Coordinates are the town's in both layouts: GPS
readings are laid out around one fixed place, and odometry poses are given in the town's frame turned to camera axes,
so two drives of one town share a world.
"""

import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from robustmat.files import replacing, write_text
from robustmat.geometry.transforms import invert
from robustmat.sources.street.drive import StreetDrive
from robustmat.sources.street.rig import T_CAM0_LIDAR, T_CAMERA_CAM0, T_IMU_CAMERA, T_LIDAR_IMU
from robustmat.types import Array, Camera, Frame, Image

Progress = Callable[[Iterable[int]], Iterable[int]]

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
    camera = _camera(drive.frames[0])
    _write_raw_calibration(folder.parent, camera)
    moments = [FIRST_MOMENT + timedelta(seconds=frame.time or 0.0) for frame in drive.frames]
    stamps = "".join(f"{moment:%Y-%m-%d %H:%M:%S.%f}000\n" for moment in moments)
    for sensor in ("image_02", "oxts", "velodyne_points"):
        write_text(folder / sensor / "timestamps.txt", stamps)
    truth = []
    for i in (progress or iter)(range(len(drive.frames))):
        frame, name = drive.frames[i], f"{i:010d}"
        _write_image(folder / f"image_02/data/{name}.png", frame.image)
        _write_labels(folder / f"semantics_02/data/{name}.png", frame)
        _write_points(folder / f"velodyne_points/data/{name}.bin", frame)
        write_text(folder / f"oxts/data/{name}.txt", _oxts_line(_pose(frame) @ invert(T_IMU_CAMERA)))
        truth.append(_frame_truth(drive, i, name))
    _write_truth(folder / "identities.json", drive, truth)
    return folder


def write_kitti_odometry(
    drive: StreetDrive, root: Path | str, sequence: str = "00", progress: Progress | None = None
) -> Path:
    """Write a drive as a KITTI odometry sequence (camera 2) and return its folder."""
    root = Path(root)
    folder = root / "sequences" / sequence
    camera = _camera(drive.frames[0])
    rows = {f"P{k}": _projection(camera, 0.0 if k in (0, 1) else T_CAMERA_CAM0[0, 3]) for k in range(4)}
    rows["Tr"] = T_CAM0_LIDAR[:3]
    write_text(folder / "calib.txt", "".join(f"{key}: {_numbers(value)}\n" for key, value in rows.items()))
    write_text(folder / "times.txt", "".join(f"{frame.time or 0.0:.6e}\n" for frame in drive.frames))
    poses = [T_ODOMETRY_TOWN @ _pose(frame) @ T_CAMERA_CAM0 for frame in drive.frames]
    write_text(root / "poses" / f"{sequence}.txt", "".join(f"{_numbers(pose[:3])}\n" for pose in poses))
    truth = []
    for i in (progress or iter)(range(len(drive.frames))):
        frame, name = drive.frames[i], f"{i:06d}"
        _write_image(folder / f"image_2/{name}.png", frame.image)
        _write_labels(folder / f"semantics_2/{name}.png", frame)
        _write_points(folder / f"velodyne/{name}.bin", frame)
        truth.append(_frame_truth(drive, i, name))
    _write_truth(folder / "identities.json", drive, truth)
    return folder


LAYOUTS: dict[str, Callable[..., Path]] = {
    "kitti-raw": write_kitti_raw,
    "kitti-odometry": write_kitti_odometry,
}


def _frame_truth(drive: StreetDrive, i: int, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "T_world_camera": np.round(_pose(drive.frames[i]), 9).tolist(),
        "landmarks": [landmark.to_json() for landmark in drive.truth(i)],
    }


def _write_truth(path: Path, drive: StreetDrive, frames: list[dict[str, Any]]) -> None:
    """One frame a line, so that people and line tools can read it."""
    head = {"format": "robustmat-street-identities", "version": 1, "world": drive.world, "name": drive.name}
    head["source"] = drive.source
    lines = ",\n".join("  " + json.dumps(frame) for frame in frames)
    write_text(path, json.dumps(head)[:-1] + f', "frames": [\n{lines}\n]}}\n')


def _camera(frame: Frame) -> Camera:
    assert frame.camera is not None
    return frame.camera


def _pose(frame: Frame) -> Array:
    assert frame.T_world_camera is not None
    return frame.T_world_camera


def _write_image(path: Path, image: Image) -> None:
    with replacing(path) as temporary:
        cv2.imwrite(str(temporary), image[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])


def _write_labels(path: Path, frame: Frame) -> None:
    labels = frame.semantics
    assert labels is not None
    with replacing(path) as temporary:
        cv2.imwrite(str(temporary), labels)


def _write_points(path: Path, frame: Frame) -> None:
    points = frame.points_lidar
    assert points is not None
    with replacing(path) as temporary:
        points.astype("<f4").tofile(temporary)


def _numbers(values: Array) -> str:
    return " ".join(f"{value:.12e}" for value in np.asarray(values).ravel())


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
            f"K_{k:02d}: {_numbers(camera.matrix)}",
            f"D_{k:02d}: {_numbers(np.zeros(5))}",
            f"R_{k:02d}: {_numbers(np.eye(3))}",
            f"T_{k:02d}: {_numbers(np.array([shift, 0.0, 0.0]))}",
            f"S_rect_{k:02d}: {size}",
            f"R_rect_{k:02d}: {_numbers(np.eye(3))}",
            f"P_rect_{k:02d}: {_numbers(_projection(camera, shift))}",
        ]
    write_text(folder / "calib_cam_to_cam.txt", "\n".join(lines) + "\n")
    for name, T in (("velo_to_cam", T_CAM0_LIDAR), ("imu_to_velo", T_LIDAR_IMU)):
        rows = ["calib_time: 26-Sep-2011 12:00:00", f"R: {_numbers(T[:3, :3])}", f"T: {_numbers(T[:3, 3])}"]
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
