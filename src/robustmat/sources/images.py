"""Images and label maps from disk, whatever their colour mode and depth."""

import warnings
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Image


def read_image(path: Path | str) -> Image:
    """[H, W, 3] RGB. Grey becomes three equal channels, transparency is dropped, 16 bits become 8."""
    picture = _decode(path, "image")
    if picture.mode.startswith("I"):  # 16-bit grey; Pillow holds some of them as 32-bit integers
        grey = np.clip(np.asarray(picture).astype(np.int64) // 256, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if picture.mode == "F":
        raise InputError(f"image has floating-point pixels: {path}; save it as 8- or 16-bit PNG or JPEG")
    return np.array(picture.convert("RGB"), dtype=np.uint8)


def read_mosaic(path: Path | str) -> NDArray[np.uint8]:
    """[H, W] of a colour sensor's raw image, where each pixel holds one colour."""
    advice = "if these images are demosaiced and undistorted already, say so with --rectified"
    return read_bytes(path, "raw image", advice)


def read_bytes(path: Path | str, what: str, advice: str) -> NDArray[np.uint8]:
    """[H, W] of a picture of one 8-bit channel that is no picture but readings of a sensor."""
    picture = _decode(path, what)
    if picture.mode != "L":
        raise InputError(f"{what} has mode {picture.mode}, but must have one 8-bit channel: {path}; {advice}")
    return np.array(picture, dtype=np.uint8)


def read_semantics(path: Path | str) -> NDArray[np.uint8]:
    """[H, W] Cityscapes train ids (and 19 for window) of a grey or palette image."""
    picture = _decode(path, "label map")
    if picture.mode not in ("L", "P"):
        raise InputError(
            f"label map has mode {picture.mode}, but must have one 8-bit channel of Cityscapes train ids "
            f"(5 pole, 6 traffic light, 7 traffic sign, 19 window): {path}"
        )
    return np.array(picture, dtype=np.uint8)


def write_image(path: Path | str, image: Image) -> None:
    """An RGB image, in the format of its suffix."""
    with replacing(path) as temporary:
        PIL.Image.fromarray(image).save(temporary)


def image_size(path: Path | str) -> tuple[int, int]:
    """Width and height, from the header alone."""
    with _open(path, "image") as picture:
        return picture.size


def _open(path: Path | str, what: str) -> PIL.Image.Image:
    path = Path(path)
    if not path.exists():
        raise InputError(f"{what} not found: {path}")
    if path.is_dir():
        raise InputError(f"{what} expected, but this is a folder: {path}")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{what} is empty (0 bytes): {path}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # large, but bearable
            return PIL.Image.open(path)
    except PIL.UnidentifiedImageError:
        raise InputError(f"{what} is in no known image format: {path}; use PNG or JPEG") from None
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as problem:
        raise InputError(f"{what} cannot be read: {path}: {problem}") from None


def _decode(path: Path | str, what: str) -> PIL.Image.Image:
    with _open(path, what) as picture:
        try:
            picture.load()
        except (OSError, SyntaxError, ValueError) as problem:
            raise InputError(f"{what} is truncated or broken: {path}: {problem}") from None
        return picture
