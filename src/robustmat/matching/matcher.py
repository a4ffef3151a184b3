"""What every matcher offers, learned or not: `embed`, `score`, a `decision`. Matching is written once, over these."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError, InputError
from robustmat.geometry.relative_pose import MotionPrior
from robustmat.landmarks.boxes import check_landmarks
from robustmat.matching.assign import mutual_best
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.types import Array, Frame, Image, Landmark, Match, MatchResult


class Matcher(ABC):
    """Embed a frame once, match it with many.

    Attributes:
        name: of the checkpoint or method, for tables and files.
        evidence: what its scores know: `pair`, or more.
        fingerprint: of weights and preprocessing; frames embedded under another one are refused.
        decision: from a score to a match and a probability.
        min_probability: of the matches that are returned unless told otherwise; None where the score decides.
        same_category: match signs with signs and poles with poles only; scores are not changed by it.
        scores_each_pair: scoring all pairs costs as much as scoring each of them; see `score_some`.

    Example:
        >>> matcher = robustmat.load("street")                                 # doctest: +SKIP
        >>> a, b = matcher.embed(frame_a), matcher.embed(frame_b)              # doctest: +SKIP
        >>> matcher.match(a, b).matches                                        # doctest: +SKIP
    """

    name: str
    fingerprint: str
    decision: Decision
    evidence: str = "pair"
    same_category: bool = True
    min_probability: float | None = None
    scores_each_pair: bool = False

    @abstractmethod
    def embed(self, frame: Frame) -> EmbeddedFrame:
        """What is remembered of a frame; it depends on that frame alone."""

    @abstractmethod
    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        """The score of every landmark of `a` with every one of `b`, higher is likelier: [A, B]."""

    def score_some(
        self, a: EmbeddedFrame, b: EmbeddedFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Array:
        """The scores of some pairs alone [P]; cheaper than those of all where it is comparing that costs."""
        return np.asarray(self.score(a, b)[rows, columns])

    def match(
        self,
        a: Frame | EmbeddedFrame,
        b: Frame | EmbeddedFrame,
        *,
        threshold: float | None = None,
        min_probability: float | None = None,
        motion: MotionPrior | None = None,
    ) -> MatchResult:
        """One-to-one matches; see `match_frames`."""
        return match_frames(self, a, b, threshold=threshold, min_probability=min_probability, motion=motion)

    def min_probability_for(self, precision: float) -> float:
        """The least probability that gave this share of right matches on the drives of the calibration."""
        raise ConfigError(f"'{self.name}' by evidence '{self.evidence}' holds no calibration: give a probability")

    def with_motion(self, motion: MotionPrior) -> "Matcher":
        """The same matcher, knowing how the camera moved from the first frame to the second."""
        raise ConfigError(f"'{self.name}' by evidence '{self.evidence}' cannot use a known motion")


def match_frames(
    matcher: Matcher,
    a: Frame | EmbeddedFrame,
    b: Frame | EmbeddedFrame,
    *,
    threshold: float | None = None,
    min_probability: float | None = None,
    motion: MotionPrior | None = None,
) -> MatchResult:
    """Embed what is not embedded yet, score all pairs, and keep those that prefer each other.

    Args:
        threshold: the least score of a match; the decision's own, unless this or a probability is given.
        min_probability: the least probability of a match; the matcher's own, 0.5 where all evidence is combined, unless
            given.
        motion: how the camera moved from `a` to `b`, where odometry or poses tell.
    """
    if motion is not None:
        matcher = matcher.with_motion(motion)
    first, second = (frame if isinstance(frame, EmbeddedFrame) else matcher.embed(frame) for frame in (a, b))
    for embedded in (first, second):
        refuse_foreign(embedded, matcher)
    score = matcher.score(first, second)
    probability = matcher.decision.probability(score) * existence(first.landmarks, second.landmarks)
    if threshold is None and min_probability is None:
        min_probability = matcher.min_probability
    least = threshold
    if least is None:
        least = matcher.decision.match_threshold if min_probability is None else -np.inf
    allowed = same_category(first.landmarks, second.landmarks) if matcher.same_category else None
    pairs = [
        (i, j)
        for i, j in mutual_best(score, least, allowed)
        if min_probability is None or probability[i, j] >= min_probability
    ]
    return MatchResult(
        landmarks_a=first.landmarks,
        landmarks_b=second.landmarks,
        matches=tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs),
        score=score,
        probability=probability,
        threshold=float(least),
        frame_a=first.frame,
        frame_b=second.frame,
        checkpoint=matcher.name,
        evidence=matcher.evidence,
        min_probability=min_probability,
        name_a=first.name,
        name_b=second.name,
    )


def existence(a: Sequence[Landmark], b: Sequence[Landmark]) -> Array:
    """How likely the object of a match is a landmark at all, by its detections: [A, B]; 1 where somebody drew it.

    Both landmarks of a right match show one object, so that one true detection is enough: only if both are false is
    there no landmark.
    """
    first, second = ([0.0 if mark.confidence is None else 1.0 - mark.confidence for mark in marks] for marks in (a, b))
    return np.asarray(1.0 - np.outer(first, second))


def refuse_foreign(embedded: EmbeddedFrame, matcher: Matcher) -> None:
    """Numbers of another model fit by shape, perhaps, and mean something else."""
    if embedded.fingerprint != matcher.fingerprint:
        raise InputError(
            f"frame '{embedded.name}' was embedded by another model (fingerprint {embedded.fingerprint or 'missing'}; "
            f"'{matcher.name}' has {matcher.fingerprint}): embed it again with '{matcher.name}'"
        )


def checked_pixels(frame: Frame) -> Image:
    """The frame's image, or an error that says what is wrong with a frame put together by hand."""
    pixels = frame.image
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise InputError(
            f"frame '{frame.name}': the image must be RGB [height, width, 3] of uint8, found {pixels.shape} of "
            f"{pixels.dtype}; robustmat.read_frame converts files"
        )
    height, width = pixels.shape[:2]
    check_landmarks(frame.landmarks, width, height)
    return pixels


def same_category(a: Sequence[Landmark], b: Sequence[Landmark]) -> NDArray[np.bool_]:
    """Which pairs are of one category: [A, B]."""
    names_a, names_b = ([mark.category for mark in landmarks] for landmarks in (a, b))
    return np.array([[x == y for y in names_b] for x in names_a], np.bool_).reshape(len(a), len(b))
