"""HardNet (Mishchuk et al., NeurIPS 2017): an L2-Net descriptor trained with the hardest negative of the batch.

Kept: the network (kornia's: seven convolutions on 32 x 32 grey pixels, 128 numbers of unit length) and the loss
with margin 1. Smaller: the batch, whose negatives are the other landmarks of some ten frame pairs, not 1,023 others.
"""

from typing import cast

from torch import Tensor

from robustmat.models.baselines.inputs import by_view, grey
from robustmat.models.baselines.protocol import BaselineConfig, Descriptor

SIDE = 32


class HardNet(Descriptor):
    def __init__(self, config: BaselineConfig) -> None:
        from kornia.feature import HardNet as Network

        super().__init__(config)
        self.network = Network(pretrained=False)

    def embed(self, patches: Tensor) -> Tensor:
        return by_view(patches, lambda it: cast(Tensor, self.network(grey(it, self.config.patch, SIDE))))  # [N, 128]
