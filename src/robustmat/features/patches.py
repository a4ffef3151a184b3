"""Cut landmarks out of frames: tight boxes grow by a margin, are bounded in aspect, and become squares."""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustmat.config import Config
from robustmat.types import Box, Image

Color = tuple[float, float, float]


class PatchConfig(Config):
    """How a box becomes a patch, and how its pixels become numbers; travels with the weights.

    `max_aspect` bounds the longer side of the grown box by that multiple of the shorter: a lamp post of
    20 x 300 pixels would otherwise leave most of its square empty. Without it the crop is padded.
    `context` adds a second view of the same place, three more channels: a square around the box's centre, that
    many times as wide as the root of the box's area, which shows what the landmark stands in front of.
    """

    size: int = Field(default=256, gt=0, le=1024)
    margin: int = Field(default=15, ge=0, le=10_000)
    max_aspect: float | None = Field(default=None, ge=1.0, le=1000)
    context: float | None = Field(default=None, ge=1.0, le=1000)
    mean_color: Color = (95.0, 99.0, 96.0)  # RGB; fills the padding and is subtracted
    scale: float = Field(default=64.0, ge=1e-6)

    @property
    def channels(self) -> int:
        return 3 if self.context is None else 6


def crop_window(box: Box, width: int, height: int, config: PatchConfig) -> tuple[int, int, int, int]:
    """The pixels to cut for `box` in an image of that size: x0, y0, x1, y1, never empty, inside the image."""
    x0, y0, x1, y1 = (
        box[0] - config.margin,
        box[1] - config.margin,
        box[2] + config.margin,
        box[3] + config.margin,
    )
    if config.max_aspect is not None:
        # Cut the long side around its centre: what is left shows the object larger.
        half_width = min(x1 - x0, config.max_aspect * (y1 - y0)) / 2
        half_height = min(y1 - y0, config.max_aspect * (x1 - x0)) / 2
        center_x, center_y = (x0 + x1) / 2, (y0 + y1) / 2
        x0, x1 = center_x - half_width, center_x + half_width
        y0, y1 = center_y - half_height, center_y + half_height
    left = _within(math.floor(x0), 0, width - 1)
    top = _within(math.floor(y0), 0, height - 1)
    right = _within(math.ceil(x1), left + 1, width)
    bottom = _within(math.ceil(y1), top + 1, height)
    return left, top, right, bottom


def _within(value: int, lowest: int, highest: int) -> int:
    return min(max(value, lowest), highest)


def context_window(box: Box, context: float) -> Box:
    """The square around a box that its second view shows; it may reach beyond the image."""
    x0, y0, x1, y1 = box
    half = context * math.sqrt(max(x1 - x0, 1.0) * max(y1 - y0, 1.0)) / 2
    center_x, center_y = (x0 + x1) / 2, (y0 + y1) / 2
    return center_x - half, center_y - half, center_x + half, center_y + half


def cut_patches(image: Image, boxes: Sequence[Box], config: PatchConfig) -> NDArray[np.uint8]:
    """All landmarks of one frame: [N, S, S, C], each crop scaled into the square's middle, the rest mean colour."""
    height, width = image.shape[:2]
    size = config.size
    blank = np.empty((size, size, config.channels), np.uint8)
    blank[:] = np.tile(np.round(config.mean_color).astype(np.uint8), config.channels // 3)
    patches = np.repeat(blank[None], len(boxes), axis=0)
    for patch, box in zip(patches, boxes, strict=True):
        left, top, right, bottom = crop_window(box, width, height, config)
        rows, columns = resized_shape(bottom - top, right - left, size)
        y, x = (size - rows) // 2, (size - columns) // 2
        patch[y : y + rows, x : x + columns, :3] = _resize(image[top:bottom, left:right], columns, rows)
        if config.context is not None:
            _fill_window(patch[..., 3:], image, context_window(box, config.context))
    return patches


def resized_shape(height: int, width: int, size: int) -> tuple[int, int]:
    """Rows and columns of a crop whose longer side was scaled to `size`."""
    ratio = size / max(width, height)
    rows, columns = (max(1, min(size, round(side * ratio))) for side in (height, width))
    return rows, columns


def resizing(height: int, rows: int) -> int:
    """OpenCV's interpolation from so many rows to so many."""
    return cv2.INTER_AREA if rows < height else cv2.INTER_LINEAR


def _resize(crop: Image, columns: int, rows: int) -> Image:
    how = resizing(crop.shape[0], rows)
    return np.asarray(cv2.resize(crop, (columns, rows), interpolation=how), np.uint8)


def _fill_window(patch: NDArray[np.uint8], image: Image, window: Box) -> None:
    """Show `window` in the square `patch`; what lies outside the image is left as it is."""
    height, width = image.shape[:2]
    size = len(patch)
    ratio = size / (window[2] - window[0])
    left, right = _within(round(window[0]), 0, width - 1), _within(round(window[2]), 1, width)
    top, bottom = _within(round(window[1]), 0, height - 1), _within(round(window[3]), 1, height)
    right, bottom = max(right, left + 1), max(bottom, top + 1)
    x, y = (_within(round(one * ratio), 0, size - 1) for one in (left - window[0], top - window[1]))
    columns = _within(round((right - left) * ratio), 1, size - x)
    rows = _within(round((bottom - top) * ratio), 1, size - y)
    patch[y : y + rows, x : x + columns] = _resize(image[top:bottom, left:right], columns, rows)


def to_input(patches: NDArray[np.uint8], config: PatchConfig) -> NDArray[np.float32]:
    """Pixels [N, S, S, C] as the network's numbers [N, C, S, S]; in memory channels stay last, as convolutions want."""
    count, rows, columns, channels = patches.shape
    # A row of pixels at once: numpy is slow where the last axis is as short as the channels are.
    mean = np.tile(np.asarray(config.mean_color, np.float32), columns * channels // 3)
    numbers = patches.reshape(count, rows, columns * channels).astype(np.float32)
    numbers -= mean
    numbers /= np.float32(config.scale)
    return numbers.reshape(patches.shape).transpose(0, 3, 1, 2)
