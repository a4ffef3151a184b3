"""Fit what a step on top of a matcher needs: the few numbers of a competition, by maximum likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from robustmat.dataset.pairs import PairSample
from robustmat.dataset.truth import label_candidates
from robustmat.evaluation.scoring import Memory, embed_sample, views_of
from robustmat.fitting.decision import balance_worlds, fit_decision, world_of
from robustmat.matching.cached import CachedMatcher
from robustmat.matching.matcher import Matcher
from robustmat.matching.steps import StepConfig, SteppedMatcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.progress import Progress, silent
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Array

Case = tuple[Array, Array, Array]  # scores, prior log odds, labels: [A, B] each


def fit_steps(
    matcher: Matcher,
    steps: Sequence[str],
    sample: PairSample,
    perturbation: Perturbation = CLEAN,
    *,
    prior: Matcher | None = None,
    memory: Memory | None = None,
    perturbed_frames: str = "both",
    progress: Progress = silent,
) -> list[SteppedMatcher]:
    """The matcher with each step on top, its numbers and its decision fitted on the sample's frame pairs.

    Args:
        memory: the sample's frames, where the matcher has embedded them already.
    """
    shared = matcher if isinstance(matcher, CachedMatcher) else CachedMatcher(matcher)
    stepped = [SteppedMatcher(shared, step, prior=prior if step == "placement" else None) for step in steps]
    if memory is None:
        memories = embed_sample(stepped, sample, perturbation, perturbed_frames=perturbed_frames, progress=progress)
    else:
        memories = [
            {view: one.extend(seen, sample.truth.frame(view[0])) for view, seen in memory.items()} for one in stepped
        ]
    views = views_of(sample.frame_pairs, perturbation, perturbed_frames)
    labels = [label_candidates(sample.truth.frames[i], sample.truth.frames[j]) for i, j in sample.frame_pairs]
    told = np.array([label.size > 0 for label in labels], np.bool_)
    weights = balance_worlds(world_of(sample.truth, sample.frame_pairs[:, 0]), told)[told]
    fitted = []
    for one, mine in zip(stepped, memories, strict=True):
        if one.step != "neighbors":
            cases = [
                (*one.parts(mine[a], mine[b]), label.astype(np.float64))
                for (a, b), label in zip(views, labels, strict=True)
                if label.size
            ]
            one.config = fit_competition(cases, weights, with_prior=one.step == "placement")
        found = fit_decision(one, mine, sample, perturbation, perturbed_frames=perturbed_frames)
        fitted.append(SteppedMatcher(matcher, one.step, one.config, found.decision, one.prior))
    return fitted


def fit_competition(cases: Sequence[Case], weights: Array, with_prior: bool) -> StepConfig:
    """The scale of scores, of the prior, and the logit of having no partner that make the truth likeliest, each case
    counting as its weight [N] says.

    Scores may be of any size, so the search runs on standardised ones.
    """
    known = np.concatenate([score[label != AMBIGUOUS] for score, _, label in cases])
    spread = max(float(known.std()), 1e-9)
    padded = _Padded.of(cases, weights)

    def loss(values: Array) -> float:
        scale, prior_scale, alone = _unpack(values, spread, with_prior)
        return padded.surprise(scale, prior_scale, alone)

    # Softplus keeps both scales positive; the start says: one spread of the score is worth two logits.
    start = np.array([2.0, 0.5, 2.0 + 2.0 * float(known.mean()) / spread])
    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 300, "xatol": 1e-2, "fatol": 1e-5})
    scale, prior_scale, alone = _unpack(found.x, spread, with_prior)
    return StepConfig(scale=scale, prior_scale=prior_scale, alone=alone)


def _unpack(values: Array, spread: float, with_prior: bool) -> tuple[float, float, float]:
    scale, prior_scale = np.logaddexp(0, values[:2])
    return float(scale) / spread, float(prior_scale) if with_prior else 0.0, float(values[2])


@dataclass(frozen=True)
class _Padded:
    """All cases side by side, [M, A, B], so that one evaluation is a few array operations."""

    score: Array
    prior: Array
    judged: NDArray[np.bool_]
    matched: NDArray[np.bool_]
    alone_a: NDArray[np.bool_]  # [M, A], landmarks that surely have no partner
    alone_b: NDArray[np.bool_]  # [M, B]
    weight: Array  # [M], one in all

    @classmethod
    def of(cls, cases: Sequence[Case], weights: Array) -> "_Padded":
        rows, columns = (max(case[0].shape[axis] for case in cases) for axis in (0, 1))
        score, prior, label = (np.zeros((len(cases), rows, columns)) for _ in range(3))
        label += AMBIGUOUS  # padding is no rival
        real_a, real_b = np.zeros((len(cases), rows), np.bool_), np.zeros((len(cases), columns), np.bool_)
        for number, case in enumerate(cases):
            inside = (number, slice(case[0].shape[0]), slice(case[0].shape[1]))
            for target, values in zip((score, prior, label), case, strict=True):
                target[inside] = values
            # One whose partner may be among the doubtful candidates is not said to have none.
            settled = case[2] == UNMATCHED
            real_a[number, inside[1]], real_b[number, inside[2]] = settled.all(axis=1), settled.all(axis=0)
        weights = weights / weights.sum()
        return cls(score, prior, label != AMBIGUOUS, label == MATCHED, real_a, real_b, weights)

    def surprise(self, scale: float, prior_scale: float, alone: float) -> float:
        """Minus the log probability of the true partners, or of "none", of all landmarks of both frames; a mean."""
        logits = np.where(self.judged, scale * self.score + prior_scale * self.prior, -np.inf)
        total = 0.0
        for axis, nobody in ((2, self.alone_a), (1, self.alone_b)):
            highest = np.maximum(logits.max(axis=axis, keepdims=True), alone)
            sum_ = np.exp(logits - highest).sum(axis=axis, keepdims=True) + np.exp(alone - highest)
            norm = highest + np.log(sum_)
            partners = np.where(self.matched, logits - norm, 0.0).sum(axis=(1, 2), where=self.matched)
            nobodies = (alone - norm.squeeze(axis)).sum(axis=1, where=nobody)
            total -= self.weight @ (partners + nobodies)
        return float(total)
