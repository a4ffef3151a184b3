"""A matcher whose decisions carry a certificate: the distance of embeddings with a proven Lipschitz constant.

The network is `models/certified.py`. It learns by the distances of matched and unmatched pairs, in grey levels: both
have to keep a margin to one threshold, which is what a certificate is made of.
"""

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.certified import CertifiedConfig, CertifiedNetwork, distances
from robustmat.models.metric_losses import picking_loss
from robustmat.models.mining import hard_candidates, pair_weights
from robustmat.types import MATCHED


class CertifiedSettings(Config):
    """Distances, margins and temperatures are in grey levels."""

    margin: PositiveFloat = 2.0
    temperature: PositiveFloat = 2.0
    picking_weight: PositiveFloat = 0.5  # of picking the match out of all negatives, beside the threshold's loss
    matched_share: float = Field(default=0.5, gt=0, lt=1)
    negatives_per_match: PositiveFloat = 3.0  # so many of the hardest


class CertifiedObjective(nn.Module):
    """Holds the threshold that the margins are kept to; it is learned along and fitted anew on validation data."""

    def __init__(self, settings: CertifiedSettings, network: CertifiedNetwork, identities: int = 0) -> None:
        super().__init__()
        self.settings = settings
        self.threshold = nn.Parameter(torch.tensor(1.5))  # tens of grey levels: one rate of learning suits all

    def forward(self, network: CertifiedNetwork, batch: TrainingBatch) -> dict[str, Tensor]:
        known, settings = batch.known(), self.settings
        embedded = network.embed(known.patches)
        distance = distances(embedded, embedded)
        every, other = known.candidates.T
        chosen = hard_candidates(known, -distance[every, other].detach(), settings.negatives_per_match)
        first, second = chosen.T
        label = known.label[first, second]
        beyond = distance[first, second] - 10 * self.threshold
        lacking = (
            torch.where(label == MATCHED, beyond, -beyond) + settings.margin
        )  # positive where the margin is not kept
        weight = pair_weights(label, settings.matched_share)
        margins = (weight * F.softplus(lacking / settings.temperature)).sum()
        picking = picking_loss(-distance, known.unmatched, known.first, known.second, settings.temperature)
        return {"loss": margins + settings.picking_weight * picking, "margins": margins, "picking": picking}


METHOD = Method(
    "certified",
    Trainable(
        CertifiedConfig,
        CertifiedNetwork,
        CertifiedSettings,
        CertifiedObjective,
        run=RIVAL_RUN | {"steps": 2000, "validate_every": 250, "weight_decay": 0.0},
    ),
)
