"""Where a score becomes a match and a probability: what a checkpoint and an exported model decide by."""

import numpy as np
from scipy.special import expit

from robustmat.config import Config
from robustmat.types import Array


class Decision(Config):
    """Where a score becomes a match, and a probability: sigmoid(slope * score + intercept).

    `threshold` judges a single landmark pair (the pair protocol). `match_threshold` judges the mutual best of
    whole frames, where most candidates are wrong but have lost to a rival already.
    """

    threshold: float
    match_threshold: float
    slope: float
    intercept: float

    def probability(self, score: Array) -> Array:
        return np.asarray(expit(self.slope * score + self.intercept))
