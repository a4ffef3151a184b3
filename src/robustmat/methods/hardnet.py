"""HardNet (Mishchuk et al., NeurIPS 2017): an L2-Net descriptor trained with the hardest negative of the batch.

Kept: the network (kornia's: seven convolutions on 32 x 32 grey pixels, 128 numbers of unit length) and the loss
with margin 1. Smaller: the batch, whose negatives are the other landmarks of some ten frame pairs, not 1,023 others.
"""

from typing import cast

from pydantic import Field, PositiveFloat
from torch import Tensor

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import triplet_margin_loss
from robustmat.models.mining import pairwise_distances, triplets
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view, grey

SIDE = 32


class HardNet(DescriptorNetwork):
    def __init__(self, config: PatchNetworkConfig) -> None:
        from kornia.feature import HardNet as Network

        super().__init__(config)
        self.network = Network(pretrained=False)

    def embed(self, patches: Tensor) -> Tensor:
        return by_view(patches, lambda one: cast(Tensor, self.network(grey(one, self.config.patch, SIDE))))  # [N, 128]


class HardNetSettings(Config):
    """Triplet margin loss."""

    margin: PositiveFloat = 1.0
    negatives_share: float = Field(default=0.2, gt=0, le=1)  # of a step's, among which the hardest is taken


def objective(settings: HardNetSettings, network: HardNet, identities: int) -> Objective:
    def losses(network: HardNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        distance = pairwise_distances(network.embed(known.patches))
        positive, negative = triplets(distance, known, settings.negatives_share)
        return {"loss": triplet_margin_loss(positive, negative, settings.margin)}

    return losses


METHOD = Method(
    "HardNet",
    Trainable(PatchNetworkConfig, HardNet, HardNetSettings, objective, run=RIVAL_RUN),
    in_paper=True,
)
