"""Joint diffusion: the landmarks of two frames exchange heat within and across the frames, then compete.

The paper scores a landmark pair by itself; two near-identical poles of one frame then score alike. Here the
pair's two frames form one graph: edges within a frame and edges across, each with an attention of its own that
can see how the two boxes lie to each other. The state of all landmarks follows that field for a while, and
every landmark then divides its trust among its possible partners and the chance that it has none. What a
frame contributes (vertex embeddings, placements) belongs to that frame alone and can be stored.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config, Duration, Size
from robustmat.features.placement import BOX_DIM, PLACEMENT_DIM
from robustmat.models.handcrafted import LOG_WEIGHT_RATE, Likeness
from robustmat.models.solvers import SolverConfig, solve


class JointConfig(Config):
    """The sizes of the joint diffusion. Four Euler steps are four rounds of the same attention."""

    width: Size = 96
    heads: Size = 4
    end_time: Duration = 1.0
    solver: SolverConfig = Field(default_factory=lambda: SolverConfig(name="euler", steps=4))
    motion: int = Field(default=8, ge=0, le=1024)  # numbers of the camera's motion; 0: pairs are judged alone
    exchange_weight: float = Field(default=1.0, gt=0, le=1)  # of what the landmarks' states say after the exchange

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


PAIR_DIM = 3 * BOX_DIM + 6 + 1 + (PLACEMENT_DIM - BOX_DIM)


def pair_encoding(placement: Tensor) -> Tensor:
    """Numbers [N, N, PAIR_DIM] about every two landmarks: their boxes, how far these are from one expansion about
    the image's center, their categories.

    A camera that drives straight on sees a landmark grow by the factor by which it leaves the center.
    """
    boxes, category = placement[:, :BOX_DIM], placement[:, BOX_DIM:]
    shape = (boxes.shape[0], boxes.shape[0], BOX_DIM)  # not len(): a traced graph keeps the count open
    here, there = boxes[:, None].expand(shape), boxes.expand(shape)
    places = [0, 4, 5]  # right, top, bottom
    expansions = []
    for size in (2, 3):  # by width and by height, halved: each side is moved half the way
        half = ((there[..., size] - here[..., size]) / 2).clamp(-1.5, 1.5).exp()[..., None]
        expansions.append(there[..., places] / half - here[..., places] * half)
    same = category @ category.T
    kind = same[..., None] * category
    return torch.cat([here, there, there - here, *expansions, same[..., None], kind], dim=-1)


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, outputs))


def _consensus(said: Tensor, share: Tensor) -> Tensor:
    """The motion [M] that the pairs [A, B, 2 + M] tell together, each as far as it is trusted and sure."""
    weight = share * F.softplus(said[..., 1])
    return (weight[..., None] * said[..., 2:]).sum(dim=(0, 1)) / weight.sum().clamp(min=1e-6)


def _both(logit: Tensor, count: int) -> Tensor:
    """What both directions [N, N] say about the pairs of two frames: [A, B]."""
    return (logit + logit.T)[:count, count:]


class AcrossFrames(nn.Module):
    """What the boxes and categories of two landmarks of different frames say about each other.

    First every pair is judged by itself. The pairs that pixels and boxes trust then say together how the camera moved,
    as a few learned numbers, and every pair is judged anew in the light of that motion: all landmarks of a street move
    by one camera.
    """

    def __init__(self, heads: int, motion: int) -> None:
        super().__init__()
        self.motion = motion
        # A logit for being one object; beyond it attention, or how surely and what the pair tells about the motion.
        self.alone = perceptron(PAIR_DIM, 1 + (1 + motion if motion else heads))
        if motion:
            self.together = perceptron(PAIR_DIM + motion, 1 + heads)

    def forward(self, placement: Tensor, count: int, trust: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Edges [H, N, N] of the diffusion and the prior [A, B] of being one object.

        Args:
            placement: [N, P], the first `count` of one frame, the others of the other.
            trust: how much a pair is trusted [A, B] in the light of a prior [A, B].
        """
        numbers = pair_encoding(placement)
        said = self.alone(numbers)
        if self.motion:
            share = trust(_both(said[..., 0], count))
            there = _consensus(said[:count, count:], share).expand(count, numbers.shape[1], -1)
            back = _consensus(said[count:, :count], share.T).expand(numbers.shape[0] - count, numbers.shape[1], -1)
            refined = self.together(torch.cat([numbers, torch.cat([there, back])], dim=-1))
            said = torch.cat([said[..., :1] + refined[..., :1], refined[..., 1:]], dim=-1)
        return said[..., 1:].permute(2, 0, 1), _both(said[..., 0], count)


