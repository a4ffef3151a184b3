"""A vertex embedding with a proven Lipschitz constant: no layer normalises, none stretches, the flow contracts.

A patch is scaled so that its length is its root mean square in grey levels. The stem, the pooling and the last layer
are 1-Lipschitz and the flow contracts, so the distance of two embeddings is at most the patches' own: a change of one
patch by r grey levels moves any distance by at most `lipschitz` times r. A decision by distance is then certified up to
its margin over `lipschitz` (`robustness/certificate.py`).

The flow is dz/dt = -C z - K' T^-1 relu(K z + b): minus the gradient of a convex function, scaled by a diagonal T with
K K' <= T. Its Jacobian is -(C + S), S symmetric between 0 and 1, so that an Euler step h with h (2 C + 1) <= 2 shrinks
all differences by at least 1 - h C. Unlike -a z + N(z), it need not shrink what tells two landmarks apart.
"""

import math

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.models.bounds import ROUNDING, diagonal_bound
from robustmat.models.network import PatchNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import refuse_context
from robustmat.models.solvers import Dynamics, SolverConfig, solve
from robustmat.models.vertex import Evolved

AT_ONCE = 64  # patches


class CertifiedConfig(PatchNetworkConfig):
    """Sizes, and the flow: it must be solved by Euler steps, whose contraction is proven."""

    stem_channels: PositiveInt = Field(default=24, multiple_of=2)
    channels: PositiveInt = Field(default=48, multiple_of=2)
    hidden_channels: PositiveInt = 48
    contraction_rate: NonNegativeFloat = 0.1
    end_time: PositiveFloat = 1.5
    solver: SolverConfig = Field(default_factory=lambda: SolverConfig(name="euler", steps=2))

    @model_validator(mode="after")
    def _proven(self) -> "CertifiedConfig":
        step = self.solver.step_size(self.end_time)
        if self.solver.name != "euler" or step * (2 * self.contraction_rate + 1) > 2:
            raise ValueError(
                f"the flow is proven to contract for euler steps h with h (2 contraction_rate + 1) <= 2, found "
                f"{self.solver.name} with h = {step:g}: set solver.name = 'euler' or raise solver.steps"
            )
        if self.patch.size % 8:
            raise ValueError(f"patch.size must be a multiple of 8, found {self.patch.size}")
        return self


class BoundedConvolution(nn.Module):
    """A convolution that stretches nothing: each channel is divided by the root of its diagonal bound."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, size, size))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.orthogonal_(self.weight.data[:, :, size // 2, size // 2])

    def forward(self, maps: Tensor) -> Tensor:
        return F.conv2d(maps, bounded(self.weight), self.bias, padding=self.weight.shape[-1] // 2)


def bounded(kernel: Tensor) -> Tensor:
    """The kernel [out, in, k, k], scaled on its smaller side so that its operator norm is at most 1."""
    if kernel.shape[0] > kernel.shape[1]:  # K' K <= T: inputs are scaled
        turned = kernel.transpose(0, 1)
        return (turned * diagonal_bound(turned).rsqrt()[:, None, None, None]).transpose(0, 1)
    return kernel * diagonal_bound(kernel).rsqrt()[:, None, None, None]


def max_min(maps: Tensor) -> Tensor:
    """The larger and the smaller of every two channels: sorting changes no distance for the worse."""
    first, second = maps.chunk(2, dim=1)
    return torch.cat([torch.maximum(first, second), torch.minimum(first, second)], dim=1)


class PotentialField(nn.Module):
    """-C z - K' T^-1 relu(K z + b + t s): see the module's docstring."""

    def __init__(self, channels: int, hidden: int, rate: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden, channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.time_shift = nn.Parameter(torch.zeros(hidden))
        self.rate = rate
        nn.init.orthogonal_(self.weight.data[:, :, 1, 1])
        self.weight.data += 0.02 * torch.randn_like(self.weight)

    def dynamics(self) -> Dynamics:
        scaled = self.weight / diagonal_bound(self.weight)[:, None, None, None]
        back = scaled.flip(2, 3).transpose(0, 1)  # K' T^-1 as a convolution

        def slope(time: Tensor, state: Tensor) -> Tensor:
            hidden = F.relu(F.conv2d(state, self.weight, self.bias + time * self.time_shift, padding=1))
            return -self.rate * state - F.conv2d(hidden, back, padding=1)

        return slope


class CertifiedNetwork(PatchNetwork):
    """Embeds patches so that distances are in grey levels; scores are distances, negated.

    Shape:
        patches [N, 3, S, S] -> [N, D]
    """

    config: CertifiedConfig

    def __init__(self, config: CertifiedConfig) -> None:
        refuse_context(config.patch, "a certified network")
        super().__init__(config)
        self.stem1 = BoundedConvolution(12, config.stem_channels, 3)
        self.stem2 = BoundedConvolution(4 * config.stem_channels, config.channels, 1)
        self.field = PotentialField(config.channels, config.hidden_channels, config.contraction_rate)
        cells = (config.patch.size // 8) ** 2
        self.project = nn.Linear(config.channels * cells, config.embedding_dim)
        nn.init.orthogonal_(self.project.weight)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def lipschitz(self) -> float:
        """How far two embeddings can be apart for each grey level (root mean square) between their patches."""
        return self.flow_bound * ROUNDING**4  # stem, stem, flow, last layer

    @property
    def flow_bound(self) -> float:
        """The most that the flow leaves of a difference."""
        step = self.config.solver.step_size(self.config.end_time)
        return float((1 - step * self.config.contraction_rate) ** round(self.config.end_time / step))

    def evolve(self, patches: Tensor) -> Evolved:
        """From patches [N, 3, S, S] to maps [N, C, S/4, S/4], before and after the flow."""
        size = self.config.patch.size
        grey_levels = patches * (self.config.patch.scale / math.sqrt(3 * size * size))
        maps = max_min(self.stem1(F.pixel_unshuffle(grey_levels, 2)))  # [N, stem, S/2, S/2]
        maps = max_min(self.stem2(F.pixel_unshuffle(maps, 2)))  # [N, C, S/4, S/4]
        solution = solve(self.field.dynamics(), maps, self.config.end_time, self.config.solver)
        return Evolved(maps, solution.state, solution.evaluations)

    def pooled(self, patches: Tensor) -> Tensor:
        """Means of 2 x 2 cells, twice as large: as long as what they are the means of, at most."""
        return 2 * F.avg_pool2d(self.evolve(patches).final, 2).flatten(1)

    def embed(self, patches: Tensor) -> Tensor:
        weight = bounded(self.project.weight[:, :, None, None]).flatten(1)
        return F.linear(self.pooled(patches), weight, self.project.bias)

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        return -distances(a, b)

    @torch.no_grad()
    def warm_start(self, patches: Tensor) -> None:
        """The last layer begins as the principal components of what it reads: of all projections the least loss."""
        pooled = torch.cat([self.pooled(some) for some in torch.split(patches, AT_ONCE)])
        axes = torch.linalg.svd(pooled - pooled.mean(dim=0), full_matrices=False).Vh
        self.project.weight[: len(axes)] = axes[: self.config.embedding_dim]
        self.project.bias.zero_()


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of all pairs [A, B], as exact as subtraction is; with a slope where two are equal."""
    return ((a[:, None] - b).square().sum(dim=2) + 1e-12).sqrt()
