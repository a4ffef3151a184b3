"""SOSNet (Tian et al., CVPR 2019): a descriptor whose distances to third parties agree as well.

Kept: the network (kornia's), the squared hinge on the hardest negative, the second-order similarity regulariser over
the eight nearest neighbours. Smaller: the batch, the share of it among which the hardest is looked for, and the
regulariser's weight, by which all descriptors of so small a batch would shrink to one.
"""

from typing import cast

from torch import Tensor

from robustmat.models.baselines.inputs import by_view, grey
from robustmat.models.baselines.protocol import BaselineConfig, Descriptor

SIDE = 32


class SOSNet(Descriptor):
    def __init__(self, config: BaselineConfig) -> None:
        from kornia.feature import SOSNet as Network

        super().__init__(config)
        self.network = Network(pretrained=False)

    def embed(self, patches: Tensor) -> Tensor:
        # From 0 to 255: the first layer's guard against flat patches is then negligible.
        return by_view(patches, lambda it: cast(Tensor, self.network(255 * grey(it, self.config.patch, SIDE))))
