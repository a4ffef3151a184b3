"""HyNet (Tian et al., NeurIPS 2020): filter response normalisation and a hybrid of two similarities.

Kept: the network (kornia's), the triplet loss on distance and cosine together (alpha 2, margin 1.2), the regulariser
that keeps the lengths of two matching descriptors alike before they are normalised. Smaller: the batch.
"""

import math

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import hybrid, norm_difference, triplet_margin_loss
from robustmat.models.mining import pairwise_distances, triplets
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view, grey

SIDE = 32


class HyNet(DescriptorNetwork):
    def __init__(self, config: PatchNetworkConfig) -> None:
        from kornia.feature import HyNet as Network

        super().__init__(config)
        self.network = Network(pretrained=False, dim_desc=config.embedding_dim)

    def raw(self, patches: Tensor) -> Tensor:
        """The descriptors before they are brought to unit length: [N, D]."""
        return by_view(patches, self._raw)

    def _raw(self, patches: Tensor) -> Tensor:
        state = grey(patches, self.config.patch, SIDE)
        for number in range(1, 8):
            state = getattr(self.network, f"layer{number}")(state)
        return state.flatten(1)

    def unit(self, raw: Tensor) -> Tensor:
        """Descriptors of unit length; of two views, each counts the same."""
        views = raw.view(len(raw), -1, self.config.embedding_dim)
        return F.normalize(views, dim=2).flatten(1) / math.sqrt(views.shape[1])

    def embed(self, patches: Tensor) -> Tensor:
        return self.unit(self.raw(patches))


class HyNetSettings(Config):
    """Triplets on the hybrid of distance and cosine, and the regulariser of lengths."""

    margin: PositiveFloat = 1.2
    hybrid_weight: NonNegativeFloat = 2.0  # alpha
    norm_weight: NonNegativeFloat = 0.1  # gamma
    negatives_share: float = Field(default=0.2, gt=0, le=1)  # of a step's, among which the hardest is taken


def objective(settings: HyNetSettings, network: HyNet, identities: int) -> Objective:
    def losses(network: HyNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        raw = network.raw(known.patches)
        distance = hybrid(pairwise_distances(network.unit(raw)), settings.hybrid_weight)
        positive, negative = triplets(distance, known, settings.negatives_share)
        triplet = triplet_margin_loss(positive, negative, settings.margin)
        norms = norm_difference(raw, known.first, known.second)
        return {"triplet": triplet, "norms": norms, "loss": triplet + settings.norm_weight * norms}

    return losses


METHOD = Method(
    "HyNet",
    Trainable(PatchNetworkConfig, HyNet, HyNetSettings, objective, run=RIVAL_RUN),
    in_paper=True,
)
