"""What an objective reads of a training step: landmarks of several frame pairs, and who is who among them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.features.patches import PatchConfig, to_input
from robustmat.types import MATCHED, UNMATCHED

UNKNOWN = -1  # the identity of a landmark that has none


@dataclass(frozen=True)
class LabelledPair:
    """Where the landmarks of two frames stand in a batch, and who is who: MATCHED, UNMATCHED, AMBIGUOUS."""

    a: slice
    b: slice
    label: Tensor  # [A, B]


@dataclass(frozen=True)
class TrainingBatch:
    """Several frame pairs, all their landmarks side by side."""

    pixels: NDArray[np.uint8]  # [N, S, S, C]; they become numbers when they are asked for
    patch: PatchConfig
    index: Tensor  # [N, K], vertices of each graph, within the batch
    mask: Tensor  # [N, K]
    placement: Tensor  # [N, P]
    pairs: tuple[LabelledPair, ...]
    views: tuple[tuple[int, int, bool], ...]  # of each frame, two a pair: its number, its view, whether it is mirrored
    label: Tensor  # [N, N], the truth about every two landmarks
    identity: Tensor  # [N], the number of the object on the training side, or UNKNOWN

    @cached_property
    def patches(self) -> Tensor:
        """[N, C, S, S]"""
        return self.patches_of(slice(None))

    def patches_of(self, rows: slice | NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(to_input(self.pixels[rows], self.patch)).to(self.index.device)

    def known(self) -> "LabelledPatches":
        """The landmarks whose object is known. The others are neither right nor wrong to anyone: embedding them
        teaches nothing where neighbourhoods are not looked at."""
        kept = (self.identity != UNKNOWN).nonzero().squeeze(1)
        place = torch.full_like(self.identity, -1)
        place[kept] = torch.arange(len(kept), device=place.device)
        candidates = torch.cat([_candidates(place[pair.a], place[pair.b]) for pair in self.pairs])
        label = self.label[kept][:, kept]
        right = candidates[label[candidates[:, 0], candidates[:, 1]] == MATCHED]
        patches = self.patches_of(kept.cpu().numpy())
        return LabelledPatches(patches, label, self.identity[kept], right[:, 0], right[:, 1], candidates)


@dataclass(frozen=True)
class LabelledPatches:
    """Patches whose object is known, and the truth about every two of them."""

    patches: Tensor  # [N, C, S, S]
    label: Tensor  # [N, N]: MATCHED, UNMATCHED, AMBIGUOUS
    identity: Tensor  # [N]
    first: Tensor  # [P], one side of the matched pairs of the frame pairs
    second: Tensor
    candidates: Tensor  # [M, 2], all pairs within frame pairs

    @property
    def unmatched(self) -> Tensor:
        return self.label == UNMATCHED

    @property
    def matched(self) -> Tensor:
        return self.label == MATCHED


def _candidates(a: Tensor, b: Tensor) -> Tensor:
    """All pairs [M, 2] of the landmarks of two frames that were kept."""
    return torch.cartesian_prod(a[a >= 0], b[b >= 0]).reshape(-1, 2)
