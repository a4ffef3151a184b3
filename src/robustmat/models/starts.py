"""How layers begin that would otherwise begin at random: as principal components, as a distance.

Features of street furniture are nearly alike, be they ImageNet's or a random network's; through layers that start at
random they stay so, and a loss then does away with what little tells them apart. These starts bring it out before the
first step.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

LEAST_SPREAD = 1e-4  # of a principal component: what varies less is noise
SAMPLE = 64  # patches to see how far two may differ


@torch.no_grad()
def begin_whitening(layer: nn.Linear, features: Tensor) -> None:
    """Principal components of some features [N, C], each divided by the root of its spread (attenuated whitening,
    Mukundan et al. 2018)."""
    mean = features.mean(dim=0)
    _, spread, axes = torch.linalg.svd(features - mean, full_matrices=False)
    spread = spread / len(features) ** 0.5
    count = min(layer.out_features, len(axes))
    weight = axes[:count] / (spread[:count, None] + LEAST_SPREAD).sqrt()
    layer.weight.zero_()
    layer.bias.zero_()
    layer.weight[:count] = weight
    layer.bias[:count] = -weight @ mean


@torch.no_grad()
def begin_as_distance(comparison: nn.Sequential, compare: Callable[[], Tensor]) -> None:
    """Fully connected layers begin by saying "the less two differ, the likelier", about even on the whole.

    Args:
        comparison: its first layer is left as it is, and must give more for what differs more.
        compare: log odds of some pairs, by those layers as they then are.
    """
    linear = [one for one in comparison if isinstance(one, nn.Linear)]
    for _, layer in pairwise(linear):
        layer.weight.abs_()
    last = linear[-1]
    last.weight.neg_()
    logits = compare()
    spread = logits.std().clamp(min=1e-6)
    last.weight /= spread
    last.bias.copy_((last.bias - logits.mean()) / spread)
