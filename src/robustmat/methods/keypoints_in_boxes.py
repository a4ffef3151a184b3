"""Whole-frame keypoint matches voted into the boxes: what one would do without a landmark matcher.

RootSIFT keypoints of both frames are matched, those that survive MAGSAC vote for the pair of boxes that they join, and
with fewer than 20 survivors nothing is said (`matching/keypoints_in_boxes.py`).
"""

import numpy as np

from robustmat.features.keypoints import Detector, detect_keypoints
from robustmat.geometry.relative_pose import focal_and_center
from robustmat.matching.combined import VIEW, whole_frame
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.keypoints_in_boxes import MatchViews, keypoint_votes, match_nearest
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.methods import Method
from robustmat.types import Array, Frame


class KeypointsInBoxes(Matcher):
    """Args:
    name: the row's.
    kind: of keypoints, as `detect_keypoints` takes it.
    match: joins the keypoints of two frames.
    """

    decision = Decision(threshold=0.5, match_threshold=0.5)  # one vote is enough

    def __init__(
        self, name: str = "keypoints-in-boxes", kind: str | Detector = "sift", match: MatchViews = match_nearest
    ) -> None:
        self.name = self.fingerprint = name
        self.kind, self.match_views = kind, match

    def embed(self, frame: Frame) -> EmbeddedFrame:
        pixels = checked_pixels(frame)
        height, width = pixels.shape[:2]
        camera = np.array([*focal_and_center(frame.camera, width, height), width, height])
        arrays = {
            VIEW + name: array for name, array in {"camera": camera, **detect_keypoints(pixels, self.kind)}.items()
        }
        return EmbeddedFrame(frame.landmarks, arrays, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        """0 without a vote, then from 3/4 towards 1: [A, B]."""
        votes = keypoint_votes(whole_frame(a), whole_frame(b), self.match_views)
        return np.where(votes > 0, 1 - 0.5 / (1 + votes), 0.0)


METHOD = Method("keypoints in boxes", matcher=KeypointsInBoxes)
