"""SIFT keypoints of two crops (Lowe, 2004; OpenCV's), matched as RootSIFT with Lowe's ratio test."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.matching.keypoint_patches import MOST, KeypointPatchMatcher, NearestKeypoints
from robustmat.methods import Method

RATIO = 0.85
CONTRAST = 0.02  # half of OpenCV's default, which leaves many poles without a keypoint


class SiftKeypoints(NearestKeypoints):
    def __init__(self) -> None:
        super().__init__(ratio=RATIO)
        self.detector = cv2.SIFT.create(nfeatures=MOST, contrastThreshold=CONTRAST)

    def find(self, patch: NDArray[np.uint8]) -> NDArray[np.float32]:
        _, found = self.detector.detectAndCompute(cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY), None)
        if found is None:
            return np.zeros((0, 128), np.float32)
        total = np.maximum(found.sum(axis=1, keepdims=True), 1e-9)
        return np.asarray(np.sqrt(found / total), np.float32)


METHOD = Method(
    "SIFT keypoints",
    matcher=lambda: KeypointPatchMatcher("sift", SiftKeypoints(), threshold=0.1),
    steps=("neighbors",),
)
