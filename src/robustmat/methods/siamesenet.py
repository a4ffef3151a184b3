"""SiameseNet (Melekhov et al., ICPR 2016): two copies of one network, Euclidean distance, contrastive loss.

Kept: an AlexNet-like network of five convolutions and fully connected layers, shared by both sides, and the contrastive
loss on the Euclidean distance. Smaller: the network, trained from scratch on 64 x 64 pixels instead of fine-tuned from
AlexNet on 227 x 227; group normalisation, which AlexNet did not know, makes it train in minutes.
"""

from itertools import pairwise
from typing import cast

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import contrastive_margin_loss
from robustmat.models.mining import hard_candidates, pair_weights
from robustmat.models.network import PatchNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view
from robustmat.types import MATCHED


class SiameseNetConfig(PatchNetworkConfig):
    channels: tuple[int, int, int, int, int] = (32, 64, 96, 96, 64)
    hidden: int = 256


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.GroupNorm(8, outputs), nn.ReLU()
    )


class SiameseNet(PatchNetwork):
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
        return by_view(patches, lambda one: cast(Tensor, self.head(self.features(one))))  # [N, D]

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        return -distance(a, b)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of all pairs [A, B]; the same either way round, and with a slope where it is zero."""
    return ((a[:, None] - b).square().sum(dim=2) + 1e-8).sqrt() if len(a) and len(b) else torch.zeros(len(a), len(b))


class SiameseNetSettings(Config):
    """Contrastive loss, matched and unmatched candidates alike in weight."""

    margin: PositiveFloat = 1.0
    matched_share: PositiveFloat = 0.5  # of the pairs' weight
    negatives_per_match: PositiveFloat = 3.0  # so many of the hardest


def objective(settings: SiameseNetSettings, network: SiameseNet, identities: int) -> Objective:
    def losses(network: SiameseNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        embedded = network.embed(known.patches)
        every, other = known.candidates.T
        similarity = -(embedded[every] - embedded[other]).detach().square().sum(dim=1)
        first, second = hard_candidates(known, similarity, settings.negatives_per_match).T
        label = known.label[first, second]
        apart = ((embedded[first] - embedded[second]).square().sum(dim=1) + 1e-8).sqrt()
        weight = pair_weights(label, settings.matched_share)
        return {"loss": contrastive_margin_loss(apart, label == MATCHED, weight, settings.margin)}

    return losses


METHOD = Method(
    "SiameseNet",
    Trainable(
        SiameseNetConfig,
        SiameseNet,
        SiameseNetSettings,
        objective,
        run=RIVAL_RUN | {"weight_decay": 0.01, "steps": 600},
    ),
    in_paper=True,
)
