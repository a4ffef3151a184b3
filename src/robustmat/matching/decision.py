"""Where a score becomes a match and a probability: what a checkpoint and an exported model decide by."""

import numpy as np
from scipy.special import expit, logit

from robustmat.config import Config
from robustmat.types import Array

CLIP = 1e-6  # log odds are taken of probabilities at least this far from 0 and 1


class Decision(Config):
    """Thresholds on a score, and its calibration: probability = sigmoid(slope * x + intercept).

    x is the score itself, or its log odds where scores lie between 0 and `max_score`. Without a slope the score is
    not calibrated and stands for the probability as it is, cut to 0..1.

    `threshold` decides about a single landmark pair (the pair protocol). `match_threshold` decides about the mutual
    best of whole frames, where most candidates are wrong but have lost to a rival already.
    """

    threshold: float
    match_threshold: float
    slope: float | None = None
    intercept: float = 0.0
    max_score: float | None = None

    def probability(self, score: Array) -> Array:
        if self.slope is None:
            return np.clip(score, 0.0, 1.0)
        return np.asarray(expit(self.slope * calibration_input(score, self.max_score) + self.intercept))


UNDECIDED = Decision(threshold=0.0, match_threshold=0.0)


def calibration_input(score: Array, max_score: float | None) -> Array:
    """What the probability is a sigmoid of, up to slope and intercept."""
    return score if max_score is None else log_odds(score / max_score, CLIP)


def log_odds(probability: Array, clip: float) -> Array:
    """Of probabilities kept `clip` away from 0 and 1, so that all are finite."""
    return np.asarray(logit(np.clip(probability, clip, 1 - clip)))
