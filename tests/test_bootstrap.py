"""Intervals over objects: what is resampled, what is weighted, and what a comparison says."""

import numpy as np
import pytest
import sklearn.metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.evaluation.bootstrap import (
    Difference,
    compare,
    draw_identities,
    draw_objects,
    intervals,
    pair_weights,
    percentile_interval,
    resampled,
)
from robustmat.evaluation.metrics import METRICS, curve, measure, roc_auc_of


def some_pairs(
    seed: int, identities: int = 30, pairs: int = 400, strength: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and identities; some objects are harder than others."""
    rng = np.random.default_rng(seed)
    labels = np.arange(pairs) % 4 != 3
    first = rng.integers(0, identities, pairs)
    second = np.where(labels, first, (first + rng.integers(1, identities, pairs)) % identities)
    hardness = rng.normal(0, 0.7, identities)
    scores = strength * labels + hardness[first] + rng.normal(0, 0.7, pairs)
    return scores, labels, first, second


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_resample_is_the_list_of_pairs_repeated_as_its_objects_were_drawn(seed: int) -> None:
    scores, labels, first, second = some_pairs(seed, identities=8, pairs=60)
    drawn = draw_identities(8, 1, seed)
    assert drawn.sum() == 8
    weights = pair_weights(drawn, first, second)[0]
    draws = np.repeat(np.arange(8), drawn[0].astype(int))
    repeated = []  # written out: every draw of one object with every draw of the other
    for row in range(len(labels)):
        if labels[row]:
            repeated += [row] * int(np.sum(draws == first[row]))
        else:
            repeated += [row for x in draws for y in draws if x == first[row] and y == second[row]]
    np.testing.assert_array_equal(np.bincount(repeated, minlength=len(labels)), weights)
    if 0 < labels[repeated].sum() < len(repeated):
        values = resampled(first, second, lambda it: {"auc": roc_auc_of(curve(scores, labels, it))}, 1, seed)
        expected = oracle.roc_auc_score(labels[repeated], scores[repeated])
        assert values["auc"][0] == pytest.approx(expected)


def test_interval_surrounds_the_number_for_every_metric() -> None:
    scores, labels, first, second = some_pairs(0)
    found = intervals(scores, labels, 0.5, identity_a=first, identity_b=second)
    value = measure(scores, labels, 0.5)
    assert set(found) == set(METRICS)
    for name, (low, high) in found.items():
        assert low < value[name] < high
        assert low >= 0
        assert high <= 1


def test_more_pairs_of_the_same_objects_do_not_make_the_interval_narrower() -> None:
    scores, labels, first, second = some_pairs(1)
    once = intervals(scores, labels, 0.5, identity_a=first, identity_b=second)
    five = [np.tile(it, 5) for it in (scores, labels, first, second)]
    often = intervals(five[0], five[1], 0.5, identity_a=five[2], identity_b=five[3])
    for name in METRICS:
        assert often[name] == pytest.approx(once[name])


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Over many towns the 95 % interval of the ROC AUC must hold the value of an endless town."""
    truth = np.mean([_one_auc(*some_pairs(10_000 + seed, 400, 4000)[:2]) for seed in range(5)])
    inside = []
    for seed in range(60):
        scores, labels, first, second = some_pairs(seed)
        interval = intervals(scores, labels, 0.5, identity_a=first, identity_b=second, resamples=200)["roc_auc"]
        inside.append(interval[0] <= truth <= interval[1])
    assert np.mean(inside) >= 0.85


def _one_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    return float(oracle.roc_auc_score(labels, scores))


def test_blocks_of_resamples_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels, first, second = some_pairs(2)
    whole = intervals(scores, labels, 0.5, identity_a=first, identity_b=second, resamples=50)
    monkeypatch.setattr("robustmat.evaluation.bootstrap.MOST_VALUES", 7 * len(labels))
    assert intervals(scores, labels, 0.5, identity_a=first, identity_b=second, resamples=50) == whole


def test_same_seed_same_interval_and_identity_names_do_not_matter() -> None:
    scores, labels, first, second = some_pairs(3)
    found = intervals(scores, labels, 0.5, identity_a=first, identity_b=second, seed=9)
    assert found == intervals(scores, labels, 0.5, identity_a=first, identity_b=second, seed=9)
    assert found == intervals(scores, labels, 0.5, identity_a=first + 1000, identity_b=second + 1000, seed=9)
    assert found != intervals(scores, labels, 0.5, identity_a=first, identity_b=second, seed=10)


def test_a_method_against_itself_differs_by_nothing() -> None:
    scores, labels, first, second = some_pairs(4)
    method = (scores, 0.5)
    for found in compare(method, method, labels, identity_a=first, identity_b=second, resamples=50).values():
        assert (found.value, found.low, found.high) == (0, 0, 0)
        assert not found.is_clear


def test_pairing_finds_a_small_steady_gain_that_separate_intervals_hide() -> None:
    scores, labels, first, second = some_pairs(5)
    better = scores + 0.15 * labels
    one = intervals(scores, labels, 0.5, identity_a=first, identity_b=second)["roc_auc"]
    two = intervals(better, labels, 0.5, identity_a=first, identity_b=second)["roc_auc"]
    assert one[1] > two[0], "the two intervals overlap"
    gain = compare((better, 0.5), (scores, 0.5), labels, identity_a=first, identity_b=second)["roc_auc"]
    assert gain.is_clear
    assert gain.low > 0
    expected = oracle.roc_auc_score(labels, better) - oracle.roc_auc_score(labels, scores)
    assert gain.value == pytest.approx(expected)
    loss = compare((scores, 0.5), (better, 0.5), labels, identity_a=first, identity_b=second)["roc_auc"]
    assert loss.value == pytest.approx(-gain.value)
    assert loss.high < 0


def test_resamples_without_a_value_are_left_out_and_none_at_all_gives_nan() -> None:
    assert percentile_interval(np.array([0.5, np.nan, 0.5])) == (0.5, 0.5)
    assert np.isnan(percentile_interval(np.array([np.nan]))).all()


def test_a_difference_is_clear_when_its_interval_leaves_out_zero() -> None:
    assert Difference(0.1, 0.05, 0.2).is_clear
    assert Difference(-0.1, -0.2, -0.05).is_clear
    assert not Difference(0.1, -0.05, 0.2).is_clear


def test_an_interval_is_the_middle_of_the_values() -> None:
    assert percentile_interval(np.arange(101.0), 0.9) == pytest.approx((5, 95))
    assert percentile_interval(np.arange(1001.0)) == pytest.approx((25, 975))


def test_a_pair_counts_as_often_as_its_objects_were_drawn() -> None:
    drawn, first, second = np.array([[2.0, 3.0, 0.0]]), np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    assert pair_weights(drawn, first, second).tolist() == [[2, 6, 3, 0]]


def test_every_resample_draws_as_many_objects_as_there_are() -> None:
    draws = draw_objects([np.array([7, 3]), np.array([3, 9])], resamples=200, seed=1)
    assert draws.identities.tolist() == [3, 7, 9]
    assert draws.counts.shape == (200, 3)
    assert (draws.counts.sum(axis=1) == 3).all()
    assert draws.counts.mean(axis=0) == pytest.approx(1, abs=0.2)
    assert (draw_objects([np.arange(5)]).counts == draw_objects([np.arange(5)], 500, 0).counts).all()
