"""Fitting a combination of evidence: through the competition, with plain numbers as the result."""

import numpy as np
import pytest

from robustmat.errors import DataError
from robustmat.fitting.combination import Case, fit_combination
from robustmat.matching.assign import mutual_best
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED

NAMES = ("good", "noise")


def cases(count: int, seed: int, shared: float = 0.6) -> list[Case]:
    """Frame pairs of five landmarks of which some have a partner; `good` tells, `noise` does not."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        label = np.full((5, 5), UNMATCHED)
        for landmark in np.flatnonzero(rng.random(5) < shared):
            label[landmark, landmark] = MATCHED
        good = np.where(label == MATCHED, 2.0, -2.0) + rng.normal(0, 1.5, (5, 5))
        known = np.ones(5, bool)
        found.append(
            Case({"good": good, "noise": rng.normal(0, 1, (5, 5))}, label, np.ones((5, 5), bool), known, known)
        )
    return found


def test_weight_goes_to_what_tells_and_probability_is_calibrated() -> None:
    combination = fit_combination(cases(150, 0), NAMES)
    assert combination.weights["good"] > 0.5
    assert abs(combination.weights["noise"]) < 0.2
    said, right = [], []
    for case in cases(300, 1):
        probability = combination.probability(dict(case.features), case.allowed)
        for i, j in mutual_best(probability, 0.0):
            said.append(probability[i, j])
            right.append(case.label[i, j] == MATCHED)
    said_array, right_array = np.array(said), np.array(right)
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 0.95), (0.95, 1.0)):
        chosen = (said_array >= low) & (said_array <= high)
        assert said_array[chosen].mean() == pytest.approx(right_array[chosen].mean(), abs=0.12)


def test_frames_that_share_nothing_teach_it_to_say_no() -> None:
    trusting = fit_combination(cases(100, 2), NAMES)
    wary = fit_combination(cases(100, 2) + cases(300, 3, shared=0.0), NAMES)
    strange = cases(100, 4, shared=0.0)

    def returned(combination) -> int:  # type: ignore[no-untyped-def]
        return sum(
            len(mutual_best(combination.probability(dict(it.features), it.allowed), 0.5, it.allowed)) for it in strange
        )

    assert returned(wary) < 0.7 * returned(trusting)


def test_ambiguous_candidates_teach_nothing() -> None:
    doubtful = []
    for case in cases(80, 5):
        label, good = case.label.copy(), case.features["good"].copy()
        label[1, 2] = label[3, 4] = AMBIGUOUS
        good[1, 2] = good[3, 4] = 50.0  # would ruin the fit if it counted
        features = {"good": good, "noise": case.features["noise"]}
        doubtful.append(Case(features, label, case.allowed, case.known_a, case.known_b))
    combination = fit_combination(doubtful, NAMES, penalty=0.0)
    assert combination.weights["good"] > 0.5


def test_signs_are_kept() -> None:
    combination = fit_combination(cases(60, 6), NAMES, signs={"good": -1, "noise": 1})
    assert combination.weights["good"] <= 0
    assert combination.weights["noise"] >= 0


def test_nothing_to_fit_is_said() -> None:
    nobody = Case(
        {"good": np.zeros((0, 0)), "noise": np.zeros((0, 0))},
        np.zeros((0, 0), int),
        np.zeros((0, 0), bool),
        np.zeros(0, bool),
        np.zeros(0, bool),
    )
    with pytest.raises(DataError, match="no candidates"):
        fit_combination([nobody], NAMES)
