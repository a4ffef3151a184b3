"""The OpenCV calls that the street draws with, typed: a picture keeps its kind of number."""

from typing import Any, TypeVar, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.types import Array, Image

Number = TypeVar("Number", bound=np.generic)
Size = tuple[int, int]  # width, height


def resized(picture: NDArray[Number], size: Size, how: int = cv2.INTER_LINEAR) -> NDArray[Number]:
    return cast(NDArray[Number], cv2.resize(cast(Any, picture), size, interpolation=how))


def shrunk(picture: NDArray[Number], size: Size) -> NDArray[Number]:
    """Smaller, each pixel the mean of what it replaces."""
    return resized(picture, size, cv2.INTER_AREA)


def warped(
    picture: NDArray[Number], texel_from_pixel: Array, size: Size, how: int = cv2.INTER_LINEAR
) -> NDArray[Number]:
    """A picture seen in perspective: pixel p shows texel `texel_from_pixel` @ p; its edges go on for ever."""
    flags = how | cv2.WARP_INVERSE_MAP
    warp = cv2.warpPerspective(cast(Any, picture), texel_from_pixel, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return cast(NDArray[Number], warp)


def remapped(
    picture: NDArray[Number],
    map_x: NDArray[Any],
    map_y: NDArray[Any],
    how: int = cv2.INTER_LINEAR,
    border: int = cv2.BORDER_REPLICATE,
    value: Any = 0,
) -> NDArray[Number]:
    """Pixel p shows the picture at (map_x[p], map_y[p])."""
    places = np.asarray(map_x, np.float32), np.asarray(map_y, np.float32)
    found = cv2.remap(cast(Any, picture), *places, how, borderMode=border, borderValue=value)
    return cast(NDArray[Number], found)


def blended(a: Image, b: Image, weight: NDArray[np.float32]) -> Image:
    """`weight` [H, W] of a and the rest of b."""
    return cast(Image, cv2.blendLinear(a, np.ascontiguousarray(b), weight, 1 - weight))


def looked_up(picture: NDArray[np.uint8], table: NDArray[Number]) -> NDArray[Number]:
    return cast(NDArray[Number], cv2.LUT(picture, cast(Any, table)))


def blurred(picture: NDArray[Number], sigma: float) -> NDArray[Number]:
    return cast(NDArray[Number], cv2.GaussianBlur(cast(Any, picture), (0, 0), sigma))


def to_bytes(values: NDArray[Any], scale: float = 1.0) -> NDArray[np.uint8]:
    """Non-negative numbers, scaled and rounded, at most 255."""
    return cast(NDArray[np.uint8], cv2.convertScaleAbs(values, alpha=scale))
