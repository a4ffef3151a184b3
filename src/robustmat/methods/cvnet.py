"""CVNet (Lee et al., CVPR 2022): verify a pair by the dense 4-D correlation of its two feature pyramids.

Kept: a pyramid of three scales with a convolution of its own each, the correlation of every cell of one patch with
every cell of the other for all nine pairs of scales, 4-D convolutions (centre-pivot: one 2-D kernel per side) that end
in a match or no match, on features that this part does not shape, and the global descriptor, which chooses the
candidates to be verified and whose cosine is added. Smaller: EfficientNet-Lite0 (see backbone.py), 5 x 5 cells instead
of 20 x 20 and more, two 4-D layers instead of five, both parts trained in one go. The paper's order of query and key is
averaged out.
"""

from itertools import pairwise
from typing import cast

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.backbone import LAST_CHANNELS, Backbone, GlobalDescriptor
from robustmat.models.batch import TrainingBatch
from robustmat.models.losses import pair_loss
from robustmat.models.metric_losses import picking_loss
from robustmat.models.mining import hard_candidates, pair_weights
from robustmat.models.network import PatchNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import refuse_context
from robustmat.types import MATCHED

SCALES = (1.0, 0.5, 0.25)
PAIRS_AT_ONCE = 128


class CVNetConfig(PatchNetworkConfig):
    pyramid_channels: int = 32
    cells: int = 5  # a side of the map that correlations are read on
    correlation_channels: tuple[int, ...] = (16, 32)
    verified: int = 5  # of each patch's candidates, the nearest by the global descriptor
    global_weight: float = 0.5  # of the cosine in the score, as the paper re-ranks


