"""Solvers against exact solutions and torchdiffeq."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torchdiffeq

from robustmat.errors import SolverError
from robustmat.models.solvers import SOLVERS, SolverConfig, solve

FIXED = {"euler": 1, "midpoint": 2, "rk4": 4}  # name: order


def pendulum(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """A field with no closed form, different in every sample and in time."""
    position, speed = state[:, :1], state[:, 1:]
    return torch.cat([speed, -torch.sin(position) + 0.1 * time.reshape(-1, 1)], dim=1)


@pytest.mark.parametrize(("name", "order"), FIXED.items())
def test_fixed_steps_converge_at_their_order_on_an_exact_solution(name: str, order: int) -> None:
    def slope(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:  # solved by exp(sin t)
        return torch.cos(time) * state

    errors = []
    for steps in (16, 32, 64):  # fine enough that the leading error term rules
        start = torch.ones(1, 1, dtype=torch.float64)
        end = solve(slope, start, 2.0, SolverConfig(name=name, steps=steps)).state.item()
        errors.append(abs(end - math.exp(math.sin(2.0))))
    slopes = np.diff(np.log2(errors))
    assert slopes == pytest.approx([-order, -order], abs=0.35)


@pytest.mark.parametrize("name", SOLVERS)
def test_end_time_zero_is_the_identity(name: str) -> None:
    start = torch.randn(3, 2)
    solution = solve(pendulum, start, 0.0, SolverConfig(name=name))
    assert torch.equal(solution.state, start)
    assert solution.evaluations == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_evaluations_are_those_that_the_field_saw(name: str) -> None:
    calls = 0

    def counted(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return -state

    solution = solve(counted, torch.ones(2, 3), 1.5, SolverConfig(name=name, steps=2))
    assert solution.evaluations == calls > 0


def test_dopri5_agrees_with_torchdiffeq() -> None:
    start = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = solve(pendulum, start, 3.0, SolverConfig(name="dopri5", tolerance=1e-9)).state
    theirs = torchdiffeq.odeint(
        lambda t, y: pendulum(t.expand(len(y)), y), start, torch.tensor([0.0, 3.0]), rtol=1e-9, atol=1e-9
    )[-1]
    assert torch.allclose(ours, theirs, atol=1e-7)


def test_dopri5_gives_each_sample_its_own_steps() -> None:
    """A calm sample is solved the same beside a violent one as alone; torchdiffeq's is not."""

    def slope(_: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return -state * state.abs()

    calm, violent = torch.full((1, 1), 0.5), torch.full((1, 1), 40.0)
    config = SolverConfig(name="dopri5", tolerance=1e-2)
    alone = solve(slope, calm, 1.0, config).state
    together = solve(slope, torch.cat([calm, violent]), 1.0, config).state[:1]
    assert torch.allclose(alone, together, atol=1e-7)


def test_an_exhausted_adaptive_solve_says_what_to_do() -> None:
    def explosive(_: torch.Tensor, state: torch.Tensor) -> torch.Tensor:  # infinite at time 1
        return state**2

    with pytest.raises(SolverError, match=r"within 60 evaluations.*Loosen the tolerance"):
        solve(explosive, torch.ones(1, 1), 2.0, SolverConfig(name="dopri5", tolerance=1e-6, max_evaluations=60))


def test_a_field_that_is_not_finite_ends_in_the_same_error() -> None:
    with pytest.raises(SolverError):
        solve(lambda _, z: z * torch.nan, torch.ones(1, 1), 1.0, SolverConfig(name="dopri5", max_evaluations=40))


def test_padding_does_not_change_an_adaptive_solve() -> None:
    start = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    padded = torch.cat([start, torch.zeros(2, 5, 4)], dim=1)
    mask = torch.arange(8).view(1, 8, 1) < 3

    def slope(_: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.tanh(state) * 3 * (state != 0)

    config = SolverConfig(name="dopri5", tolerance=1e-2)
    plain = solve(slope, start, 1.0, config)
    masked = solve(slope, padded, 1.0, config, mask)
    assert torch.allclose(masked.state[:, :3], plain.state, atol=1e-6)
    assert masked.evaluations == plain.evaluations


@pytest.mark.parametrize("name", SOLVERS)
def test_gradients_flow_through_every_solver(name: str) -> None:
    rate = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    end = solve(
        lambda _, z: -rate * z,
        torch.ones(1, 1, dtype=torch.float64),
        1.0,
        SolverConfig(name=name, steps=200, tolerance=1e-8),
    ).state.sum()
    end.backward()
    assert rate.grad is not None
    assert rate.grad.item() == pytest.approx(-math.exp(-0.7), rel=5e-3)


def test_dopri5_trains_in_a_process_that_first_used_it_for_inference() -> None:
    """torchode makes its constants on import; made in inference mode, they could not be differentiated through."""
    script = """
import torch
from robustmat.models.solvers import SolverConfig, solve
rate = torch.tensor(1.0, requires_grad=True)
with torch.inference_mode():
    solve(lambda _, z: -z, torch.ones(1, 1), 1.0, SolverConfig(name="dopri5"))
solve(lambda _, z: -rate * z, torch.ones(1, 1), 1.0, SolverConfig(name="dopri5")).state.sum().backward()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
