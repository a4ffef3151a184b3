"""Oriented energy: how strongly a patch's grey values rise in each direction, whatever its light and contrast.

A network trained on one street learns what that street's pixels look like. Descriptors made by hand know nothing of any
street and serve all of them alike: derivatives of a smoothed picture, apart by direction, relative to the patch's own
contrast. Nothing here is learned but how much it counts.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CELLS = 4  # along each side of the patch
SMOOTHING = 1.5  # pixels: noise of single pixels averages out
RADIUS = 4
STRIDE = 2
TYPICAL = 0.9  # likeness of two patches of the same kind of thing


class OrientedEnergy(nn.Module):
    """A descriptor of the crop, the first of a patch's views.

    Shape:
        patches [B, I, S, S] -> [B, O * CELLS * CELLS], of length 1
    """

    filters: Tensor

    def __init__(self, orientations: int) -> None:
        super().__init__()
        # Known by their count: not stored with the weights.
        self.register_buffer("filters", gaussian_derivatives(orientations), persistent=False)

    def forward(self, patches: Tensor) -> Tensor:
        grey = patches[:, :3].mean(dim=1, keepdim=True)
        grey = F.pad(grey, (RADIUS,) * 4, mode="replicate")  # a dark border would be the strongest edge
        rises = F.relu(F.conv2d(grey, self.filters, stride=STRIDE))  # [B, O, S/2, S/2]
        cells = F.avg_pool2d(rises, rises.shape[-1] // CELLS).flatten(1)
        return F.normalize((cells + 1e-6).sqrt(), dim=1)  # roots: one bright edge must not outshout all others


def gaussian_derivatives(orientations: int) -> Tensor:
    """Derivatives of a Gaussian in evenly spaced directions: [O, 1, 9, 9]."""
    offset = torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64)
    down, right = torch.meshgrid(offset, offset, indexing="ij")
    weight = torch.exp(-(down.square() + right.square()) / (2 * SMOOTHING**2))
    angle = torch.arange(orientations, dtype=torch.float64)[:, None, None] * (2 * math.pi / orientations)
    filters = (right * angle.cos() + down * angle.sin()) * weight / weight.sum()
    return filters[:, None].float()


class EnergyLikeness(nn.Module):
    """How much the likeness of two descriptors speaks for one object, as a logit: [A, E], [B, E] -> [A, B]."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(10.0))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.weight * (a @ b.T - TYPICAL)
