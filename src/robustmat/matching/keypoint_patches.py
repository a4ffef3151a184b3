"""Keypoint matchers as patch matchers: two landmarks are alike when many keypoints of their crops match.

The paper compares with such methods (D2-Net, SuperGlue, LoFTR). The score is the share of the crops' keypoints that
match, shrunk towards 0 where there are few of them, so that the number counts, too:

    score = matched / (keypoints of the poorer crop + 10)
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.types import Array, Frame

CROP = PatchConfig(size=128, margin=15, max_aspect=2.0)  # as RootSIFT's, larger: keypoints need room
FEW = 10  # keypoints; what the share is shrunk by
MOST = 64  # keypoints of a crop, the strongest

Described = Mapping[str, NDArray[Any]]  # [N, ...] each: what is remembered of N crops
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]  # [P] each: keypoints that match, keypoints that could


class PatchKeypoints(Protocol):
    """Finds keypoints in crops and matches those of two crops: what a keypoint method has to bring."""

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        """What is remembered of crops [N, S, S, 3]."""
        ...

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        """How many keypoints match in each pair [P, 2] of crops of `a` and `b`, and how many could at most."""
        ...


class KeypointPatchMatcher(Matcher):
    """A keypoint method on the crops of landmarks.

    Args:
        threshold: where there is no training side to fit one on.
    """

    scores_each_pair = True

    def __init__(self, name: str, keypoints: PatchKeypoints, threshold: float) -> None:
        self.name = self.fingerprint = name
        self.keypoints = keypoints
        self.decision = Decision(threshold=threshold, match_threshold=threshold)

    def embed(self, frame: Frame) -> EmbeddedFrame:
        patches = cut_patches(checked_pixels(frame), [mark.box for mark in frame.landmarks], CROP)
        described = self.keypoints.describe(patches) if frame.landmarks else {}
        return EmbeddedFrame(frame.landmarks, dict(described), self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        shape = len(a.landmarks), len(b.landmarks)
        rows, columns = (index.reshape(-1) for index in np.indices(shape))
        return self.score_some(a, b, rows, columns).reshape(shape)

    def score_some(
        self, a: EmbeddedFrame, b: EmbeddedFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Array:
        if not len(rows):
            return np.zeros(0)
        matched, possible = self.keypoints.count(a.arrays, b.arrays, np.stack([rows, columns], axis=1))
        return np.asarray(matched / (possible + FEW), np.float64)


class NearestKeypoints:
    """Keypoints with descriptors of unit length, matched where each is the other's nearest.

    Args:
        ratio: Lowe's test, where the second nearest must be this much further; None for none.
        least_cosine: of a match.
    """

    def __init__(self, ratio: float | None = None, least_cosine: float = -1.0) -> None:
        self.ratio, self.least_cosine = ratio, least_cosine

    def find(self, patch: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Descriptors [M, D] of the keypoints of one crop [S, S, 3], strongest first."""
        raise NotImplementedError

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        return padded({"descriptor": [self.find(patch)[:MOST] for patch in patches]})

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        matched = [len(self.match(descriptors(a, i), descriptors(b, j))) for i, j in pairs.tolist()]
        return np.array(matched, np.int64), fewer_keypoints(a, b, pairs)

    def match(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.int64]:
        """Which of the descriptors [A, D] and [B, D] match: [M, 2]."""
        if not len(a) or not len(b):
            return np.zeros((0, 2), np.int64)
        cosine = a @ b.T
        partner = cosine.argmax(axis=1)
        rows = np.arange(len(a))
        best = cosine[rows, partner]
        good = (cosine.argmax(axis=0)[partner] == rows) & (best > self.least_cosine)
        if self.ratio is not None:
            if min(len(a), len(b)) < 2:
                return np.zeros((0, 2), np.int64)  # nobody to be compared with
            good &= self._stands_out(cosine, best) & self._stands_out(cosine.T, cosine.max(axis=0))[partner]
        return np.stack([rows[good], partner[good]], axis=1)

    def _stands_out(self, cosine: NDArray[np.float32], best: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Lowe's test of each row [A, B] against its second nearest; from both sides, so that scores are symmetric."""
        second = np.partition(cosine, -2, axis=1)[:, -2]
        near, far = (np.sqrt(np.maximum(2 - 2 * one, 0)) for one in (best, second))
        return np.asarray(near < (self.ratio or 1.0) * far)


def padded(found: Mapping[str, list[NDArray[np.float32]]]) -> dict[str, NDArray[Any]]:
    """Lists of arrays [M, ...], one for each crop, as one array each [N, MOST, ...], and `count` [N]."""
    count = np.array([len(one) for one in next(iter(found.values()))], np.int64)
    arrays: dict[str, NDArray[Any]] = {"count": count}
    for name, parts in found.items():
        whole = np.zeros((len(parts), MOST, *parts[0].shape[1:]), np.float32)
        for row, part in zip(whole, parts, strict=True):
            row[: len(part)] = part
        arrays[name] = whole
    return arrays


def descriptors(crops: Described, number: int) -> NDArray[np.float32]:
    """Those of one crop: [M, D]."""
    return np.asarray(crops["descriptor"][number, : int(crops["count"][number])], np.float32)


def fewer_keypoints(a: Described, b: Described, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keypoints of the poorer crop of each pair [P, 2]: no more can match."""
    return np.minimum(a["count"][pairs[:, 0]], b["count"][pairs[:, 1]])
