"""Steps that any matcher can take after comparing single patches, so that no method is denied what another has.

- `neighbors`: the neighbours are compared as well, nearest with nearest, as the paper does for its rivals.
- `competition`: all candidates of a frame pair compete: a landmark has at most one partner, or none.
- `placement`: competition, with the evidence of box sizes, positions and categories added.

A method with a step is written `hardnet+competition`. The steps' few numbers are fitted on validation data
(`evaluation/steps.py`), like the thresholds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from robustmat.config import Config
from robustmat.features.neighborhoods import Neighborhoods, neighborhoods
from robustmat.matching.assign import mutual_best
from robustmat.matching.matcher import same_category
from robustmat.matching.protocol import Matcher
from robustmat.models.decision import Decision, log_odds
from robustmat.types import Array, Frame, Landmark, Match, MatchResult

STEPS = ("neighbors", "competition", "placement")
NUM_NEIGHBORS = 3  # K of the paper
SUREST = 1e-4  # a prior's probability is kept that far from 0 and 1


class StepConfig(Config):
    """How scores become the logits of a competition; the step `neighbors` needs none of it."""

    scale: float = 1.0  # of the method's score
    prior_scale: float = 0.0  # of the box geometry's log odds
    alone: float = 0.0  # the logit of having no partner at all


@dataclass(frozen=True)
class Stepped:
    """What is remembered of a frame: by the method, of its neighbourhoods, by the prior."""

    landmarks: tuple[Landmark, ...]
    inner: Any
    neighbors: Neighborhoods
    prior: Any
    frame: Frame


class SharedMatcher:
    """A matcher under several steps: it embeds a frame and scores a frame pair once for all that ask in turn."""

    def __init__(self, inner: Matcher) -> None:
        self.inner, self.name = inner, inner.name
        self.threshold, self.match_threshold = inner.threshold, inner.match_threshold
        self.last: tuple[Frame, Any] | None = None
        self.scores: dict[
            tuple[int, int], tuple[Any, Any, Array]
        ] = {}  # what was scored is kept, or its id would not be

    def embed(self, frame: Frame) -> Any:
        if self.last is None or self.last[0] is not frame:
            self.last = frame, self.inner.embed(frame)
        return self.last[1]

    def score(self, a: Any, b: Any) -> Array:
        key = id(a), id(b)
        if key not in self.scores:
            self.scores[key] = a, b, self.inner.score(a, b)
        return self.scores[key][2]

    def match(self, a: Any, b: Any) -> MatchResult:
        return self.inner.match(a, b)


class SteppedMatcher:
    """A matcher with one of the STEPS on top.

    Args:
        prior: for `placement`, a matcher whose scores are probabilities, and who sees no pixels.
    """

    def __init__(
        self,
        inner: Matcher,
        step: str,
        config: StepConfig | None = None,
        decision: Decision | None = None,
        prior: Matcher | None = None,
    ) -> None:
        self.inner: Matcher = inner
        self.step, self.prior = step, prior
        self.name = f"{inner.name}+{step}"
        self.config = config or StepConfig()
        self.decision: Decision | None = None
        self.threshold = self.match_threshold = 0.0
        if decision:
            self.decide_by(decision)

    def decide_by(self, decision: Decision) -> None:
        self.decision = decision
        self.threshold, self.match_threshold = decision.threshold, decision.match_threshold

    def embed(self, frame: Frame) -> Stepped:
        around = neighborhoods([it.box for it in frame.landmarks], NUM_NEIGHBORS, include_center=False)
        prior = self.prior.embed(frame) if self.prior else None
        return Stepped(frame.landmarks, self.inner.embed(frame), around, prior, frame)

    def parts(self, a: Stepped, b: Stepped) -> tuple[Array, Array]:
        """The method's scores and the prior's log odds: [A, B] each."""
        score = self.inner.score(a.inner, b.inner)
        if self.prior is None:
            return score, np.zeros_like(score)
        return score, log_odds(self.prior.score(a.prior, b.prior), SUREST)

    def score(self, a: Stepped, b: Stepped) -> Array:
        score, prior = self.parts(a, b)
        if self.step == "neighbors":
            return with_neighbors(score, a.neighbors, b.neighbors)
        return compete(self.config.scale * score + self.config.prior_scale * prior, self.config.alone)

    def match(self, a: Stepped, b: Stepped) -> MatchResult:
        score = self.score(a, b)
        probability = self.decision.probability(score) if self.decision else np.clip(score, 0, 1)
        pairs = mutual_best(score, self.match_threshold, same_category(a.landmarks, b.landmarks))
        matches = tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs)
        return MatchResult(
            a.landmarks, b.landmarks, matches, score, probability, self.match_threshold, a.frame, b.frame
        )


def with_neighbors(score: Array, a: Neighborhoods, b: Neighborhoods) -> Array:
    """The mean of each pair's score [A, B] and of its neighbours' pairs, nearest with nearest, second with second."""
    # A landmark alone in its frame is its own neighbourhood and brings nothing new.
    exists_a, exists_b = (it.mask & (it.index != np.arange(len(it.index))[:, None]) for it in (a, b))
    both = exists_a[:, None] & exists_b[None]  # [A, B, K]
    around = np.where(both, score[a.index[:, None], b.index[None]], 0.0)
    return np.asarray((score + around.sum(axis=2)) / (1 + both.sum(axis=2)))


def compete(logits: Array, alone: float) -> Array:
    """How surely each pair wins its row and its column, where having no partner is a rival too: log probability [A, B].

    Args:
        logits: [A, B]; -inf for candidates that are out of the question.
    """
    if logits.size == 0:
        return logits
    by_row, by_column = rivalry(logits, alone)
    return np.asarray(by_row[:, :-1] + by_column[:-1])


def rivalry(logits: Array, alone: float) -> tuple[Array, Array]:
    """Log probabilities of each landmark's partner, "none" in the last place: rows [A, B + 1], columns [A + 1, B]."""
    by_row = log_softmax(np.pad(logits, ((0, 0), (0, 1)), constant_values=alone), axis=1)
    by_column = log_softmax(np.pad(logits, ((0, 1), (0, 0)), constant_values=alone), axis=0)
    return np.asarray(by_row), np.asarray(by_column)
