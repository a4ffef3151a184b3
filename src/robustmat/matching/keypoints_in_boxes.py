"""What a user would do without landmark matching: match keypoints of the whole frames and count them by box.

A reference row. Matches that survive MAGSAC vote for the pair of boxes that they join; with fewer than FEWEST of them
in the whole frame pair nothing is returned.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robustmat.features.keypoints import match_keypoints
from robustmat.matching.scene import SceneView, inside
from robustmat.types import Array

FEWEST = 20
THRESHOLD = 1.0  # pixel
MatchViews = Callable[[SceneView, SceneView], NDArray[np.int64]]  # which keypoints of two frames match: [M, 2]


def match_nearest(a: SceneView, b: SceneView) -> NDArray[np.int64]:
    """Keypoints that are each other's nearest and pass the ratio test."""
    matches, _ = match_keypoints(a.keypoints, b.keypoints)
    return matches


def keypoint_votes(a: SceneView, b: SceneView, match: MatchViews = match_nearest) -> Array:
    """How many surviving matches join each pair of boxes of one category: [A, B]."""
    import cv2

    none = np.zeros((len(a.boxes), len(b.boxes)))
    matches = match(a, b)
    if len(matches) < FEWEST:
        return none
    places = [np.asarray(one.keypoints["keypoint_place"][matches[:, n]], np.float64) for n, one in enumerate((a, b))]
    flat_a, flat_b = [(at - one.intrinsics[2:]) / one.intrinsics[:2] for at, one in zip(places, (a, b), strict=True)]
    _, mask = cv2.findEssentialMat(
        flat_a, flat_b, np.eye(3), method=cv2.USAC_MAGSAC, threshold=THRESHOLD / float(a.intrinsics[0]), prob=0.999
    )
    survives = np.zeros(len(matches), np.bool_) if mask is None else mask[:, 0].astype(np.bool_)
    if survives.sum() < FEWEST:
        return none
    in_a, in_b = (inside(one.boxes, at[survives]).astype(np.float64) for one, at in zip((a, b), places, strict=True))
    return np.where(a.category[:, None] == b.category, in_a @ in_b.T, 0.0)
