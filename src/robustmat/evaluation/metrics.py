"""How well scores separate matched from unmatched pairs.

Every function takes scores [N], labels [N] (True where matched) and, optionally, weights. Weights [R, N]
give R answers at once: a bootstrap resample is nothing but a row of integer weights. Without weights the
answer is a plain number. Equal scores are one step: no order among them is invented.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustmat.types import Array

Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
    """Weighted numbers of right and wrong decisions, [R] each."""

    true_positive: Array
    false_positive: Array
    false_negative: Array
    true_negative: Array


@dataclass(frozen=True)
class Curve:
    """Weight of matched and unmatched pairs at or above each distinct score, highest first: [R, T] each."""

    matched: Array
    unmatched: Array
    score: Array  # [T]


def count(scores: Array, labels: Labels, threshold: float, weights: Array | None = None) -> Counts:
    """Decisions at a threshold: a pair is said to match when its score is at or above it."""
    weights = _rows(weights, len(scores))
    said = scores >= threshold

    def total(chosen: NDArray[np.bool_]) -> Array:
        return np.asarray(weights @ chosen.astype(np.float64))

    return Counts(total(said & labels), total(said & ~labels), total(~said & labels), total(~said & ~labels))


def precision_of(counts: Counts) -> Array:
    return _ratio(counts.true_positive, counts.true_positive + counts.false_positive)


def recall_of(counts: Counts) -> Array:
    return _ratio(counts.true_positive, counts.true_positive + counts.false_negative)


def f1_of(counts: Counts) -> Array:
    wrong = counts.false_positive + counts.false_negative
    return _ratio(2 * counts.true_positive, 2 * counts.true_positive + wrong)


def auc_paper_of(counts: Counts) -> Array:
    """(TPR + TNR) / 2: what the paper's tables call AUC, the area under a curve of one threshold."""
    missing = (counts.true_positive + counts.false_negative == 0) | (counts.true_negative + counts.false_positive == 0)
    specificity = _ratio(counts.true_negative, counts.true_negative + counts.false_positive)
    return np.where(missing, np.nan, (recall_of(counts) + specificity) / 2)


def curve(scores: Array, labels: Labels, weights: Array | None = None) -> Curve:
    weights = _rows(weights, len(scores))
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)  # ends of equal scores
    weights, labels = weights[:, order], labels[order]
    return Curve(
        np.cumsum(weights * labels, axis=1)[:, last],
        np.cumsum(weights * ~labels, axis=1)[:, last],
        ranked[last],
    )


def roc_auc_of(it: Curve) -> Array:
    """Area under the ROC curve: the chance that a matched pair scores above an unmatched one."""
    rise, run = _steps(it.matched), _steps(it.unmatched)
    area = np.sum(run * (it.matched - rise / 2), axis=1)
    return _ratio(area, it.matched[:, -1] * it.unmatched[:, -1], nothing=np.nan)


def average_precision_of(it: Curve) -> Array:
    precision = _ratio(it.matched, it.matched + it.unmatched)
    area = np.sum(_steps(it.matched) * precision, axis=1)
    return _ratio(area, it.matched[:, -1], nothing=np.nan)


def fpr95_of(it: Curve) -> Array:
    """Share of unmatched pairs let through by the strictest threshold that keeps 95 % of the matched."""
    enough = it.matched >= 0.95 * it.matched[:, -1:] - 1e-9
    passed = np.take_along_axis(it.unmatched, enough.argmax(axis=1)[:, None], axis=1)[:, 0]
    empty = it.matched[:, -1] == 0
    return np.where(empty, np.nan, _ratio(passed, it.unmatched[:, -1], nothing=np.nan))


AT_THRESHOLD: dict[str, Callable[[Counts], Array]] = {
    "precision": precision_of,
    "recall": recall_of,
    "f1": f1_of,
    "auc_paper": auc_paper_of,
}
OVER_THRESHOLDS: dict[str, Callable[[Curve], Array]] = {
    "roc_auc": roc_auc_of,
    "average_precision": average_precision_of,
    "fpr95": fpr95_of,
}
METRICS = (*AT_THRESHOLD, *OVER_THRESHOLDS)