class CentrePivot4d(nn.Module):
    """A 4-D convolution as two 2-D ones, each moving over one patch's cells while the other's stay put.

    Shape:
        [P, C, h, w, h, w] -> [P, C', h/stride, w/stride, h/stride, w/stride]
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        # The two dimensions that stay put are one to the convolution, which passes them by.
        self.first = nn.Conv3d(inputs, outputs, (3, 3, 1), (stride, stride, 1), (1, 1, 0))
        self.second = nn.Conv3d(inputs, outputs, (1, 3, 3), (1, stride, stride), (0, 1, 1))
        self.norm = nn.GroupNorm(4, outputs)

    def forward(self, correlation: Tensor) -> Tensor:
        step = self.stride
        still_second = correlation[..., ::step, ::step]
        still_first = correlation[:, :, ::step, ::step]
        over_first = self.first(still_second.flatten(4)).unflatten(4, still_second.shape[4:])
        over_second = self.second(still_first.flatten(2, 3)).unflatten(2, still_first.shape[2:4])
        return torch.relu(self.norm(over_first + over_second))


class CVNet(PatchNetwork):
    """Embeddings are [N, scales * C * cells + D]: the pyramid, cell by cell of unit length, then the descriptor."""

    config: CVNetConfig
    learned_elsewhere = ("backbone", "descriptor")

    def __init__(self, config: CVNetConfig) -> None:
        super().__init__(config)
        refuse_context(config.patch, "cvnet")
        self.backbone = Backbone(config.patch)
        self.descriptor = GlobalDescriptor(LAST_CHANNELS, config.embedding_dim)
        self.pyramid = nn.ModuleList(
            nn.Conv2d(LAST_CHANNELS, config.pyramid_channels, 3, padding=1, bias=False) for _ in SCALES
        )
        widths = (len(SCALES) ** 2, *config.correlation_channels)
        self.verify = nn.Sequential(
            *(CentrePivot4d(a, b, stride=1 + (number > 0)) for number, (a, b) in enumerate(pairwise(widths)))
        )
        self.decide = nn.Linear(widths[-1], 1)
        # Verification begins without an opinion, so that it does not disturb the global descriptor's.
        for parameter in self.decide.parameters():
            nn.init.zeros_(parameter)

    def warm_start(self, patches: Tensor) -> None:
        self.backbone.load_imagenet()
        self.descriptor.whiten_by(lambda some: self.backbone(some)[1], patches[:, :3])

    def embed(self, patches: Tensor) -> Tensor:
        _, maps = self.backbone(patches)
        side, cells, still = maps.shape[2], self.config.cells, maps.detach()
        levels = []
        for scale, convolution in zip(SCALES, self.pyramid, strict=True):
            small = max(1, round(side * scale))
            level = F.normalize(convolution(F.interpolate(still, size=(small, small), mode="area")), dim=1)
            levels.append(F.interpolate(level, size=(cells, cells), mode="bilinear", align_corners=False))
        return torch.cat([torch.stack(levels, dim=1).flatten(1), self.descriptor(maps)], dim=1)

    def unpack(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Pyramid [N, scales, C, cells, cells] and global descriptor [N, D]."""
        config, dim = self.config, self.config.embedding_dim
        shape = (len(embedded), len(SCALES), config.pyramid_channels, config.cells, config.cells)
        return embedded[:, :-dim].reshape(shape), embedded[:, -dim:]

    def pair_logits(self, a: Tensor, b: Tensor) -> Tensor:
        """Log odds of a match for pairs of embeddings, row by row: [P]."""
        first, second = self.unpack(a)[0], self.unpack(b)[0]
        # The correlation of every cell with every cell, at all pairs of scales; what disagrees counts nothing.
        correlation = torch.relu(torch.einsum("pschw,ptcij->psthwij", first, second))
        turned = correlation.permute(0, 2, 1, 5, 6, 3, 4)  # the same pair the other way round
        volumes = torch.cat([correlation, turned]).flatten(1, 2)  # [2P, 9, h, w, h, w]
        said = self.decide(self.verify(volumes).flatten(2).mean(dim=2)).squeeze(1)
        return cast(Tensor, said.view(2, -1).mean(dim=0))

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        cosine = self.unpack(a)[1] @ self.unpack(b)[1].T
        score = self.config.global_weight * cosine
        for some in torch.split(self._first_by(cosine).nonzero(), PAIRS_AT_ONCE):
            i, j = some.T
            score[i, j] += self.pair_logits(a[i], b[j]).sigmoid()
        return score

    def _first_by(self, cosine: Tensor) -> Tensor:
        """Which pairs [A, B] are worth verifying: the nearest few of either side."""
        chosen = torch.zeros_like(cosine, dtype=torch.bool)
        for axis in (0, 1):
            count = min(self.config.verified, cosine.shape[axis])
            chosen.scatter_(axis, cosine.topk(count, dim=axis).indices, True)
        return chosen


class CVNetSettings(Config):
    temperature: PositiveFloat = 0.1  # of the contrastive term
    matched_share: PositiveFloat = 0.5  # of the verified pairs' weight
    negatives_per_match: PositiveFloat = 3.0  # so many of the hardest


def objective(settings: CVNetSettings, network: CVNet, identities: int) -> Objective:
    def losses(network: CVNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        embedded = network.embed(known.patches)
        _, whole = network.unpack(embedded)
        cosine = whole @ whole.T
        picking = picking_loss(cosine, known.unmatched, known.first, known.second, settings.temperature)
        every, other = known.candidates.T
        first, second = hard_candidates(known, cosine.detach()[every, other], settings.negatives_per_match).T
        label = known.label[first, second]
        weight = pair_weights(label, settings.matched_share)
        verified = pair_loss(network.pair_logits(embedded[first], embedded[second]), label == MATCHED, weight)
        return {"global": picking, "verified": verified, "loss": picking + verified}

    return losses


METHOD = Method(
    "CVNet",
    Trainable(
        CVNetConfig,
        CVNet,
        CVNetSettings,
        objective,
        run=RIVAL_RUN | {"learning_rate": 2.4e-4, "steps": 200, "validate_every": 50, "learns_from_towns": False},
    ),
    in_paper=True,
)
