"""Graph diffusion g: the embeddings of a neighbourhood exchange heat on a complete graph and are averaged.

A graph has a handful of vertices, so the layers are dense and batched: state [B, K, D], mask [B, K] with False
where a frame has fewer neighbours. Tests hold them against torch_geometric's sparse ones.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config, Duration, Size
from robustmat.models.bounds import Bounded, matrix_bound
from robustmat.models.solvers import Dynamics, SolverConfig, solve
from robustmat.models.vertex import Evolved, check_stable_steps


class GraphConfig(Config):
    """The sizes and choices of g. `pooling` reads the graph out: the paper's mean over vertices, the released
    code's maximum, or the center alone. `evolution` is the paper's PDE (`diffusion`), one pass of the same field
    (`single`, the GAT of the ablation) or `none`: the mean of the neighbours as they are."""

    num_neighbors: Annotated[int, Field(gt=0, le=64)] = 3
    include_center: bool = False
    evolution: Literal["diffusion", "single", "none"] = "diffusion"
    field: Literal["attention", "convolution", "contractive"] = "attention"
    heads: Size = 4
    contraction_rate: PositiveFloat = 0.5
    lipschitz: PositiveFloat = 0.7
    end_time: Duration = 1.0
    solver: SolverConfig = Field(default_factory=lambda: SolverConfig(tolerance=1e-3))
    pooling: Literal["mean", "max", "center"] = "mean"

    @model_validator(mode="after")
    def _consistent(self) -> "GraphConfig":
        if self.pooling == "center" and not self.include_center:
            raise ValueError("pooling 'center' needs include_center = true: the center must be in its graph")
        if self.evolution == "diffusion" and self.field == "contractive":
            check_stable_steps(self.contraction_rate, self.lipschitz, self.end_time, self.solver)
        return self


class AttentionLayer(nn.Module):
    """A graph attention layer on complete graphs with self-loops; heads are concatenated."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, dim, bias=False)
        self.attend_source = nn.Parameter(torch.empty(heads, dim // heads))
        self.attend_target = nn.Parameter(torch.empty(heads, dim // heads))
        self.bias = nn.Parameter(torch.zeros(dim))
        for weight in (self.project.weight, self.attend_source, self.attend_target):
            nn.init.xavier_uniform_(weight)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        batch, count, dim = state.shape
        values = self.project(state).view(batch, count, self.heads, -1)  # [B, K, H, D/H]
        source = (values * self.attend_source).sum(-1)  # [B, K, H]
        target = (values * self.attend_target).sum(-1)
        logits = F.leaky_relu(target[:, :, None] + source[:, None], 0.2)  # [B, target, source, H]
        logits = logits.masked_fill(~mask[:, None, :, None], -torch.inf)
        mixed = torch.einsum("btsh,bshd->bthd", logits.softmax(dim=2), values)
        return mixed.reshape(batch, count, dim) + self.bias


class ConvolutionLayer(nn.Module):
    """A graph convolution on complete graphs with self-loops: normalised adjacency 1 / n everywhere."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(dim))
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        return masked_mean(self.project(state), mask)[:, None].expand_as(state) + self.bias


class AttentionField(nn.Module):
    """h_GNN as two attention layers, each with ELU."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.layer1 = AttentionLayer(dim, heads)
        self.layer2 = AttentionLayer(dim, heads)

    def dynamics(self, mask: Tensor) -> Dynamics:
        return lambda _, state: F.elu(self.layer2(F.elu(self.layer1(state, mask)), mask))


class ConvolutionField(nn.Module):
    """h_GNN as two graph convolutions, each with ReLU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer1 = ConvolutionLayer(dim)
        self.layer2 = ConvolutionLayer(dim)

    def dynamics(self, mask: Tensor) -> Dynamics:
        return lambda _, state: F.relu(self.layer2(F.relu(self.layer1(state, mask)), mask))


class ContractiveConvolutionField(nn.Module):
    """h(Z) = -a Z + N(Z) with two graph convolutions in N: the adjacency has norm 1 (it averages), the
    matrices are bounded, ELU is 1-Lipschitz, and a = rate + Lip(N), so Theorem 2 holds with `rate`."""

    def __init__(self, dim: int, rate: float, lipschitz: float) -> None:
        super().__init__()
        self.weight1 = nn.Parameter(torch.empty(dim, dim))
        self.weight2 = nn.Parameter(torch.empty(dim, dim))
        self.bias1 = nn.Parameter(torch.zeros(dim))
        self.bias2 = nn.Parameter(torch.zeros(dim))
        self.decay = rate + lipschitz
        self.bounded = Bounded(matrix_bound, lipschitz**0.5)
        for weight in (self.weight1, self.weight2):
            nn.init.orthogonal_(weight)

    def dynamics(self, mask: Tensor) -> Dynamics:
        weight1, weight2 = self.bounded(self.weight1, self.weight2)

        def slope(_: Tensor, state: Tensor) -> Tensor:
            # After the first average all vertices hold the same vector: the second one changes nothing.
            hidden = F.elu(F.linear(masked_mean(state, mask)[:, None], weight1, self.bias1))  # [B, 1, D]
            return F.linear(hidden, weight2, self.bias2) - self.decay * state

        return slope


GraphField = AttentionField | ConvolutionField | ContractiveConvolutionField

GRAPH_FIELDS: dict[str, Callable[[GraphConfig, int], GraphField]] = {
    "attention": lambda config, dim: AttentionField(dim, config.heads),
    "convolution": lambda config, dim: ConvolutionField(dim),
    "contractive": lambda config, dim: ContractiveConvolutionField(dim, config.contraction_rate, config.lipschitz),
}


class GraphDiffusion(nn.Module):
    """g(G^x) = h_gp(F_GNN({f(x') : x' in V^x})).

    Shape:
        vertices [B, K, D], mask [B, K] (True where a vertex exists) -> embedding [B, D]
    """

    def __init__(self, config: GraphConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        if config.evolution != "none":
            self.field: GraphField = GRAPH_FIELDS[config.field](config, dim)

    def evolve(self, vertices: Tensor, mask: Tensor) -> Evolved:
        config = self.config
        present = mask[..., None].to(vertices.dtype)
        initial = vertices * present  # padding holds zeros, whatever was gathered there
        if config.evolution == "none":
            return Evolved(initial, initial, 0)
        field = self.field.dynamics(mask)
        if config.evolution == "single":
            return Evolved(initial, field(initial.new_zeros(()), initial) * present, 1)
        solution = solve(
            lambda time, state: field(time, state) * present,
            initial,
            config.end_time,
            config.solver,
            mask[..., None],
        )
        return Evolved(initial, solution.state, solution.evaluations)

    def pool(self, state: Tensor, mask: Tensor) -> Tensor:
        if self.config.pooling == "center":
            return state[:, 0]  # the landmark itself, after it has exchanged heat with its neighbours
        if self.config.pooling == "max":
            return state.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)
        return masked_mean(state, mask)

    def forward(self, vertices: Tensor, mask: Tensor) -> tuple[Tensor, Evolved]:
        evolved = self.evolve(vertices, mask)
        return self.pool(evolved.final, mask), evolved


def masked_mean(state: Tensor, mask: Tensor) -> Tensor:
    """The mean over the vertices that exist: [B, K, D], [B, K] -> [B, D]."""
    weight = mask[..., None].to(state.dtype)
    return (state * weight).sum(dim=1) / weight.sum(dim=1)
