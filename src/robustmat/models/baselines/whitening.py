"""A linear layer that begins as the principal components of what it reads."""

import torch
from torch import Tensor, nn

LEAST_SPREAD = 1e-4  # of a principal component: what varies less is noise


@torch.no_grad()
def begin_whitening(layer: nn.Linear, features: Tensor) -> None:
    """Principal components of some features [N, C], each divided by the root of its spread (attenuated whitening,
    Mukundan et al. 2018).

    Features of street furniture are nearly alike, be they ImageNet's or a random network's; through a layer that starts
    at random they stay so, and a loss then does away with what little tells them apart.
    """
    mean = features.mean(dim=0)
    _, spread, axes = torch.linalg.svd(features - mean, full_matrices=False)
    spread = spread / len(features) ** 0.5
    count = min(layer.out_features, len(axes))
    weight = axes[:count] / (spread[:count, None] + LEAST_SPREAD).sqrt()
    layer.weight.zero_()
    layer.bias.zero_()
    layer.weight[:count] = weight
    layer.bias[:count] = -weight @ mean
