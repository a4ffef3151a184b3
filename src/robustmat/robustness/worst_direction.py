"""The direction in which a differentiable function stretches a small difference most, by power iteration.

Random directions say little about a bound: in thousands of dimensions hardly any of them is near the worst. What is
found here is a lower bound of the true stretch, and it comes close to it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 30


def worst_direction(
    function: Callable[[Tensor], Tensor], state: Tensor, *, steps: int = STEPS, seed: int = 0
) -> tuple[float, Tensor]:
    """How much `function` stretches small differences at `state` at least, and the direction found, of length 1.

    Power iteration on J'J, with J the Jacobian: J' u by one backward pass, and J v as the derivative of that by u.
    """
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(state.shape, generator=generator, dtype=torch.float64).to(state)
    direction /= direction.norm()
    stretch = 0.0
    with torch.enable_grad():
        start = state.detach().clone().requires_grad_(True)
        end = function(start)
        dual = torch.zeros_like(end, requires_grad=True)
        (pulled,) = torch.autograd.grad(end, start, dual, create_graph=True)  # J' u, linear in u
        for _ in range(steps):
            (moved,) = torch.autograd.grad(pulled, dual, direction, retain_graph=True)
            stretch = max(stretch, float(moved.norm()))
            (back,) = torch.autograd.grad(end, start, moved, retain_graph=True)
            if not float(back.norm()):
                break
            direction = back / back.norm()
    return stretch, direction
