"""MatchNet (Han et al., CVPR 2015): a feature network and a metric network of fully connected layers.

Kept: the five convolutions and pools on 64 x 64 grey pixels with the paper's channels, the bottleneck, three fully
connected layers on the two features side by side, cross entropy on balanced pairs. Smaller: bottleneck 128 and
metric layers of 512, the paper's own compact setting. Group normalisation, which it did not know, makes it train in
minutes. The paper scores (x, y) in the given order; here both orders are
averaged, so that the score is symmetric.
"""

from typing import cast

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from robustmat.config import Config
from robustmat.methods import RIVAL_RUN, Method, Objective, Trainable
from robustmat.models.batch import TrainingBatch
from robustmat.models.losses import pair_loss
from robustmat.models.mining import pair_weights
from robustmat.models.network import PatchNetwork, PatchNetworkConfig
from robustmat.models.patch_inputs import by_view, grey, views
from robustmat.models.starts import SAMPLE, begin_as_distance, begin_whitening
from robustmat.types import MATCHED

SIDE = 64


class MatchNetConfig(PatchNetworkConfig):
    channels: tuple[int, int, int, int, int] = (24, 64, 96, 96, 64)
    hidden: int = 512


def _layer(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.GroupNorm(8, outputs), nn.ReLU())


class MatchNet(PatchNetwork):
    def __init__(self, config: MatchNetConfig) -> None:
        super().__init__(config)
        first, second, third, fourth, fifth = config.channels
        self.features = nn.Sequential(
            _layer(1, first, 7),
            nn.MaxPool2d(3, 2, padding=1),  # [N, C, 32, 32]
            _layer(first, second, 5),
            nn.MaxPool2d(3, 2, padding=1),  # [N, C, 16, 16]
            _layer(second, third, 3),
            _layer(third, fourth, 3),
            _layer(fourth, fifth, 3),
            nn.MaxPool2d(3, 2, padding=1),  # [N, C, 8, 8]
            nn.Flatten(),
            nn.Linear(fifth * 8 * 8, config.embedding_dim),
            nn.ReLU(),
        )
        self.metric = nn.Sequential(
            nn.Linear(2 * views(config.patch) * config.embedding_dim, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, 1),
        )

    @torch.no_grad()
    def warm_start(self, patches: Tensor) -> None:
        """The bottleneck starts out as principal components, the metric network by saying "the less they differ, the
        likelier", about even on the whole: from random weights it would first have to find out that its input is two of
        a kind."""
        begin_whitening(cast(nn.Linear, self.features[-2]), self._before_bottleneck(patches[:, :3]))
        one, other = cast(nn.Linear, self.metric[0]).weight.chunk(2, dim=1)
        other.copy_(-one)
        some = self.embed(patches[:SAMPLE])
        every = some[:, None].expand(-1, len(some), -1)
        begin_as_distance(self.metric, lambda: self.pair_logits(every, every.transpose(0, 1)))

    def embed(self, patches: Tensor) -> Tensor:
        return by_view(patches, lambda one: self.features[-2:](self._before_bottleneck(one)))  # [N, D]

    def _before_bottleneck(self, patches: Tensor) -> Tensor:
        # Around zero, as the paper centres and scales its grey values.
        return cast(Tensor, self.features[:-2]((255 * grey(patches, self.config.patch, SIDE) - 128) / 64))

    def pair_logits(self, a: Tensor, b: Tensor) -> Tensor:
        """Log odds of a match for pairs of embeddings [..., D], row by row: [...]."""
        forward, backward = self.metric(torch.cat([a, b], dim=-1)), self.metric(torch.cat([b, a], dim=-1))
        return cast(Tensor, (forward + backward).squeeze(-1) / 2)

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        shape = (len(a), len(b), a.shape[1])
        return self.pair_logits(a[:, None].expand(shape), b[None].expand(shape)).sigmoid()


class MatchNetSettings(Config):
    """Cross entropy of the metric network on balanced pairs."""

    matched_share: PositiveFloat = 0.5  # of the pairs' weight


def objective(settings: MatchNetSettings, network: MatchNet, identities: int) -> Objective:
    def losses(network: MatchNet, batch: TrainingBatch) -> dict[str, Tensor]:
        known = batch.known()
        embedded = network.embed(known.patches)
        # All candidates: by the hardest alone a metric network that starts from nothing never leaves chance.
        first, second = known.candidates.T
        label = known.label[first, second]
        weight = pair_weights(label, settings.matched_share)
        return {"loss": pair_loss(network.pair_logits(embedded[first], embedded[second]), label == MATCHED, weight)}

    return losses


METHOD = Method(
    "MatchNet",
    Trainable(
        MatchNetConfig,
        MatchNet,
        MatchNetSettings,
        objective,
        run=RIVAL_RUN
        | {"learning_rate": 1e-4, "weight_decay": 0.01, "learns_from_towns": False, "rate_after_first": 1.0},
    ),
    in_paper=True,
)
