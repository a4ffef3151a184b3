"""KITTI raw ("synced and rectified"): ROOT/DATE/DATE_drive_NNNN_sync, calibration in ROOT/DATE.

World coordinates are east, north, up in metres. As in KITTI's development kit, GPS readings become metres
by a Mercator projection whose scale is right at one latitude: the drive's first. The drive's first position
is the origin, and each drive is a world of its own: KITTI's GPS differs between two drives along one street
by more than the identity tolerance. Where better positions exist, give two drives the same `origin`.
"""

from pathlib import Path

import numpy as np

from robustmat.errors import DataError, InputError
from robustmat.files import read_text
from robustmat.geometry.transforms import invert, rigid, rotation_from_roll_pitch_yaw
from robustmat.sources.drive import (
    IMAGE_SUFFIXES,
    Drive,
    image_loader,
    numbered_files,
    points_loader,
    semantics_files,
    semantics_loader,
)
from robustmat.sources.images import image_size
from robustmat.sources.kitti_calibration import (
    numbers,
    read_calibration,
    read_timestamps,
    rigid_entry,
    split_projection,
)
from robustmat.types import Array, Camera, Frame

EARTH_RADIUS = 6378137.0  # metres, as in the development kit
OXTS_FIELDS = 30

Origin = tuple[float, float, float]  # latitude and longitude in degrees, altitude in metres


def open_kitti_raw(
    root: Path | str,
    date: str,
    drive: str,
    *,
    camera: int = 2,
    semantics: Path | str | None = None,
    origin: Origin | None = None,
) -> Drive:
    """A drive of the KITTI raw data ("synced and rectified").

    Args:
        root: The folder that holds the folders of dates.
        date: For example 2011_09_26.
        drive: For example 0013.
        camera: 0 and 1 are grey, 2 and 3 colour.
        semantics: Folder of label maps named as the images; semantics_NN/data beside the images if there.
        origin: LATITUDE LONGITUDE ALTITUDE of the world's origin; drives with the same share a world.
    """
    folder = _drive_folder(Path(root), date, drive)
    images = numbered_files(folder / f"image_{camera:02d}/data", IMAGE_SUFFIXES, f"images of camera {camera}")
    labels = semantics_files(Path(semantics) if semantics else None, folder / f"semantics_{camera:02d}/data")
    scans = _scans(folder / "velodyne_points/data")
    intrinsics, T_camera_lidar, T_camera_imu = _read_calibrations(folder.parent, camera, images)
    times = read_timestamps(folder / f"image_{camera:02d}/timestamps.txt")

    readings = {number: _read_oxts(folder / f"oxts/data/{path.stem}.txt") for number, path in images.items()}
    first = next(iter(readings.values()))
    start = origin or (first[0], first[1], first[2])
    T_imu_camera = invert(T_camera_imu)

    def frame(number: int, path: Path) -> Frame:
        if times is not None and number >= len(times):
            raise DataError(
                f"timestamps end before frame {number}: {folder}/image_{camera:02d}/timestamps.txt "
                f"has {len(times)} lines, one per frame number"
            )
        return Frame(
            name=path.stem,
            load_image=image_loader(path, intrinsics),
            camera=intrinsics,
            T_world_camera=oxts_pose(readings[number], start) @ T_imu_camera,
            T_camera_lidar=T_camera_lidar,
            load_points=points_loader(scans[number]) if number in scans else None,
            load_semantics=semantics_loader(labels[number], intrinsics) if number in labels else None,
            time=times[number] if times is not None else None,
        )

    name = folder.name.removesuffix("_sync")
    world = name if origin is None else "kitti-raw at " + ", ".join(f"{value:.6f}" for value in origin)
    return Drive(
        name=name,
        world=world,
        frames=tuple(frame(number, path) for number, path in images.items()),
        image_paths=tuple(images.values()),
        source={"layout": "kitti-raw", "date": date, "drive": drive, "camera": camera, "origin": list(start)},
    )


