"""Theorems 3 and 4 of the paper's supplement, checked on discrete distributions.

L_d is what training maximises where it minimises the loss of d: its expectation over matched and unmatched pairs of
embeddings. Here embeddings take one of n values, so that expectations are sums.
"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.special import xlogy

from robustmat.models.losses import pair_loss

seeds = st.integers(0, 2**31 - 1)
shares = st.floats(0.05, 0.95)


def distributions(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    matched, unmatched = rng.dirichlet(np.ones(count), 2)
    return matched, unmatched


def expected(matched: np.ndarray, unmatched: np.ndarray, share: float, d: np.ndarray) -> float:
    """L_d; 0 log 0 is 0."""
    return float(np.sum(share * xlogy(matched, d) + (1 - share) * xlogy(unmatched, 1 - d)))


def best(matched: np.ndarray, unmatched: np.ndarray, share: float) -> np.ndarray:
    """d* = P(match) p_matched / p."""
    return share * matched / (share * matched + (1 - share) * unmatched)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, share=shares, count=st.integers(2, 12))
def test_no_discriminator_is_better_than_the_optimal_one(seed: int, share: float, count: int) -> None:
    matched, unmatched = distributions(seed, count)
    top = expected(matched, unmatched, share, best(matched, unmatched, share))
    for other in np.random.default_rng(seed + 1).uniform(0.001, 0.999, (20, count)):
        assert expected(matched, unmatched, share, other) <= top + 1e-12


@settings(max_examples=30, deadline=None)
@given(seed=seeds, count=st.integers(2, 12))
def test_the_optimum_is_the_jensen_shannon_divergence(seed: int, count: int) -> None:
    matched, unmatched = distributions(seed, count)
    top = expected(matched, unmatched, 0.5, best(matched, unmatched, 0.5))
    assert top == pytest.approx(jensenshannon(matched, unmatched) ** 2 - np.log(2), abs=1e-9)


def test_the_loss_that_is_trained_is_minus_the_theorems_objective() -> None:
    matched, unmatched = distributions(3, 7)
    d = np.random.default_rng(0).uniform(0.05, 0.95, 7)
    logits = torch.from_numpy(np.log(d / (1 - d))).repeat(2)
    label = torch.arange(14) < 7
    weight = torch.from_numpy(np.concatenate([0.6 * matched, 0.4 * unmatched]))
    assert pair_loss(logits, label, weight).item() == pytest.approx(-expected(matched, unmatched, 0.6, d), rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, share=shares, count=st.integers(3, 12))
def test_theorem_3_the_optimum_moves_as_the_first_order_term_says(seed: int, share: float, count: int) -> None:
    """|max L~ - max L| = O(epsilon): what is left after the paper's first-order term falls with epsilon squared."""
    matched, unmatched = distributions(seed, count)
    assume(min(matched.min(), unmatched.min()) > 1e-3)  # a neighbourhood must not reach below zero
    rng = np.random.default_rng(seed + 2)
    changes = []
    for p in (matched, unmatched):
        phi = rng.normal(size=count)
        phi -= np.sqrt(p) * (np.sqrt(p) @ phi)  # so that what is added sums to zero
        changes.append(np.sqrt(p) * phi / np.linalg.norm(phi))
    p = share * matched + (1 - share) * unmatched
    first_order = share * np.sum(changes[0] * np.log(share * matched / p))
    first_order += (1 - share) * np.sum(changes[1] * np.log((1 - share) * unmatched / p))
    top = expected(matched, unmatched, share, best(matched, unmatched, share))

    def rest(epsilon: float) -> float:
        moved = [known + epsilon * change for known, change in zip((matched, unmatched), changes, strict=True)]
        return expected(*moved, share, best(*moved, share)) - top - epsilon * first_order

    small, smaller = rest(1e-3), rest(5e-4)
    assert abs(small) <= 1e-3 * 5  # O(epsilon) with room
    assert smaller == pytest.approx(small / 4, rel=0.2, abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, share=shares, count=st.integers(2, 12))
def test_theorem_4_no_discriminator_rises_above_zero(seed: int, share: float, count: int) -> None:
    matched, unmatched = distributions(seed, count)
    assert expected(matched, unmatched, share, best(matched, unmatched, share)) < 0


@settings(max_examples=20, deadline=None)
@given(seed=seeds, share=shares, count=st.integers(1, 6))
def test_theorem_4_equality_needs_distributions_that_share_nothing(seed: int, share: float, count: int) -> None:
    matched, unmatched = distributions(seed, count) if count > 1 else (np.ones(1), np.ones(1))
    apart = np.concatenate([matched, np.zeros(count)]), np.concatenate([np.zeros(count), unmatched])
    assert expected(*apart, share, best(*apart, share)) == pytest.approx(0, abs=1e-12)
    overlap = 0.9 * apart[0] + 0.1 * apart[1]
    assert expected(overlap, apart[1], share, best(overlap, apart[1], share)) < -1e-6
