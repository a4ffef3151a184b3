"""KITTI odometry: ROOT/sequences/NN and ROOT/poses/NN.txt.

World coordinates are those of the sequence's first camera 0 (x right, y down, z ahead), in metres. Pose and
time files have one line per frame number, so frames may start anywhere and have gaps. SemanticKITTI's labels/ beside
velodyne/ tell what each LiDAR point is.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.geometry.transforms import invert, is_rigid
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
from robustmat.sources.kitti_calibration import numbers, read_calibration, split_projection
from robustmat.sources.semantic_kitti import point_labels_loader
from robustmat.sources.tables import read_table
from robustmat.types import Array, Camera, Frame


def open_kitti_odometry(
    root: Path | str,
    sequence: str,
    *,
    camera: int | None = None,
    semantics: Path | str | None = None,
) -> Drive:
    """A sequence of the KITTI odometry benchmark.

    Args:
        root: The folder that holds sequences/ and poses/.
        sequence: For example 00.
        camera: 0 to 3; the first whose images are there.
        semantics: Folder of label maps named as the images; semantics_N beside the images if there.
    """
    root = Path(root)
    sequence = sequence.zfill(2)
    folder = root / "sequences" / sequence
    if not folder.is_dir():
        raise DataError(f"KITTI odometry sequence not found: expected the folder {folder}")
    if camera is None:
        camera = _first_camera(folder)
    images = numbered_files(folder / f"image_{camera}", IMAGE_SUFFIXES, f"images of camera {camera}")
    labels = semantics_files(Path(semantics) if semantics else None, folder / f"semantics_{camera}")
    velodyne = folder / "velodyne"
    scans = numbered_files(velodyne, (".bin",), "LiDAR scans") if velodyne.is_dir() else {}
    point_labels = _point_labels(folder / "labels", scans)
    intrinsics, T_camera_cam0, T_camera_lidar = _read_calibration(folder, camera, images)
    if scans and T_camera_lidar is None:
        raise DataError(f"KITTI calibration lacks the key 'Tr', needed for {velodyne}: {folder}/calib.txt")
    poses = _read_poses(root / "poses" / f"{sequence}.txt")
    times = _read_times(folder / "times.txt")
    T_cam0_camera = invert(T_camera_cam0)

    def frame(number: int, path: Path) -> Frame:
        return Frame(
            name=path.stem,
            load_image=image_loader(path, intrinsics),
            camera=intrinsics,
            T_world_camera=poses.at(number) @ T_cam0_camera if poses else None,
            T_camera_lidar=T_camera_lidar,
            load_points=points_loader(scans[number]) if number in scans else None,
            load_semantics=semantics_loader(labels[number], intrinsics) if number in labels else None,
            time=float(times.at(number)) if times else None,
            load_point_labels=point_labels.get(number),
        )

    return Drive(
        name=f"kitti-odometry-{sequence}",
        world=f"kitti-odometry-{sequence}",
        frames=tuple(frame(number, path) for number, path in images.items()),
        image_paths=tuple(images.values()),
        source={"layout": "kitti-odometry", "sequence": sequence, "camera": camera},
    )


class _ByFrameNumber:
    """Lines of a file that are addressed by frame number; asking past its end names the file."""

    def __init__(self, rows: Array, path: Path) -> None:
        self.rows, self.path = rows, path

    def at(self, number: int) -> Array:
        if number >= len(self.rows):
            raise DataError(
                f"{self.path} ends before frame {number}: it has {len(self.rows)} lines, one per frame number"
            )
        row = np.asarray(self.rows[number])
        if row.shape == (4, 4) and not is_rigid(row):
            raise DataError(f"pose of frame {number} is no finite rigid transform: {self.path}, line {number + 1}")
        return row


def _point_labels(folder: Path, scans: dict[int, Path]) -> dict[int, Callable[[], NDArray[np.uint8]]]:
    """Loaders of SemanticKITTI's labels of the scans that have some."""
    if not scans or not folder.is_dir():
        return {}
    files = numbered_files(folder, (".label",), "point labels")
    return {number: point_labels_loader(scan, files[number]) for number, scan in scans.items() if number in files}


def _first_camera(folder: Path) -> int:
    for camera in range(4):
        if (folder / f"image_{camera}").is_dir():
            return camera
    raise DataError(f"no images: expected one of the folders image_0 to image_3 in {folder}")


def _read_calibration(folder: Path, camera: int, images: dict[int, Path]) -> tuple[Camera, Array, Array | None]:
    """Intrinsics, T_camera_cam0 and, if the file has `Tr`, T_camera_lidar."""
    path = folder / "calib.txt"
    entries = read_calibration(path)
    key = f"P{camera}"
    matrix, T_camera_cam0 = split_projection(numbers(entries, key, 12, path).reshape(3, 4), key, path)
    intrinsics = Camera(matrix, *image_size(next(iter(images.values()))))
    if "Tr" not in entries:
        return intrinsics, T_camera_cam0, None
    T_cam0_lidar = np.vstack([numbers(entries, "Tr", 12, path).reshape(3, 4), (0, 0, 0, 1)])
    if not is_rigid(T_cam0_lidar):
        raise DataError(f"KITTI calibration: 'Tr' is no rigid transform: {path}")
    return intrinsics, T_camera_cam0, T_camera_cam0 @ T_cam0_lidar


def _read_poses(path: Path) -> _ByFrameNumber | None:
    """T_world_cam0 of each frame number; the test sequences 11 to 21 have no pose file."""
    if not path.exists():
        return None
    rows = read_table(path, (12,), "poses")
    bottom = np.tile(np.array([[[0.0, 0, 0, 1]]]), (len(rows), 1, 1))
    return _ByFrameNumber(np.concatenate([rows.reshape(-1, 3, 4), bottom], axis=1), path)


def _read_times(path: Path) -> _ByFrameNumber | None:
    return _ByFrameNumber(read_table(path, (1,), "times")[:, 0], path) if path.exists() else None
