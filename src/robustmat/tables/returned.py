"""What a combination of evidence returns on frame pairs with known answers, and how good that is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.evaluation.bootstrap import Draws, draw_objects, over_draws, percentile_interval
from robustmat.evaluation.metrics import roc_auc
from robustmat.evaluation.report import CALIBRATION_BINS, DISTANCES, SURE
from robustmat.evaluation.scoring import matchable_identities
from robustmat.fitting.evidence import FramePairCase
from robustmat.matching.assign import mutual_best
from robustmat.matching.combine import Combination
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Array

Chosen = NDArray[np.bool_]

LEAST_PROBABILITY = 0.5


@dataclass(frozen=True)
class Returned:
    """All mutual best candidates of a drive's frame pairs, [M] each, and what could have been found."""

    probability: Array
    label: Array
    distance: Array
    identity_a: Array
    identity_b: Array
    possible_distance: Array  # [K], of every match that a perfect matcher would return
    possible_identity: Array
    auc: float  # of all candidates of one category
    unrelated_pairs: int
    unrelated_matches: int

    @property
    def said(self) -> Chosen:
        """Which of them a user would see, of those that can be judged: [M]."""
        return np.isin(self.label, (MATCHED, UNMATCHED)) & (self.probability >= LEAST_PROBABILITY)

    @property
    def f1(self) -> float:
        return _shares(self.said, self.label == MATCHED, len(self.possible_distance))["f1"]


def match_cases(cases: Sequence[FramePairCase], combination: Combination | None) -> Returned:
    """Match frame pairs by a combination of evidence, or by keypoint votes alone."""
    columns: list[tuple[float, float, float, float, float]] = []
    possible: list[tuple[float, float]] = []
    scores, right = [np.zeros(0)], [np.zeros(0, np.bool_)]
    pairs = matches = 0
    for one in cases:
        case = one.case
        if combination is None:
            probability = np.where(one.keypoint_votes > 0, 1 - 0.5 / (1 + one.keypoint_votes), 0.0)
        else:
            probability = combination.probability(dict(case.features), case.allowed, one.category)
        best = mutual_best(probability, -np.inf, case.allowed)
        if not one.related:
            pairs += 1
            matches += sum(probability[i, j] >= LEAST_PROBABILITY for i, j in best)
            continue
        for i, j in best:
            identities = float(one.identity_a[i]), float(one.identity_b[j])
            columns.append((float(probability[i, j]), float(case.label[i, j]), one.distance, *identities))
        possible += [(one.distance, float(identity)) for identity in matchable_identities(case.label, one.identity_a)]
        told = case.allowed & (case.label != AMBIGUOUS)
        scores.append(probability[told])
        right.append(case.label[told] == MATCHED)
    found = np.array(columns, np.float64).reshape(-1, 5).T
    apart, identity = np.array(possible, np.float64).reshape(-1, 2).T
    area = roc_auc(np.concatenate(scores), np.concatenate(right))
    probability, label, distance, identity_a, identity_b = found
    facts = (apart, identity, area, pairs, int(matches))
    return Returned(probability, label, distance, identity_a, identity_b, *facts)


def measure_drive(found: Returned, seed: int = 0) -> dict[str, Any]:
    """Precision, recall and F1 in all and by distance, calibration, and matches where nothing is shared."""
    told = np.isin(found.label, (MATCHED, UNMATCHED))
    said = found.said
    right = found.label == MATCHED
    numbers: dict[str, Any] = {"all": _shares(said, right, len(found.possible_distance))}
    for low, high in pairwise(DISTANCES):
        near, possible = (
            (distance >= low) & ((distance < high) | (high == DISTANCES[-1]))
            for distance in (found.distance, found.possible_distance)
        )
        numbers[f"{low:g}-{high:g}"] = _shares(said & near, right, int(possible.sum()))
    sure = told & (found.probability >= SURE)
    numbers["f1_interval"] = list(percentile_interval(f1_over(draw_all([found], seed), found)))
    numbers["roc_auc"] = found.auc
    numbers["ece"] = _calibration_error(found.probability[told], right[told])
    numbers["right_above_0.9"] = float(right[sure].mean()) if sure.any() else None
    numbers["n_above_0.9"] = int(sure.sum())
    numbers["unrelated_pairs"], numbers["unrelated_matches"] = found.unrelated_pairs, found.unrelated_matches
    return numbers


def draw_all(found: Iterable[Returned], seed: int = 0) -> Draws:
    """Draws over all objects of a drive, to be shared by everything that is compared on it."""
    columns = [column for one in found for column in (one.identity_a, one.identity_b, one.possible_identity)]
    return draw_objects([column.astype(np.int64) for column in columns], seed=seed)


def f1_over(draws: Draws, found: Returned) -> Array:
    """F1 of the returned matches in every draw of the drive's objects: [R]."""
    said = found.said
    right = found.label[said] == MATCHED
    first, second = (
        np.concatenate([column[said], found.possible_identity]).astype(np.int64)
        for column in (found.identity_a, found.identity_b)
    )
    count = len(right)

    def metrics(weights: Array) -> dict[str, Array]:
        returned, possible = weights[:, :count], weights[:, count:]
        whole = returned.sum(axis=1) + possible.sum(axis=1)
        return {"f1": 2 * (returned @ right) / np.maximum(whole, 1e-12)}

    if not len(first):
        return np.full(len(draws.counts), np.nan)
    return over_draws(draws, first, second, metrics)["f1"]


def _shares(said: Chosen, right: Chosen, possible: int) -> dict[str, float]:
    good, returned = int(np.sum(said & right)), int(np.sum(said))
    return {
        "precision": good / max(returned, 1),
        "recall": good / max(possible, 1),
        "f1": 2 * good / max(returned + possible, 1),
        "right": good,
        "wrong": returned - good,
        "possible": possible,
    }


def _calibration_error(probability: Array, right: Chosen) -> float | None:
    if not len(probability):
        return None
    bins = np.clip((probability * CALIBRATION_BINS).astype(np.int64), 0, CALIBRATION_BINS - 1)
    gaps = [
        (bins == number).mean() * abs(probability[bins == number].mean() - right[bins == number].mean())
        for number in np.unique(bins)
    ]
    return float(sum(gaps))
