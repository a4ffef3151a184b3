"""Steps that any matcher can take after comparing single patches, so that no method is denied what another has.

- `neighbors`: the neighbours are compared as well, nearest with nearest, as the paper does for its rivals.
- `competition`: all candidates of a frame pair compete: a landmark has at most one partner, or none.
- `placement`: competition, with the evidence of box sizes, positions and categories added.

A method with a step is written `hardnet+competition`. The steps' few numbers are fitted on validation data
(`fitting/competition.py`), like the thresholds.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from robustmat.config import Config
from robustmat.features.neighborhoods import Neighborhoods, neighborhoods
from robustmat.matching.decision import UNDECIDED, Decision, log_odds
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Frame

NUM_NEIGHBORS = 3  # K of the paper
PRIOR_CLIP = 1e-4  # a prior's probability is kept that far from 0 and 1
PRIOR = "prior."  # before the names of the prior's arrays in an embedded frame


class StepConfig(Config):
    """How scores become the logits of a competition; the step `neighbors` needs none of it."""

    scale: float = 1.0  # of the method's score
    prior_scale: float = 0.0  # of the box geometry's log odds
    alone: float = 0.0  # the logit of having no partner at all


class SteppedMatcher(Matcher):
    """A matcher with a step on top.

    Args:
        prior: for `placement`, a matcher whose scores are probabilities, and who sees no pixels.
    """

    def __init__(
        self,
        inner: Matcher,
        step: str,
        config: StepConfig | None = None,
        decision: Decision = UNDECIDED,
        prior: Matcher | None = None,
    ) -> None:
        self.inner, self.step, self.prior, self.decision = inner, step, prior, decision
        self.evidence, self.same_category = step, inner.same_category
        self.name = f"{inner.name}+{step}"
        # What the prior knows is embedded as well: frames without that are refused.
        self.fingerprint = f"{inner.fingerprint}+{prior.fingerprint}" if prior else inner.fingerprint
        self.config = config or StepConfig()

    def embed(self, frame: Frame) -> EmbeddedFrame:
        return self.extend(self.inner.embed(frame), frame)

    def extend(self, embedded: EmbeddedFrame, frame: Frame) -> EmbeddedFrame:
        """A frame as the matcher inside embedded it, with what the prior knows of it."""
        prior = self.prior.embed(frame).arrays if self.prior else {}
        arrays = {**embedded.arrays, **{PRIOR + name: array for name, array in prior.items()}}
        return EmbeddedFrame(frame.landmarks, arrays, self.fingerprint, frame.name, frame)

    def parts(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[Array, Array]:
        """The method's scores and the prior's log odds: [A, B] each."""
        score = self.inner.score(a, b)
        if self.prior is None:
            return score, np.zeros_like(score)
        priors = (
            EmbeddedFrame(
                frame.landmarks,
                {name.removeprefix(PRIOR): array for name, array in frame.arrays.items() if name.startswith(PRIOR)},
                self.prior.fingerprint,
            )
            for frame in (a, b)
        )
        return score, log_odds(self.prior.score(*priors), PRIOR_CLIP)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        score, prior = self.parts(a, b)
        if self.step == "neighbors":
            around = (neighborhoods([mark.box for mark in frame.landmarks], NUM_NEIGHBORS, False) for frame in (a, b))
            return with_neighbors(score, *around)
        return compete(self.config.scale * score + self.config.prior_scale * prior, self.config.alone)

    def score_some(
        self, a: EmbeddedFrame, b: EmbeddedFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Array:
        if self.step != "neighbors":
            return super().score_some(a, b, rows, columns)
        # Only these pairs and their neighbours' are asked for; the rest of the matrix is not looked at.
        around = [neighborhoods([mark.box for mark in frame.landmarks], NUM_NEIGHBORS, False) for frame in (a, b)]
        beside = [graph.index[chosen].reshape(-1) for graph, chosen in zip(around, (rows, columns), strict=True)]
        wanted = np.zeros((len(a.landmarks), len(b.landmarks)), np.bool_)
        wanted[rows, columns] = True
        wanted[beside[0], beside[1]] = True
        score = np.zeros(wanted.shape)
        score[wanted] = self.inner.score_some(a, b, *np.nonzero(wanted))
        return np.asarray(with_neighbors(score, *around)[rows, columns])


def with_neighbors(score: Array, a: Neighborhoods, b: Neighborhoods) -> Array:
    """The mean of each pair's score [A, B] and of its neighbours' pairs, nearest with nearest, second with second."""
    # A landmark alone in its frame is its own neighbourhood and brings nothing new.
    exists_a, exists_b = (graph.mask & (graph.index != np.arange(len(graph.index))[:, None]) for graph in (a, b))
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
