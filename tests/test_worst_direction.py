"""Theorem 1 in its worst direction: a bound that is too small by a tenth is caught, which random directions miss."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.models import bounds
from robustmat.models.bounds import flow_bound
from robustmat.models.certified import CertifiedConfig, CertifiedNetwork
from robustmat.models.graph import ContractiveConvolutionField
from robustmat.models.solvers import SOLVERS, SolverConfig, solve
from robustmat.models.vertex import ContractiveField
from robustmat.robustness.worst_direction import worst_direction

FINE = SolverConfig(name="rk4", steps=8)
RATE, LIPSCHITZ = 0.5, 0.7


def flow(
    field: ContractiveField, end_time: float = 1.0, solver: SolverConfig = FINE
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda state: solve(field.dynamics(), state, end_time, solver).state


def nearly_tight_field(monkeypatch: pytest.MonkeyPatch) -> ContractiveField:
    """One channel of eight is passed on as it is, where ELU is linear: there N reaches its Lipschitz bound."""
    monkeypatch.setattr(bounds, "GRID", 64)  # of frequencies: the kernel's bound is then within 0.3 % of its norm
    field = ContractiveField(8, RATE, LIPSCHITZ).double().requires_grad_(False)
    with torch.no_grad():
        for conv in (field.conv1, field.conv2):
            conv.weight.zero_()
            conv.weight[0, 0, 1, 1] = 10.0  # scaled down to its share of the bound
            conv.bias.fill_(30.0)
    return field


def assert_contracts(stretch: float, bound: float) -> None:
    assert stretch <= bound * (1 + 1e-6)


def test_worst_direction_is_the_largest_singular_value_of_a_matrix() -> None:
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 12)))
    stretch, direction = worst_direction(lambda x: matrix @ x, torch.zeros(12, dtype=torch.float64), steps=200)
    assert stretch == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
    assert (matrix @ direction).norm().item() == pytest.approx(stretch, rel=1e-6)


def test_a_bound_that_is_a_tenth_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    field = nearly_tight_field(monkeypatch)
    state = torch.randn(1, 8, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    stretch, _ = worst_direction(flow(field), state)
    claimed = math.exp(-RATE)
    assert_contracts(stretch, claimed)
    with pytest.raises(AssertionError):
        assert_contracts(stretch, 0.9 * claimed)


def test_random_directions_do_not_catch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why power iteration is needed: the old test passes with a bound that is a tenth too small."""
    field = nearly_tight_field(monkeypatch)
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(2, 8, 6, 6, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        ends = flow(field)(states)
    assert_contracts(((ends[0] - ends[1]).norm() / (states[0] - states[1]).norm()).item(), 0.9 * math.exp(-RATE))


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    rate=st.floats(0.1, 1.0),
    lipschitz=st.floats(0.2, 2.0),
    size=st.floats(0.01, 30.0),
    end_time=st.floats(0.5, 1.5),
)
def test_theorem_1_holds_in_the_worst_direction_of_any_field(
    seed: int, rate: float, lipschitz: float, size: float, end_time: float
) -> None:
    torch.manual_seed(seed)
    field = ContractiveField(4, rate, lipschitz).double().requires_grad_(False)
    for parameter in field.parameters():
        torch.nn.init.normal_(parameter, std=size)
    state = torch.randn(1, 4, 5, 5, dtype=torch.float64) * 2
    stretch, _ = worst_direction(flow(field, end_time, SolverConfig(name="rk4", steps=16)), state, steps=10)
    assert stretch <= math.exp(-rate * end_time) * (1 + 1e-3)  # of the fixed steps


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), rate=st.floats(0.1, 1.0), lipschitz=st.floats(0.2, 2.0))
def test_theorem_2_holds_in_the_worst_direction_of_any_field(seed: int, rate: float, lipschitz: float) -> None:
    torch.manual_seed(seed)
    field = ContractiveConvolutionField(6, rate, lipschitz).double().requires_grad_(False)
    for parameter in field.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    dynamics = field.dynamics(torch.ones(1, 4, dtype=torch.bool))
    state = torch.randn(1, 4, 6, dtype=torch.float64)
    solver = SolverConfig(name="rk4", steps=16)
    stretch, _ = worst_direction(lambda start: solve(dynamics, start, 1.0, solver).state, state, steps=10)
    assert stretch <= math.exp(-rate) * (1 + 1e-3)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "dopri5"])
@pytest.mark.parametrize("steps", [1, 3])
def test_fixed_steps_keep_their_own_bound(name: str, steps: int) -> None:
    """One step of RK4 is not the exact flow: what is proven of it is a larger number."""
    solver = SolverConfig(name=name, steps=steps)
    bound = flow_bound(RATE + LIPSCHITZ, LIPSCHITZ, 1.0, solver)
    for seed in range(3):
        torch.manual_seed(seed)
        field = ContractiveField(4, RATE, LIPSCHITZ).double().requires_grad_(False)
        torch.nn.init.normal_(field.time_shift, std=3.0)
        state = torch.randn(1, 4, 5, 5, dtype=torch.float64)
        assert_contracts(worst_direction(flow(field, solver=solver), state, steps=10)[0], bound)


def test_bounds_of_fixed_steps_approach_the_exact_rate() -> None:
    for name in ("euler", "midpoint", "rk4"):
        fine = flow_bound(1.2, 0.7, 1.0, SolverConfig(name=name, steps=1000))
        assert fine == pytest.approx(math.exp(-0.5), rel=1e-3)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), size=st.floats(0.01, 10.0))
def test_a_certified_network_keeps_its_lipschitz_constant_in_the_worst_direction(seed: int, size: float) -> None:
    torch.manual_seed(seed)
    config = CertifiedConfig(
        patch={"size": 16}, stem_channels=4, channels=6, hidden_channels=5, embedding_dim=10, contraction_rate=0.2
    )
    network = CertifiedNetwork(config).double().requires_grad_(False)
    for parameter in network.parameters():  # far from any initialisation
        torch.nn.init.normal_(parameter, std=size)
    patches = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    stretch, _ = worst_direction(network.embed, patches, steps=12)
    grey_levels = config.patch.scale / math.sqrt(3 * 16 * 16)  # root mean square of a change of length one
    assert stretch <= network.lipschitz * grey_levels


def test_the_bound_of_a_certified_network_is_nearly_reached() -> None:
    """A tighter constant would be false: an isometric stem and a flow that only decays reach it within a hundredth."""
    config = CertifiedConfig(patch={"size": 16}, stem_channels=12, channels=48, embedding_dim=192)
    network = CertifiedNetwork(config).double().requires_grad_(False)
    with torch.no_grad():
        network.stem1.weight.zero_()
        network.stem1.weight[:, :, 1, 1] = torch.eye(12)
        network.stem2.weight[:, :, 0, 0] = torch.eye(48)
        network.field.bias.fill_(-1e3)  # nothing but decay
        network.project.weight.copy_(torch.eye(192))
    stretch, _ = worst_direction(network.embed, torch.randn(1, 3, 16, 16, dtype=torch.float64))
    grey_levels = config.patch.scale / math.sqrt(3 * 16 * 16)
    assert stretch >= 0.99 * network.lipschitz * grey_levels
