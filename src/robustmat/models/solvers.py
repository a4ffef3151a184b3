"""Integrate dz/dt = h(t, z) from 0 to an end time: the F_CNN and F_GNN of the paper.

The fixed-step methods are written out as plain tensor operations, so that they export and cost the same for
every input. `dopri5` adapts the step size of each sample on its own (torchode): torchdiffeq would choose one
step for the whole batch, and an embedding would change with its batch mates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from robustmat.config import Config
from robustmat.errors import SolverError

Dynamics = Callable[[Tensor, Tensor], Tensor]  # (time, broadcastable to [B, 1, ...]; state [B, ...]) -> slope


@dataclass(frozen=True)
class Solution:
    """The state at the end time and what it cost: evaluations of the field, per batch."""

    state: Tensor
    evaluations: int


class SolverConfig(Config):
    """`steps` is the least number of fixed steps per unit of time; tolerances and the cap are for `dopri5` alone."""

    name: Literal["euler", "midpoint", "rk4", "dopri5"] = "rk4"
    steps: Annotated[int, Field(gt=0, le=1000)] = 1
    tolerance: PositiveFloat = 1e-2  # relative and absolute, as in the paper
    max_evaluations: int = Field(default=2000, ge=8, le=100_000)

    @property
    def adaptive(self) -> bool:
        return self.name == "dopri5"

    def step_size(self, end_time: float) -> float:
        """The length of one fixed step on the way to `end_time`."""
        return end_time / max(1, math.ceil(self.steps * end_time - 1e-9))


# Scaled sums are written as `add(a, b, alpha=h)`: one pass over the maps where `a + h * b` takes two.


def euler_step(dynamics: Dynamics, time: Tensor, step: float, state: Tensor) -> Tensor:
    return torch.add(state, dynamics(time, state), alpha=step)


def midpoint_step(dynamics: Dynamics, time: Tensor, step: float, state: Tensor) -> Tensor:
    half = torch.add(state, dynamics(time, state), alpha=step / 2)
    return torch.add(state, dynamics(time + step / 2, half), alpha=step)


def rk4_step(dynamics: Dynamics, time: Tensor, step: float, state: Tensor) -> Tensor:
    k1 = dynamics(time, state)
    k2 = dynamics(time + step / 2, torch.add(state, k1, alpha=step / 2))
    k3 = dynamics(time + step / 2, torch.add(state, k2, alpha=step / 2))
    k4 = dynamics(time + step, torch.add(state, k3, alpha=step))
    slope = torch.add(k1, k2 + k3, alpha=2) + k4
    return torch.add(state, slope, alpha=step / 6)


@dataclass(frozen=True)
class FixedStep:
    """A fixed-step method: its step, and how many evaluations one step takes."""

    step: Callable[[Dynamics, Tensor, float, Tensor], Tensor]
    evaluations: int

    def solve(
        self, dynamics: Dynamics, initial: Tensor, end_time: float, config: SolverConfig, mask: Tensor | None
    ) -> Solution:
        step = config.step_size(end_time)
        num_steps = round(end_time / step)
        state = initial
        for index in range(num_steps):
            state = self.step(dynamics, initial.new_tensor(index * step), step, state)
        return Solution(state, num_steps * self.evaluations)


class AdaptiveDopri5:
    """Dormand-Prince 5(4) with a step size for every sample."""

    def solve(
        self, dynamics: Dynamics, initial: Tensor, end_time: float, config: SolverConfig, mask: Tensor | None
    ) -> Solution:
        with torch.inference_mode(False):  # what torchode makes on import must serve training, too
            import torchode

        shape = initial.shape
        time_shape = (-1, *(1 for _ in shape[1:]))
        evaluations = 0

        def flat(time: Tensor, state: Tensor) -> Tensor:
            nonlocal evaluations
            evaluations += 1
            return dynamics(time.view(time_shape), state.view(shape)).flatten(1)

        weight = None if mask is None else mask.expand(shape).flatten(1).to(initial.dtype)  # [B, F]

        def error_norm(error: Tensor) -> Tensor:
            # A padded entry has no error; counting it would make the step depend on the padding.
            if weight is None:
                return error.square().mean(dim=1).sqrt()
            return ((error * weight).square().sum(dim=1) / weight.sum(dim=1).clamp(min=1)).sqrt()

        term = torchode.ODETerm(flat, with_stats=False)
        solver = torchode.AutoDiffAdjoint(
            torchode.Dopri5(term=term),
            torchode.IntegralController(atol=config.tolerance, rtol=config.tolerance, term=term, norm=error_norm),
            max_steps=max(1, (config.max_evaluations - 2) // 6),
            # The steps themselves are not something to learn from, and their gradient is NaN at error 0.
            backprop_through_step_size_control=False,
        ).to(initial.device, initial.dtype)
        start = initial.new_zeros(len(initial))
        solution = solver.solve(
            torchode.InitialValueProblem(y0=initial.flatten(1), t_start=start, t_end=torch.full_like(start, end_time))
        )
        failed = (solution.status != 0).nonzero().flatten().tolist()
        if failed:
            raise SolverError(
                f"dopri5 did not reach time {end_time:g} within {config.max_evaluations} evaluations of the "
                f"field (samples {failed[:5]} of {len(initial)}, tolerance {config.tolerance:g}): "
                "the field has become stiff or not finite. Loosen the tolerance, raise max_evaluations, lower "
                "the learning rate, or choose a fixed-step solver (rk4) or the contractive field."
            )
        return Solution(solution.ys[:, -1].view(shape), evaluations)


SOLVERS: dict[str, FixedStep | AdaptiveDopri5] = {
    "euler": FixedStep(euler_step, evaluations=1),
    "midpoint": FixedStep(midpoint_step, evaluations=2),
    "rk4": FixedStep(rk4_step, evaluations=4),
    "dopri5": AdaptiveDopri5(),
}


def solve(
    dynamics: Dynamics,
    initial: Tensor,
    end_time: float,
    config: SolverConfig,
    mask: Tensor | None = None,
) -> Solution:
    """Integrate `dynamics` from `initial` [B, ...] at time 0 to `end_time`; time 0 is the identity.

    Args:
        mask: broadcastable to the state, False where it is padding; dopri5 leaves that out of its error.

    Raises:
        SolverError: dopri5 used up `max_evaluations`.
    """
    if end_time == 0 or initial.numel() == 0:
        return Solution(initial, 0)
    return SOLVERS[config.name].solve(dynamics, initial, end_time, config, mask)
