"""SOSNet (Tian et al., CVPR 2019): a descriptor whose distances to third parties agree as well.

Kept: the network (kornia's), the squared hinge on the hardest negative, the second-order similarity regulariser over
the eight nearest neighbours. Smaller: the batch, the share of it among which the hardest is looked for, and the
regulariser's weight, by which all descriptors of so small a batch would shrink to one.
"""

from typing import cast

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import second_order_difference, triplet_margin_loss
from robustmat.models.mining import pairwise_distances, triplets
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view, grey

SIDE = 32


class SOSNet(DescriptorNetwork):
    def __init__(self, config: PatchNetworkConfig) -> None:
        from kornia.feature import SOSNet as Network

        super().__init__(config)
        self.network = Network(pretrained=False)

    def embed(self, patches: Tensor) -> Tensor:
        # From 0 to 255: the first layer's guard against flat patches is then negligible.
        return by_view(patches, lambda one: cast(Tensor, self.network(255 * grey(one, self.config.patch, SIDE))))


class SOSNetSettings(Config):
    """By its weight of 1, and the square of the hardest of many negatives, all descriptors shrink to one in steps as
    small as these: see docs/reproduce.md."""

    margin: PositiveFloat = 1.0
    second_order_weight: NonNegativeFloat = 0.3
    negatives_share: float = Field(default=0.02, gt=0, le=1)  # of a step's, among which the hardest is taken


def objective(settings: SOSNetSettings, network: SOSNet, identities: int) -> Objective:
    def losses(network: SOSNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        distance = pairwise_distances(network.embed(known.patches))
        positive, negative = triplets(distance, known, settings.negatives_share)
        triplet = triplet_margin_loss(positive, negative, settings.margin, power=2)
        agreement = second_order_difference(distance, known.unmatched, known.first, known.second)
        loss = triplet + settings.second_order_weight * agreement
        return {"triplet": triplet, "second_order": agreement, "loss": loss}

    return losses


METHOD = Method(
    "SOSNet",
    Trainable(PatchNetworkConfig, SOSNet, SOSNetSettings, objective, run=RIVAL_RUN),
    in_paper=True,
)
