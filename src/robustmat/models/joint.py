"""Joint diffusion: the landmarks of two frames exchange heat within and across the frames, then compete.

The paper scores a landmark pair by itself; two near-identical poles of one frame then score alike. Here the
pair's two frames form one graph: edges within a frame and edges across, each with an attention of its own that
can see how the two boxes lie to each other. The state of all landmarks follows that field for a while, and
every landmark then divides its trust among its possible partners and the chance that it has none. What a
frame contributes (vertex embeddings, placements) belongs to that frame alone and can be stored.
"""

import math
from dataclasses import dataclass

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.dataset.placement import BOX_NUMBERS, PLACEMENT_NUMBERS
from robustmat.models.solvers import SolverConfig, solve


class JointConfig(Config):
    """The sizes of the joint diffusion. Four Euler steps are four rounds of the same attention."""

    width: PositiveInt = 96
    heads: PositiveInt = 4
    end_time: NonNegativeFloat = 1.0
    solver: SolverConfig = Field(default_factory=lambda: SolverConfig(name="euler", steps=4))

    @model_validator(mode="after")
    def _consistent(self) -> "JointConfig":
        if self.width % self.heads:
            raise ValueError(f"joint.heads = {self.heads} must divide joint.width = {self.width}")
        return self


@dataclass(frozen=True)
class Assignment:
    """Evidence for every pair [A, B] and for having no partner, before competition."""

    logits: Tensor
    alone: Tensor  # scalar

    def log_shares(self) -> tuple[Tensor, Tensor]:
        """Logarithms of how each landmark of A divides its trust [A, B + 1], and each of B [A + 1, B]."""
        rows, columns = self.logits.shape
        by_row = torch.cat([self.logits, self.alone.expand(rows, 1)], dim=1)
        by_column = torch.cat([self.logits, self.alone.expand(1, columns)], dim=0)
        return by_row.log_softmax(dim=1), by_column.log_softmax(dim=0)

    def score(self) -> Tensor:
        """The geometric mean of both sides' trust in a pair: [A, B], in [0, 1]."""
        by_row, by_column = self.log_shares()
        return ((by_row[:, :-1] + by_column[:-1]) / 2).exp()


class Attention(nn.Module):
    """Several heads of attention among landmarks; `edges` [H, N, N] weighs them, -inf where there is none."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, state: Tensor, edges: Tensor) -> Tensor:
        query, key, value = (
            layer(state).unflatten(-1, (self.heads, -1)).transpose(0, 1)  # [H, N, W/H]
            for layer in (self.query, self.key, self.value)
        )
        logits = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]) + edges
        mixed: Tensor = self.out((logits.softmax(dim=-1) @ value).transpose(0, 1).flatten(1))
        return mixed


class JointField(nn.Module):
    """The slope of a landmark's state: from itself, from its own frame and from the other one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.within = Attention(width, heads)
        self.across = Attention(width, heads)
        self.mix = nn.Sequential(nn.Linear(3 * width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, state: Tensor, within: Tensor, across: Tensor) -> Tensor:
        state = self.norm(state)
        heard = torch.cat([state, self.within(state, within), self.across(state, across)], dim=-1)
        slope: Tensor = self.mix(heard)
        return slope


class JointDiffusion(nn.Module):
    """From what two frames know of their landmarks to the evidence for every pair.

    Without placements (None) pixels speak alone: the same weights, trained for both.

    Shape:
        vertex_a [A, D], vertex_b [B, D], placement_a [A, P], placement_b [B, P] -> Assignment [A, B]
    """

    def __init__(self, config: JointConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        width, heads = config.width, config.heads
        self.enter = nn.Linear(dim, width)
        self.place = nn.Sequential(nn.Linear(PLACEMENT_NUMBERS, 64), nn.GELU(), nn.Linear(64, width))
        self.unplaced = nn.Parameter(torch.zeros(width))
        self.edges_within = nn.Sequential(nn.Linear(BOX_NUMBERS, 32), nn.GELU(), nn.Linear(32, heads))
        # One number more than heads: how likely these two boxes are one object, whatever the pixels say.
        self.edges_across = nn.Sequential(nn.Linear(3 * BOX_NUMBERS, 48), nn.GELU(), nn.Linear(48, heads + 1))
        self.field = JointField(width, heads)
        self.leave = nn.Linear(width, width)
        self.appearance = nn.Parameter(torch.tensor(5.0))  # weight of the embeddings' own likeness
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.alone = nn.Parameter(torch.tensor(0.0))

    def forward(
        self, vertex_a: Tensor, vertex_b: Tensor, placement_a: Tensor | None, placement_b: Tensor | None
    ) -> Assignment:
        count = vertex_a.shape[0]
        if not count or not vertex_b.shape[0]:
            return Assignment(vertex_a @ vertex_b.T, self.alone)
        vertex = torch.cat([vertex_a, vertex_b])  # [N, D], the one graph of both frames
        first = torch.arange(vertex.shape[0], device=vertex.device) < count
        same_frame = first[:, None] == first
        within = across = prior = vertex.new_zeros(())
        state = self.enter(vertex)
        if placement_a is None or placement_b is None:
            state = state + self.unplaced
        else:
            placement = torch.cat([placement_a, placement_b])
            state = state + self.place(placement)
            within, across = self._edges(placement[:, :BOX_NUMBERS])
            prior = (across[-1] + across[-1].T)[:count, count:]
            across = across[:-1]
        within = torch.where(same_frame, within, -torch.inf)  # [H, N, N], or [N, N] without placements
        across = torch.where(same_frame, -torch.inf, across)

        def slope(_: Tensor, joint: Tensor) -> Tensor:
            moved: Tensor = self.field(joint[0], within, across)
            return moved[None]

        # One sample of all landmarks of both frames: an adaptive solver steps for them together.
        final = self.leave(solve(slope, state[None], self.config.end_time, self.config.solver).state[0])
        likeness = F.normalize(vertex_a, dim=-1) @ F.normalize(vertex_b, dim=-1).T
        met = final[:count] @ final[count:].T / math.sqrt(self.config.width)
        return Assignment(met + self.appearance * likeness + prior + self.offset, self.alone)

    def _edges(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """What the boxes [N, 6] say about every two landmarks: [H, N, N] within a frame, [H + 1, N, N] across."""
        shape = (boxes.shape[0], boxes.shape[0], BOX_NUMBERS)  # not len(): a traced graph keeps the count open
        here, there = boxes[:, None].expand(shape), boxes.expand(shape)
        within = self.edges_within(here - there)
        across = self.edges_across(torch.cat([here, there, there - here], dim=-1))
        return within.permute(2, 0, 1), across.permute(2, 0, 1)
