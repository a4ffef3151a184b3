"""RootSIFT: SIFT's histogram of gradients, compared by Hellinger's distance (Arandjelovic and Zisserman, 2012).

One upright keypoint in the middle of a grey crop, the very crop that the networks see, describes all of it.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.methods import Method
from robustmat.types import Array, Frame

CROP = PatchConfig(size=64, margin=15, max_aspect=2.0)
OPENCV: Any = cv2  # its type stubs leave these descriptors out

Compare = Callable[[NDArray[Any], NDArray[Any]], Array]  # [A, D], [B, D] -> [A, B], higher is likelier


class KeypointDescriptor(Matcher):
    """A descriptor of OpenCV on whole crops.

    Args:
        reach: pixels across that a keypoint of size one covers.
        threshold: where there is no training side to fit one on; about what frames of KITTI with 16 dB of noise ask
            for.
    """

    def __init__(self, name: str, create: Callable[[], Any], reach: float, compare: Compare, threshold: float) -> None:
        self.name = self.fingerprint = name
        self.decision = Decision(threshold=threshold, match_threshold=threshold)
        self.extractor, self.reach, self.compare = create(), reach, compare

    def embed(self, frame: Frame) -> EmbeddedFrame:
        center = (CROP.size - 1) / 2
        keypoint = cv2.KeyPoint(center, center, CROP.size / self.reach, 0.0)
        found = []
        for patch in cut_patches(checked_pixels(frame), [mark.box for mark in frame.landmarks], CROP):
            grey = cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY)
            _, descriptor = self.extractor.compute(grey, [keypoint])
            found.append(descriptor[0])
        described = np.stack(found) if found else np.zeros((0, 0), np.float32)
        return EmbeddedFrame(frame.landmarks, {"descriptor": described}, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        return self.compare(a.arrays["descriptor"], b.arrays["descriptor"])


def hellinger(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """Hellinger's kernel of histograms: inner products of rows of sum one, square-rooted."""
    first, second = (np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-12)) for rows in (a, b))
    return np.asarray(first @ second.T, np.float64)


METHOD = Method(
    "RootSIFT",
    # SIFT's 4 x 4 cells are 1.5 keypoint sizes wide each.
    matcher=lambda: KeypointDescriptor("root-sift", OPENCV.SIFT_create, 6.0, hellinger, threshold=0.93),
)
