"""How far a number can be trusted: intervals from resampled objects, not from resampled pairs.

Twenty pairs of one signpost are not twenty independent trials. So *identities* are drawn with replacement,
and a pair counts as often as its objects were drawn: a matched pair as often as its one object, an
unmatched pair as often as the product of its two, since it is there once for each draw of both.

What is compared or averaged on one test must share its draws (`draw_objects`). Training seeds see the same objects:
were each of them resampled by itself, a street that happens to be easy would average out, and intervals would be too
narrow.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from robustmat.evaluation.metrics import Labels, all_metrics
from robustmat.types import Array

RESAMPLES = 500
LEVEL = 0.95
MOST_VALUES = 4_000_000  # of weights held at once

Identities = NDArray[np.int64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """How much the first method is above the second, on the same pairs and the same resamples."""

    value: float
    low: float
    high: float
    ahead: float = float("nan")  # the share of resamples in which the first is above the second

    @property
    def is_clear(self) -> bool:
        """The interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Draws:
    """How often each object of a test is drawn, in each resample."""

    identities: Identities  # [I], rising
    counts: Array  # [R, I]


def draw_objects(identities: Iterable[Identities], resamples: int = RESAMPLES, seed: int = 0) -> Draws:
    """Draws over all objects that occur in any of the arrays; objects that one seed's pairs leave out stay in."""
    known = np.unique(np.concatenate(list(identities)))
    return Draws(known, draw_identities(len(known), resamples, seed))


def draw_identities(count: int, resamples: int, seed: int) -> Array:
    """How often each of `count` identities is drawn, in each resample: [R, count]."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)


def pair_weights(drawn: Array, first: Identities, second: Identities) -> Array:
    """How often each pair counts: [R, N]; `first` and `second` are columns of `drawn`."""
    return np.where(first == second, drawn[:, first], drawn[:, first] * drawn[:, second])


def percentile_interval(values: Array, level: float = LEVEL) -> Interval:
    """The middle `level` of the values; resamples without a value (no unmatched pair drawn) are left out."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_for_all(values: Array, comparisons: int, level: float = LEVEL) -> Interval:
    """An interval that holds for so many comparisons at once (Bonferroni).

    It is that of one comparison, stretched from the median on as a normal's would be: its own far tails would rest on a
    draw or two.
    """
    known = values[np.isfinite(values)]
    if comparisons < 2 or not len(known):
        return percentile_interval(known, level)
    middle = float(np.median(known))
    normal = NormalDist()
    stretch = normal.inv_cdf(1 - (1 - level) / 2 / comparisons) / normal.inv_cdf((1 + level) / 2)
    low, high = (middle + stretch * (end - middle) for end in percentile_interval(known, level))
    return low, high


def resampled(
    identity_a: Identities,
    identity_b: Identities,
    metrics: Callable[[Array], dict[str, Array]],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Array]:
    """`metrics(weights)` over all resamples of the pairs' own objects: name -> [R]."""
    return over_draws(draw_objects([identity_a, identity_b], resamples, seed), identity_a, identity_b, metrics)


def over_draws(
    draws: Draws, identity_a: Identities, identity_b: Identities, metrics: Callable[[Array], dict[str, Array]]
) -> dict[str, Array]:
    """`metrics(weights)` over draws that others share, a block of resamples at a time: name -> [R]."""
    first, second = (np.searchsorted(draws.identities, column) for column in (identity_a, identity_b))
    parts = [metrics(pair_weights(block, first, second)) for block in _blocks(draws.counts, len(first))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def intervals(
    scores: Array,
    labels: Labels,
    threshold: float,
    *,
    identity_a: Identities,
    identity_b: Identities,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """A 95 % interval for every metric of the pair protocol."""
    values = resampled(
        identity_a,
        identity_b,
        lambda weights: all_metrics(scores, labels, threshold, weights),
        resamples,
        seed,
    )
    return {name: percentile_interval(value) for name, value in values.items()}


def compare(
    first: tuple[Array, float],
    second: tuple[Array, float],
    labels: Labels,
    *,
    identity_a: Identities,
    identity_b: Identities,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """First method minus second, metric by metric; each method is its scores [N] and its threshold."""

    def difference(weights: Array) -> dict[str, Array]:
        ours = all_metrics(first[0], labels, first[1], weights)
        theirs = all_metrics(second[0], labels, second[1], weights)
        return {name: ours[name] - theirs[name] for name in ours}

    values = resampled(identity_a, identity_b, difference, resamples, seed)
    found = difference(np.ones((1, len(labels))))
    return {name: Difference(float(found[name][0]), *percentile_interval(values[name])) for name in values}


def _blocks(drawn: Array, pairs: int) -> Iterator[Array]:
    size = max(1, MOST_VALUES // max(pairs, 1))
    for start in range(0, len(drawn), size):
        yield drawn[start : start + size]
