"""Frames and matchers behind a denoiser: every method has its two-stage variant, "first denoise, then match"."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from robustmat.denoising.protocol import Denoiser
from robustmat.geometry.relative_pose import MotionPrior
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Frame, Image


class Remembering:
    """A denoiser that keeps its newest results: a detector and matchers look at one frame in turn, all methods of a
    table at all frames of a drive.

    Args:
        kept: how many results, at most.
    """

    def __init__(self, inner: Denoiser, kept: int = 1) -> None:
        self.inner, self.name, self.fingerprint, self.kept = inner, inner.name, inner.fingerprint, kept
        self.results: dict[tuple[tuple[int, ...], bytes], Image] = {}  # by size and content, oldest first

    def denoise(self, image: Image) -> Image:
        key = image.shape, sha256(np.ascontiguousarray(image).data).digest()
        found = self.results.pop(key, None)
        self.results[key] = self.inner.denoise(image) if found is None else found
        if len(self.results) > self.kept:
            del self.results[next(iter(self.results))]
        return self.results[key]


def denoise_frame(frame: Frame, denoiser: Denoiser) -> Frame:
    """The same frame with denoised pixels, kept in memory."""
    return frame.with_image(denoiser.denoise(frame.image))


class DenoisedMatcher(Matcher):
    """A matcher that is shown denoised frames. Its scores and its decision are those of the matcher inside."""

    def __init__(self, inner: Matcher, denoiser: Denoiser) -> None:
        self.inner, self.denoiser, self.name = inner, denoiser, inner.name
        # A frame that was embedded with its noise is refused.
        self.fingerprint = f"{inner.fingerprint}+{denoiser.fingerprint}"
        self.decision, self.evidence, self.same_category = inner.decision, inner.evidence, inner.same_category
        self.min_probability, self.scores_each_pair = inner.min_probability, inner.scores_each_pair

    def embed(self, frame: Frame) -> EmbeddedFrame:
        embedded = self.inner.embed(denoise_frame(frame, self.denoiser))
        return replace(embedded, fingerprint=self.fingerprint, frame=frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        return self.inner.score(a, b)

    def score_some(
        self, a: EmbeddedFrame, b: EmbeddedFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Array:
        return self.inner.score_some(a, b, rows, columns)

    def min_probability_for(self, precision: float) -> float:
        return self.inner.min_probability_for(precision)

    def with_motion(self, motion: MotionPrior) -> "DenoisedMatcher":
        return DenoisedMatcher(self.inner.with_motion(motion), self.denoiser)
