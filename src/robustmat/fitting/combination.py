"""Fit how much each number about a candidate counts: a logistic model, judged after the competition.

Every landmark of known identity either has one partner in the other frame or none, and its row (or column) of
candidates shares its trust among them. The weights maximise the likelihood of those answers, so a weight is paid for by
what it does to matches and not to single pairs. The probability is then calibrated on mutual best candidates: those are
the ones that a user sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from robustmat.dataset.truth import Indices
from robustmat.errors import DataError
from robustmat.matching.assign import mutual_best
from robustmat.matching.combine import LOGIT_RANGE, SUREST, Combination, compete
from robustmat.matching.decision import log_odds
from robustmat.types import AMBIGUOUS, MATCHED, Array

PENALTY = 3e-4  # on squared weights of features of unit spread
SMALL = 1e-30
PRECISION_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995)
FEWEST_ABOVE = 30  # candidates that a precision is measured on


@dataclass(frozen=True)
class Case:
    """One frame pair with its answers."""

    features: Mapping[str, Array]  # [A, B] each
    label: NDArray[np.integer]  # [A, B]
    allowed: NDArray[np.bool_]  # [A, B]
    known_a: NDArray[np.bool_]  # [A], whether it is known what the landmark is
    known_b: NDArray[np.bool_]  # [B]
    weight: float = 1.0


@dataclass(frozen=True)
class _Side:
    """One side's competitions, over all frame pairs: which group each candidate competes in, and who wins."""

    group: Indices  # [N], row or column
    takes_part: NDArray[np.bool_]  # [N]
    right: NDArray[np.bool_]  # [N]
    weight: Array  # [G]

    def loss(self, odds: Array) -> tuple[float, Array]:
        """-log likelihood of all answers, and its slope [N] by the candidates' logits."""
        count = len(self.weight)
        whole = 1 + np.bincount(self.group, odds * self.takes_part, count)
        won = np.bincount(self.group, odds * (self.takes_part & self.right), count)
        has_partner = np.bincount(self.group, self.takes_part & self.right, count) > 0
        won = np.where(has_partner, won, 1.0)  # the odds of none
        loss = float((self.weight * (np.log(whole) - np.log(np.maximum(won, SMALL)))).sum())
        share, target = odds / whole[self.group], odds / np.maximum(won[self.group], SMALL)
        slope = self.takes_part * (share - np.where(has_partner[self.group] & self.right, target, 0.0))
        return loss, self.weight[self.group] * slope


