"""What every reader returns, and the lazy loaders they share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.sources.images import read_image, read_semantics
from robustmat.types import Camera, Frame, Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class Drive:
    """One drive on disk. Drives with the same `world` give poses in the same coordinates."""

    name: str
    world: str
    frames: tuple[Frame, ...]
    image_paths: tuple[Path | None, ...]  # None where an image exists only after conversion
    source: dict[str, Any] = field(default_factory=dict)  # where it came from, for the data set's record


def numbered_files(folder: Path, suffixes: tuple[str, ...], what: str) -> dict[int, Path]:
    """Files named by their frame number, in its order; gaps are fine, two files of one number are not."""
    if not folder.is_dir():
        raise DataError(f"{what} not found: expected the folder {folder}")
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in suffixes or not path.stem.isdecimal():
            continue
        number = int(path.stem)
        if number in found:
            raise DataError(f"{what}: frame {number} is there twice: {found[number]} and {path}; remove one")
        found[number] = path
    if not found:
        raise DataError(
            f"{what}: no frames in {folder}; expected files named by frame number, such as 0000000000{suffixes[0]}"
        )
    return dict(sorted(found.items()))


def image_loader(path: Path, camera: Camera) -> Callable[[], Image]:
    def load() -> Image:
        image = read_image(path)
        check_size(path, image.shape, camera, "the drive's first image")
        return image

    return load


def semantics_loader(path: Path, camera: Camera) -> Callable[[], NDArray[np.uint8]]:
    def load() -> NDArray[np.uint8]:
        labels = read_semantics(path)
        check_size(path, labels.shape, camera, "its image")
        return labels

    return load


def check_size(path: Path, shape: tuple[int, ...], camera: Camera, other: str) -> None:
    height, width = shape[:2]
    if (width, height) != (camera.width, camera.height):
        raise DataError(f"{path} is {width}x{height} pixels, but {other} is {camera.width}x{camera.height}")


def velodyne_loader(path: Path) -> Callable[[], NDArray[np.float32]]:
    def load() -> NDArray[np.float32]:
        return read_velodyne(path)

    return load


def read_velodyne(path: Path) -> NDArray[np.float32]:
    """[N, 4] x, y, z, reflectance of a KITTI scan; points that are not finite are left out."""
    try:
        size = path.stat().st_size
        if size % 16:
            raise DataError(
                f"LiDAR scan is truncated: {path} has {size} bytes, not a multiple of 16 "
                "(four float32 a point); copy it again"
            )
        points = np.fromfile(path, dtype="<f4").reshape(-1, 4)
    except OSError as problem:
        raise DataError(f"LiDAR scan cannot be read: {path}: {problem}") from None
    return np.asarray(points[np.isfinite(points).all(1)], dtype=np.float32)


def semantics_files(folder: Path | None, default: Path) -> dict[int, Path]:
    """Label maps by frame number: those of `folder` if the user named one, else of `default` if it exists."""
    if folder is None:
        return numbered_files(default, (".png",), "semantic labels") if default.is_dir() else {}
    return numbered_files(Path(folder), (".png",), "semantic labels")
