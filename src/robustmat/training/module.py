"""A method in training: one step from a batch of frame pairs to a loss."""

from collections.abc import Iterable
from typing import Any

import lightning
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.dataset.batches import Batch, PatchBank
from robustmat.dataset.truth import FrameTruth, label_candidates
from robustmat.features.patches import PatchConfig
from robustmat.methods import find_method
from robustmat.models.batch import LabelledPair, TrainingBatch
from robustmat.training.config import LoopConfig, TrainingConfig
from robustmat.types import AMBIGUOUS, UNMATCHED

NEW_LAYERS = 10  # times the learning rate, for layers that begin at random beside learned ones


class TrainingModule(lightning.LightningModule):
    """Wraps a network and its objective for lightning, which brings the loop, the checkpoints and the devices."""

    def __init__(self, config: TrainingConfig, bank: PatchBank) -> None:
        super().__init__()
        self.config, self.bank = config, bank
        method = find_method(config.method)
        self.network = method.make_network(config.model)
        identities = 1 + max(int(frame.identity.max()) for frame in bank.truth.frames)
        self.objective = method.learning.objective(config.objective, self.network, identities)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        losses = self.losses(batch, self.global_step)
        self.log_dict({f"train/{name}": value.detach() for name, value in losses.items()})
        self.log("loss", losses["loss"].detach(), prog_bar=True, logger=False)
        return losses["loss"]

    def losses(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Every term of the objective for one batch."""
        labelled = labelled_batch(batch, self.bank, self.network.config.patch, self.device)
        with torch.random.fork_rng():
            # What dropout drops is the step's alone, so that a resumed run drops the same.
            torch.manual_seed(self.config.seed * 1_000_003 + step)
            return self.objective(self.network, labelled)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # pixels travel as bytes and become tensors inside the step

    def configure_optimizers(self) -> Any:
        elsewhere = tuple(f"network.{name}." for name in self.network.learned_elsewhere)
        learning = [(name, value) for name, value in self.named_parameters() if value.requires_grad]
        adapted = [value for name, value in learning if name.startswith(elsewhere)]
        new = [value for name, value in learning if not name.startswith(elsewhere)]
        if not adapted:
            return make_optimizer(new, self.config)
        rate = NEW_LAYERS * self.config.learning_rate
        return make_optimizer([{"params": adapted}, {"params": new, "lr": rate}], self.config)


def make_optimizer(parameters: Iterable[Any], config: LoopConfig) -> Any:
    """The optimizer of parameters or groups of them, with its schedule where there is one, as lightning wants it."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    optimizer = kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
    if config.schedule == "constant":
        return optimizer
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, config.steps))
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def labelled_batch(
    batch: Batch, bank: PatchBank, patch: PatchConfig, device: torch.device | str = "cpu"
) -> TrainingBatch:
    """The batch as tensors, with the ground truth about every two of its landmarks, not only within frame pairs."""
    truths = [bank.truth.frames[number] for number in batch.frames]
    label = np.concatenate([np.concatenate([_label(a, b) for b in truths], axis=1) for a in truths])
    np.fill_diagonal(label, AMBIGUOUS)  # a patch is not its own match
    identity = np.concatenate([frame.identity for frame in truths])
    index, mask, placement, every, who = (
        torch.from_numpy(np.ascontiguousarray(array)).to(device)
        for array in (batch.index, batch.mask, batch.placement, label, identity)
    )
    pairs = tuple(LabelledPair(pair.a, pair.b, torch.from_numpy(pair.label.copy()).to(device)) for pair in batch.pairs)
    views = tuple((frame, *view) for frame, view in zip(batch.frames, batch.views, strict=True))
    return TrainingBatch(batch.patches, patch, index, mask, placement, pairs, views, every, who)


def _label(a: FrameTruth, b: FrameTruth) -> NDArray[np.int8]:
    """As within a frame pair; frames of different worlds share no object, whatever their coordinates say."""
    if a.world != b.world:
        return np.full((len(a.identity), len(b.identity)), UNMATCHED, np.int8)
    return label_candidates(a, b)
