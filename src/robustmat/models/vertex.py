"""Vertex diffusion f: a patch becomes a feature map, the map follows an ODE, its end becomes an embedding."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, cast

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config, Duration, Size
from robustmat.models.bounds import Bounded, convolution_bound
from robustmat.models.handcrafted import Handcrafted, handcrafted_sizes
from robustmat.models.solvers import Dynamics, SolverConfig, solve
from robustmat.models.starts import begin_whitening


class VertexConfig(Config):
    """The sizes and choices of f. `evolution` is what happens between the map and its pooling: the paper's
    ODE (`diffusion`), two residual blocks of their own (`residual`, the ResNet of the ablation) or nothing."""

    orientations: Annotated[int, Field(ge=0, le=64)] = 0  # of the oriented energy beside what is learned; 0: none
    colours: bool = False  # their layout beside what is learned
    stem_channels: Size = 64
    channels: Size = 128
    # Inside the two blocks of h_DS and between the field's convolutions, where pruning made them narrower.
    inner_channels: tuple[Size, Size, Size] | None = None
    evolution: Literal["diffusion", "residual", "none"] = "diffusion"
    field: Literal["plain", "contractive"] = "plain"
    contraction_rate: PositiveFloat = 0.5
    lipschitz: PositiveFloat = 0.7  # of the learned part N of the contractive field
    end_time: Duration = 1.0
    solver: SolverConfig = Field(default_factory=SolverConfig)
    pooling_grid: Annotated[int, Field(gt=0, le=64)] = 1
    embedding_dim: Size = 512
    normalize: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> "VertexConfig":
        for name in ("stem_channels", "channels"):
            if getattr(self, name) % GROUP_SIZE:
                raise ValueError(f"{name} must be a multiple of {GROUP_SIZE}, found {getattr(self, name)}")
        if any(width % GROUP_SIZE for width in self.inner_channels or ()):
            raise ValueError(f"inner_channels must be multiples of {GROUP_SIZE}, found {self.inner_channels}")
        if self.evolution == "diffusion" and self.field == "contractive":
            check_stable_steps(self.contraction_rate, self.lipschitz, self.end_time, self.solver)
        return self

    @property
    def inner(self) -> tuple[int, int, int]:
        """The widths inside the two blocks of h_DS and inside the field."""
        return self.inner_channels or (self.stem_channels, self.channels, self.channels)

    @property
    def descriptor_dim(self) -> int:
        """How many numbers f has: what is learned, then what is not."""
        return self.embedding_dim + sum(self.handcrafted.values())

    @property
    def handcrafted(self) -> dict[str, int]:
        """The hand-crafted descriptors, and how many numbers each has."""
        return handcrafted_sizes(self.orientations, self.colours)


CACHED_NUMBERS = 2**20  # of the largest map of a chunk, 4 MB: 16 patches of `street`, one of `paper`
GROUP_SIZE = 8  # channels normalised together: statistics of one sample alone, never of the batch


def check_stable_steps(rate: float, lipschitz: float, end_time: float, solver: SolverConfig) -> None:
    """Refuse fixed steps so long that the discrete solution need not contract, whatever the field promises."""
    if solver.adaptive or end_time == 0:
        return
    stiffness = (rate + 2 * lipschitz) * solver.step_size(end_time)  # (a + Lip N) h with a = rate + Lip N
    if stiffness > 2:
        raise ValueError(
            f"(a + Lip N) h = {stiffness:.2f} exceeds 2, so fixed steps may not contract: "
            "raise solver.steps, lower contraction_rate or lipschitz, or use dopri5"
        )


class DownBlock(nn.Module):
    """A residual block of two convolutions and a 1x1 shortcut that halves height and width."""

    def __init__(self, inputs: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(inputs // GROUP_SIZE, inputs)
        self.conv1 = nn.Conv2d(inputs, inner, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(inner // GROUP_SIZE, inner)
        self.conv2 = nn.Conv2d(inner, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2)

    def forward(self, maps: Tensor) -> Tensor:
        # In place: a fresh map of 64 x 256 x 256 numbers costs as much as filling it.
        active = F.relu(self.norm1(maps), inplace=True)
        update: Tensor = self.conv2(F.relu(self.norm2(self.conv1(active)), inplace=True))
        shortcut: Tensor = self.shortcut(active)
        return shortcut.add_(update)


def downsample(inputs: int, config: VertexConfig) -> nn.Sequential:
    """h_DS: seven convolutions from a patch [B, I, S, S] to a map [B, C, S/4, S/4]."""
    return nn.Sequential(
        nn.Conv2d(inputs, config.stem_channels, 3, padding=1),
        DownBlock(config.stem_channels, config.inner[0], config.stem_channels),  # [B, stem, S/2, S/2]
        DownBlock(config.stem_channels, config.inner[1], config.channels),  # [B, C, S/4, S/4]
    )


def shifted_convolution(state: Tensor, kernel: Tensor, bias: Tensor | None, shift: Tensor | None) -> Tensor:
    """A 3 x 3 convolution of `state` plus `shift`: [C, 1, 1], or [B, C, 1, 1] where each sample has its own time."""
    if shift is not None and bias is not None and shift.ndim == 3:
        return F.conv2d(state, kernel, bias + shift.flatten(), padding=1)  # costs no pass of its own over the maps
    maps = F.conv2d(state, kernel, bias, padding=1)
    return maps if shift is None else maps.add_(shift)


class ConvBlock(nn.Module):
    """Convolution, normalisation, activation, twice; `shifts` [C, 1, 1] are added to the convolutions."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, inner, 3, padding=1)
        self.norm1 = nn.GroupNorm(inner // GROUP_SIZE, inner)
        self.conv2 = nn.Conv2d(inner, channels, 3, padding=1)
        self.norm2 = nn.GroupNorm(channels // GROUP_SIZE, channels)

    def forward(self, state: Tensor, shifts: tuple[Tensor | None, Tensor | None] = (None, None)) -> Tensor:
        # ELU, not ReLU: a slope that is never negative could only push features up.
        layers = ((self.conv1, self.norm1), (self.conv2, self.norm2))
        for (conv, norm), shift in zip(layers, shifts, strict=True):
            state = F.elu(norm(shifted_convolution(state, conv.weight, conv.bias, shift)), inplace=True)
        return state


class ConvField(nn.Module):
    """h_CNN, plain: a block whose convolutions are shifted as time goes by."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.block = ConvBlock(channels, inner)
        self.time_shift = nn.Parameter(torch.zeros(channels, 1, 1))
        # Both convolutions share one shift as long as they have one width.
        self.inner_shift = None if inner == channels else nn.Parameter(torch.zeros(inner, 1, 1))

    def dynamics(self) -> Dynamics:
        inner = self.time_shift if self.inner_shift is None else self.inner_shift
        return lambda time, state: self.block(state, (time * inner, time * self.time_shift))


class ContractiveField(nn.Module):
    """h_CNN, contractive: h(z) = -a z + N(z) with a = rate + Lip(N), so that trajectories approach each other
    at least as fast as exp(-rate t). N is two bounded convolutions around a 1-Lipschitz activation."""

    def __init__(self, channels: int, rate: float, lipschitz: float, inner: int | None = None) -> None:
        super().__init__()
        inner = inner or channels
        self.conv1 = nn.Conv2d(channels, inner, 3, padding=1)
        self.conv2 = nn.Conv2d(inner, channels, 3, padding=1)
        self.time_shift = nn.Parameter(torch.zeros(inner, 1, 1))
        self.decay = rate + lipschitz
        self.bounded = Bounded(convolution_bound, lipschitz**0.5)  # each convolution; their product is Lip(N)
        for conv in (self.conv1, self.conv2):
            nn.init.orthogonal_(conv.weight.data.view(len(conv.weight), -1))

    def dynamics(self) -> Dynamics:
        """The field with its kernels scaled to their bounds once, not at every evaluation."""
        kernel1, kernel2 = self.bounded(self.conv1.weight, self.conv2.weight)

        def slope(time: Tensor, state: Tensor) -> Tensor:
            shifted = shifted_convolution(state, kernel1, self.conv1.bias, time * self.time_shift)
            hidden = F.elu(shifted, inplace=True)
            return F.conv2d(hidden, kernel2, self.conv2.bias, padding=1).sub_(state, alpha=self.decay)

        return slope


class VertexField(Protocol):
    """A module that, asked once per solve, gives the slope of a feature map."""

    def dynamics(self) -> Dynamics: ...


VERTEX_FIELDS: dict[str, Callable[[VertexConfig], nn.Module]] = {
    "plain": lambda config: ConvField(config.channels, config.inner[2]),
    "contractive": lambda config: ContractiveField(
        config.channels, config.contraction_rate, config.lipschitz, config.inner[2]
    ),
}


@dataclass(frozen=True)
class Evolved:
    """A state before and after it evolved: what the quotient regularisers compare."""

    initial: Tensor
    final: Tensor
    evaluations: int


class VertexDiffusion(nn.Module):
    """f(x) = h_fc(h_fp(F_CNN(h_DS(x)))), and behind it what is known of the crop without learning.

    Shape:
        patches [B, I, S, S] -> embedding [B, D + E]; I is 3, or 6 with a second view of each patch
    """

    def __init__(self, config: VertexConfig, inputs: int = 3) -> None:
        super().__init__()
        self.config = config
        self.downsample = downsample(inputs, config)
        if config.evolution == "diffusion":
            self.field: nn.Module = VERTEX_FIELDS[config.field](config)
        elif config.evolution == "residual":
            self.blocks = nn.ModuleList(ConvBlock(config.channels, config.inner[2]) for _ in range(2))
        if config.handcrafted:
            self.handcrafted = Handcrafted(config.orientations, config.colours)
        self.pool = nn.AdaptiveAvgPool2d(config.pooling_grid)
        self.project = nn.Linear(config.channels * config.pooling_grid**2, config.embedding_dim)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # CPU convolutions train 1.4 times as fast

    def evolve(self, maps: Tensor) -> Evolved:
        """Let the feature maps [B, C, S/4, S/4] follow the field (or its ablation) to the end time."""
        config = self.config
        if config.evolution == "none":
            return Evolved(maps, maps, 0)
        if config.evolution == "residual":
            state = maps
            for block in self.blocks:
                state = state + block(state)
            return Evolved(maps, state, len(self.blocks))
        field = cast(VertexField, self.field)
        solution = solve(field.dynamics(), maps, config.end_time, config.solver)
        return Evolved(maps, solution.state, solution.evaluations)

    def embed(self, patches: Tensor) -> Tensor:
        """The embeddings [B, D + E] alone, a few patches at a time: as many as keep the largest maps in the cache."""
        return torch.cat([self(word)[0] for word in torch.split(patches, self._at_once(patches))])

    @torch.no_grad()
    def warm_start(self, patches: Tensor) -> None:
        """The last layer starts out as the principal components of what it reads in these patches."""
        chunks = torch.split(patches, self._at_once(patches))
        begin_whitening(self.project, torch.cat([self._pooled(chunk)[0] for chunk in chunks]))

    def _at_once(self, patches: Tensor) -> int:
        size = patches[0].numel() // patches.shape[1] * self.config.stem_channels
        return max(1, CACHED_NUMBERS // size)

    def _pooled(self, patches: Tensor) -> tuple[Tensor, Evolved]:
        evolved = self.evolve(self.downsample(patches.contiguous(memory_format=torch.channels_last)))
        return self.pool(evolved.final).flatten(1), evolved  # [B, C * grid * grid]

    def forward(self, patches: Tensor) -> tuple[Tensor, Evolved]:
        pooled, evolved = self._pooled(patches)
        embedding = self.project(pooled)  # [B, D]
        if self.config.normalize:
            embedding = rms_normalize(embedding)
        if self.config.handcrafted:
            embedding = torch.cat([embedding, self.handcrafted(patches)], dim=1)
        return embedding, evolved


def rms_normalize(embedding: Tensor) -> Tensor:
    """Scale to a mean square of 1 per component: the direction of an L2 norm, at a size that r can read."""
    return embedding * torch.rsqrt(embedding.square().mean(dim=-1, keepdim=True) + 1e-12)
