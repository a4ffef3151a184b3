"""One matcher under several steps: it embeds a frame and scores a frame pair once for all that ask in turn."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Frame


class CachedMatcher(Matcher):
    """Remembers the last embedded frame, and the scores of every frame pair that it was asked for."""

    def __init__(self, inner: Matcher) -> None:
        self.inner, self.name, self.fingerprint = inner, inner.name, inner.fingerprint
        self.decision, self.evidence, self.same_category = inner.decision, inner.evidence, inner.same_category
        self.min_probability = inner.min_probability
        self.last: tuple[Frame, EmbeddedFrame] | None = None
        self.scores: dict[tuple[Hashable, ...], tuple[EmbeddedFrame, EmbeddedFrame, Array]] = {}

    def embed(self, frame: Frame) -> EmbeddedFrame:
        if self.last is None or self.last[0] is not frame:
            self.last = frame, self.inner.embed(frame)
        return self.last[1]

    def score_some(
        self, a: EmbeddedFrame, b: EmbeddedFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Array:
        if self.inner.scores_each_pair:
            return self.inner.score_some(a, b, rows, columns)
        return super().score_some(a, b, rows, columns)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        key = self.key(a, b)
        if key not in self.scores or not key:
            self.scores[key] = a, b, self.inner.score(a, b)
        return self.scores[key][2]

    def key(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[Hashable, ...]:
        """Steps put arrays of their own beside these, so the frames are told apart by the arrays themselves; the frames
        are kept, or an identity would be given to another array."""
        return tuple(id(array) for frame in (a, b) for name, array in frame.arrays.items() if "." not in name)


class CachedByContent(CachedMatcher):
    """Knows a frame pair again when it was embedded anew: for a few numbers a frame, such as its boxes, that many
    methods look at."""

    def key(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[Hashable, ...]:
        arrays = [array for frame in (a, b) for name, array in frame.arrays.items() if "." not in name]
        return tuple((array.shape, array.tobytes()) for array in arrays)
