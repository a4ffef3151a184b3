"""Where a score becomes a match and a probability: what a checkpoint and an exported model decide by."""

import numpy as np
from scipy.special import expit, logit

from robustmat.config import Config
from robustmat.types import Array

SUREST = 1e-6  # log odds are taken so far from 0 and 1 at the nearest


class Decision(Config):
    """Where a score becomes a match, and a probability: sigmoid(slope * evidence + intercept).

    The evidence is the score itself, or, where a score of `certain` is the highest, its log odds: a quarter of it is as
    far from a half as three quarters are, and a hundredth further than a tenth.

    `threshold` judges a single landmark pair (the pair protocol). `match_threshold` judges the mutual best of
    whole frames, where most candidates are wrong but have lost to a rival already.
    """

    threshold: float
    match_threshold: float
    slope: float
    intercept: float
    certain: float | None = None

    def probability(self, score: Array) -> Array:
        return np.asarray(expit(self.slope * evidence(score, self.certain) + self.intercept))


def evidence(score: Array, certain: float | None) -> Array:
    """What a probability is a sigmoid of, up to a slope and an intercept."""
    if certain is None:
        return score
    return log_odds(score / certain, SUREST)


def log_odds(probability: Array, surest: float) -> Array:
    """Of probabilities that are kept `surest` away from 0 and 1, so that all are finite."""
    return np.asarray(logit(np.clip(probability, surest, 1 - surest)))
