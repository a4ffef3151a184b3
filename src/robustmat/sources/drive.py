"""What every reader returns, and the lazy loaders they share.

A loader is a `partial` of a function of this or another module, never a closure, so that frames can be pickled.
"""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError, InputError
from robustmat.folders import UNFINISHED
from robustmat.sources.images import image_size, read_image, read_semantics
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
    refuse_unfinished(folder)
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


def refuse_unfinished(folder: Path) -> None:
    """An error for files of a drive that was being simulated when that was interrupted: some of it is missing."""
    for place in (folder, *folder.absolute().parents[:2]):
        if (place / UNFINISHED).exists():
            raise DataError(f"{place} is not whole: simulating it was interrupted, or goes on; simulate it again")


def between(files: dict[int, Path], first: int | None, last: int | None) -> dict[int, Path]:
    """The files from time `first` to time `last`, both included; None is no limit."""
    low, high = min(files) if first is None else first, max(files) if last is None else last
    kept = {time: path for time, path in files.items() if low <= time <= high}
    if not kept:
        raise DataError(
            f"no frames from {low} to {high}: {next(iter(files.values())).parent} has {min(files)} to {max(files)}"
        )
    return kept


def numbered(frames: Sequence[Frame], ranges: str) -> list[int]:
    """Places of the frames whose numbers (their names) lie within `ranges`, such as 100-430,1565-1639; "" is all."""
    if not ranges:
        return list(range(len(frames)))
    try:
        ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
        kept = [i for i, frame in enumerate(frames) if any(low[0] <= int(frame.name) <= low[-1] for low in ends)]
    except ValueError:
        raise InputError(
            f"frames '{ranges}': expected numbers such as 100-430,1565-1639, and frames named by them"
        ) from None
    if not kept:
        raise InputError(
            f"no frames '{ranges}': found {frames[0].name} to {frames[-1].name}" if frames else "no frames"
        )
    return kept


def image_loader(path: Path, camera: Camera | None) -> Callable[[], Image]:
    return partial(_read_image, path, camera)


def _read_image(path: Path, camera: Camera | None) -> Image:
    image = read_image(path)
    if camera is not None:
        check_size(path, image.shape, (camera.width, camera.height), "the drive's first image")
    return image


def semantics_loader(path: Path, camera: Camera | None, image: Path | None = None) -> Callable[[], NDArray[np.uint8]]:
    """Label maps have the size of the camera's images or, without a camera, of their own `image`."""
    return partial(_read_semantics, path, camera, image)


def _read_semantics(path: Path, camera: Camera | None, image: Path | None) -> NDArray[np.uint8]:
    labels = read_semantics(path)
    if camera is not None:
        check_size(path, labels.shape, (camera.width, camera.height), "its image")
    elif image is not None:
        check_size(path, labels.shape, image_size(image), "its image")
    return labels


def check_size(path: Path, shape: tuple[int, ...], size: tuple[int, int], other: str) -> None:
    height, width = shape[:2]
    if (width, height) != size:
        raise DataError(f"{path} is {width}x{height} pixels, but {other} is {size[0]}x{size[1]}")


def points_loader(path: Path, columns: int = 4) -> Callable[[], NDArray[np.float32]]:
    """x, y, z, reflectance of a file with `columns` float32 a point, of which these are the first four."""
    return partial(_read_finite_points, path, columns)


def _read_finite_points(path: Path, columns: int) -> NDArray[np.float32]:
    return finite(read_points(path, columns)[:, :4])


def read_points(path: Path, columns: int) -> NDArray[np.float32]:
    """[N, columns], as the file holds them."""
    try:
        size = path.stat().st_size
        if size % (4 * columns):
            raise DataError(
                f"LiDAR scan is truncated: {path} has {size} bytes, not a multiple of {4 * columns} "
                f"({columns} float32 a point); copy it again"
            )
        return np.fromfile(path, dtype="<f4").reshape(-1, columns)
    except OSError as problem:
        raise DataError(f"LiDAR scan cannot be read: {path}: {problem}") from None


def finite(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The points that are finite: some sensors mark a lost return by NaN."""
    return np.asarray(points[np.isfinite(points).all(1)], dtype=np.float32)


def nearest_in_time(times: Sequence[int], time: int, farthest: int) -> int | None:
    """Which of the rising `times` is nearest to `time`, if it is no farther than `farthest`."""
    after = bisect.bisect_left(times, time)
    near = [candidate for candidate in times[max(after - 1, 0) : after + 1] if abs(candidate - time) <= farthest]
    return min(near, key=lambda candidate: abs(candidate - time), default=None)


def check_scans_meet_images(frames: Sequence[Frame], scans: dict[int, Path], what: str) -> None:
    """A drive with scans of which none belongs to an image is a mistake, not a drive without LiDAR."""
    if scans and not any(frame.load_points for frame in frames):
        raise DataError(
            f"{what}: none is near an image in time; the images are from {frames[0].name} to {frames[-1].name}, "
            f"{next(iter(scans.values())).parent} has {min(scans)} to {max(scans)}: are they of the same drive?"
        )


def semantics_files(folder: Path | None, default: Path) -> dict[int, Path]:
    """Label maps by frame number: those of `folder` if the user named one, else of `default` if it exists."""
    if folder is None:
        return numbered_files(default, (".png",), "semantic labels") if default.is_dir() else {}
    return numbered_files(Path(folder), (".png",), "semantic labels")
