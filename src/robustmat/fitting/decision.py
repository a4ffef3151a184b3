"""How a matcher decides: its thresholds and its probability, fitted on data of the training side or on validation."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import PairSample
from robustmat.dataset.truth import Indices, Truth, label_candidates
from robustmat.evaluation.metrics import best_match_threshold, best_threshold
from robustmat.evaluation.scoring import (
    Memory,
    View,
    landmark_pair_views,
    possible_matches,
    score_pairs,
    views_of,
)
from robustmat.fitting.calibration import fit_calibration
from robustmat.matching.assign import mutual_best
from robustmat.matching.decision import Decision, calibration_input
from robustmat.matching.matcher import Matcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.types import AMBIGUOUS, MATCHED, Array

MatcherType = TypeVar("MatcherType", bound=Matcher)


@dataclass(frozen=True)
class Fitted:
    """A decision, and the scores of the sample's landmark pairs that its threshold was chosen on."""

    decision: Decision
    scores: Array


def decided(matcher: MatcherType, decision: Decision) -> MatcherType:
    """The same matcher with another decision."""
    twin = copy.copy(matcher)
    twin.decision = decision
    return twin


def fit_decision(
    matcher: Matcher,
    memory: Memory,
    sample: PairSample,
    perturbation: Perturbation = CLEAN,
    *,
    perturbed_frames: str = "both",
    max_score: float | None = None,
) -> Fitted:
    """The threshold that separates the sample's landmark pairs best, the match threshold that gives its frame
    pairs the best F1, and the probability over all their candidates.

    For thresholds every world counts alike: a town has a hundred times the pairs of the last third of a short drive.

    Args:
        max_score: where scores lie between 0 and this, their log odds are calibrated.
    """
    scores = score_pairs(
        matcher,
        memory,
        landmark_pair_views(sample, perturbation, perturbed_frames),
        sample.landmark_a,
        sample.landmark_b,
    )
    frame_views = views_of(sample.frame_pairs, perturbation, perturbed_frames)
    candidates = score_frames(matcher, memory, sample.truth, frame_views)
    slope, intercept = fit_calibration(calibration_input(candidates.score, max_score), candidates.right)
    world = world_of(sample.truth, sample.frame_a)
    weight = balance_worlds(world, sample.label) + balance_worlds(world, ~sample.label)
    best = candidates.best
    match_weight, possible = _match_weights(sample)
    decision = Decision(
        threshold=best_threshold(scores, sample.label, weight),
        match_threshold=best_match_threshold(
            candidates.score[best],
            candidates.right[best],
            possible,
            match_weight[candidates.pair[best]],
        ),
        slope=slope,
        intercept=intercept,
        max_score=max_score,
    )
    return Fitted(decision, scores)


@dataclass(frozen=True)
class Candidates:
    """*All* judged candidates of whole frame pairs, [N] each: what a probability is fitted on."""

    score: Array
    right: NDArray[np.bool_]
    best: NDArray[np.bool_]  # the mutual best of its frame pair, among landmarks of its category
    pair: Indices  # which of the frame pairs


def score_frames(matcher: Matcher, memory: Memory, truth: Truth, views: Sequence[tuple[View, View]]) -> Candidates:
    """Score whole frame pairs, each once."""
    scores, rights, bests = [np.zeros(0)], [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
    counts = []
    for a, b in views:
        first, second = truth.frames[a[0]], truth.frames[b[0]]
        score = matcher.score(memory[a], memory[b])
        best = np.zeros(score.shape, np.bool_)
        for row, column in mutual_best(score, -np.inf, first.category[:, None] == second.category):
            best[row, column] = True
        label = label_candidates(first, second)
        judged = label != AMBIGUOUS
        scores.append(score[judged])
        rights.append(label[judged] == MATCHED)
        bests.append(best[judged])
        counts.append(int(judged.sum()))
    pair = np.repeat(np.arange(len(counts)), counts)
    return Candidates(np.concatenate(scores), np.concatenate(rights), np.concatenate(bests), pair)


def world_of(truth: Truth, frames: Indices) -> NDArray[np.str_]:
    """The name of each frame's world: [N]."""
    return np.array([truth.frames[frame].world for frame in frames], np.str_)


def balance_worlds(world: NDArray[np.str_], chosen: NDArray[np.bool_]) -> Array:
    """Weights [N] by which the chosen of each world together count as much as those of any other; the rest nothing."""
    _, group = np.unique(world, return_inverse=True)
    counted = chosen.astype(np.float64)
    total = np.bincount(group, counted)[group] if len(world) else counted
    return np.asarray(counted / np.maximum(total, 1))


def _match_weights(sample: PairSample) -> tuple[Array, float]:
    """How much a match of each frame pair counts [F], and all matches that could be found together.

    The possible matches of each world count as much as those of any other; a world without any counts nothing.
    """
    names, world = np.unique(world_of(sample.truth, sample.frame_pairs[:, 0]), return_inverse=True)
    possible = possible_matches(sample.truth, sample.frame_pairs)
    count = np.bincount(world[possible.partner_pair], minlength=len(names))
    weight = np.divide(1.0, count, out=np.zeros(len(names)), where=count > 0)
    return weight[world], float((count > 0).sum())
