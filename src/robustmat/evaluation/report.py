"""The numbers of a table, computed from predictions alone."""

from typing import Any

import numpy as np

from robustmat.dataset.truth import MATCHED, UNMATCHED
from robustmat.evaluation.bootstrap import RESAMPLES, intervals, percentile_interval, resampled
from robustmat.evaluation.metrics import best_threshold, measure
from robustmat.evaluation.predictions import FrameTruths, MethodRow, Predictions
from robustmat.types import Array

MATCH_METRICS = ("match_precision", "match_recall", "match_f1")


def make_report(predictions: Predictions, resamples: int = RESAMPLES) -> dict[str, Any]:
    """All keys of `robustmat evaluate --json` but `seconds`, which is not the predictions' to know."""
    pairs, method, meta = predictions.pairs, predictions.method, predictions.meta
    threshold_best = best_threshold(method.score, pairs.label)
    values = measure(method.score, pairs.label, method.threshold)
    best = measure(method.score, pairs.label, threshold_best)["auc_paper"]
    spread = intervals(
        method.score,
        pairs.label,
        method.threshold,
        identity_a=pairs.identity_a,
        identity_b=pairs.identity_b,
        resamples=resamples,
        seed=meta["seed"],
    ) | match_intervals(method, predictions.frame_pairs, resamples, meta["seed"])
    return {
        **values,
        "threshold": method.threshold,
        "n_matched": int(pairs.label.sum()),
        "n_unmatched": int((~pairs.label).sum()),
        "n_identities": len(np.unique(np.concatenate([pairs.identity_a, pairs.identity_b]))),
        "n_frame_pairs": len(predictions.frame_pairs.pairs),
        "n_frame_pairs_found": meta["n_frame_pairs_found"],
        **match_metrics(method, predictions.frame_pairs),
        "match_ignored": int(np.sum((method.match_label != MATCHED) & (method.match_label != UNMATCHED))),
        "threshold_best": threshold_best,
        "threshold_loss": best - values["auc_paper"],
        "intervals": {name: [_plain(low), _plain(high)] for name, (low, high) in spread.items()},
        "references": {
            row.name: measure(row.score, pairs.label, row.threshold)
            | match_metrics(row, predictions.frame_pairs)
            | {"threshold": row.threshold}
            for row in predictions.references
        },
        "references_omitted": meta["references_omitted"],
        "method": method.name,
        "checkpoint": meta["checkpoint"],
        "perturb": meta["perturb"],
        "perturb_side": meta["perturb_side"],
        "negatives": meta["negatives"],
        "seed": meta["seed"],
        "datasets": meta["datasets"],
    }


def match_metrics(row: MethodRow, truth: FrameTruths) -> dict[str, float]:
    """Precision, recall and F1 of the returned one-to-one matches; ambiguous ones count as not returned."""
    right, wrong = np.sum(row.match_label == MATCHED), np.sum(row.match_label == UNMATCHED)
    values = _match_metrics(np.array([right]), np.array([wrong]), np.array([len(truth.partner_identity)]))
    return {name: float(value[0]) for name, value in values.items()}


def match_intervals(
    row: MethodRow, truth: FrameTruths, resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Intervals over identities, as in the pair protocol: a match counts as often as its objects do."""
    judged = (row.match_label == MATCHED) | (row.match_label == UNMATCHED)
    right = row.match_label[judged] == MATCHED
    # The matches that were returned and those that could have been are weighted in one go.
    first = np.concatenate([row.match_identity_a[judged], truth.partner_identity])
    second = np.concatenate([row.match_identity_b[judged], truth.partner_identity])
    if not len(first):
        return dict.fromkeys(MATCH_METRICS, (float("nan"), float("nan")))

    def metrics(weights: Array) -> dict[str, Array]:
        returned, possible = weights[:, : len(right)], weights[:, len(right) :]
        return _match_metrics(returned @ right, returned @ ~right, possible.sum(axis=1))

    values = resampled(first, second, metrics, resamples, seed)
    return {name: percentile_interval(value) for name, value in values.items()}


def _match_metrics(right: Array, wrong: Array, possible: Array) -> dict[str, Array]:
    returned = right + wrong
    return {
        "match_precision": right / np.maximum(returned, 1e-12),
        "match_recall": right / np.maximum(possible, 1e-12),
        "match_f1": 2 * right / np.maximum(returned + possible, 1e-12),
    }


def _plain(value: float) -> float | None:
    """JSON has no nan."""
    return value if np.isfinite(value) else None
