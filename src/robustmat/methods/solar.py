"""SOLAR (Ng et al., ECCV 2020): second-order attention inside the network, second-order similarity in the loss.

Kept: self-attention blocks over the map's cells at two depths, generalised-mean pooling, a whitening layer, triplet
loss on squared distances, averaged over five hard negatives, plus the second-order similarity term.
Smaller: EfficientNet-Lite0 instead of ResNet-101 (see backbone.py), 128 numbers instead of 2,048, negatives of the
batch instead of a mined pool: the hardest of a fiftieth of them; a margin of 0.5 instead of 1.25.
"""

from typing import cast

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor, nn

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.backbone import LAST_CHANNELS, MIDDLE_CHANNELS, Backbone, GlobalDescriptor
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import averaged_triplet_loss, second_order_similarity
from robustmat.models.mining import pairwise_distances, sample_negatives
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view


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
        query, key, value = (one(maps).flatten(2) for one in (self.query, self.key, self.value))  # [N, C', HW]
        weight = (query.transpose(1, 2) @ key / query.shape[1] ** 0.5).softmax(dim=2)  # [N, HW, HW]
        found = (weight @ value.transpose(1, 2)).transpose(1, 2)  # [N, C', HW]
        return cast(Tensor, maps + self.output(found.unflatten(2, maps.shape[2:])))


class Solar(DescriptorNetwork):
    learned_elsewhere = ("backbone", "middle_attention", "last_attention", "descriptor")  # attention begins as nothing

    def __init__(self, config: PatchNetworkConfig) -> None:
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


class SolarSettings(Config):
    """The paper's margin of 1.25 and second-order weight of 10 ask too much here, where negatives are of the same class
    and frame: the one forgets what ImageNet taught, the other collapses all descriptors."""

    margin: PositiveFloat = 0.5
    second_order_weight: NonNegativeFloat = 0.3
    negatives_share: float = Field(default=0.02, gt=0, le=1)  # of a step's, among which the hardest are taken


def objective(settings: SolarSettings, network: Solar, identities: int) -> Objective:
    def losses(network: Solar, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        squared = pairwise_distances(network.embed(known.patches)).square()
        drawn = sample_negatives(known, settings.negatives_share)
        triplet = averaged_triplet_loss(squared, drawn, known.first, known.second, settings.margin)
        agreement = second_order_similarity(squared, known.unmatched, known.first, known.second)
        loss = triplet + settings.second_order_weight * agreement
        return {"triplet": triplet, "second_order": agreement, "loss": loss}

    return losses


METHOD = Method(
    "SOLAR",
    Trainable(
        PatchNetworkConfig,
        Solar,
        SolarSettings,
        objective,
        run=RIVAL_RUN | {"learning_rate": 6e-4, "steps": 200, "validate_every": 50, "learns_from_towns": False},
    ),
    in_paper=True,
)
