"""The numbers of a table, computed from predictions alone."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import NEGATIVES
from robustmat.evaluation.bootstrap import (
    RESAMPLES,
    Difference,
    compare,
    intervals,
    percentile_interval,
    resampled,
)
from robustmat.evaluation.metrics import best_threshold, measure
from robustmat.evaluation.predictions import FrameTruths, MethodRow, Predictions
from robustmat.types import MATCHED, UNMATCHED, Array

DISTANCES = (2.0, 5.0, 10.0, 25.0)  # metres between the cameras
CALIBRATION_BINS = 10
SURE = 0.9
MATCH_METRICS = ("match_precision", "match_recall", "match_f1")


def make_report(predictions: Predictions, resamples: int = RESAMPLES) -> dict[str, Any]:
    """All keys of `robustmat evaluate --json` but `seconds`, which is not the predictions' to know."""
    pairs, method, meta = predictions.pairs, predictions.method, predictions.meta
    drawn = pairs.negatives == NEGATIVES.index(meta["negatives"])
    label, score = pairs.label[drawn], method.score[drawn]
    identity_a, identity_b = pairs.identity_a[drawn], pairs.identity_b[drawn]
    threshold_best = best_threshold(score, label)
    values = measure(score, label, method.threshold)
    spread = intervals(
        score,
        label,
        method.threshold,
        identity_a=identity_a,
        identity_b=identity_b,
        resamples=resamples,
        seed=meta["seed"],
    ) | match_intervals(method, predictions.frame_pairs, resamples, meta["seed"])
    return {
        **values,
        "threshold": method.threshold,
        "threshold_best": threshold_best,
        "threshold_loss": measure(score, label, threshold_best)["auc_paper"] - values["auc_paper"],
        "n_matched": int(label.sum()),
        "n_unmatched": int((~label).sum()),
        "n_identities": len(np.unique(np.concatenate([identity_a, identity_b]))),
        "n_frame_pairs": len(predictions.frame_pairs.pairs),
        "n_frame_pairs_found": meta["n_frame_pairs_found"],
        **match_metrics(method, predictions.frame_pairs),
        "match_by_distance": match_by_distance(method, predictions.frame_pairs),
        "match_ignored": int(np.sum(~judged(method.returned))),
        "calibration": calibration_report(method),
        "unrelated": unrelated_report(method),
        "intervals": {name: [_plain(low), _plain(high)] for name, (low, high) in spread.items()},
        "references": {
            row.name: measure(row.score[drawn], label, row.threshold)
            | match_metrics(row, predictions.frame_pairs)
            | {"threshold": row.threshold, "match_by_distance": match_by_distance(row, predictions.frame_pairs)}
            for row in predictions.references
        },
        "references_omitted": meta["references_omitted"],
        "differences": {
            row.name: {
                name: {"value": _plain(value.value), "low": _plain(value.low), "high": _plain(value.high)}
                for name, value in compare_rows(predictions, method, row, resamples=resamples).items()
            }
            for row in predictions.references
        },
        "by_negatives": by_negatives(predictions),
        "method": method.name,
        "checkpoint": meta["checkpoint"],
        "evidence": meta.get("evidence"),
        "perturb": meta["perturb"],
        "perturb_side": meta["perturb_side"],
        "negatives": meta["negatives"],
        "seed": meta["seed"],
        "datasets": meta["datasets"],
    }


def compare_rows(
    predictions: Predictions,
    first: MethodRow,
    second: MethodRow,
    negatives: str | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Difference]:
    """How much the first row is above the second, by a paired bootstrap over identities."""
    pairs, kind = predictions.pairs, negatives or predictions.meta["negatives"]
    drawn = pairs.negatives == NEGATIVES.index(kind)
    return compare(
        (first.score[drawn], first.threshold),
        (second.score[drawn], second.threshold),
        pairs.label[drawn],
        identity_a=pairs.identity_a[drawn],
        identity_b=pairs.identity_b[drawn],
        resamples=resamples,
        seed=predictions.meta["seed"],
    )


def by_negatives(predictions: Predictions) -> dict[str, dict[str, dict[str, float]]]:
    """The pair protocol's metrics of every row, for both kinds of negatives: kind -> row -> metric -> value."""
    found = {}
    for number, kind in enumerate(NEGATIVES):
        drawn = predictions.pairs.negatives == number
        if drawn.any():
            label = predictions.pairs.label[drawn]
            found[kind] = {row.name: measure(row.score[drawn], label, row.threshold) for row in predictions.rows}
    return found


