"""Boreas: one sequence folder with camera/, lidar/, applanix/ and calib/.

Files are named by their time in microseconds. Poses are of each sensor in one east-north-up frame that all sequences
share, so sequences give pairs across days. As in the development kit, a rotation to the world is
roll(r) pitch(p) yaw(y) of *passive* elementary rotations, and LiDAR points carry their own time: the sensor's
velocity, from the pose file, carries them to the scan's moment.
"""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.geometry.poses import carried, relative
from robustmat.geometry.transforms import rigid, rotation_from_roll_pitch_yaw
from robustmat.sources.drive import (
    IMAGE_SUFFIXES,
    Drive,
    between,
    check_scans_meet_images,
    finite,
    image_loader,
    nearest_in_time,
    numbered_files,
    read_points,
    semantics_files,
    semantics_loader,
)
from robustmat.sources.images import image_size
from robustmat.sources.tables import read_columns, read_numbers, read_transform
from robustmat.types import Array, Camera, Frame

POSE_COLUMNS = (
    *("GPSTime", "easting", "northing", "altitude", "vel_east", "vel_north", "vel_up"),
    *("roll", "pitch", "heading", "angvel_z", "angvel_y", "angvel_x"),
)
FARTHEST_SCAN = 100_000  # microseconds between an image and its scan: one turn of the LiDAR
UTM_FROM = 100_000.0  # metres; early releases count eastings in UTM instead of from the common origin

Readings = dict[int, Array]  # a line of a pose file [13] by its time


def open_boreas(
    root: Path | str, *, semantics: Path | str | None = None, first: int | None = None, last: int | None = None
) -> Drive:
    """A sequence of Boreas. All sequences share one world, so they give pairs across days.

    Args:
        root: The sequence's folder, with camera/, lidar/, applanix/, calib/.
        semantics: Folder of label maps named as the images; semantics/camera/ if there.
        first: Leave out images before this time (as files are named).
        last: Leave out images after this time.
    """
    root = Path(root)
    _check_sequence(root)
    images = between(numbered_files(root / "camera", IMAGE_SUFFIXES, "Boreas images"), first, last)
    labels = semantics_files(Path(semantics) if semantics else None, root / "semantics/camera")
    scans = numbered_files(root / "lidar", (".bin",), "LiDAR scans") if (root / "lidar").is_dir() else {}
    camera = _read_camera(root / "calib/P_camera.txt", next(iter(images.values())))
    camera_path, lidar_path = root / "applanix/camera_poses.csv", root / "applanix/lidar_poses.csv"
    has_poses = camera_path.exists()  # test sequences come without
    camera_poses = _read_poses(camera_path) if has_poses else {}
    lidar_poses = _read_poses(lidar_path) if has_poses and scans else {}
    T_camera_lidar = None
    if scans and not has_poses:
        T_camera_lidar = read_transform(root / "calib/T_camera_lidar.txt", "Boreas LiDAR calibration")
    scan_times = list(scans)

    def frame(time: int, path: Path) -> Frame:
        T_world_camera = boreas_pose(_reading(camera_poses, time, camera_path)) if has_poses else None
        scan = nearest_in_time(scan_times, time, FARTHEST_SCAN)
        T_frame_lidar, load_points = T_camera_lidar, None
        if scan is not None:
            reading = _reading(lidar_poses, scan, lidar_path) if has_poses else None
            load_points = partial(_read_scan, scans[scan], reading)
            if reading is not None and T_world_camera is not None:
                T_frame_lidar = relative(T_world_camera, boreas_pose(reading))  # the way driven in between included
        return Frame(
            name=path.stem,
            load_image=image_loader(path, camera),
            camera=camera,
            T_world_camera=T_world_camera,
            T_camera_lidar=T_frame_lidar,
            load_points=load_points,
            load_semantics=semantics_loader(labels[time], camera) if time in labels else None,
            time=time / 1e6,
        )

    frames = tuple(frame(time, path) for time, path in images.items())
    check_scans_meet_images(frames, scans, "Boreas LiDAR scans")
    name = root.resolve().name
    return Drive(
        name=name,
        world=_world(frames[0], name),
        frames=frames,
        image_paths=tuple(images.values()),
        source={"layout": "boreas", "sequence": name},
    )


def boreas_pose(reading: Array) -> Array:
    """T_world_sensor [4, 4] of a line of a pose file.

    Passive rotations are the transposes of the usual ones, so their product roll pitch yaw is the usual
    yaw-pitch-roll rotation turned the other way round each axis, transposed.
    """
    roll, pitch, heading = reading[7:10]
    return rigid(rotation_from_roll_pitch_yaw(roll, pitch, heading).T, reading[1:4])


def boreas_velocity(reading: Array) -> tuple[Array, Array]:
    """The sensor's velocity [3] and rate of turn [3] in its own axes."""
    return np.asarray(boreas_pose(reading)[:3, :3].T @ reading[4:7]), reading[[12, 11, 10]]


def _read_scan(path: Path, reading: Array | None) -> NDArray[np.float32]:
    points = finite(read_points(path, 6))  # x, y, z, intensity, laser, seconds after the file's time
    seconds = points[:, 5].astype(np.float64)
    if reading is not None and seconds.any():
        points[:, :3] = carried(points[:, :3].astype(np.float64), seconds, *boreas_velocity(reading))
    return points[:, :4]


def _check_sequence(root: Path) -> None:
    if (root / "camera").is_dir():
        return
    there = sorted(path.name for path in root.glob("boreas-*")) if root.is_dir() else []
    found = f"; name one of its sequences: {', '.join(there)}" if there else ""
    raise DataError(f"Boreas sequence not found: expected the folder {root / 'camera'}{found}")


def _read_camera(path: Path, image: Path) -> Camera:
    P = read_numbers(path, (12, 16), "Boreas camera calibration")[:12].reshape(3, 4)
    if abs(np.linalg.det(P[:, :3])) < 1e-9 or np.abs(P[:, 3]).max() > 1e-9:
        raise DataError(f"Boreas camera calibration is no projection K [I | 0]: {path}")
    return Camera(P[:, :3], *image_size(image))


def _read_poses(path: Path) -> Readings:
    return {round(row[0]): row for row in read_columns(path, POSE_COLUMNS, "Boreas poses")}


def _reading(poses: Readings, time: int, path: Path) -> Array:
    if time not in poses:
        raise DataError(
            f"no pose for time {time}: {path} has {len(poses)} lines from {min(poses)} to {max(poses)}; "
            "give --first and --last to leave frames out, or remove the file of that time"
        )
    return poses[time]


def _world(frame: Frame, name: str) -> str:
    if frame.T_world_camera is None:
        return name
    return "boreas-utm" if np.abs(frame.T_world_camera[:2, 3]).max() > UTM_FROM else "boreas"
