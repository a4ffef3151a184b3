"""Exp-TLoss (Wang et al., ICCV 2019): HardNet's network under an exponential triplet loss.

Kept: the network of the descriptors it was shown with (L2-Net's, as HardNet's), the exponential of the triplet's
difference instead of a hinge, so that hard triplets weigh more, and the mining of hard positives beside hard
negatives. Smaller: the batch.
"""

from pydantic import Field
from torch import Tensor

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.methods.hardnet import HardNet
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import exponential_triplet_loss, hardest_positive
from robustmat.models.mining import pairwise_distances, triplets
from robustmat.models.network import PatchNetworkConfig


class ExpTLoss(HardNet):
    """The method is its loss; the network is HardNet's."""


class ExpTLossSettings(Config):
    negatives_share: float = Field(default=0.2, gt=0, le=1)  # of a step's, among which the hardest is taken


def objective(settings: ExpTLossSettings, network: ExpTLoss, identities: int) -> Objective:
    def losses(network: ExpTLoss, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        distance = pairwise_distances(network.embed(known.patches))
        positive = hardest_positive(distance, known.matched, known.first, known.second)
        _, negative = triplets(distance, known, settings.negatives_share)
        return {"loss": exponential_triplet_loss(positive, negative)}

    return losses


METHOD = Method(
    "Exp-TLoss",
    Trainable(PatchNetworkConfig, ExpTLoss, ExpTLossSettings, objective, run=RIVAL_RUN),
    in_paper=True,
)
