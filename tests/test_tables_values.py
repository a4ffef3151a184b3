"""Leads in a table: the objects are the sample, and more training seeds do not make more objects."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from robustmat.evaluation.bootstrap import interval_for_all, percentile_interval
from robustmat.tables import values
from robustmat.tables.packed import Entry, Judged
from robustmat.tables.values import compare_entries, make_section

OBJECTS, SIGHTINGS = 24, 40


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "BOOTSTRAPS", 500)


def entry(label: str, seed: int, gain: float, leave_out: int = 0) -> Entry:
    """A method whose scores depend on the object alone: half of the objects are easier for it by `gain`.

    Every seed draws its own pairs and order, of the same objects with the same difficulties.
    """
    rng = np.random.default_rng(seed)
    difficulty = np.random.default_rng(99).normal(0, 1, OBJECTS)
    first = rng.permutation(np.repeat(np.arange(leave_out, OBJECTS), SIGHTINGS))
    matched = np.arange(len(first)) % 4 != 3
    second = np.where(matched, first, (first + rng.integers(1, OBJECTS - leave_out, len(first))) % OBJECTS)
    second = np.where(~matched & (second < leave_out), OBJECTS - 1, second)
    matched = first == second
    score = matched + difficulty[first] + gain * matched * (first % 2)
    judged = Judged(np.zeros(len(first), np.int64), matched, first, second, possible=0)
    return Entry(label, seed, score - 0.5, 0, 0, judged)


def width(seeds: range, **options: int) -> float:
    ours = [entry("ours", seed, 1.0, **options) for seed in seeds]
    theirs = [entry("theirs", seed, 0.0, **options) for seed in seeds]
    found = compare_entries([(ours, theirs)], "same-class")
    assert found.low < found.value < found.high
    return found.high - found.low


def test_errors_of_the_same_objects_do_not_average_out_over_seeds() -> None:
    one = float(np.mean([width(range(seed, seed + 1)) for seed in range(4)]))
    # Resampled seed by seed, four seeds would halve the interval. What is left to gain is the drawing of pairs.
    assert width(range(4)) > 0.75 * one


def test_a_seed_repeated_changes_no_interval() -> None:
    ours, theirs = entry("ours", 0, 1.0), entry("theirs", 0, 0.0)
    seeds = [(ours, theirs), (replace(ours, seed=1), replace(theirs, seed=1))]
    once = compare_entries([([ours], [theirs])], "same-class")
    twice = compare_entries([([a for a, _ in seeds], [b for _, b in seeds])], "same-class")
    assert (twice.value, twice.low, twice.high) == pytest.approx((once.value, once.low, once.high))


def test_seeds_may_draw_pairs_of_different_objects() -> None:
    ours = [entry("ours", 0, 1.0), entry("ours", 1, 1.0, leave_out=5)]
    theirs = [entry("theirs", 0, 0.0), entry("theirs", 1, 0.0, leave_out=5)]
    found = compare_entries([(ours, theirs)], "same-class")
    assert np.isfinite([found.value, found.low, found.high]).all()


def test_different_streets_are_drawn_apart() -> None:
    """Two tests bring new objects: their mean is known better than either."""
    ours, theirs = [entry("ours", 0, 1.0)], [entry("theirs", 0, 0.0)]
    once = compare_entries([(ours, theirs)], "same-class")
    both = compare_entries([(ours, theirs), (ours, theirs)], "same-class")
    assert both.high - both.low < 0.85 * (once.high - once.low)


def test_an_interval_for_many_comparisons_needs_no_draws_in_its_tails() -> None:
    """That of a normal is known exactly; that of one comparison is the plain percentiles."""
    exact = NormalDist(3.0, 2.0)
    draws = np.array([exact.inv_cdf((k + 0.5) / 2000) for k in range(2000)])
    assert interval_for_all(draws, 1) == percentile_interval(draws)
    low, high = interval_for_all(draws, 31)
    assert (low, high) == pytest.approx((exact.inv_cdf(0.025 / 31), exact.inv_cdf(1 - 0.025 / 31)), abs=0.03)
    ends = [interval_for_all(np.random.default_rng(seed).normal(0, 1, 2000), 31)[0] for seed in range(20)]
    tails = [np.quantile(np.random.default_rng(seed).normal(0, 1, 2000), 0.025 / 31) for seed in range(20)]
    assert np.std(ends) < 0.6 * np.std(tails)


def test_the_best_of_many_equal_rivals_is_seldom_called_better() -> None:
    """Methods that differ by chance alone: each has its own good and bad objects, none is better on new ones."""
    rivals, streets, claims = 14, 30, {"of one": 0, "of many": 0}
    for street in range(streets):
        rng = np.random.default_rng([7, street])
        plain = entry("ours", street, 0.0)
        known = [
            replace(plain, label=str(number), score=plain.score + noise[plain.judged.identity_a] * plain.judged.label)
            for number, noise in enumerate(rng.normal(0, 1, (rivals + 1, OBJECTS)))
        ]
        section = make_section("a", "clean", "same-class", known, ())
        best, lead = section.differences["0"]
        group = section.entries
        claims["of many"] += lead.is_clear
        claims["of one"] += compare_entries([(group["0"], group[best])], "same-class").is_clear
    assert claims["of many"] <= 0.1 * streets
    assert claims["of one"] >= 0.2 * streets  # what the wider interval is for


def test_a_row_is_compared_with_the_best_other_method_that_knows_as_much() -> None:
    gains = {"hardnet": 0.0, "vgg": 0.5, "vgg+placement": 1.0, "hardnet+competition": 0.2, "street+frames": 0.8}
    entries = [entry(name, 0, gain) for name, gain in gains.items()]
    rivals = {
        name: rival for name, (rival, _) in make_section("a", "clean", "same-class", entries, ()).differences.items()
    }
    assert rivals == {
        "hardnet": "vgg",
        "vgg": "hardnet",
        "hardnet+competition": "street+frames",
        "street+frames": "hardnet+competition",
    }
