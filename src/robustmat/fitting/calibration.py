"""From a raw score to the probability of a match.

Fitted on *all* candidates of validation frame pairs, where most candidates are wrong, not on the three to
one of the pair protocol: a user's frame pair looks like the former.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from robustmat.errors import DataError
from robustmat.types import Array


def fit_calibration(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """Slope and intercept of probability = sigmoid(slope * score + intercept) (Platt's method).

    The labels are softened by the number of examples, as Platt does, so that perfectly separated scores
    give a steep, finite slope. Solved by Newton's method with step halving.
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
    weights = np.array([0.0, np.log(matched / unmatched)])
    loss = _loss(design, target, weights)
    for _ in range(100):
        probability = expit(design @ weights)
        gradient = design.T @ (probability - target)
        curvature = (design.T * (probability * (1 - probability))) @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while (tried := _loss(design, target, weights - step)) > loss + 1e-12 and np.abs(step).max() > 1e-12:
            step /= 2
        weights, improved, loss = weights - step, loss - tried, tried
        if improved < 1e-10 * max(1.0, loss):
            break
    slope = weights[0] / spread
    return float(slope), float(weights[1] - slope * centre)


def _loss(design: Array, target: Array, weights: Array) -> float:
    """Cross entropy, written so that large logits neither overflow nor lose their digits."""
    logit = design @ weights
    return float(np.sum(np.logaddexp(0, logit) - target * logit))
