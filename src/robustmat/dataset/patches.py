"""Cut landmarks out of frames: tight boxes grow by a margin, are bounded in aspect, and become squares."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from robustmat.config import Config
from robustmat.types import Box, Image

Color = tuple[float, float, float]


class PatchConfig(Config):
    """How a box becomes a patch, and how its pixels become numbers; travels with the weights.

    `max_aspect` bounds the longer side of the grown box by that multiple of the shorter: a lamp post of
    20 x 300 pixels would otherwise leave most of its square empty. Without it the crop is padded.
    """

    size: PositiveInt = 256
    margin: NonNegativeInt = 15
    max_aspect: float | None = Field(default=None, ge=1.0)
    mean_color: Color = (95.0, 99.0, 96.0)  # RGB; fills the padding and is subtracted
    scale: float = Field(default=64.0, gt=0)


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
    left = int(np.clip(np.floor(x0), 0, width - 1))
    top = int(np.clip(np.floor(y0), 0, height - 1))
    right = int(np.clip(np.ceil(x1), left + 1, width))
    bottom = int(np.clip(np.ceil(y1), top + 1, height))
    return left, top, right, bottom


def cut_patches(image: Image, boxes: Sequence[Box], config: PatchConfig) -> NDArray[np.uint8]:
    """All landmarks of one frame: [N, S, S, 3], each crop scaled into the square's middle, the rest mean colour."""
    height, width = image.shape[:2]
    size = config.size
    patches = np.empty((len(boxes), size, size, 3), np.uint8)
    patches[:] = np.round(config.mean_color).astype(np.uint8)
    for patch, box in zip(patches, boxes, strict=True):
        left, top, right, bottom = crop_window(box, width, height, config)
        crop = image[top:bottom, left:right]
        ratio = size / max(crop.shape[:2])
        rows, columns = (max(1, min(size, round(side * ratio))) for side in crop.shape[:2])
        shrinks = ratio < 1
        resized = cv2.resize(crop, (columns, rows), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
        y, x = (size - rows) // 2, (size - columns) // 2
        patch[y : y + rows, x : x + columns] = resized
    return patches


def to_input(patches: NDArray[np.uint8], config: PatchConfig) -> NDArray[np.float32]:
    """Pixels [N, S, S, 3] as the network's numbers [N, 3, S, S]."""
    centered = (patches.astype(np.float32) - np.asarray(config.mean_color, np.float32)) / np.float32(config.scale)
    return np.ascontiguousarray(centered.transpose(0, 3, 1, 2))
