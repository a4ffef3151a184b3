"""Frames and matchers behind a denoiser: every method has its two-stage variant, "first denoise, then match"."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robustmat.denoising.protocol import Denoiser
from robustmat.geometry.relative_pose import MotionPrior
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Frame, Image


class Remembering:
    """A denoiser that keeps its last result: a detector and matchers look at one frame in turn."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner, self.name, self.fingerprint = inner, inner.name, inner.fingerprint
        self.last: tuple[Image, Image] | None = None

    def denoise(self, image: Image) -> Image:
        if self.last is None or not np.array_equal(self.last[0], image):
            self.last = image, self.inner.denoise(image)
        return self.last[1]


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
