"""SiameseNet (Melekhov et al., ICPR 2016): two copies of one network, Euclidean distance, contrastive loss.

Kept: an AlexNet-like network of five convolutions and fully connected layers, shared by both sides, and the contrastive
loss on the Euclidean distance. Smaller: the network, trained from scratch on 64 x 64 pixels instead of fine-tuned from
AlexNet on 227 x 227; group normalisation, which AlexNet did not know, makes it train in minutes.
"""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from robustmat.models.baselines.inputs import by_view
from robustmat.models.baselines.protocol import BaselineConfig, PatchMatcher


class SiameseNetConfig(BaselineConfig):
    channels: tuple[int, int, int, int, int] = (32, 64, 96, 96, 64)
    hidden: int = 256


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.GroupNorm(8, outputs), nn.ReLU()
    )


class SiameseNet(PatchMatcher):
    def __init__(self, config: SiameseNetConfig) -> None:
        super().__init__(config)
        first, *rest = config.channels
        second, third, fourth, fifth = (convolution(a, b, 3) for a, b in pairwise((first, *rest)))
        self.features = nn.Sequential(
            convolution(3, first, 5, stride=2),
            nn.MaxPool2d(2),
            second,
            nn.MaxPool2d(2),
            third,
            fourth,
            fifth,
            nn.MaxPool2d(2),
        )  # [N, C, S/16, S/16]
        cells = (config.patch.size // 16) ** 2
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(config.channels[-1] * cells, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.embedding_dim),
        )

    def embed(self, patches: Tensor) -> Tensor:
        return by_view(patches, lambda it: cast(Tensor, self.head(self.features(it))))  # [N, D]

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        return -distance(a, b)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of all pairs [A, B]; the same either way round, and with a slope where it is zero."""
    return ((a[:, None] - b).square().sum(dim=2) + 1e-8).sqrt() if len(a) and len(b) else torch.zeros(len(a), len(b))
