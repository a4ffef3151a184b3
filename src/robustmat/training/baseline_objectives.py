"""From a batch of labelled patches to a loss: one objective per method, in its paper's words and numbers.

An objective may have weights of its own that matching does not need, such as DELG's classifier: they are trained and
saved with the run, and left behind when a checkpoint is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.dataset.truth import MATCHED
from robustmat.models.baselines.backbone import MIDDLE_CHANNELS
from robustmat.models.baselines.cvnet import CVNet
from robustmat.models.baselines.delg import Delg
from robustmat.models.baselines.hynet import HyNet
from robustmat.models.baselines.matchnet import MatchNet
from robustmat.models.baselines.protocol import PatchMatcher
from robustmat.training.baseline_batches import LabelledPatches
from robustmat.training.baseline_losses import (
    averaged_triplet_loss,
    contrastive_margin_loss,
    distances,
    exponential_triplet_loss,
    hardest_negative,
    hardest_positive,
    hybrid,
    margin_softmax_loss,
    norm_difference,
    picking_loss,
    second_order_difference,
    second_order_similarity,
    triplet_margin_loss,
)
from robustmat.training.losses import pair_loss
from robustmat.training.module import pair_weights

Losses = dict[str, Tensor]


class ObjectiveConfig(Config):
    """The numbers in the losses; each method reads its own."""

    margin: PositiveFloat = 1.0  # SiameseNet, HardNet, SOSNet; HyNet 1.2; SOLAR 0.5; DELG's is an angle, 0.1
    matched_share: PositiveFloat = 0.5  # of the pairs' weight, where all candidates count
    negatives_share: float = Field(default=0.2, gt=0, le=1)  # of a step's, among which triplets take the hardest
    hybrid_weight: NonNegativeFloat = 2.0  # HyNet's alpha
    norm_weight: NonNegativeFloat = 0.1  # HyNet's gamma
    second_order_weight: NonNegativeFloat = 1.0  # SOSNet and SOLAR
    scale: PositiveFloat = 16.0  # of DELG's cosines at the start; learned
    reconstruction_weight: NonNegativeFloat = 10.0  # DELG's autoencoder
    temperature: PositiveFloat = 0.1  # CVNet's contrastive term
    negatives_per_match: PositiveFloat = 3.0  # so many of the hardest, where pairs are judged: SiameseNet, CVNet


class Objective(Protocol):
    """Every term of a method's loss for one batch; `loss` is what is minimised."""

    def __call__(self, model: PatchMatcher, batch: LabelledPatches) -> Losses: ...


@dataclass(frozen=True)
class PlainObjective:
    """An objective without weights of its own."""

    config: ObjectiveConfig
    function: Callable[[PatchMatcher, LabelledPatches, ObjectiveConfig], Losses]

    def __call__(self, model: PatchMatcher, batch: LabelledPatches) -> Losses:
        return self.function(model, batch, self.config)


def siamesenet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    embedded = model.embed(batch.patches)
    every, other = batch.candidates.T
    similarity = -(embedded[every] - embedded[other]).detach().square().sum(dim=1)
    first, second = hard_candidates(batch, similarity, config.negatives_per_match).T
    label = batch.label[first, second]
    distance = ((embedded[first] - embedded[second]).square().sum(dim=1) + 1e-8).sqrt()
    weight = pair_weights(label, config.matched_share)
    return {"loss": contrastive_margin_loss(distance, label == MATCHED, weight, config.margin)}


def matchnet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    assert isinstance(model, MatchNet)
    embedded = model.embed(batch.patches)
    # All candidates: by the hardest alone a metric network that starts from nothing never leaves chance.
    first, second = batch.candidates.T
    label = batch.label[first, second]
    weight = pair_weights(label, config.matched_share)
    return {"loss": pair_loss(model.pair_logits(embedded[first], embedded[second]), label == MATCHED, weight)}


def hardnet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    distance = _distances(model.embed(batch.patches))
    positive, negative = _triplets(distance, batch, config)
    return {"loss": triplet_margin_loss(positive, negative, config.margin)}


def sosnet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    distance = _distances(model.embed(batch.patches))
    positive, negative = _triplets(distance, batch, config)
    triplet = triplet_margin_loss(positive, negative, config.margin, power=2)
    agreement = second_order_difference(distance, batch.unmatched, batch.first, batch.second)
    loss = triplet + config.second_order_weight * agreement
    return {"triplet": triplet, "second_order": agreement, "loss": loss}


