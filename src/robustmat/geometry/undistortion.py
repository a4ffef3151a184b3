"""Lens distortion as a table: for each pixel of the ideal picture, where the lens put it."""

from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.types import Image

Table = NDArray[np.float32]  # [H, W, 2]: column and row in the distorted picture; whole numbers are pixel middles


def undistort(image: Image, table: Table) -> Image:
    """The ideal picture of a distorted one, by linear interpolation; what the lens did not see is black."""
    found = cv2.remap(
        image, cast(Any, table[..., 0]), cast(Any, table[..., 1]), cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT
    )
    return cast(Image, found)
