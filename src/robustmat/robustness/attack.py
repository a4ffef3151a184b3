"""An attack on a pair's decision: the smallest change of one patch that is found to turn it.

Projected gradient descent in L2, with the norm decoupled from the direction (DDN, Rony et al. 2019): after a step
against the decision the change is scaled to a norm that shrinks where it succeeded and grows where it failed. What is
found bounds the true robustness from above, as a certificate bounds it from below.
"""

import math

import torch
from torch import Tensor

from robustmat.models.certified import CertifiedNetwork

STEPS = 60
SHRINK = 0.05
GROW = 1.3  # until a change was found, in the first third of the steps


def smallest_change(
    network: CertifiedNetwork, first: Tensor, second: Tensor, least: float, *, steps: int = STEPS
) -> Tensor:
    """Root mean squares in grey levels [N] of changes to `first` that turn the decisions "score >= least".

    Args:
        first, second: patches [N, 3, S, S] as the network reads them; pixels may leave 0..255, which only helps.

    Returns: infinite where no change was found.
    """
    with torch.no_grad():
        anchor = network.embed(second)
        accepted = _scores(network.embed(first), anchor) >= least
    sign = torch.where(accepted, -1.0, 1.0)  # of the score's slope: away from the decision
    size = math.sqrt(first[0].numel()) / network.config.patch.scale  # length of a change by one grey level
    norm = torch.full((len(first),), float(size), dtype=first.dtype)
    change = torch.zeros_like(first)
    best = torch.full_like(norm, math.inf)
    for step in range(steps):
        current = change.clone().requires_grad_(True)
        score = _scores(network.embed(first + current), anchor)
        turned = (score.detach() >= least) != accepted
        length = change.flatten(1).norm(dim=1)
        best = torch.where(turned & (length > 0), torch.minimum(best, length), best)
        (slope,) = torch.autograd.grad((sign * score).sum(), current)
        norm = norm * torch.where(turned, 1 - SHRINK, GROW if step < steps // 3 else 1 + SHRINK)
        away = slope / slope.flatten(1).norm(dim=1).clamp(min=1e-12).view(-1, 1, 1, 1)
        moved = change + away * norm.view(-1, 1, 1, 1)
        change = moved * (norm / moved.flatten(1).norm(dim=1).clamp(min=1e-12)).view(-1, 1, 1, 1)
    return best / size


def _scores(a: Tensor, b: Tensor) -> Tensor:
    return -((a - b).square().sum(dim=1) + 1e-12).sqrt()
