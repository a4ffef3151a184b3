"""Large images are looked at smaller: what is told in pixels was learned and set on frames of about a megapixel."""

import cv2
import numpy as np

from robustmat.types import Image

MOST_PIXELS = 1_300_000  # about 1,300 x 1,000: more than KITTI's and CamVid's


def scale_to_fit(width: int, height: int, most: int = MOST_PIXELS) -> float:
    """By what an image is shrunk so that it has at most so many pixels; 1 where it is small enough."""
    return min(1.0, float(np.sqrt(most / max(width * height, 1))))


def shrink(image: Image, most: int = MOST_PIXELS) -> tuple[Image, float]:
    """The image with at most so many pixels, and its scale."""
    height, width = image.shape[:2]
    scale = scale_to_fit(width, height, most)
    if scale == 1.0:
        return image, 1.0
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8), scale
