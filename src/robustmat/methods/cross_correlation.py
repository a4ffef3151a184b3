"""Normalised cross-correlation of grey thumbnails, the best over a few pixels of shift."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.methods import Method
from robustmat.types import Array, Box, Frame

MARGIN = 15  # pixels a box is grown by before it is cropped, as in the paper
SIDE, SHIFT = 32, 2  # pixels: side of a grey thumbnail, and how far it may be moved
DEFAULT_THRESHOLD = 0.5  # where there is no training side to fit one on


class CrossCorrelation(Matcher):
    name = fingerprint = "cross-correlation"

    def __init__(self, threshold: float = DEFAULT_THRESHOLD) -> None:
        self.decision = Decision(threshold=threshold, match_threshold=threshold)

    def embed(self, frame: Frame) -> EmbeddedFrame:
        grey = np.asarray(cv2.cvtColor(checked_pixels(frame), cv2.COLOR_RGB2GRAY), np.uint8)
        thumbnails = np.array([_thumbnail(grey, mark.box) for mark in frame.landmarks], np.float32)
        arrays = {"thumbnail": thumbnails.reshape(-1, SIDE, SIDE)}
        return EmbeddedFrame(frame.landmarks, arrays, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        first, second = a.arrays["thumbnail"], b.arrays["thumbnail"]
        return (correlate(first, second) + correlate(second, first).T) / 2


def _thumbnail(grey: NDArray[np.uint8], box: Box) -> NDArray[np.float32]:
    height, width = grey.shape
    left, top = max(0, int(box[0]) - MARGIN), max(0, int(box[1]) - MARGIN)
    right, bottom = min(width, int(np.ceil(box[2])) + MARGIN), min(height, int(np.ceil(box[3])) + MARGIN)
    if right <= left or bottom <= top:  # a box off the image shows nothing
        return np.zeros((SIDE, SIDE), np.float32)
    crop = grey[top:bottom, left:right]
    return np.asarray(cv2.resize(crop, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)


def correlate(a: NDArray[np.float32], b: NDArray[np.float32]) -> Array:
    """The middle of each thumbnail of `a` against every shifted window of `b`'s: the best, [A, B]."""
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b)))
    side = SIDE - 2 * SHIFT
    middle = _normalised(a[:, SHIFT : SHIFT + side, SHIFT : SHIFT + side].reshape(len(a), side * side))
    windows = np.lib.stride_tricks.sliding_window_view(b, (side, side), axis=(1, 2))
    shifted = _normalised(windows.reshape(-1, side * side))  # [B * shifts, side * side]
    return np.asarray((middle @ shifted.T).reshape(len(a), len(b), -1).max(axis=2), np.float64)


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    rows = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-6), np.float32)


METHOD = Method("cross-correlation", matcher=CrossCorrelation)
