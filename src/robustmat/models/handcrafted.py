"""What is known of a patch without learning: how its grey values rise in each direction, and how its colours lie.

A network trained on one street learns what that street's pixels look like. Descriptors made by hand know nothing of any
street and serve all of them alike. Both are taken in cells of the crop that overlap, so that a box drawn a little
differently changes little. Nothing here is learned but how much each of them counts.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CELLS = 4  # along each side of the patch
COLOURS = 3
SMOOTHING = 1.5  # pixels: noise of single pixels averages out
RADIUS = 4
STRIDE = 2
FAINT = 0.05  # a crop with so little colour may as well be grey


class OrientedEnergy(nn.Module):
    """Derivatives of the smoothed grey crop, apart by direction, whatever its light and contrast.

    Shape:
        crop [B, 3, S, S] -> [B, O * CELLS * CELLS], of length 1
    """

    filters: Tensor

    def __init__(self, orientations: int) -> None:
        super().__init__()
        # Known by their count: not stored with the weights.
        self.register_buffer("filters", gaussian_derivatives(orientations), persistent=False)

    def forward(self, crop: Tensor) -> Tensor:
        grey = crop.mean(dim=1, keepdim=True)
        grey = F.pad(grey, (RADIUS,) * 4, mode="replicate")  # a dark border would be the strongest edge
        rises = F.relu(F.conv2d(grey, self.filters, stride=STRIDE))  # [B, O, S/2, S/2]
        # Every direction within a right angle rises as well: leave most of it to the nearest.
        rises = rises.pow(3) / rises.square().sum(dim=1, keepdim=True).clamp(min=1e-12)
        return F.normalize((in_cells(rises) + 1e-6).sqrt(), dim=1)  # roots: one bright edge must not outshout all


class ColourLayout(nn.Module):
    """How far each cell's colour is from grey, and which way, relative to all of the crop's colour.

    Shape:
        crop [B, 3, S, S] -> [B, COLOURS * CELLS * CELLS], of length 1, less where there is hardly any colour
    """

    def forward(self, crop: Tensor) -> Tensor:
        cells = in_cells(crop - crop.mean(dim=1, keepdim=True))
        return cells / (cells.square().sum(dim=1, keepdim=True) + FAINT**2).sqrt()


class Handcrafted(nn.Module):
    """The chosen descriptors of the crop, the first of a patch's views, one after the other.

    Shape:
        patches [B, I, S, S] -> [B, sum of sizes]
    """

    def __init__(self, orientations: int, colours: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        if orientations:
            self.parts.append(OrientedEnergy(orientations))
        if colours:
            self.parts.append(ColourLayout())

    def forward(self, patches: Tensor) -> Tensor:
        return torch.cat([part(patches[:, :3]) for part in self.parts], dim=1)


def handcrafted_sizes(orientations: int, colours: bool) -> dict[str, int]:
    """How many numbers each chosen descriptor has."""
    sizes = {"energy": orientations * CELLS**2, "colour": COLOURS * CELLS**2 if colours else 0}
    return {name: size for name, size in sizes.items() if size}


START = {"energy": 30.0, "colour": 3.0}  # weights, about what real drives ask for
TYPICAL = {"energy": 0.9, "colour": 0.7}  # likeness of two patches of the same kind of thing
LOG_WEIGHT_RATE = 10.0


class Likeness(nn.Module):
    """How much the likeness of two landmarks' descriptors speaks for one object, as a logit: [A, E], [B, E] -> [A, B].

    Each descriptor's weight is learned as a power: a small step changes it by a share, and decay pulls it back to its
    start.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.power = nn.Parameter(torch.zeros(len(sizes)))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        said = a.new_zeros(())
        sizes = list(self.sizes.values())
        parts = zip(self.sizes, self.power, torch.split(a, sizes, dim=1), torch.split(b, sizes, dim=1), strict=True)
        for name, power, first, second in parts:
            weight = START[name] * (LOG_WEIGHT_RATE * power).exp()
            # Unlike colours say nothing more than dull ones: another light makes them so on one and the same object.
            said = said + weight * ((first @ second.T).clamp(min=0) - TYPICAL[name])
        return said


def in_cells(maps: Tensor) -> Tensor:
    """Means over CELLS x CELLS cells of maps [B, C, H, H]; a cell counts less towards its neighbours' centers.

    Returns: [B, C * CELLS * CELLS]
    """
    reach = maps.shape[-1] / CELLS
    place = torch.arange(maps.shape[-1], dtype=maps.dtype, device=maps.device) + 0.5
    center = (torch.arange(CELLS, dtype=maps.dtype, device=maps.device) + 0.5) * reach
    weight = F.relu(1 - (place - center[:, None]).abs() / reach) / reach  # [CELLS, H]
    return (weight @ maps @ weight.T).flatten(1)


def gaussian_derivatives(orientations: int) -> Tensor:
    """Derivatives of a Gaussian in evenly spaced directions: [O, 1, 9, 9]."""
    offset = torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64)
    down, right = torch.meshgrid(offset, offset, indexing="ij")
    weight = torch.exp(-(down.square() + right.square()) / (2 * SMOOTHING**2))
    angle = torch.arange(orientations, dtype=torch.float64)[:, None, None] * (2 * math.pi / orientations)
    filters = (right * angle.cos() + down * angle.sin()) * weight / weight.sum()
    return filters[:, None].float()
