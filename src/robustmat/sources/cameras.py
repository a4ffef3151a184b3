"""The camera of one image, however the user tells it."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from robustmat.errors import InputError
from robustmat.sources.folder_camera import camera_of, read_camera_file
from robustmat.types import Camera

FORMS = "a Camera, a 3x3 matrix, fx,fy,cx,cy in pixels, or a file (camera.json, intrinsics.txt)"

CameraLike = Camera | Path | str | ArrayLike


def to_camera(camera: CameraLike, width: int, height: int, image: str = "the image") -> Camera:
    """The rectified camera of an image of that size, or an error if it belongs to images of another size.

    >>> to_camera("700,700,320,180", 640, 360).matrix[0].tolist()
    [700.0, 0.0, 320.0]
    """
    if isinstance(camera, Camera):
        if (camera.width, camera.height) != (width, height):
            raise InputError(
                f"{image} is {width}x{height} pixels, but its camera is for {camera.width}x{camera.height}: "
                "use the image at its full size, or scale the camera's matrix with it"
            )
        return camera
    if isinstance(camera, str | Path):
        numbers = _listed(str(camera))
        if numbers is None:
            path = Path(camera)
            if not path.is_file():
                raise InputError(f"camera not found: '{camera}'; give fx,fy,cx,cy in pixels or a camera.json")
            return read_camera_file(path, width, height, image)[0]
        values = np.array(numbers)
    else:
        try:
            values = np.asarray(camera, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"camera of {image}: expected {FORMS}; found {camera!r}") from None
    return _from_numbers(values, width, height, image)


def _from_numbers(values: "np.typing.NDArray[np.float64]", width: int, height: int, image: str) -> Camera:
    if values.shape == (3, 3):
        fx, fy, cx, cy = values[0, 0], values[1, 1], values[0, 2], values[1, 2]
        fits = abs(values[2, 2] - 1) < 1e-6 and not values[[0, 1, 2, 2], [1, 0, 0, 1]].any()
    elif values.shape == (4,):
        fx, fy, cx, cy = values
        fits = True
    else:
        raise InputError(f"camera of {image}: expected {FORMS}; found {values.size} numbers of shape {values.shape}")
    if not np.isfinite(values).all() or min(fx, fy) <= 0 or not fits:
        raise InputError(
            f"camera of {image}: the matrix must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] with positive fx and fy; "
            f"found {values.tolist()}"
        )
    return camera_of(float(fx), float(fy), float(cx), float(cy), width, height)


def _listed(text: str) -> list[float] | None:
    """The numbers of `fx,fy,cx,cy`; None if the text is no list of numbers, but a path."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None
