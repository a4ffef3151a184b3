"""Oxford Radar RobotCar, and RobotCar: one drive's folder, with camera models and extrinsics of the development kit.

Files are named by their time in microseconds. Poses come from the INS, from radar odometry or from visual odometry and
are interpolated; world coordinates are north, east, down from the drive's first pose or from a given origin. The
INS differs between drives by metres, so each drive is its own world unless an origin (for RTK positions) is given.
"""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.geometry.poses import relative
from robustmat.geometry.transforms import invert
from robustmat.sources.drive import (
    IMAGE_SUFFIXES,
    Drive,
    between,
    check_scans_meet_images,
    image_loader,
    nearest_in_time,
    numbered_files,
    semantics_files,
    semantics_loader,
)
from robustmat.sources.images import image_size
from robustmat.sources.oxford_calibration import find_lens, image_from_vehicle, read_extrinsics, read_model
from robustmat.sources.oxford_images import mosaic_loader
from robustmat.sources.oxford_poses import Origin, VehiclePoses, find_poses, read_vehicle_poses
from robustmat.sources.oxford_velodyne import Placing, velodyne_loader
from robustmat.types import Array, Frame

FARTHEST_SCAN = 100_000  # microseconds between an image and its scan: two turns of the LiDAR
LIDARS = ("velodyne_left", "velodyne_right")


def open_oxford(
    root: Path | str,
    *,
    camera: str = "stereo/centre",
    lidar: str | None = None,
    poses: str | None = None,
    origin: Origin | None = None,
    models: Path | str | None = None,
    extrinsics: Path | str | None = None,
    semantics: Path | str | None = None,
    rectified: bool = False,
    first: int | None = None,
    last: int | None = None,
) -> Drive:
    """A drive of Oxford Radar RobotCar (or RobotCar): mosaics, Velodyne scans, INS or odometry poses.

    Camera models and extrinsics come with the development kit. Without label maps yet, begin with --rectify-to DIR.

    Args:
        root: The drive's folder, with stereo/, velodyne_left/, gps/, gt/.
        camera: stereo/centre, stereo/left, stereo/right, mono_left, mono_right or mono_rear.
        lidar: velodyne_left or velodyne_right; the first that is there. Raw scans win.
        poses: rtk, ins, radar (ground-truth odometry) or vo; the first that is there.
        origin: NORTHING EASTING DOWN of the world's origin; drives with the same share a world.
        models: Folder of camera models; models/ in the drive's folder or beside it.
        extrinsics: Folder of extrinsics; extrinsics/ in the drive's folder or beside it.
        semantics: Folder of label maps of the *rectified* images, named as them; semantics/CAMERA/ if there.
        rectified: The images are demosaiced and undistorted already.
        first: Leave out images before this time (as files are named).
        last: Leave out images after this time.
    """
    root = Path(root)
    lens = find_lens(camera)
    images = between(numbered_files(root / camera, IMAGE_SUFFIXES, f"images of {camera}"), first, last)
    labels = semantics_files(Path(semantics) if semantics else None, root / "semantics" / camera)
    model_folder = _beside(root, models, "models", "camera models")
    intrinsics, T_camera_image = read_model(model_folder, lens, *image_size(next(iter(images.values()))))
    extrinsic_folder = _beside(root, extrinsics, "extrinsics", "extrinsics")
    T_image_vehicle = image_from_vehicle(read_extrinsics(extrinsic_folder, lens.extrinsics), T_camera_image)

    T_vehicle_image = invert(T_image_vehicle)

    lidar = lidar or next((one for one in LIDARS if (root / one).is_dir()), None)
    scans = _scans(root / lidar) if lidar else {}
    T_vehicle_lidar = read_extrinsics(extrinsic_folder, lidar) if lidar else np.eye(4)

    poses, vehicle, start = find_poses(root, poses), None, None
    if poses:
        vehicle, start = read_vehicle_poses(root, poses, origin, extrinsic_folder)
    # Scans from before the first pose and after the last are of no use.
    scan_times = vehicle.covered(list(scans)) if vehicle else list(scans)
    image_poses = vehicle.by_time(list(images)) if vehicle else {}
    scan_poses = vehicle.by_time(scan_times) if vehicle else {}

    def frame(time: int, image: Path) -> Frame:
        T_world_image = image_poses[time] @ T_vehicle_image if vehicle else None
        T_image_lidar = T_image_vehicle @ T_vehicle_lidar
        load_points = None
        scan = nearest_in_time(scan_times, time, FARTHEST_SCAN)
        if scan is not None:
            placing = None
            if vehicle and T_world_image is not None:
                T_world_lidar = scan_poses[scan] @ T_vehicle_lidar
                T_image_lidar = relative(T_world_image, T_world_lidar)  # the way driven in between included
                placing = _placing(vehicle, T_vehicle_lidar, T_world_lidar)
            load_points = velodyne_loader(scans[scan], placing)
        load_image = image_loader(image, intrinsics)
        if not rectified:
            load_image = mosaic_loader(image, intrinsics, lens, model_folder)
        return Frame(
            name=image.stem,
            load_image=load_image,
            camera=intrinsics,
            T_world_camera=T_world_image,
            T_camera_lidar=T_image_lidar if load_points else None,
            load_points=load_points,
            load_semantics=semantics_loader(labels[time], intrinsics) if time in labels else None,
            time=time / 1e6,
        )

    frames = tuple(frame(time, image) for time, image in images.items())
    check_scans_meet_images(frames, scans, f"scans of {lidar}")
    name = root.resolve().name
    return Drive(
        name=name,
        world=name if origin is None else "oxford at " + ", ".join(f"{value:.3f}" for value in origin),
        frames=frames,
        image_paths=tuple(images.values()) if rectified else (None,) * len(images),
        source={"layout": "oxford", "drive": name, "camera": camera, "lidar": lidar, "poses": poses, "origin": start},
    )


def _beside(root: Path, given: Path | str | None, name: str, what: str) -> Path:
    """The folder that the user named, or the one of that name in the drive's folder or in the folder that holds it."""
    places = [Path(given)] if given else [root / name, root.resolve().parent / name]
    for folder in places:
        if folder.is_dir():
            return folder
    raise DataError(
        f"Oxford {what} not found: expected the folder {' or '.join(map(str, places))}; they come with the "
        f"development kit (robotcar-dataset-sdk): copy them there or name their folder with --{name}"
    )


def _placing(vehicle: VehiclePoses, T_vehicle_lidar: Array, T_world_scan: Array) -> Placing:
    """Where the sensor was at any moment, seen from where it was at the scan's."""
    return partial(_place, vehicle, T_vehicle_lidar, T_world_scan)


def _place(vehicle: VehiclePoses, T_vehicle_lidar: Array, T_world_scan: Array, times: NDArray[np.int64]) -> Array:
    return np.asarray(invert(T_world_scan) @ vehicle.at(times) @ T_vehicle_lidar)


def _scans(folder: Path) -> dict[int, Path]:
    """Scans by time. Where raw readings (`.png`) and points (`.bin`) are both there, the raw ones know more: times."""
    raw = any(path.suffix == ".png" for path in folder.iterdir())
    return numbered_files(folder, (".png",) if raw else (".bin",), "LiDAR scans")
