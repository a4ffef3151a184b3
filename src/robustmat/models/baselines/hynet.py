"""HyNet (Tian et al., NeurIPS 2020): filter response normalisation and a hybrid of two similarities.

Kept: the network (kornia's), the triplet loss on distance and cosine together (alpha 2, margin 1.2), the regulariser
that keeps the lengths of two matching descriptors alike before they are normalised. Smaller: the batch.
"""

import math

from torch import Tensor
from torch.nn import functional as F

from robustmat.models.baselines.inputs import by_view, grey
from robustmat.models.baselines.protocol import BaselineConfig, Descriptor

SIDE = 32


class HyNet(Descriptor):
    def __init__(self, config: BaselineConfig) -> None:
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
