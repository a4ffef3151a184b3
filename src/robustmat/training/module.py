"""The model in training: one step from a batch of frame pairs to a loss."""

import math
from collections.abc import Iterable
from typing import Any

import lightning
import torch
from torch import Tensor

from robustmat.dataset.batches import Batch
from robustmat.dataset.truth import AMBIGUOUS, MATCHED, UNMATCHED
from robustmat.features.patches import to_input
from robustmat.models.robustmat import Embeddings, PairLogits, RobustMat
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.losses import assignment_loss, contrastive_loss, diffusion_quotient, total_loss, triplet_loss


class TrainingModule(lightning.LightningModule):
    """Wraps RobustMat for lightning, which brings the loop, the checkpoints and the devices."""

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__()
        self.config = config
        self.model = RobustMat(config.model)
        self.embedded: dict[tuple[int, int, bool], Tensor] = {}  # by frame, view and mirroring
        if config.learns == "heads":
            self.model.vertex.requires_grad_(False)
        elif config.learns == "weights":
            self.model.requires_grad_(False)
            for parameter in self.model.evidence_weights():
                parameter.requires_grad_(True)
        if not config.weighs_unlearned:
            for parameter in self.model.unlearned_weights():
                parameter.requires_grad_(False)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        vertex = None if self.config.learns == "all" else self._remembered(batch)
        losses = batch_losses(self.model, batch, self.config, self.device, vertex)
        self.log_dict({f"train/{name}": value.detach() for name, value in losses.items()})
        loss = losses["loss"]
        self.log("loss", loss.detach(), prog_bar=True, logger=False)
        return loss

    def _remembered(self, batch: Batch) -> Tensor:
        """The vertex embeddings [N, D], each view embedded when it is first met: they do not change."""
        rows = [side for pair in batch.pairs for side in (pair.a, pair.b)]
        vertex = []
        for frame, view, part in zip(batch.frames, batch.views, rows, strict=True):
            key = frame, *view
            if key not in self.embedded:
                patches = torch.from_numpy(to_input(batch.patches[part], self.config.model.patch)).to(self.device)
                with torch.no_grad():
                    self.embedded[key] = self.model.vertex.embed(patches)
            vertex.append(self.embedded[key])
        return torch.cat(vertex)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # pixels travel as bytes and become tensors inside the step

    def configure_optimizers(self) -> Any:
        return make_optimizer([it for it in self.model.parameters() if it.requires_grad], self.config)


def make_optimizer(parameters: Iterable[Any], config: RunConfig) -> Any:
    """The optimizer of parameters or groups of them, with its schedule where there is one, as lightning wants it."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    optimizer = kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
    if config.schedule == "constant":
        return optimizer
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(1.0, step / config.steps)))
    )
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def batch_losses(
    model: RobustMat,
    batch: Batch,
    config: TrainingConfig,
    device: torch.device | str = "cpu",
    vertex: Tensor | None = None,
) -> dict[str, Tensor]:
    """Every term of the objective for one batch; `loss` is their weighted sum. `vertex` [N, D] saves embedding anew."""
    index, mask = torch.from_numpy(batch.index).to(device), torch.from_numpy(batch.mask).to(device)
    placement = torch.from_numpy(batch.placement).to(device)
    if vertex is None:
        patches = torch.from_numpy(to_input(batch.patches, model.config.patch)).to(device)
        embeddings = model.embed(patches, index, mask, placement)
    else:
        embeddings = model.surround(vertex, index, mask, placement)
    labels = [torch.from_numpy(pair.label).to(device) for pair in batch.pairs]
    sides = [(_part(embeddings, pair.a), _part(embeddings, pair.b)) for pair in batch.pairs]
    logits = [model.compare(a, b) for a, b in sides]

    label = torch.cat([it.flatten() for it in labels])  # [P], all candidates of all frame pairs
    flat = PairLogits(
        *(torch.cat([getattr(it, name).flatten() for it in logits]) for name in ("vertex", "graph_ab", "graph_ba"))
    )
    weight = pair_weights(label, config.matched_share)
    losses = {"pairs": total_loss(flat, label == MATCHED, weight, config.effective_graph_loss_weight)}
    loss = losses["pairs"]
    metric_losses = {
        "triplet": (config.triplet_weight, triplet_loss, config.triplet_margin),
        "contrastive": (config.contrastive_weight, contrastive_loss, config.temperature),
    }
    for name, (factor, metric_loss, setting) in metric_losses.items():
        if factor:
            terms = [
                metric_loss(model.learned(a.vertex), model.learned(b.vertex), it == MATCHED, it == UNMATCHED, setting)
                for (a, b), it in zip(sides, labels, strict=True)
            ]
            losses[name] = torch.stack(terms).mean()
            loss = loss + factor * losses[name]
    if model.config.joint and config.joint_weight:
        losses["joint"] = joint_loss(model, sides, labels, config)
        loss = loss + config.joint_weight * losses["joint"]
    if config.vertex_regularizer or config.graph_regularizer:
        first, second = _pair_indices(batch, labels)
        if config.vertex_regularizer and embeddings.vertex_evolved is not None:
            losses["vertex_quotient"] = diffusion_quotient(embeddings.vertex_evolved, first, second)
            loss = loss + config.vertex_regularizer * losses["vertex_quotient"]
        if config.graph_regularizer and embeddings.graph_evolved is not None:
            losses["graph_quotient"] = diffusion_quotient(embeddings.graph_evolved, first, second, mask)
            loss = loss + config.graph_regularizer * losses["graph_quotient"]
    return losses | {"loss": loss}


def joint_loss(
    model: RobustMat, sides: list[tuple[Embeddings, Embeddings]], labels: list[Tensor], config: TrainingConfig
) -> Tensor:
    """The joint diffusion's loss, averaged over frame pairs; matched pairs of all of them share their weight."""
    weight = pair_weights(torch.cat([it.flatten() for it in labels]), config.matched_share)
    weights = torch.split(weight, [it.numel() for it in labels])
    terms = [
        assignment_loss(model.assign(a, b, placement=placed), it, share.view_as(it))
        for (a, b), it, share, placed in zip(sides, labels, weights, _placed(len(sides), config), strict=True)
    ]
    return torch.stack(terms).mean()


def pair_weights(label: Tensor, matched_share: float) -> Tensor:
    """Weights [P] that give all matched pairs together `matched_share` of the loss, all unmatched the rest."""
    matched, unmatched = label == MATCHED, label == UNMATCHED
    weight = torch.zeros(label.shape, device=label.device)
    weight[matched] = matched_share / matched.sum().clamp(min=1)
    weight[unmatched] = (1 - matched_share) / unmatched.sum().clamp(min=1)
    return weight


def _placed(count: int, config: TrainingConfig) -> list[bool]:
    """Which frame pairs of a step may see placements: all but an even share, so that pixels learn to do without."""
    share = config.unplaced_share
    return [math.floor((number + 1) * share) == math.floor(number * share) for number in range(count)]


def _part(embeddings: Embeddings, rows: slice) -> Embeddings:
    placement = None if embeddings.placement is None else embeddings.placement[rows]
    return Embeddings(embeddings.vertex[rows], embeddings.graph[rows], placement)


def _pair_indices(batch: Batch, labels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Batch indices of both sides of every pair that is not ambiguous."""
    first, second = [], []
    for pair, label in zip(batch.pairs, labels, strict=True):
        rows, columns = (label != AMBIGUOUS).nonzero(as_tuple=True)
        first.append(rows + pair.a.start)
        second.append(columns + pair.b.start)
    return torch.cat(first), torch.cat(second)