def exp_tloss(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    distance = _distances(model.embed(batch.patches))
    positive = hardest_positive(distance, batch.matched, batch.first, batch.second)
    _, negative = _triplets(distance, batch, config)
    return {"loss": exponential_triplet_loss(positive, negative)}


def hynet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    assert isinstance(model, HyNet)
    raw = model.raw(batch.patches)
    distance = hybrid(_distances(model.unit(raw)), config.hybrid_weight)
    positive, negative = _triplets(distance, batch, config)
    triplet = triplet_margin_loss(positive, negative, config.margin)
    norms = norm_difference(raw, batch.first, batch.second)
    return {"triplet": triplet, "norms": norms, "loss": triplet + config.norm_weight * norms}


def solar(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    squared = _distances(model.embed(batch.patches)).square()
    drawn = _some_negatives(batch, config)
    triplet = averaged_triplet_loss(squared, drawn, batch.first, batch.second, config.margin)
    agreement = second_order_similarity(squared, batch.unmatched, batch.first, batch.second)
    loss = triplet + config.second_order_weight * agreement
    return {"triplet": triplet, "second_order": agreement, "loss": loss}


class DelgObjective(nn.Module):
    """Margin softmax for the global descriptor; the local branch learns to attend to what tells objects apart, and to
    rebuild the map it reads."""

    def __init__(self, config: ObjectiveConfig, model: Delg, identities: int) -> None:
        super().__init__()
        self.config = config
        # Short, so that they turn quickly: only their directions count.
        self.classes = nn.Parameter(0.1 * F.normalize(torch.randn(identities, model.config.embedding_dim), dim=1))
        self.scale = nn.Parameter(torch.tensor(config.scale))
        self.decode = nn.Conv2d(model.config.local_dim, MIDDLE_CHANNELS, 1)
        self.classify_local = nn.Linear(MIDDLE_CHANNELS, identities)

    def forward(self, model: PatchMatcher, batch: LabelledPatches) -> Losses:
        assert isinstance(model, Delg)
        whole, local, attention, shallow = model.parts(batch.patches)
        cosine = whole @ F.normalize(self.classes, dim=1).T
        globally = margin_softmax_loss(cosine, batch.identity, self.scale, self.config.margin)
        rebuilt = torch.relu(self.decode(local))
        reconstruction = F.mse_loss(rebuilt, torch.relu(shallow)) / shallow.square().mean().clamp(min=1e-6)
        weight = attention / attention.sum(dim=(2, 3), keepdim=True).clamp(min=1e-12)
        seen = (F.normalize(rebuilt, dim=1) * weight).sum(dim=(2, 3))  # [N, C]
        locally = F.cross_entropy(self.classify_local(seen), batch.identity, ignore_index=-1)
        loss = globally + locally.nan_to_num() + self.config.reconstruction_weight * reconstruction
        return {"global": globally, "local": locally, "reconstruction": reconstruction, "loss": loss}


def cvnet(model: PatchMatcher, batch: LabelledPatches, config: ObjectiveConfig) -> Losses:
    assert isinstance(model, CVNet)
    embedded = model.embed(batch.patches)
    _, whole = model.unpack(embedded)
    cosine = whole @ whole.T
    picking = picking_loss(cosine, batch.unmatched, batch.first, batch.second, config.temperature)
    every, other = batch.candidates.T
    first, second = hard_candidates(batch, cosine.detach()[every, other], config.negatives_per_match).T
    label = batch.label[first, second]
    weight = pair_weights(label, config.matched_share)
    verified = pair_loss(model.pair_logits(embedded[first], embedded[second]), label == MATCHED, weight)
    return {"global": picking, "verified": verified, "loss": picking + verified}


def hard_candidates(batch: LabelledPatches, similarity: Tensor, negatives_per_match: float) -> Tensor:
    """All matched candidates, and the most similar unmatched ones, so many for each match: [M, 2].

    Of all the wrong pairs of two frames most are easy and teach nothing; an even draw would be mostly of those.

    Args:
        similarity: of each candidate, [candidates].
    """
    first, second = batch.candidates.T
    matched = batch.label[first, second] == MATCHED
    unmatched = (batch.unmatched[first, second]).nonzero().squeeze(1)
    order = similarity[unmatched].argsort(descending=True)
    count = max(1, round(negatives_per_match * int(matched.sum())))
    return torch.cat([batch.candidates[matched], batch.candidates[unmatched[order[:count]]]])


def _distances(descriptors: Tensor) -> Tensor:
    return distances(descriptors, descriptors)


def _triplets(distance: Tensor, batch: LabelledPatches, config: ObjectiveConfig) -> tuple[Tensor, Tensor]:
    """Each match's distance, and that of its hardest negative: [P]."""
    negative = hardest_negative(distance, _some_negatives(batch, config), batch.first, batch.second)
    return distance[batch.first, batch.second], negative


def _some_negatives(batch: LabelledPatches, config: ObjectiveConfig) -> Tensor:
    """Some of the unmatched pairs [N, N], drawn anew at every step, for a loss that takes the hardest of them.

    The hardest of all is mostly a twin out of the same row of poles, by whom nothing but a collapse can be learned.
    """
    chance = torch.rand(batch.unmatched.shape, device=batch.unmatched.device)
    drawn = batch.unmatched & (chance < config.negatives_share)
    return drawn | drawn.T


OBJECTIVES: dict[str, Callable[[PatchMatcher, LabelledPatches, ObjectiveConfig], Losses]] = {
    "siamesenet": siamesenet,
    "matchnet": matchnet,
    "hardnet": hardnet,
    "sosnet": sosnet,
    "exp-tloss": exp_tloss,
    "hynet": hynet,
    "solar": solar,
    "cvnet": cvnet,
}


def make_objective(method: str, config: ObjectiveConfig, model: PatchMatcher, identities: int) -> Objective:
    """What `method` minimises; `identities` is the number of objects on the training side."""
    if method == "delg":
        assert isinstance(model, Delg)
        return DelgObjective(config, model, identities)
    return PlainObjective(config, OBJECTIVES[method])
