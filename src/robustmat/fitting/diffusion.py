"""The five numbers of the diffusion on the association graph, fitted on frame pairs with known answers.

They are meant for simulated towns: what the landmarks of a street agree on is geometry, and towns know it exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from robustmat.dataset.pairs import draw_frame_pairs, draw_unrelated_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import Indices, read_truth
from robustmat.evaluation.scoring import embed_frames, views_of
from robustmat.fitting.combination import Case, gather
from robustmat.fitting.evidence import UNRELATED_SHARE, answers
from robustmat.matching.combine import LOGIT_RANGE
from robustmat.matching.combined import CombinedMatcher, candidates, whole_frame
from robustmat.matching.diffusion import DiffusionConfig, association, settle
from robustmat.perturb import parse
from robustmat.progress import Progress, silent
from robustmat.types import Array

FITTED = ("pixels", "offset", "own", "coupling", "most")
MOST_TRIES = 120


@dataclass(frozen=True)
class Associated:
    """One frame pair: its association graph, and its answers."""

    pairs: Indices  # [N, 2]
    logits: Array  # [N]
    edges: Array  # [N, N]
    alone: Array  # [N]
    case: Case


def associate(
    matcher: CombinedMatcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: str,
    *,
    frame_pairs: int = 60,
    unrelated: int = 25,
    seed: int = 0,
    progress: Progress = silent,
) -> list[Associated]:
    """The association graphs of drawn frame pairs of one world, and of pairs that share nothing."""
    truth, chosen = read_truth(datasets), parse(perturbation)
    drawn = [(draw_frame_pairs(truth, frame_pairs, seed), True), (draw_unrelated_pairs(truth, unrelated, seed), False)]
    views = [view for pairs, _ in drawn for both in views_of(pairs, chosen, "both") for view in both]
    (memory,) = embed_frames([matcher], truth, views, chosen, seed, progress=progress)
    found = []
    for pairs, related in drawn:
        for (a, b), (first, second) in zip(views_of(pairs, chosen, "both"), pairs, strict=True):
            graph = candidates(whole_frame(memory[a]), whole_frame(memory[b]), matcher.motions)
            if not len(graph[0]):
                continue
            logits = matcher.inner.logits(memory[a], memory[b], "frames")
            case = answers(truth.frames[first], truth.frames[second], related)
            case = replace(case, weight=1.0 if related else UNRELATED_SHARE)
            i, j = graph[0].T
            found.append(Associated(graph[0], logits[i, j], *association(*graph, matcher.motions), case))
    return found


def diffusion_loss(graphs: Sequence[Associated], config: DiffusionConfig) -> float:
    """-log likelihood of a landmark's partner, or of having none, by the state that the candidates settle in."""
    cases = []
    for one in graphs:
        state = np.zeros(one.case.label.shape)
        settled = settle(one.logits, one.edges, one.alone, one.pairs, state.shape, config)
        state[one.pairs[:, 0], one.pairs[:, 1]] = settled
        cases.append(replace(one.case, features={"state": state}))
    design, rows, columns = gather(cases, ["state"])
    odds = np.exp(np.clip(design[:, 0], -LOGIT_RANGE, LOGIT_RANGE))
    return (rows.loss(odds)[0] + columns.loss(odds)[0]) / float(rows.weight.sum() + columns.weight.sum())


def fit_diffusion(
    graphs: Sequence[Associated], start: DiffusionConfig, most_tries: int = MOST_TRIES
) -> DiffusionConfig:
    """The numbers that make the answers likeliest, searched for without slopes."""

    def config(numbers: Array) -> DiffusionConfig:
        changes: dict[str, Any] = dict(zip(FITTED, map(float, numbers), strict=True))
        return start.model_copy(update=changes)

    first = np.array([getattr(start, name) for name in FITTED])
    options = {"maxfev": most_tries, "xatol": 0.02, "fatol": 2e-4}
    found = minimize(lambda x: diffusion_loss(graphs, config(x)), first, method="Nelder-Mead", options=options)
    return config(found.x)