def all_metrics(scores: Array, labels: Labels, threshold: float, weights: Array) -> dict[str, Array]:
    """Every metric for every row of weights: name -> [R]."""
    counts, steps = count(scores, labels, threshold, weights), curve(scores, labels, weights)
    values = {name: metric(counts) for name, metric in AT_THRESHOLD.items()}
    return values | {name: metric(steps) for name, metric in OVER_THRESHOLDS.items()}


def measure(scores: ArrayLike, labels: ArrayLike, threshold: float) -> dict[str, float]:
    """Every metric of one set of scores, as plain numbers."""
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels, np.bool_)
    values = all_metrics(scores, labels, threshold, np.ones((1, len(scores))))
    return {name: float(value[0]) for name, value in values.items()}


def precision(scores: Array, labels: Labels, threshold: float) -> float:
    return float(precision_of(count(scores, labels, threshold))[0])


def recall(scores: Array, labels: Labels, threshold: float) -> float:
    return float(recall_of(count(scores, labels, threshold))[0])


def f1(scores: Array, labels: Labels, threshold: float) -> float:
    return float(f1_of(count(scores, labels, threshold))[0])


def auc_paper(scores: Array, labels: Labels, threshold: float) -> float:
    return float(auc_paper_of(count(scores, labels, threshold))[0])


def roc_auc(scores: Array, labels: Labels) -> float:
    return float(roc_auc_of(curve(scores, labels))[0])


def average_precision(scores: Array, labels: Labels) -> float:
    return float(average_precision_of(curve(scores, labels))[0])


def fpr95(scores: Array, labels: Labels) -> float:
    return float(fpr95_of(curve(scores, labels))[0])


def best_threshold(scores: Array, labels: Labels, weights: Array | None = None) -> float:
    """The threshold with the highest `auc_paper`, midway between the two scores it separates.

    On three matched to one unmatched, F1 is highest when nearly everything is accepted; the balanced
    accuracy weighs wrong acceptances and wrong refusals alike and does not depend on that ratio.
    """
    steps = curve(scores, labels, weights)
    matched, unmatched = steps.matched[0], steps.unmatched[0]
    balance = _ratio(matched, matched[-1:]) - _ratio(unmatched, unmatched[-1:])
    best = int(balance.argmax())
    below = steps.score[min(best + 1, len(steps.score) - 1)]
    return float((steps.score[best] + below) / 2)


def best_match_threshold(scores: Array, right: Labels, possible: float, weights: Array | None = None) -> float:
    """The threshold with the highest F1 of returned matches, of which `possible` could have been right.

    Args:
        scores: [M], of all judged matches of whole frame pairs, before any threshold.
        right: [M], which of them are.
        weights: [M], how much each counts; `possible` is then the weight of those that could have been right.
    """
    if not len(scores):
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked, weight = scores[order], _rows(weights, len(scores))[0, order]
    f1 = 2 * np.cumsum(weight * right[order]) / (np.cumsum(weight) + possible)
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0  # equal scores are accepted together
    best = int(f1.argmax())
    below = ranked[min(best + 1, len(ranked) - 1)]
    return float((ranked[best] + below) / 2)


def auc_paper_from(precision: float, recall: float, matched_per_unmatched: float) -> float:
    """`auc_paper` from published precision and recall and the ratio of the pairs they were measured on."""
    false_positive_rate = recall * (1 - precision) / precision * matched_per_unmatched
    return (recall + 1 - false_positive_rate) / 2


def _rows(weights: Array | None, size: int) -> Array:
    return np.ones((1, size)) if weights is None else np.atleast_2d(weights)


def _steps(cumulated: Array) -> Array:
    return np.diff(cumulated, axis=1, prepend=0.0)


def _ratio(part: Array, whole: Array, nothing: float = 0.0) -> Array:
    """part / whole, and `nothing` where there is no whole."""
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    return np.asarray(np.divide(part, whole, out=np.full(shape, nothing), where=whole > 0))
