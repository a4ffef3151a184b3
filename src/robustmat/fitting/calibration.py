"""From a raw score to the probability of a match.

Fitted on *all* candidates of validation frame pairs, where most candidates are wrong, not on the three to
one of the pair protocol: a user's frame pair looks like the former.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit

from robustmat.errors import DataError
from robustmat.types import Array


def fit_calibration(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """Slope and intercept of probability = sigmoid(slope * score + intercept) (Platt's method).

    The labels are softened by the number of examples, as Platt does, so that perfectly separated scores
    give a steep, finite slope.
    """
    score, label = np.asarray(scores, np.float64), np.asarray(labels, np.bool_)
    matched, unmatched = int(label.sum()), int((~label).sum())
    if not matched or not unmatched:
        raise DataError(
            "a probability can only be fitted to matched and unmatched candidates, "
            f"found {matched} matched and {unmatched} unmatched: use a longer validation drive"
        )
    target = np.where(label, (matched + 1) / (matched + 2), 1 / (unmatched + 2))
    centre, spread = score.mean(), max(float(score.std()), 1e-12)
    design = np.stack([(score - centre) / spread, np.ones_like(score)], axis=1)  # [N, 2]

    def loss(weights: Array) -> tuple[float, Array]:
        """Cross entropy and its gradient, written so that large logits neither overflow nor lose their digits."""
        logit = design @ weights
        value = np.mean(np.logaddexp(0, logit) - target * logit)
        return float(value), np.asarray(design.T @ (expit(logit) - target) / len(score))

    start = np.array([0.0, np.log(matched / unmatched)])
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    slope = found.x[0] / spread
    return float(slope), float(found.x[1] - slope * centre)
