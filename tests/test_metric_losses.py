"""The rivals' losses against plain loops in numpy, written from the papers' formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.models import metric_losses as losses

COUNT, DIM = 9, 5


@pytest.fixture
def case() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors, who is surely someone else, and the two sides of three matched pairs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(COUNT, DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    identity = np.array([0, 0, 1, 1, 2, 2, 3, 4, 5])
    unmatched = identity[:, None] != identity[None]
    unmatched[0, 6] = unmatched[6, 0] = False  # ambiguous: nobody's negative
    return x, unmatched, np.array([0, 2, 4]), np.array([1, 3, 5])


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(it) for it in arrays]


def euclid(x: np.ndarray) -> np.ndarray:
    return np.array([[np.linalg.norm(a - b) for b in x] for a in x])


def triplets(distance: np.ndarray, unmatched: np.ndarray, first: np.ndarray, second: np.ndarray) -> list[tuple]:
    found = []
    for i, j in zip(first, second, strict=True):
        wrong = [distance[s, k] for s in (i, j) for k in range(len(distance)) if unmatched[s, k]]
        found.append((distance[i, j], min(wrong)))
    return found


def test_distances_are_euclidean(case: tuple) -> None:
    (x,) = tensors(case[0])
    found = losses.distances(x, x).numpy()
    np.testing.assert_allclose(found, euclid(case[0]), atol=2e-4)  # a guard where two are equal


@pytest.mark.parametrize("power", [1, 2])
def test_hardnet_and_sosnet_take_the_nearest_sure_stranger_of_either_side(case: tuple, power: int) -> None:
    x, unmatched, first, second = case
    distance = euclid(x)
    expected = np.mean([max(0, 1 + p - n) ** power for p, n in triplets(distance, unmatched, first, second)])
    d, u, f, s = tensors(distance, unmatched, first, second)
    negative = losses.hardest_negative(d, u, f, s)
    assert losses.triplet_margin_loss(d[f, s], negative, 1.0, power).item() == pytest.approx(expected)


def test_exponential_loss_uses_the_farthest_sighting(case: tuple) -> None:
    x, unmatched, first, second = case
    distance = euclid(x)
    matched = ~unmatched & ~np.eye(COUNT, dtype=bool)
    matched[0, 6] = matched[6, 0] = False
    matched[0, 7] = matched[7, 0] = True  # a third sighting of the first object
    unmatched[0, 7] = unmatched[7, 0] = False
    expected = []
    for i, j in zip(first, second, strict=True):
        far = max(distance[s, k] for s in (i, j) for k in range(COUNT) if matched[s, k])
        near = min(distance[s, k] for s in (i, j) for k in range(COUNT) if unmatched[s, k])
        expected.append(math.exp(far - near))
    d, m, u, f, s = tensors(distance, matched, unmatched, first, second)
    found = losses.exponential_triplet_loss(losses.hardest_positive(d, m, f, s), losses.hardest_negative(d, u, f, s))
    assert found.item() == pytest.approx(np.mean(expected))


def test_exponential_loss_weighs_hard_triplets_more() -> None:
    positive = torch.tensor([0.2, 1.5], requires_grad=True)
    losses.exponential_triplet_loss(positive, torch.tensor([1.5, 0.2])).backward()
    easy, hard = positive.grad  # type: ignore[misc]
    assert hard > 5 * easy > 0


def test_hynet_blends_distance_and_cosine_and_keeps_lengths_alike(case: tuple) -> None:
    x, unmatched, first, second = case
    raw = x * np.linspace(1, 2, COUNT)[:, None]
    mixed = euclid(x) + 2.0 * (1 - x @ x.T)  # alpha (1 - cosine): the square of the distance is 2 (1 - cosine)
    expected = np.mean([max(0, 1.2 + p - n) for p, n in triplets(mixed, unmatched, first, second)])
    d, u, f, s, r = tensors(euclid(x), unmatched, first, second, raw)
    found = losses.hybrid(d, 2.0)
    negative = losses.hardest_negative(found, u, f, s)
    assert losses.triplet_margin_loss(found[f, s], negative, 1.2).item() == pytest.approx(expected)
    norms = [(np.linalg.norm(raw[i]) - np.linalg.norm(raw[j])) ** 2 for i, j in zip(first, second, strict=True)]
    assert losses.norm_difference(r, f, s).item() == pytest.approx(np.mean(norms), rel=1e-5)


@pytest.mark.parametrize("neighbors", [1, 2, 8])
def test_sosnet_compares_the_distances_among_nearest_pairs(
    case: tuple, neighbors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, unmatched, first, second = case
    monkeypatch.setattr(losses.nearest, "__defaults__", (neighbors,))
    distance = euclid(x)
    expected = []
    pairs = list(zip(first, second, strict=True))
    for p, (i, j) in enumerate(pairs):
        others = [q for q, (k, m) in enumerate(pairs) if q != p and unmatched[i, k] and unmatched[j, m]]
        near = set(sorted(others, key=lambda q: distance[i, first[q]])[:neighbors])
        near |= set(sorted(others, key=lambda q: distance[j, second[q]])[:neighbors])
        total = sum((distance[i, first[q]] - distance[j, second[q]]) ** 2 for q in near)
        expected.append(math.sqrt(total + 1e-6))
    found = losses.second_order_difference(*tensors(distance, unmatched, first, second))
    assert found.item() == pytest.approx(np.mean(expected))


def test_solar_compares_squared_distances_to_common_negatives(case: tuple) -> None:
    x, unmatched, first, second = case
    squared = euclid(x) ** 2
    expected = []
    for i, j in zip(first, second, strict=True):
        wrong = [k for k in range(COUNT) if unmatched[i, k] and unmatched[j, k]]
        expected.append(math.sqrt(np.mean([(squared[i, k] - squared[j, k]) ** 2 for k in wrong])))
    found = losses.second_order_similarity(*tensors(squared, unmatched, first, second))
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_solar_averages_its_triplets_over_the_five_nearest_negatives_of_a_match(case: tuple) -> None:
    x, unmatched, first, second = case
    squared = euclid(x) ** 2
    expected = [
        max(0.0, 1.25 + squared[i, j] - wrong)
        for i, j in zip(first, second, strict=True)
        for wrong in sorted(squared[i, unmatched[i]])[:5]
    ]
    assert max(unmatched[i].sum() for i in first) > 5  # or nothing would be left out
    found = losses.averaged_triplet_loss(*tensors(squared, unmatched, first, second), margin=1.25)
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_arcface_adds_its_margin_to_the_right_angle_only() -> None:
    rng = np.random.default_rng(1)
    cosine, identity = rng.uniform(-0.9, 0.9, (6, 4)), np.array([0, 3, 2, 2, -1, 1])
    expected = []
    for row, right in zip(cosine, identity, strict=True):
        if right >= 0:
            logits = [16 * (math.cos(math.acos(c) + 0.1) if k == right else c) for k, c in enumerate(row)]
            expected.append(math.log(sum(math.exp(it) for it in logits)) - logits[right])
    found = losses.margin_softmax_loss(*tensors(cosine, identity), scale=16.0, margin=0.1)
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_contrastive_margin_loss_pulls_matches_and_pushes_others_to_the_margin() -> None:
    distance, matched = np.array([0.5, 0.4, 1.7, 2.0]), np.array([True, False, False, True])
    weight = np.array([0.25, 0.25, 0.25, 0.0])  # the last is left out
    expected = (0.5**2 / 2 + (1 - 0.4) ** 2 / 2 + 0) / 3
    assert losses.contrastive_margin_loss(*tensors(distance, matched, weight), margin=1.0).item() == pytest.approx(
        expected
    )


def test_picking_loss_is_the_cross_entropy_of_the_right_partner(case: tuple) -> None:
    x, unmatched, first, second = case
    cosine = x @ x.T
    expected = []
    for own, other in ((first, second), (second, first)):
        for i, j in zip(own, other, strict=True):
            rivals = [math.exp(cosine[i, j] / 0.1)]
            rivals += [math.exp(cosine[i, k] / 0.1) for k in range(COUNT) if unmatched[i, k]]
            expected.append(-math.log(rivals[0] / sum(rivals)))
    found = losses.picking_loss(*tensors(cosine, unmatched, first, second), temperature=0.1)
    assert found.item() == pytest.approx(np.mean(expected))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_patches_without_negatives_cost_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(4, 3))).requires_grad_()
    unit = torch.nn.functional.normalize(x, dim=1)
    distance = losses.distances(unit, unit)
    nobody = torch.zeros(4, 4, dtype=torch.bool)
    first, second = torch.tensor([0, 2]), torch.tensor([1, 3])
    negative = losses.hardest_negative(distance, nobody, first, second)
    for loss in (
        losses.triplet_margin_loss(distance[first, second], negative, 1.0),
        losses.exponential_triplet_loss(distance[first, second], negative),
        losses.second_order_similarity(distance.square(), nobody, first, second),
        losses.averaged_triplet_loss(distance.square(), nobody, first, second, 1.25),
    ):
        assert loss.item() == 0
        loss.backward(retain_graph=True)
    assert x.grad is not None
    assert not x.grad.any()
