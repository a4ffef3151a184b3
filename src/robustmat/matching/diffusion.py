"""Landmarks agree on one motion of the camera by diffusion on the association graph.

Vertices are candidate pairs of landmarks, edges say how well two of them fit one motion. Belief flows along the edges
until nobody is moved any more: a graph neural PDE whose edges are geometry, the same on every street, and which has
five numbers to learn.
"""

import numpy as np
from numpy.typing import NDArray

from robustmat.config import Config
from robustmat.matching.motion import Motions
from robustmat.types import Array

LEAST_AGREEMENT, MOST_AGREEMENT = -3.0, 5.0


class DiffusionConfig(Config):
    """The few numbers of the diffusion on the association graph, fitted on simulated towns (`fitting/diffusion.py`)."""

    pixels: float = 0.52  # weight of the pixels' logit
    offset: float = -0.90
    own: float = 0.63  # weight of how likely a candidate's boxes are under any motion at all
    coupling: float = 0.44  # how much belief an agreeing candidate lends
    most: float = 4.3  # what all others together can lend or take
    end_time: float = 3.0
    steps: int = 12


def agreement(likelihood: NDArray[np.float32], motions: Motions) -> tuple[Array, Array]:
    """How much every two candidates agree on one motion [N, N], and how likely each is by itself [N].

    Agreement is the pointwise mutual information of two candidates about the motion: the log of how much likelier they
    are under one motion, of which something may be known, than under two independent ones. It is nothing but geometry.
    """
    weighted = np.exp(likelihood + 0.5 * motions.log_prior.astype(np.float32))  # [N, T]
    alone = np.exp(likelihood + motions.log_vague.astype(np.float32)).sum(axis=1, dtype=np.float64)
    together = (weighted @ weighted.T).astype(np.float64)
    return np.log(together / alone[:, None] / alone + 1e-9), np.log(alone + 1e-9)


def diffuse(
    logits: Array, pairs: NDArray[np.int64], likelihood: NDArray[np.float32], motions: Motions, config: DiffusionConfig
) -> Array:
    """Belief [A, B] after candidates have exchanged it over the association graph.

    Vertices are candidate pairs [N, 2], edges their agreement on one motion of the camera. The state x of all vertices
    follows dx/dt = x_0 + coupling * W s(x) - x: what a candidate's own boxes and pixels say, plus what the candidates
    believed now (s, after competition within rows and columns) lend it. The fixed point is where nobody is moved.
    """
    belief = np.zeros(logits.shape)
    if not len(pairs):
        return belief
    i, j = pairs.T
    state = settle(logits[i, j], *association(pairs, likelihood, motions), pairs, logits.shape, config)
    belief[i, j] = _shares(state, i, j, logits.shape[0], logits.shape[1])
    return belief


def association(pairs: NDArray[np.int64], likelihood: NDArray[np.float32], motions: Motions) -> tuple[Array, Array]:
    """The association graph: edges [N, N] between candidates, and how likely each is by itself [N]."""
    i, j = pairs.T
    edges, alone = agreement(likelihood, motions)
    rivals = (i[:, None] == i) | (j[:, None] == j)  # of one landmark at most one candidate is right
    return np.where(rivals, 0.0, np.clip(edges, LEAST_AGREEMENT, MOST_AGREEMENT)), alone


def settle(
    logits: Array,
    edges: Array,
    alone: Array,
    pairs: NDArray[np.int64],
    shape: tuple[int, ...],
    config: DiffusionConfig,
) -> Array:
    """The state [N] of all candidates at the end time; their logits [N] by pixels are where they start from."""
    i, j = pairs.T
    start = config.pixels * logits + config.offset + config.own * alone
    state, step = start.copy(), config.end_time / config.steps
    for _ in range(config.steps):
        lent = config.coupling * (edges @ _shares(state, i, j, shape[0], shape[1]))
        state += step * (start + config.most * np.tanh(lent / config.most) - state)
    return state


def _shares(state: Array, i: NDArray[np.int64], j: NDArray[np.int64], rows: int, columns: int) -> Array:
    """Belief [N] in each candidate after competition with its rivals and with having no partner."""
    odds = np.exp(np.minimum(state, 30.0))
    by_row, by_column = np.bincount(i, odds, rows), np.bincount(j, odds, columns)
    return np.asarray(odds / np.sqrt((1 + by_row[i]) * (1 + by_column[j])))
