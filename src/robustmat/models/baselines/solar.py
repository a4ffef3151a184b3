"""SOLAR (Ng et al., ECCV 2020): second-order attention inside the network, second-order similarity in the loss.

Kept: self-attention blocks over the map's cells at two depths, generalised-mean pooling, a whitening layer, triplet
loss on squared distances, averaged over five hard negatives, plus the second-order similarity term.
Smaller: EfficientNet-Lite0 instead of ResNet-101 (see backbone.py), 128 numbers instead of 2,048, negatives of the
batch instead of a mined pool: the hardest of a fiftieth of them; a margin of 0.5 instead of 1.25.
"""

from typing import cast

import torch
from torch import Tensor, nn

from robustmat.models.baselines.backbone import LAST_CHANNELS, MIDDLE_CHANNELS, Backbone, GlobalDescriptor
from robustmat.models.baselines.inputs import by_view
from robustmat.models.baselines.protocol import BaselineConfig, Descriptor


class SecondOrderAttention(nn.Module):
    """Every cell looks at all cells of the map and adds what it finds: [N, C, H, W] -> same.

    Shape:
        weights [N, HW, HW] from queries and keys, values of C / reduction channels
    """

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        inner = channels // reduction
        self.query, self.key = (nn.Sequential(nn.Conv2d(channels, inner, 1), nn.ReLU()) for _ in range(2))
        self.value = nn.Conv2d(channels, inner, 1)
        self.output = nn.Conv2d(inner, channels, 1)
        # The block begins as the identity, so that the ImageNet features are not disturbed.
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, maps: Tensor) -> Tensor:
        query, key, value = (it(maps).flatten(2) for it in (self.query, self.key, self.value))  # [N, C', HW]
        weight = (query.transpose(1, 2) @ key / query.shape[1] ** 0.5).softmax(dim=2)  # [N, HW, HW]
        found = (weight @ value.transpose(1, 2)).transpose(1, 2)  # [N, C', HW]
        return cast(Tensor, maps + self.output(found.unflatten(2, maps.shape[2:])))


class Solar(Descriptor):
    learned_elsewhere = ("backbone", "middle_attention", "last_attention", "descriptor")  # attention begins as nothing

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.backbone = Backbone(config.patch)
        self.middle_attention = SecondOrderAttention(MIDDLE_CHANNELS, reduction=2)
        self.last_attention = SecondOrderAttention(LAST_CHANNELS, reduction=8)
        self.descriptor = GlobalDescriptor(LAST_CHANNELS, config.embedding_dim)

    def warm_start(self, patches: Tensor) -> None:
        self.backbone.load_imagenet()
        self.descriptor.whiten_by(self._maps, patches[:, :3])

    def embed(self, patches: Tensor) -> Tensor:
        return by_view(patches, self._embed)  # [N, D]

    def _embed(self, patches: Tensor) -> Tensor:
        return cast(Tensor, self.descriptor(self._maps(patches)))

    def _maps(self, patches: Tensor) -> Tensor:
        middle = self.middle_attention(self.backbone.middle(patches))
        return torch.relu(self.last_attention(self.backbone.last(middle)))
