"""DELG (Cao et al., ECCV 2020): a global descriptor and attentive local features from one network.

Kept: generalised-mean pooling and whitening for the global descriptor, margin softmax (ArcFace) over the training
side's objects as classes, local features from a shallower map by an autoencoder, an attention that says where to look,
no gradient from the local branch into the backbone. Smaller: EfficientNet-Lite0 (see backbone.py), local features of
32 numbers in 64 places, less the quarter with the least attention. DELG re-ranks by the local matches that agree on one
geometry; both crops are cut along their boxes, so that mutual nearest neighbours agree here if they lie within a cell
of each other. Their share, weighed by similarity, is averaged with the global cosine.
"""

import torch
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Trainable
from robustmat.models.backbone import (
    LAST_CHANNELS,
    MIDDLE_CHANNELS,
    Backbone,
    GlobalDescriptor,
)
from robustmat.models.batch import TrainingBatch
from robustmat.models.metric_losses import margin_softmax_loss
from robustmat.models.network import PatchNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import refuse_context


class DelgConfig(PatchNetworkConfig):
    local_dim: int = 32
    attention_hidden: int = 64
    attended: float = 0.75  # of the cells, those with the most attention
    reach: int = 1  # cells, between the places of a local match


class Delg(PatchNetwork):
    """Embeddings are [N, 1 + cells, max(D, local + 1)]: the global descriptor first, then each cell's local feature
    with its attention behind it."""

    config: DelgConfig
    learned_elsewhere = ("backbone", "descriptor")

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

    def warm_start(self, patches: Tensor) -> None:
        self.backbone.load_imagenet()
        self.descriptor.whiten_by(lambda some: self.backbone(some)[1], patches[:, :3])

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
        whole_a, whole_b = (one[:, 0, : self.config.embedding_dim] for one in (a, b))
        return (whole_a @ whole_b.T + self.local_similarity(a, b)) / 2

    def local_similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """How much of either patch is found in the other, at about the same place: [A, B]."""
        dim = self.config.local_dim
        cosine = torch.einsum("ahd,bkd->abhk", a[:, 1:, :dim], b[:, 1:, :dim])
        seen_a, seen_b = (self._attended(one[:, 1:, dim]) for one in (a, b))
        cosine = cosine.masked_fill(~(seen_a[:, None, :, None] & seen_b[None, :, None]), 0.0)
        mutual = (cosine == cosine.amax(dim=3, keepdim=True)) & (cosine == cosine.amax(dim=2, keepdim=True))
        found = torch.where(mutual & self._near(cosine.shape[2], cosine.device), cosine.clamp(min=0), 0.0)
        return found.sum(dim=(2, 3)) / self._count(cosine.shape[2])

    def _attended(self, attention: Tensor) -> Tensor:
        """The cells with the most attention: [N, HW]."""
        best = attention.topk(self._count(attention.shape[1]), dim=1).indices
        return torch.zeros_like(attention, dtype=torch.bool).scatter_(1, best, True)

    def _count(self, cells: int) -> int:
        return max(1, round(self.config.attended * cells))

    def _near(self, cells: int, device: torch.device) -> Tensor:
        """Which two cells are within reach of each other: [HW, HW]."""
        side = round(cells**0.5)
        row, column = torch.arange(cells, device=device) // side, torch.arange(cells, device=device) % side
        apart = torch.maximum((row[:, None] - row).abs(), (column[:, None] - column).abs())
        return apart <= self.config.reach


class DelgSettings(Config):
    margin: PositiveFloat = 0.1  # an angle
    scale: PositiveFloat = 16.0  # of the cosines at the start; learned
    reconstruction_weight: NonNegativeFloat = 10.0  # of the autoencoder


class DelgObjective(nn.Module):
    """Margin softmax for the global descriptor; the local branch learns to attend to what tells objects apart, and to
    rebuild the map it reads."""

    def __init__(self, settings: DelgSettings, network: Delg, identities: int) -> None:
        super().__init__()
        self.settings = settings
        # Short, so that they turn quickly: only their directions count.
        self.classes = nn.Parameter(0.1 * F.normalize(torch.randn(identities, network.config.embedding_dim), dim=1))
        self.scale = nn.Parameter(torch.tensor(settings.scale))
        self.decode = nn.Conv2d(network.config.local_dim, MIDDLE_CHANNELS, 1)
        self.classify_local = nn.Linear(MIDDLE_CHANNELS, identities)

    def forward(self, network: Delg, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        whole, local, attention, shallow = network.parts(known.patches)
        cosine = whole @ F.normalize(self.classes, dim=1).T
        globally = margin_softmax_loss(cosine, known.identity, self.scale, self.settings.margin)
        rebuilt = torch.relu(self.decode(local))
        reconstruction = F.mse_loss(rebuilt, torch.relu(shallow)) / shallow.square().mean().clamp(min=1e-6)
        weight = attention / attention.sum(dim=(2, 3), keepdim=True).clamp(min=1e-12)
        seen = (F.normalize(rebuilt, dim=1) * weight).sum(dim=(2, 3))  # [N, C]
        locally = F.cross_entropy(self.classify_local(seen), known.identity, ignore_index=-1)
        loss = globally + locally.nan_to_num() + self.settings.reconstruction_weight * reconstruction
        return {"global": globally, "local": locally, "reconstruction": reconstruction, "loss": loss}


METHOD = Method(
    "DELG",
    Trainable(
        DelgConfig,
        Delg,
        DelgSettings,
        DelgObjective,
        run=RIVAL_RUN | {"learning_rate": 2.4e-4, "steps": 200, "validate_every": 50, "learns_from_towns": False},
    ),
    in_paper=True,
)