def oxts_pose(reading: Array, origin: Origin) -> Array:
    """T_world_imu [4, 4] of one GPS/IMU reading (latitude, longitude, altitude, roll, pitch, yaw, ...)."""
    latitude, longitude, altitude, roll, pitch, yaw = reading[:6]
    scale = float(np.cos(np.radians(origin[0])))

    def metres(latitude: float, longitude: float) -> Array:
        east = scale * EARTH_RADIUS * np.radians(longitude)
        north = scale * EARTH_RADIUS * np.log(np.tan(np.pi / 4 + np.radians(latitude) / 2))
        return np.array([east, north])

    east, north = metres(latitude, longitude) - metres(origin[0], origin[1])
    position = np.array([east, north, altitude - origin[2]])
    return rigid(rotation_from_roll_pitch_yaw(roll, pitch, yaw), position)


def _drive_folder(root: Path, date: str, drive: str) -> Path:
    number = drive.zfill(4)
    folder = root / date / f"{date}_drive_{number}_sync"
    if folder.is_dir():
        return folder
    there = sorted(path.name for path in (root / date).glob("*_sync")) if (root / date).is_dir() else []
    found = f"found {', '.join(there)}" if there else "found no drive there"
    raise DataError(f"KITTI raw drive not found: expected the folder {folder}; {found}")


def _scans(folder: Path) -> dict[int, Path]:
    """Scans by frame number; some real drives lack a few, and a drive without LiDAR is fine."""
    return numbered_files(folder, (".bin",), "LiDAR scans") if folder.is_dir() else {}


def _read_calibrations(date: Path, camera: int, images: dict[int, Path]) -> tuple[Camera, Array, Array]:
    """Intrinsics, T_camera_lidar and T_camera_imu from the three calibration files of a date."""
    if camera not in range(4):
        raise InputError(f"KITTI has cameras 0 to 3, not {camera}")
    path = date / "calib_cam_to_cam.txt"
    entries = read_calibration(path)
    key = f"P_rect_{camera:02d}"
    matrix, T_camera_cam0 = split_projection(numbers(entries, key, 12, path).reshape(3, 4), key, path)
    T_rectified_cam0 = rigid(numbers(entries, "R_rect_00", 9, path).reshape(3, 3), np.zeros(3))
    first = next(iter(images.values()))
    width, height = image_size(first)
    if f"S_rect_{camera:02d}" in entries:
        expected = numbers(entries, f"S_rect_{camera:02d}", 2, path)
        if (width, height) != (expected[0], expected[1]):
            raise DataError(
                f"{first} is {width}x{height} pixels, but {path} is for {expected[0]:.0f}x{expected[1]:.0f}: "
                "use the images at their full size, or scale P_rect and S_rect with them"
            )
    velo_path, imu_path = date / "calib_velo_to_cam.txt", date / "calib_imu_to_velo.txt"
    T_cam0_lidar = rigid_entry(read_calibration(velo_path), velo_path)
    T_lidar_imu = rigid_entry(read_calibration(imu_path), imu_path)
    T_camera_lidar = T_camera_cam0 @ T_rectified_cam0 @ T_cam0_lidar
    return Camera(matrix, width, height), T_camera_lidar, T_camera_lidar @ T_lidar_imu


def _read_oxts(path: Path) -> Array:
    text = read_text(path, "GPS/IMU reading (oxts) of an image").split()
    if len(text) < OXTS_FIELDS:
        raise DataError(f"GPS/IMU reading has {len(text)} fields, expected {OXTS_FIELDS}: {path}")
    try:
        reading = np.array([float(value) for value in text])
    except ValueError as problem:
        raise DataError(f"GPS/IMU reading holds something that is no number: {path}: {problem}") from None
    if not np.isfinite(reading[:6]).all():
        raise DataError(f"GPS/IMU pose is not finite: {path}; remove this frame's image to leave it out")
    return reading
