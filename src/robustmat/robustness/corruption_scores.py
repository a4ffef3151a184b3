"""mCE and mRR: one number for all corruptions, as ImageNet-C and RoboDepth define them.

With F1 of whole-frame matches as the score A, error E = 1 - A, corruption c, severity s:

    CE_c = sum over s of E(c, s) / sum over s of the reference's E(c, s)      mCE = mean of CE over corruptions
    RR_c = mean over s of A(c, s) / A(clean)                                  mRR = mean of RR over corruptions

(Hendrycks and Dietterich, ICLR 2019; Kong et al., NeurIPS 2023.) mCE below 1 is better than the reference; mRR says
how much of its own clean score a method keeps, so that a poor method may keep all of it: read both beside A(clean).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Scores = Mapping[str, Mapping[int, float]]  # corruption -> severity -> score; `clean` has severity 0

CLEAN = "clean"


@dataclass(frozen=True)
class Robustness:
    """What one method keeps under corruption; not a number where the clean or the reference's score says nothing."""

    clean: float
    corruption_error: dict[str, float]  # CE of each corruption, against the reference
    resilience: dict[str, float]  # RR of each corruption
    mean: float  # score over all corruptions and severities

    @property
    def mce(self) -> float:
        return float(np.mean(list(self.corruption_error.values())))

    @property
    def mrr(self) -> float:
        return float(np.mean(list(self.resilience.values())))


def summarize(scores: Scores, reference: Scores) -> Robustness:
    """Compare one method's scores with the reference's, corruption by corruption."""
    clean = scores[CLEAN][0]
    names = [name for name in scores if name != CLEAN]
    error, resilience = {}, {}
    for name in names:
        own, theirs = (np.array([known[name][severity] for severity in scores[name]]) for known in (scores, reference))
        baseline = np.sum(1 - theirs)
        error[name] = float(np.sum(1 - own) / baseline) if baseline > 0 else float("nan")
        resilience[name] = float(np.mean(own) / clean) if clean > 0 else float("nan")
    mean = float(np.mean([value for name in names for value in scores[name].values()]))
    return Robustness(clean, error, resilience, mean)
