"""RobustMat (She et al., TIP 2023): neural diffusion on patches and on graphs of neighbouring landmarks.

The network is `models/robustmat.py`; its named configurations are `models/presets`. Beyond the paper's total loss and
quotient regularisers, `street` learns by a contrast of vertex embeddings and by the assignment of whole frames.
"""

import math
from functools import partial
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

from robustmat.config import Config
from robustmat.methods import Method, Trainable
from robustmat.models.batch import LabelledPair, TrainingBatch
from robustmat.models.losses import (
    assignment_loss,
    contrastive_loss,
    denoising_loss,
    diffusion_quotient,
    total_loss,
    triplet_loss,
)
from robustmat.models.mining import pair_weights
from robustmat.models.presets import PRESETS, VARIANTS, preset_values
from robustmat.models.robustmat import EVIDENCE, Embeddings, ModelConfig, PairLogits, RobustMat
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED

WEAKEST_NOISE, STRONGEST_NOISE = 20.0, 60.0  # grey levels, standard deviation: 22 to 13 dB


class RobustMatSettings(Config):
    """The terms of the loss and what they change. Defaults are the paper's where it speaks."""

    graph_loss_weight: float = Field(default=0.5, ge=0, le=1)  # lambda
    vertex_regularizer: NonNegativeFloat = 0.0  # weight of the ODE's output-input quotient
    graph_regularizer: NonNegativeFloat = 0.0  # weight of the PDE's
    triplet_weight: NonNegativeFloat = 0.0
    triplet_margin: PositiveFloat = 0.5
    contrastive_weight: NonNegativeFloat = 0.0
    temperature: PositiveFloat = 0.1  # of the contrastive term
    denoising_weight: NonNegativeFloat = 0.0  # of noisy patches that must flow to where their clean ones do
    # Heads: all that compares vertex embeddings, which stay as they are. Weights: how much each evidence counts.
    learns: Literal["all", "heads", "weights"] = "all"
    # False where training and validation streets are of one kind: what is learned would always be trusted more.
    trains_handcrafted_weights: bool = True
    joint_weight: NonNegativeFloat = 1.0  # of the joint diffusion's loss, where the model has one
    unplaced_share: float = Field(default=0.25, ge=0, le=1)  # of frame pairs whose joint diffusion sees pixels alone
    matched_share: float = Field(default=0.5, gt=0, lt=1)  # of the loss's total weight, whatever the counts


class RobustMatObjective:
    """The weighted sum of all terms; what does not learn is frozen when it is made."""

    def __init__(self, settings: RobustMatSettings, network: RobustMat, identities: int = 0) -> None:
        self.settings = settings
        self.embedded: dict[tuple[int, int, bool], Tensor] = {}  # by frame, view and mirroring
        if settings.learns == "heads":
            network.vertex.requires_grad_(False)
        elif settings.learns == "weights":
            network.requires_grad_(False)
            for parameter in network.evidence_weights():
                parameter.requires_grad_(True)
        if not settings.trains_handcrafted_weights:
            for parameter in network.handcrafted_weights():
                parameter.requires_grad_(False)

    def __call__(self, network: RobustMat, batch: TrainingBatch) -> dict[str, Tensor]:
        if self.settings.learns == "all":
            embeddings = network.embed(batch.patches, batch.index, batch.mask, batch.placement)
        else:
            embeddings = network.surround(self._frozen(network, batch), batch.index, batch.mask, batch.placement)
        return losses(network, batch, embeddings, self.settings)

    def _frozen(self, network: RobustMat, batch: TrainingBatch) -> Tensor:
        """The vertex embeddings [N, D], each view embedded when it is first met: they do not change."""
        rows = [rows for pair in batch.pairs for rows in (pair.a, pair.b)]
        vertex = []
        for view, part in zip(batch.views, rows, strict=True):
            if view not in self.embedded:
                with torch.no_grad():
                    self.embedded[view] = network.vertex.embed(batch.patches_of(part))
            vertex.append(self.embedded[view])
        return torch.cat(vertex)