class JointDiffusion(nn.Module):
    """From what two frames know of their landmarks to the evidence for every pair.

    Without placements (None) pixels speak alone: the same weights, trained for both.

    Shape:
        vertex_a [A, D + E], vertex_b [B, D + E], placement_a [A, P], placement_b [B, P] -> Assignment [A, B]
    """

    def __init__(self, config: JointConfig, dim: int, handcrafted: dict[str, int] | None = None) -> None:
        super().__init__()
        self.config, self.dim = config, dim
        self.likeness = Likeness(handcrafted) if handcrafted else None
        width, heads = config.width, config.heads
        self.project_in = nn.Linear(dim, width)
        self.place = nn.Sequential(nn.Linear(PLACEMENT_DIM, 64), nn.GELU(), nn.Linear(64, width))
        self.unplaced = nn.Parameter(torch.zeros(width))
        self.edges_within = nn.Sequential(nn.Linear(BOX_DIM, 32), nn.GELU(), nn.Linear(32, heads))
        self.across = AcrossFrames(heads, config.motion)
        self.field = JointField(width, heads)
        self.project_out = nn.Linear(width, width)
        self.appearance = nn.Parameter(torch.tensor(5.0))  # weight of the embeddings' own likeness
        self.emphasis = nn.Parameter(torch.zeros(2))  # on what was exchanged, and on placements; as `Likeness` has it
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.alone = nn.Parameter(torch.tensor(0.0))

    def forward(
        self, vertex_a: Tensor, vertex_b: Tensor, placement_a: Tensor | None, placement_b: Tensor | None
    ) -> Assignment:
        count = vertex_a.shape[0]
        if not count or not vertex_b.shape[0]:
            return Assignment(vertex_a @ vertex_b.T, self.alone)
        learned_a, learned_b = vertex_a[:, : self.dim], vertex_b[:, : self.dim]
        vertex = torch.cat([learned_a, learned_b])  # [N, D], the one graph of both frames
        first = torch.arange(vertex.shape[0], device=vertex.device) < count
        same_frame = first[:, None] == first
        within = across = prior = vertex.new_zeros(())
        state = self.project_in(vertex)
        likeness = self.appearance * F.normalize(learned_a, dim=-1) @ F.normalize(learned_b, dim=-1).T + self.offset
        if self.likeness is not None:
            likeness = likeness + self.likeness(vertex_a[:, self.dim :], vertex_b[:, self.dim :])
        if placement_a is None or placement_b is None:
            state = state + self.unplaced
        else:
            placement = torch.cat([placement_a, placement_b])
            state = state + self.place(placement)
            boxes = placement[:, :BOX_DIM]
            within = self.edges_within(boxes[:, None] - boxes).permute(2, 0, 1)
            # Squared, both sides' trust multiplied: a pair that one side doubts has hardly a voice.
            across, prior = self.across(
                placement, count, lambda prior: Assignment(likeness + prior, self.alone).score().square()
            )
        within = torch.where(same_frame, within, -torch.inf)  # [H, N, N], or [N, N] without placements
        across = torch.where(same_frame, -torch.inf, across)

        def slope(_: Tensor, joint: Tensor) -> Tensor:
            moved: Tensor = self.field(joint[0], within, across)
            return moved[None]

        # One sample of all landmarks of both frames: an adaptive solver steps for them together.
        final = self.project_out(solve(slope, state[None], self.config.end_time, self.config.solver).state[0])
        agreement = final[:count] @ final[count:].T / math.sqrt(self.config.width)
        exchanged, placed = (LOG_WEIGHT_RATE * self.emphasis).exp()
        return Assignment(self.config.exchange_weight * exchanged * agreement + likeness + placed * prior, self.alone)
