"""Bounds that proofs stand on: exact where they can be computed by hand, above the truth elsewhere."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from robustmat.models.bounds import Bounded, at_most, convolution_bound, diagonal_bound, flow_bound, matrix_bound
from robustmat.models.solvers import SolverConfig
from robustmat.types import Array

DECAY, LIPSCHITZ = 1.2, 0.7


def euler(h: float) -> float:
    return abs(1 - DECAY * h) + LIPSCHITZ * h


def midpoint(h: float) -> float:
    """By hand: the second stage stands at z + h/2 (-a z + N(z)), the step is z + h (-a stage + N(stage))."""
    stage = abs(1 - DECAY * h / 2) + LIPSCHITZ * h / 2
    own = abs(1 - DECAY * h + (DECAY * h) ** 2 / 2)
    return own + LIPSCHITZ * (DECAY * h**2 / 2 + h * stage)


def rk4(h: float) -> float:
    """Every state as a sum over z and the four values of N, each of which stretches like the state it is taken at."""
    z, *values = np.eye(5)
    stretch: list[float] = []

    def slope(state: Array, value: Array) -> Array:
        stretch.append(growth(state))
        return -DECAY * state + value

    def growth(state: Array) -> float:
        return float(abs(state[0]) + sum(abs(state[1 + n]) * LIPSCHITZ * one for n, one in enumerate(stretch)))

    first = slope(z, values[0])
    second = slope(z + h / 2 * first, values[1])
    third = slope(z + h / 2 * second, values[2])
    fourth = slope(z + h * third, values[3])
    return growth(z + h / 6 * (first + 2 * second + 2 * third + fourth))


@pytest.mark.parametrize(("name", "by_hand"), [("euler", euler), ("midpoint", midpoint), ("rk4", rk4)])
@pytest.mark.parametrize(("steps", "end_time"), [(1, 1.0), (2, 1.0), (2, 2.0)])
def test_bounds_of_fixed_steps_are_those_found_by_hand(
    name: str, by_hand: Callable[[float], float], steps: int, end_time: float
) -> None:
    solver = SolverConfig(name=name, steps=steps)
    h = solver.step_size(end_time)
    assert flow_bound(DECAY, LIPSCHITZ, end_time, solver) == pytest.approx(by_hand(h) ** round(end_time / h))


def test_without_a_nonlinear_part_rk4_is_the_exponentials_first_five_terms() -> None:
    z = -DECAY / 2
    expected = sum(z**n / math.factorial(n) for n in range(5)) ** 2
    assert flow_bound(DECAY, 0.0, 1.0, SolverConfig(name="rk4", steps=2)) == pytest.approx(expected)


def test_exactly_solved_flows_shrink_by_the_exponential_of_their_rate() -> None:
    found = flow_bound(DECAY, LIPSCHITZ, 3.0, SolverConfig(name="dopri5"))
    assert found == pytest.approx(math.exp(-3 * (DECAY - LIPSCHITZ)))


@pytest.mark.parametrize(("size", "slack"), [(1, 1.0), (3, 1 / math.cos(math.pi / 8) ** 2), (5, 2.0), (9, 2.0)])
def test_a_convolution_that_adds_a_patch_stretches_by_its_size(size: int, slack: float) -> None:
    """Its largest gain is at frequency zero, where the grid looks: only the slack between samples is above it."""
    found = float(convolution_bound(torch.ones(1, 1, size, size, dtype=torch.float64)))
    assert found == pytest.approx(size**2 * slack, rel=1e-4)
    assert found > size**2 * slack  # room for rounding


def test_the_frequency_that_stretches_most_decides_and_not_the_one_that_stretches_most_channels() -> None:
    kernel = torch.zeros(2, 2, 3, 3, dtype=torch.float64)
    kernel[:, :, 1, 1] = torch.diag(torch.tensor([3.5, 1.5]))
    kernel[:, :, 1, 0] = kernel[:, :, 1, 2] = torch.diag(torch.tensor([-0.25, 0.75]))
    # Stripes of one pixel: the first channel by 4, the second by 0. Plain areas: both by 3.
    assert float(convolution_bound(kernel)) == pytest.approx(4 / math.cos(math.pi / 8) ** 2, rel=1e-4)


def test_a_rows_absolute_correlations_bound_a_convolution() -> None:
    kernel = torch.zeros(2, 1, 3, 3, dtype=torch.float64)
    kernel[0, 0, 1] = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    kernel[1, 0, 1, 1] = 4.0
    # Correlations of the first with itself 14, -8 and 3 on both sides; with the second 4, 8 and 12.
    expected = torch.tensor([14 + 2 * 8 + 2 * 3 + 24, 16 + 24], dtype=torch.float64)
    torch.testing.assert_close(diagonal_bound(kernel), expected, rtol=1e-4, atol=0)
    assert (diagonal_bound(kernel) > expected).all()  # room for rounding
    torch.testing.assert_close(diagonal_bound(kernel / 100), expected / 1e4, rtol=1e-4, atol=0)
    assert 0 < diagonal_bound(torch.zeros(1, 1, 3, 3)).item() < 1e-6  # something to divide by


def test_the_bound_of_the_identity_is_one_and_a_hair() -> None:
    channels = torch.eye(3, dtype=torch.float64)
    for found in (matrix_bound(channels), convolution_bound(channels[:, :, None, None])):
        assert 1 < float(found) < 1.0001


def test_only_what_exceeds_its_limit_is_scaled_down() -> None:
    weight = torch.full((2, 2), 3.0)
    assert torch.equal(at_most(weight, torch.tensor(4.0), 2.0), weight / 2)
    assert torch.equal(at_most(weight, torch.tensor(1.0), 2.0), weight)


class Counting:
    """`matrix_bound` that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return matrix_bound(weight)


def test_scaled_weights_are_remembered_until_a_weight_changes() -> None:
    count, weight = Counting(), torch.eye(3) * 5
    bounded = Bounded(count, 1.0)
    (first,) = bounded(weight)
    torch.testing.assert_close(first, torch.eye(3), rtol=1e-4, atol=0)
    assert bounded(weight)[0] is first
    assert count.calls == 1
    weight.data[0, 0] = 7.0  # neither version nor address tell
    assert bounded(weight)[0][0, 0] > bounded(weight)[0][1, 1]
    assert count.calls == 2
    assert bounded(weight.double())[0].dtype == torch.float64
    assert len(bounded(weight, weight)) == 2
    assert len(bounded(weight)) == 1


def test_gradients_flow_through_the_bound_and_nothing_is_remembered_then() -> None:
    count, weight = Counting(), (torch.eye(3) * 5).requires_grad_()
    bounded = Bounded(count, 1.0)
    for _ in range(2):
        (scaled,) = bounded(weight)
        assert scaled.requires_grad
    assert count.calls == 2
    with torch.no_grad():
        assert not bounded(weight)[0].requires_grad
    assert count.calls == 3