def losses(
    network: RobustMat, batch: TrainingBatch, embeddings: Embeddings, settings: RobustMatSettings
) -> dict[str, Tensor]:
    """Every term for one batch; `loss` is their weighted sum."""
    sides = [(_rows(embeddings, pair.a), _rows(embeddings, pair.b)) for pair in batch.pairs]
    logits = [network.compare(a, b) for a, b in sides]
    label = torch.cat([pair.label.flatten() for pair in batch.pairs])  # [P], all candidates of all frame pairs
    names = ("vertex", "graph_ab", "graph_ba")
    flat = PairLogits(*(torch.cat([getattr(logit, name).flatten() for logit in logits]) for name in names))
    weight = pair_weights(label, settings.matched_share)
    terms = {"pairs": total_loss(flat, label == MATCHED, weight, graph_loss_weight(network, settings))}
    loss = terms["pairs"]
    metric_losses = {
        "triplet": (settings.triplet_weight, triplet_loss, settings.triplet_margin),
        "contrastive": (settings.contrastive_weight, contrastive_loss, settings.temperature),
    }
    for name, (factor, metric_loss, setting) in metric_losses.items():
        if factor:
            found = [
                metric_loss(
                    network.learned(a.vertex),
                    network.learned(b.vertex),
                    pair.label == MATCHED,
                    pair.label == UNMATCHED,
                    setting,
                )
                for (a, b), pair in zip(sides, batch.pairs, strict=True)
            ]
            terms[name] = torch.stack(found).mean()
            loss = loss + factor * terms[name]
    if network.config.joint and settings.joint_weight:
        terms["joint"] = joint_loss(network, sides, batch.pairs, settings)
        loss = loss + settings.joint_weight * terms["joint"]
    if settings.denoising_weight:
        noisy = network.vertex(with_noise(batch.patches, batch.patch.scale))[0]
        found_again = network.learned(noisy), network.learned(embeddings.vertex)
        terms["denoising"] = denoising_loss(*found_again, settings.temperature)
        loss = loss + settings.denoising_weight * terms["denoising"]
    if settings.vertex_regularizer or settings.graph_regularizer:
        first, second = _pair_indices(batch)
        if settings.vertex_regularizer and embeddings.vertex_evolved is not None:
            terms["vertex_quotient"] = diffusion_quotient(embeddings.vertex_evolved, first, second)
            loss = loss + settings.vertex_regularizer * terms["vertex_quotient"]
        if settings.graph_regularizer and embeddings.graph_evolved is not None:
            terms["graph_quotient"] = diffusion_quotient(embeddings.graph_evolved, first, second, batch.mask)
            loss = loss + settings.graph_regularizer * terms["graph_quotient"]
    return terms | {"loss": loss}


def with_noise(patches: Tensor, scale: float) -> Tensor:
    """White noise on patches [N, C, S, S], each with a strength of its own; `scale` grey levels are one."""
    strength = torch.empty(len(patches), 1, 1, 1, device=patches.device).uniform_(WEAKEST_NOISE, STRONGEST_NOISE)
    return patches + strength / scale * torch.randn_like(patches)


def graph_loss_weight(network: RobustMat, settings: RobustMatSettings) -> float:
    """Lambda, but a comparison that the model's score leaves out is not trained either."""
    return {"both": settings.graph_loss_weight, "vertex": 0.0, "graph": 1.0}[network.config.score]


def joint_loss(
    network: RobustMat,
    sides: list[tuple[Embeddings, Embeddings]],
    pairs: tuple[LabelledPair, ...],
    settings: RobustMatSettings,
) -> Tensor:
    """The joint diffusion's loss, averaged over frame pairs; matched pairs of all of them share their weight."""
    weight = pair_weights(torch.cat([pair.label.flatten() for pair in pairs]), settings.matched_share)
    weights = torch.split(weight, [pair.label.numel() for pair in pairs])
    placed = _with_placements(len(sides), settings.unplaced_share)
    found = [
        assignment_loss(network.assign(a, b, placement=seen), pair.label, share.view_as(pair.label))
        for (a, b), pair, share, seen in zip(sides, pairs, weights, placed, strict=True)
    ]
    return torch.stack(found).mean()


def _with_placements(count: int, share: float) -> list[bool]:
    """Which frame pairs of a step may see placements: all but an even share, so that pixels learn to do without."""
    return [math.floor((number + 1) * share) == math.floor(number * share) for number in range(count)]


def _rows(embeddings: Embeddings, rows: slice) -> Embeddings:
    placement = None if embeddings.placement is None else embeddings.placement[rows]
    return Embeddings(embeddings.vertex[rows], embeddings.graph[rows], placement)


def _pair_indices(batch: TrainingBatch) -> tuple[Tensor, Tensor]:
    """Batch indices of both sides of every pair that is not ambiguous."""
    first, second = [], []
    for pair in batch.pairs:
        rows, columns = (pair.label != AMBIGUOUS).nonzero(as_tuple=True)
        first.append(rows + pair.a.start)
        second.append(columns + pair.b.start)
    return torch.cat(first), torch.cat(second)


METHOD = Method(
    "RobustMat",
    Trainable(
        ModelConfig,
        RobustMat,
        RobustMatSettings,
        RobustMatObjective,
        presets={name: partial(preset_values, name) for name in PRESETS},
        variants=VARIANTS,
        evidence=(*EVIDENCE, "scene"),
        steps=(),  # its own evidence knows neighbours, rivals and placements
    ),
)
