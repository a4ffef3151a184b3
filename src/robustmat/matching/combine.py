"""One probability from all evidence: a weighted sum of numbers about each candidate, then competition.

The weights are a handful of plain numbers, fitted through the competition itself (`fitting/combination.py`). A landmark
has at most one partner, so candidates of one row or column divide its trust with each other and with having none.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from robustmat.config import Config
from robustmat.models.decision import log_odds
from robustmat.types import Array

SUREST = 1e-6
LOGIT_RANGE = 30.0


class Combination(Config):
    """Weights by the name of the feature, and the calibration of the shares that come out of the competition."""

    weights: dict[str, float]
    intercept: float
    slope: float = 1.0
    offset: float = 0.0

    def logits(self, features: dict[str, Array]) -> Array:
        """[A, B] from features [A, B] each."""
        first, *others = (weight * features[name] for name, weight in self.weights.items())
        return np.asarray(sum(others, first) + self.intercept)

    def probability(self, features: dict[str, Array], allowed: NDArray[np.bool_]) -> Array:
        """That each pair is one object: [A, B].

        Args:
            allowed: [A, B], False for pairs that are out of the question, such as a pole and a sign.
        """
        share = compete(self.logits(features), allowed)
        return np.where(allowed, expit(self.slope * log_odds(share, SUREST) + self.offset), 0.0)


def compete(logits: Array, allowed: NDArray[np.bool_]) -> Array:
    """The geometric mean of the shares that a pair has of its row and of its column: [A, B].

    The odds of having no partner are one, so logits are against that.
    """
    odds = np.where(allowed, np.exp(np.clip(logits, -LOGIT_RANGE, LOGIT_RANGE)), 0.0)
    return np.asarray(odds / np.sqrt((1 + odds.sum(axis=1, keepdims=True)) * (1 + odds.sum(axis=0, keepdims=True))))
