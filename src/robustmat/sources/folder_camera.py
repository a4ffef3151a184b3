"""The camera of one's own folder: `camera.json`, or `intrinsics.txt` and `T_camera_lidar.txt`."""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from robustmat.errors import DataError
from robustmat.files import read_json
from robustmat.geometry.transforms import is_rigid
from robustmat.sources.images import image_size
from robustmat.sources.tables import read_numbers, read_transform
from robustmat.types import Array, Camera

Row = Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]


class CameraFile(BaseModel):
    """`camera.json`. Pixels count from the middle of the upper left one; images must be free of lens distortion."""

    model_config = ConfigDict(extra="forbid")

    fx: Annotated[FiniteFloat, Field(gt=0)]
    fy: Annotated[FiniteFloat, Field(gt=0)]
    cx: FiniteFloat
    cy: FiniteFloat
    width: int | None = None
    height: int | None = None
    T_camera_lidar: Annotated[list[Row], Field(min_length=3, max_length=4)] | None = None


def read_camera(root: Path, image: Path) -> tuple[Camera | None, Array | None]:
    """The camera of images as large as `image`, and T_camera_lidar; None where the folder does not tell."""
    files = [path for path in (root / "camera.json", root / "intrinsics.txt") if path.exists()]
    camera, T_camera_lidar = read_camera_file(files[0], *image_size(image), str(image)) if files else (None, None)
    placed = root / "T_camera_lidar.txt"
    return camera, read_transform(placed, "T_camera_lidar") if placed.exists() else T_camera_lidar


def read_camera_file(path: Path, width: int, height: int, image: str) -> tuple[Camera, Array | None]:
    """The camera of a JSON file (see `CameraFile`) or of a text file of numbers, and T_camera_lidar where it tells."""
    if path.suffix.lower() != ".json":
        values = read_numbers(path, (4, 9), "intrinsics (fx fy cx cy, or the camera matrix)")
        fx, fy, cx, cy = values if len(values) == 4 else values[[0, 4, 2, 5]]
        if min(fx, fy) <= 0:
            raise DataError(f"intrinsics: focal lengths must be positive, found {fx:g} and {fy:g}: {path}")
        return camera_of(fx, fy, cx, cy, width, height), None
    entries = _read_described(path)
    if (entries.width or width, entries.height or height) != (width, height):
        raise DataError(
            f"{image} is {width}x{height} pixels, but {path} is for {entries.width}x{entries.height}: "
            "use the images at their full size, or scale fx, fy, cx, cy with them"
        )
    camera = camera_of(entries.fx, entries.fy, entries.cx, entries.cy, width, height)
    return camera, None if entries.T_camera_lidar is None else _rigid(entries.T_camera_lidar, path)


def _read_described(path: Path) -> CameraFile:
    try:
        return CameraFile.model_validate(read_json(path, "camera"))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"camera: '{where}': {first['msg']}: {path} (keys: {', '.join(CameraFile.model_fields)}; "
            "images must be undistorted)"
        ) from None


def camera_of(fx: float, fy: float, cx: float, cy: float, width: int, height: int) -> Camera:
    return Camera(np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]]), width, height)


def _rigid(rows: list[list[float]], path: Path) -> Array:
    T = np.vstack([np.array(rows[:3]), (0, 0, 0, 1)])
    if not is_rigid(T):
        raise DataError(f"camera: 'T_camera_lidar' is no rigid transform: {path}")
    return T