def fit_combination(
    cases: Sequence[Case],
    names: Sequence[str],
    *,
    penalty: float = PENALTY,
    signs: Mapping[str, int] | None = None,
) -> Combination:
    """The weights of the named features.

    Args:
        signs: +1 or -1 for features that may only speak for a match, or only against.
    """
    design, rows, columns = gather(cases, names)
    center, spread = design.mean(axis=0), design.std(axis=0) + 1e-9
    design = (design - center) / spread
    total = float(rows.weight.sum() + columns.weight.sum())

    def loss(weights: Array) -> tuple[float, Array]:
        odds = np.exp(np.clip(design @ weights[:-1] + weights[-1], -LOGIT_RANGE, LOGIT_RANGE))
        (by_rows, slope_rows), (by_columns, slope_columns) = rows.loss(odds), columns.loss(odds)
        slope = (slope_rows + slope_columns) / total
        gradient = np.append(design.T @ slope + 2 * penalty * weights[:-1], slope.sum())
        return (by_rows + by_columns) / total + penalty * float((weights[:-1] ** 2).sum()), gradient

    allowed = {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}
    bounds = [allowed[(signs or {}).get(name, 0)] for name in names] + [(None, None)]
    start = np.zeros(len(names) + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    weights = found[:-1] / spread
    plain = Combination(
        weights={name: float(weight) for name, weight in zip(names, weights, strict=True)},
        intercept=float(found[-1] - weights @ center),
    )
    return calibrated(plain, cases)


def calibrated(combination: Combination, cases: Sequence[Case]) -> Combination:
    """The same with the slope and offset that make the probability of mutual best candidates true."""
    score, right, weight = [], [], []
    for case in cases:
        share = compete(combination.logits(dict(case.features)), case.allowed)
        for i, j in mutual_best(share, -np.inf, case.allowed):
            if case.label[i, j] != AMBIGUOUS:
                score.append(float(log_odds(share[i, j], SUREST)))
                right.append(bool(case.label[i, j] == MATCHED))
                weight.append(case.weight)
    scores, rights, weights = np.array(score), np.array(right, np.float64), np.array(weight)
    slope, offset = _weighted_calibration(scores, rights, weights)
    table = _precision_table(expit(slope * scores + offset), rights, weights)
    return combination.model_copy(update={"slope": slope, "offset": offset, "precision": table})


def _precision_table(probability: Array, right: Array, weight: Array) -> tuple[tuple[float, float], ...]:
    """For some least probabilities, the share of right ones among the candidates above."""
    found = []
    for least in PRECISION_STEPS:
        above = probability >= least
        if above.sum() >= FEWEST_ABOVE:
            found.append((least, round(float((weight * right)[above].sum() / weight[above].sum()), 4)))
    return tuple(found)


def _weighted_calibration(score: Array, right: Array, weight: Array) -> tuple[float, float]:
    """Slope and offset of a sigmoid by weighted maximum likelihood, held to a slope near one where examples are few."""

    def loss(line: Array) -> tuple[float, Array]:
        logit = line[0] * score + line[1]
        miss = weight * (expit(logit) - right)
        value = float((weight * (np.logaddexp(0, logit) - right * logit)).sum())
        return value + float((line[0] - 1) ** 2), np.array([miss @ score + 2 * (line[0] - 1), miss.sum()])

    if not len(score):
        return 1.0, 0.0
    slope, offset = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return float(slope), float(offset)


def gather(cases: Sequence[Case], names: Sequence[str]) -> tuple[Array, _Side, _Side]:
    """All candidates that take part in a judged competition: features [N, F], and both sides' competitions."""
    design: list[Array] = []
    columns: list[list[NDArray[Any]]] = [[] for _ in range(5)]
    weights_a: list[NDArray[Any]] = []
    weights_b: list[NDArray[Any]] = []
    count_a = count_b = 0
    for case in cases:
        in_row, in_column = _takes_part(case)
        chosen = in_row | in_column
        if chosen.any():
            i, j = np.nonzero(chosen)
            design.append(
                np.stack([np.broadcast_to(case.features[name], chosen.shape)[chosen] for name in names], axis=1)
            )
            found = (i + count_a, j + count_b, in_row[chosen], in_column[chosen], (case.label == MATCHED)[chosen])
            for column, values in zip(columns, found, strict=True):
                column.append(values)
        weights_a.append(case.weight * case.known_a)
        weights_b.append(case.weight * case.known_b)
        count_a, count_b = count_a + len(case.known_a), count_b + len(case.known_b)
    if not design:
        raise DataError("no candidates of known landmarks to fit a combination of evidence to: use a longer drive")
    row, column_of, in_row, in_column, right = (np.concatenate(one_column) for one_column in columns)
    rows = _Side(row, in_row, right, np.concatenate(weights_a))
    return np.concatenate(design), rows, _Side(column_of, in_column, right, np.concatenate(weights_b))


def _takes_part(case: Case) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which candidates [A, B] count as rivals in the competition of their row, and of their column.

    Ambiguous ones do not, for they may be right; but a landmark whose partner is known is not the same as one whose
    identity nobody knows.
    """
    matched, ambiguous = case.label == MATCHED, case.label == AMBIGUOUS
    unknown = ambiguous & (~case.known_a[:, None] | ~case.known_b)
    has_a, has_b = matched.any(axis=1)[:, None], matched.any(axis=0)
    in_row = case.allowed & case.known_a[:, None] & (~ambiguous | (unknown & has_a))
    in_column = case.allowed & case.known_b & (~ambiguous | (unknown & has_b))
    return in_row, in_column
