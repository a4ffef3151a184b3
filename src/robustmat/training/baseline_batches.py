"""A batch for methods that compare patches: who is who among all its patches, not only within frame pairs."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.dataset.batches import Batch, PatchBank
from robustmat.dataset.truth import AMBIGUOUS, MATCHED, UNKNOWN, UNMATCHED, FrameTruth, Indices, label_candidates
from robustmat.features.patches import PatchConfig, to_input


@dataclass(frozen=True)
class LabelledPatches:
    """All patches of a batch's frame pairs whose object is known, and the truth about every two of them."""

    patches: Tensor  # [N, 3, S, S]
    label: Tensor  # [N, N]: MATCHED, UNMATCHED, AMBIGUOUS
    identity: Tensor  # [N], the number of the object on the training side
    first: Tensor  # [P], one side of the matched pairs of the frame pairs
    second: Tensor
    candidates: Tensor  # [M, 2], all pairs within frame pairs

    @property
    def unmatched(self) -> Tensor:
        return self.label == UNMATCHED

    @property
    def matched(self) -> Tensor:
        return self.label == MATCHED


def label_batch(
    batch: Batch, bank: PatchBank, config: PatchConfig, device: torch.device | str = "cpu"
) -> LabelledPatches:
    """Compare all frames of the batch by the ground truth."""
    truths = [bank.truth.frames[number] for number in batch.frames]
    label = np.concatenate([np.concatenate([_label(a, b) for b in truths], axis=1) for a in truths])
    np.fill_diagonal(label, AMBIGUOUS)  # a patch is not its own match
    identity = np.concatenate([it.identity for it in truths])
    # Landmarks without an identity are neither right nor wrong to anyone: embedding them would teach nothing.
    kept = np.flatnonzero(identity != UNKNOWN)
    place = np.full(len(identity), -1)
    place[kept] = np.arange(len(kept))
    candidates = np.concatenate([_candidates(place[it.a], place[it.b]) for it in batch.pairs])
    label = label[np.ix_(kept, kept)]
    right = candidates[label[candidates[:, 0], candidates[:, 1]] == MATCHED]
    arrays = (to_input(batch.patches[kept], config), label, identity[kept], right[:, 0], right[:, 1], candidates)
    return LabelledPatches(*(torch.from_numpy(np.ascontiguousarray(it)).to(device) for it in arrays))


def _candidates(a: Indices, b: Indices) -> Indices:
    """All pairs [M, 2] of the patches of two frames that were kept."""
    pairs = np.stack(np.meshgrid(a[a >= 0], b[b >= 0], indexing="ij"), axis=-1)
    return np.asarray(pairs.reshape(-1, 2), np.int64)


def _label(a: FrameTruth, b: FrameTruth) -> NDArray[np.int8]:
    """As within a frame pair; frames of different worlds share no object, whatever their coordinates say."""
    if a.world != b.world:
        return np.full((len(a.identity), len(b.identity)), UNMATCHED, np.int8)
    return label_candidates(a, b)