def match_metrics(row: MethodRow, truth: FrameTruths) -> dict[str, float]:
    """Precision, recall and F1 of the returned one-to-one matches; ambiguous ones count as not returned."""
    row = row.returned
    right, wrong = np.sum(row.match_label == MATCHED), np.sum(row.match_label == UNMATCHED)
    values = match_shares(np.array([right]), np.array([wrong]), np.array([len(truth.partner_identity)]))
    return {name: float(value[0]) for name, value in values.items()}


def judged(row: MethodRow) -> NDArray[np.bool_]:
    """Which of a row's matches the ground truth can tell right or wrong."""
    return np.isin(row.match_label, (MATCHED, UNMATCHED))


def match_by_distance(row: MethodRow, truth: FrameTruths) -> dict[str, dict[str, float]]:
    """The returned matches by the distance between the cameras: precision, recall, F1, right and wrong ones."""
    row, found = row.returned, {}
    for low, high in pairwise(DISTANCES):
        near = (truth.distance >= low) & (truth.distance < high)
        right, wrong = (
            int(np.sum((row.match_label == label) & near[row.match_pair])) for label in (MATCHED, UNMATCHED)
        )
        possible = int(np.sum(near[truth.partner_pair]))
        values = match_shares(*(np.array([count]) for count in (right, wrong, possible)))
        shares = {name.removeprefix("match_"): float(value[0]) for name, value in values.items()}
        found[f"{low:g}-{high:g}"] = {**shares, "right": right, "wrong": wrong, "possible": possible}
    return found


def calibration_report(row: MethodRow) -> dict[str, Any]:
    """How far the probabilities of the mutual best candidates can be believed, returned as matches or not."""
    chosen = judged(row)
    probability, right = row.match_probability[chosen], row.match_label[chosen] == MATCHED
    bins, gaps = [], 0.0
    for low, high in pairwise(np.linspace(0, 1, CALIBRATION_BINS + 1)):
        inside = (probability >= low) & ((probability < high) | (high == 1))
        if inside.any():
            said, held = float(probability[inside].mean()), float(right[inside].mean())
            bins.append({"from": float(low), "to": float(high), "n": int(inside.sum()), "mean": said, "right": held})
            gaps += inside.sum() * abs(said - held)
    sure = probability >= SURE
    return {
        "ece": float(gaps / len(probability)) if len(probability) else None,
        f"right_above_{SURE:g}": float(right[sure].mean()) if sure.any() else None,
        f"n_above_{SURE:g}": int(sure.sum()),
        "bins": bins,
    }


def unrelated_report(row: MethodRow) -> dict[str, Any]:
    """Matches between frames that share nothing: all of them are wrong."""
    count, pairs = int(row.unrelated_matches.sum()), len(row.unrelated_matches)
    return {"n_frame_pairs": pairs, "matches": count, "matches_per_pair": count / pairs if pairs else None}


def match_intervals(row: MethodRow, truth: FrameTruths, resamples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Intervals over identities, as in the pair protocol: a match counts as often as its objects do."""
    row = row.returned
    told = judged(row)
    right = row.match_label[told] == MATCHED
    # The matches that were returned and those that could have been are weighted in one go.
    first = np.concatenate([row.match_identity_a[told], truth.partner_identity])
    second = np.concatenate([row.match_identity_b[told], truth.partner_identity])
    if not len(first):
        return dict.fromkeys(MATCH_METRICS, (float("nan"), float("nan")))

    def metrics(weights: Array) -> dict[str, Array]:
        returned, possible = weights[:, : len(right)], weights[:, len(right) :]
        return match_shares(returned @ right, returned @ ~right, possible.sum(axis=1))

    values = resampled(first, second, metrics, resamples, seed)
    return {name: percentile_interval(value) for name, value in values.items()}


def match_shares(right: Array, wrong: Array, possible: Array) -> dict[str, Array]:
    """Precision, recall and F1 of right and wrong matches, of which `possible` could have been right."""
    returned = right + wrong
    return {
        "match_precision": right / np.maximum(returned, 1e-12),
        "match_recall": right / np.maximum(possible, 1e-12),
        "match_f1": 2 * right / np.maximum(returned + possible, 1e-12),
    }


def _plain(value: float) -> float | None:
    """JSON has no nan."""
    return value if np.isfinite(value) else None
