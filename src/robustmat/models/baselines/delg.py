"""DELG (Cao et al., ECCV 2020): a global descriptor and attentive local features from one network.

Kept: generalised-mean pooling and whitening for the global descriptor, margin softmax (ArcFace) over the training
side's objects as classes, local features from a shallower map by an autoencoder, an attention that says where to look,
no gradient from the local branch into the backbone. Smaller: EfficientNet-Lite0 (see backbone.py), local features of
32 numbers in 64 places. DELG re-ranks by a geometric check of the local matches; between two crops of one object the
attention-weighted similarity of the best local matches takes its place and is averaged with the global cosine.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.models.baselines.backbone import (
    LAST_CHANNELS,
    MIDDLE_CHANNELS,
    Backbone,
    GlobalDescriptor,
)
from robustmat.models.baselines.inputs import refuse_context
from robustmat.models.baselines.protocol import BaselineConfig, PatchMatcher


class DelgConfig(BaselineConfig):
    local_dim: int = 32
    attention_hidden: int = 64


class Delg(PatchMatcher):
    """Embeddings are [N, 1 + cells, max(D, local + 1)]: the global descriptor first, then each cell's local feature
    with its attention behind it."""

    config: DelgConfig

    def __init__(self, config: DelgConfig) -> None:
        super().__init__(config)
        refuse_context(config.patch, "delg")
        self.backbone = Backbone(config.patch)
        self.descriptor = GlobalDescriptor(LAST_CHANNELS, config.embedding_dim)
        self.encode = nn.Conv2d(MIDDLE_CHANNELS, config.local_dim, 1)
        self.attend = nn.Sequential(
            nn.Conv2d(MIDDLE_CHANNELS, config.attention_hidden, 1),
            nn.ReLU(),
            nn.Conv2d(config.attention_hidden, 1, 1),
            nn.Softplus(),
        )

    def warm_start(self) -> None:
        self.backbone.load_imagenet()

    def parts(self, patches: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Global descriptor [N, D], local features [N, C', H, W], attention [N, 1, H, W], the map they come from."""
        middle, last = self.backbone(patches)
        shallow = middle.detach()  # the local branch learns from the features, it does not shape them
        return self.descriptor(last), self.encode(shallow), self.attend(shallow), shallow

    def embed(self, patches: Tensor) -> Tensor:
        whole, local, attention, _ = self.parts(patches)
        # Cells compete for attention, so that a patch's weights add up to one.
        weight = attention.flatten(2) / attention.flatten(2).sum(dim=2, keepdim=True).clamp(min=1e-12)  # [N, 1, HW]
        cells = torch.cat([F.normalize(local.flatten(2), dim=1), weight], dim=1).transpose(1, 2)  # [N, HW, C' + 1]
        width = max(whole.shape[1], cells.shape[2])
        first = F.pad(whole[:, None], (0, width - whole.shape[1]))
        return torch.cat([first, F.pad(cells, (0, width - cells.shape[2]))], dim=1)

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        whole_a, whole_b = (it[:, 0, : self.config.embedding_dim] for it in (a, b))
        return (whole_a @ whole_b.T + self.local_similarity(a, b)) / 2

    def local_similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """How well each place that one patch attends to is found in the other, averaged both ways: [A, B]."""
        dim = self.config.local_dim
        (local_a, weight_a), (local_b, weight_b) = ((it[:, 1:, :dim], it[:, 1:, dim]) for it in (a, b))
        cosine = torch.einsum("ahd,bkd->abhk", local_a, local_b)
        found_a = (cosine.amax(dim=3) * weight_a[:, None]).sum(dim=2)
        found_b = (cosine.amax(dim=2) * weight_b[None]).sum(dim=2)
        return (found_a + found_b) / 2
