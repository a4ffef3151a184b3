"""The rival of the diffusion: belief in each candidate, summed over all motions that the camera may have made.

Every motion is believed as far as the landmarks together support it. It stands in the table of parts beside the
diffusion (`matching/diffusion.py`), which is what matching uses.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from robustmat.config import Config
from robustmat.matching.motion import TAIL
from robustmat.types import Array


class MarginalConfig(Config):
    """The few numbers of the marginal, fitted on KITTI 0002, 0005 and 0013, which favours it in the table of parts."""

    pixels: float = 0.39  # weight of the pixels' logit
    offset: float = -0.63
    geometry: float = 0.86  # weight of the motion's log likelihood ratio
    visible: float = 0.8  # how probable it is that a landmark may have a partner at all
    sharpness: float = 2.4  # of the belief in motions
    no_motion: float = 0.015  # prior that the frames share nothing


def marginal(
    logits: Array, pairs: NDArray[np.int64], likelihood: NDArray[np.float32], log_prior: Array, config: MarginalConfig
) -> Array:
    """Belief that each candidate is a match [A, B], summed over motions; -inf where there is no candidate.

    Args:
        logits: [A, B], by pixels, against having no partner.
        pairs: [N, 2], the candidates.
        likelihood: [N, T], from `motion_likelihood`.
    """
    rows, columns = logits.shape
    i, j = pairs.T
    belief = np.zeros(logits.shape)
    if not len(pairs):
        return belief
    base = config.pixels * logits[i, j] + config.offset
    strength = np.exp(np.minimum(base[:, None] + config.geometry * likelihood, 30.0))  # [N, T]
    by_row = (np.arange(rows)[:, None] == i).astype(np.float64) @ strength  # [A, T]
    by_column = (np.arange(columns)[:, None] == j).astype(np.float64) @ strength
    v = config.visible
    evidence = 0.5 * (np.log(1 - v + v * (1 + by_row)).sum(axis=0) + np.log(1 - v + v * (1 + by_column)).sum(axis=0))
    alone = np.exp(np.minimum(base, 30.0))
    row_alone, column_alone = np.bincount(i, alone, rows), np.bincount(j, alone, columns)
    log_motion = np.append(
        np.log1p(-config.no_motion) + log_prior + config.sharpness * evidence, np.log(config.no_motion)
    )
    weight = np.exp(log_motion - logsumexp(log_motion))
    share = strength / np.sqrt((1 + by_row[i]) * (1 + by_column[j]))  # [N, T]
    # Without any motion nothing is shared: candidates keep a tail of what pixels say.
    share_alone = TAIL * alone / np.sqrt((1 + row_alone[i]) * (1 + column_alone[j]))
    belief[i, j] = share @ weight[:-1] + weight[-1] * share_alone
    return belief
