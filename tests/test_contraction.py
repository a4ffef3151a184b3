"""Theorems 1 and 2: contractive fields contract by construction, on any weights and inputs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.config import parse
from robustmat.errors import ConfigError
from robustmat.models.bounds import convolution_bound, matrix_bound
from robustmat.models.graph import ContractiveConvolutionField, GraphConfig, GraphDiffusion
from robustmat.models.solvers import SolverConfig, solve
from robustmat.models.vertex import ContractiveField, VertexConfig

FINE = SolverConfig(name="dopri5", tolerance=1e-9, max_evaluations=5000)
seeds = st.integers(0, 2**31 - 1)


def dense_operator(kernel: np.ndarray, side: int) -> np.ndarray:
    """The matrix of a zero-padded convolution, entry by entry."""
    outputs, inputs, size, _ = kernel.shape
    reach = size // 2
    matrix = np.zeros((outputs, side, side, inputs, side, side))
    for y in range(side):
        for x in range(side):
            for dy in range(-reach, reach + 1):
                for dx in range(-reach, reach + 1):
                    if 0 <= y + dy < side and 0 <= x + dx < side:
                        matrix[:, y, x, :, y + dy, x + dx] = kernel[:, :, dy + reach, dx + reach]
    return matrix.reshape(outputs * side * side, -1)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, channels=st.integers(1, 3), side=st.integers(3, 7), smooth=st.booleans())
def test_convolution_bound_is_never_below_the_operator_norm(seed: int, channels: int, side: int, smooth: bool) -> None:
    kernel = np.random.default_rng(seed).normal(size=(channels, channels, 3, 3))
    kernel = np.abs(kernel) if smooth else kernel  # all-positive kernels reach their norm at frequency 0
    exact = np.linalg.norm(dense_operator(kernel, side), ord=2)
    assert convolution_bound(torch.from_numpy(kernel)).item() >= exact


def test_convolution_bound_is_tight_within_a_quarter() -> None:
    kernel = np.random.default_rng(0).normal(size=(2, 2, 3, 3))
    exact = np.linalg.norm(dense_operator(kernel, 14), ord=2)
    assert convolution_bound(torch.from_numpy(kernel)).item() <= 1.25 * exact


def test_the_reshaped_kernel_is_no_bound() -> None:
    """Why the obvious choice is not taken: an averaging kernel stretches by 9, its reshaped norm is 3."""
    kernel = np.ones((1, 1, 3, 3))
    exact = np.linalg.norm(dense_operator(kernel, 16), ord=2)
    assert np.linalg.norm(kernel.reshape(1, -1), ord=2) < 0.4 * exact
    assert convolution_bound(torch.from_numpy(kernel)).item() >= exact


def test_matrix_bound_is_the_spectral_norm() -> None:
    matrix = np.random.default_rng(0).normal(size=(7, 5))
    assert matrix_bound(torch.from_numpy(matrix)).item() == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-4)


@settings(max_examples=12, deadline=None)
@given(
    seed=seeds,
    rate=st.floats(0.1, 1.5),
    lipschitz=st.floats(0.2, 3.0),
    size=st.floats(0.01, 30.0),
    end_time=st.floats(0.3, 2.0),
)
def test_vertex_trajectories_approach_at_least_as_fast_as_theorem_1_says(
    seed: int, rate: float, lipschitz: float, size: float, end_time: float
) -> None:
    torch.manual_seed(seed)
    field = ContractiveField(8, rate, lipschitz).double()
    for parameter in field.parameters():  # far from any initialisation, time dependence included
        torch.nn.init.normal_(parameter, std=size)
    states = torch.randn(2, 8, 5, 5, dtype=torch.float64) * 3
    with torch.no_grad():
        ends = solve(field.dynamics(), states, end_time, FINE).state
    shrunk = (ends[0] - ends[1]).norm() / (states[0] - states[1]).norm()
    assert shrunk.item() <= np.exp(-rate * end_time) * (1 + 1e-6)


@settings(max_examples=12, deadline=None)
@given(seed=seeds, rate=st.floats(0.1, 1.5), lipschitz=st.floats(0.2, 3.0), count=st.integers(1, 4))
def test_graph_trajectories_approach_at_least_as_fast_as_theorem_2_says(
    seed: int, rate: float, lipschitz: float, count: int
) -> None:
    torch.manual_seed(seed)
    config = GraphConfig(field="contractive", contraction_rate=rate, lipschitz=lipschitz, solver=FINE)
    diffusion = GraphDiffusion(config, 6).double()
    for parameter in diffusion.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    states = torch.randn(2, 4, 6, dtype=torch.float64) * 3
    mask = (torch.arange(4) < count).expand(2, 4)
    with torch.no_grad():
        pooled, evolved = diffusion(states, mask)
    before = (evolved.initial[0] - evolved.initial[1]).norm()
    after = (evolved.final[0] - evolved.final[1]).norm()
    assert (after / before).item() <= np.exp(-rate) * (1 + 1e-6)
    # The mean of n vertices is at most 1 / sqrt(n) of the whole state: g inherits the rate.
    assert (pooled[0] - pooled[1]).norm().item() <= np.exp(-rate) * before.item() / count**0.5 * (1 + 1e-6)


def test_a_plain_field_need_not_contract() -> None:
    """The check above can fail: without the bound, the same architecture spreads trajectories."""
    torch.manual_seed(0)
    field = ContractiveField(8, 0.5, 1.0).double()
    states = torch.randn(2, 8, 5, 5, dtype=torch.float64)

    def unbounded(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(state, field.conv1.weight * 3, padding=1) - field.decay * state

    with torch.no_grad():
        ends = solve(unbounded, states, 1.0, FINE).state
    assert (ends[0] - ends[1]).norm() > np.exp(-0.5) * (states[0] - states[1]).norm()


@pytest.mark.parametrize("kind", [VertexConfig, GraphConfig])
def test_steps_too_long_to_contract_are_refused(kind: type) -> None:
    values = {"field": "contractive", "contraction_rate": 1.0, "lipschitz": 2.0}
    with pytest.raises(ConfigError, match=r"\(a \+ Lip N\) h = 5\.00 exceeds 2.*raise solver\.steps"):
        parse(kind, {**values, "solver": {"name": "rk4", "steps": 1}}, "a test")
    parse(kind, {**values, "solver": {"name": "rk4", "steps": 3}}, "a test")
    parse(kind, {**values, "solver": {"name": "dopri5"}}, "a test")


def test_bounds_are_computed_once_per_solve_not_per_evaluation() -> None:
    field = ContractiveConvolutionField(4, 0.5, 0.7)
    dynamics = field.dynamics(torch.ones(1, 3, dtype=torch.bool))
    before = dynamics(torch.zeros(()), torch.ones(1, 3, 4))
    with torch.no_grad():
        field.weight1.mul_(100)
    assert torch.equal(before, dynamics(torch.zeros(()), torch.ones(1, 3, 4)))
