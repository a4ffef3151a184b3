"""Images and label maps from disk, whatever their colour mode and depth.

An image is returned upright: a rotation that a camera noted in the EXIF data is carried out. Boxes and masks
therefore refer to the upright image, which is what viewers and labelling tools show.
"""

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL import ImageOps

from robustmat.errors import InputError, InputWarning
from robustmat.files import replacing
from robustmat.types import Image

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM")  # PPM is also PGM; nothing else is ever decoded
READABLE = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")  # what such files are named
EXIF_ORIENTATION = 0x0112
LYING = (5, 6, 7, 8)  # orientations in which width and height are swapped

WINDOW, UNKNOWN = 19, 255
TRAIN_IDS = "0 road ... 5 pole, 6 traffic light, 7 traffic sign ... 18 bicycle, 19 window, 255 unknown"
LABEL_IDS = {17: "pole", 19: "traffic light", 20: "traffic sign", 21: "vegetation", 23: "sky", 24: "person", 26: "car"}
HIGHEST_LABEL_ID = 33
LARGEST_SIGN_SHARE = 0.25  # of a label map; more means that 7 is road, as among Cityscapes label ids


def read_image(path: Path | str) -> Image:
    """[H, W, 3] RGB, upright. Grey becomes three equal channels, transparency is dropped, 16 bits become 8."""
    return _to_rgb(_decode(path, "image", upright=True), str(path))


def decode_image(data: bytes, where: str, formats: Sequence[str] = FORMATS) -> Image:
    """What `read_image` gives, of a file's bytes that are in memory; `where` names them in errors."""
    with _identify(io.BytesIO(data), where, "image", formats) as picture:
        return _to_rgb(_load(picture, where, "image", upright=True), where)


def encoded_size(data: bytes, where: str, formats: Sequence[str] = FORMATS) -> tuple[int, int]:
    """Width and height of a file's bytes as they are stored, from the header alone: nothing is decoded."""
    with _identify(io.BytesIO(data), where, "image", formats) as picture:
        return picture.size


def _to_rgb(picture: PIL.Image.Image, where: str) -> Image:
    if picture.mode.startswith("I"):  # 16-bit grey; Pillow holds some of them as 32-bit integers
        grey = np.clip(np.asarray(picture).astype(np.int64) // 256, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if picture.mode == "F":
        raise InputError(f"image has floating-point pixels: {where}; save it as 8- or 16-bit PNG or JPEG")
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


def read_numbers(path: Path | str, what: str) -> NDArray[np.uint16]:
    """[H, W] of a picture of one channel of 8 or 16 bits whose values are numbers, not brightness."""
    picture = _decode(path, what)
    if picture.mode not in ("L", "P", "I", "I;16"):
        raise InputError(f"{what} has mode {picture.mode}, but must have one channel of 8 or 16 bits: {path}")
    return np.asarray(picture).astype(np.uint16)


def read_semantics(path: Path | str) -> NDArray[np.uint8]:
    """[H, W] Cityscapes train ids (and 19 for window) of a grey or palette image."""
    picture = _decode(path, "label map", upright=True)
    if picture.mode not in ("L", "P"):
        raise InputError(
            f"label map has mode {picture.mode}, but must have one 8-bit channel of Cityscapes train ids "
            f"(5 pole, 6 traffic light, 7 traffic sign, 19 window): {path}"
        )
    return check_train_ids(np.array(picture, dtype=np.uint8), str(path))


def check_train_ids(labels: NDArray[np.uint8], where: str) -> NDArray[np.uint8]:
    """The same labels, or an error where they cannot be train ids: Cityscapes' label ids are the usual mix-up."""
    counts = np.bincount(labels.reshape(-1), minlength=256)
    foreign = [value for value in range(WINDOW + 1, UNKNOWN) if counts[value]]
    if foreign and foreign[-1] <= HIGHEST_LABEL_ID:
        value = max(foreign, key=lambda candidate: int(counts[candidate]))
        meaning = f", there {LABEL_IDS[value]}" if value in LABEL_IDS else ""
        raise InputError(
            f"label map holds the value {value} ({counts[value] / labels.size:.0%} of its pixels), which is no "
            f"Cityscapes train id: {where}; it looks like label ids (*_labelIds.png{meaning}): use *_labelTrainIds.png"
        )
    if foreign:
        raise InputError(
            f"label map holds the value {foreign[-1]}, which is no Cityscapes train id ({TRAIN_IDS}): {where}; "
            "save label maps without compression loss and set other classes to 255"
        )
    if labels.size and counts[7] > LARGEST_SIGN_SHARE * labels.size:
        warnings.warn(
            f"{counts[7] / labels.size:.0%} of the label map is traffic sign (7): {where}; in Cityscapes label ids 7 "
            "is road: are these train ids?",
            InputWarning,
            stacklevel=2,
        )
    return labels


def write_image(path: Path | str, image: Image) -> None:
    """An RGB image, in the format of its suffix."""
    with replacing(path) as temporary:
        PIL.Image.fromarray(image).save(temporary)


def image_size(path: Path | str) -> tuple[int, int]:
    """Width and height of the upright image, from the header alone."""
    with _open(path, "image") as picture:
        width, height = picture.size
        # Pillow turns a TIFF by itself and tells its upright size at once.
        try:
            lying = picture.format != "TIFF" and picture.getexif().get(EXIF_ORIENTATION) in LYING
        except Exception as problem:  # of a PNG, all chunks are read to find it
            raise InputError(f"image is truncated or broken: {path}: {problem}") from None
        return (height, width) if lying else (width, height)


def _open(path: Path | str, what: str) -> PIL.Image.Image:
    path = Path(path)
    try:
        if not path.exists():
            raise InputError(f"{what} not found: {path}")
        if path.is_dir():
            raise InputError(f"{what} expected, but this is a folder: {path}")
        if path.stat().st_size == 0:
            raise InputError(f"{what} is empty (0 bytes): {path}")
    except OSError as problem:
        raise InputError(f"{what} cannot be read: {path}: {problem}") from None
    return _identify(path, str(path), what, FORMATS)


def _identify(file: Path | BinaryIO, where: str, what: str, formats: Sequence[str]) -> PIL.Image.Image:
    """A picture whose header is read and whose pixels are not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # large, but bearable
            return PIL.Image.open(file, formats=tuple(formats))
    except PIL.UnidentifiedImageError:
        known = "PNG, JPEG, BMP, TIFF, WebP or PPM" if formats is FORMATS else " or ".join(formats)
        raise InputError(f"{what} is in no known image format: {where}; use {known}") from None
    except PIL.Image.DecompressionBombError as problem:
        found = re.search(r"\d{6,}", str(problem))  # the pixels; nothing else tells them, as nothing was opened
        size = f"has {int(found[0]) / 1e6:.0f} megapixels" if found else "is too large"
        most = 2 * (PIL.Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise InputError(f"{what} {size}, allowed are {most:.0f}: {where}; reduce it first") from None
    except Exception as problem:  # Pillow's readers raise all sorts of things over broken files
        raise InputError(f"{what} cannot be read: {where}: {problem}") from None


def _decode(path: Path | str, what: str, upright: bool = False) -> PIL.Image.Image:
    with _open(path, what) as picture:
        return _load(picture, str(path), what, upright)


def _load(picture: PIL.Image.Image, where: str, what: str, upright: bool) -> PIL.Image.Image:
    try:
        picture.load()
        return ImageOps.exif_transpose(picture) if upright else picture
    except Exception as problem:
        raise InputError(f"{what} is truncated or broken: {where}: {problem}") from None
