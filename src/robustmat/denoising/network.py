"""SGN, the self-guided network (Gu, Li, Van Gool and Timofte, ICCV 2019), in a small size.

The image is shuffled down to 1/2, 1/4 and 1/8 of its size without losing a pixel: a square of four becomes four
channels. The coarsest scale is looked at first, where one convolution sees most; what it finds is shuffled back up and
guides the next finer one, and so on to the full size. What comes out is the noise, which is subtracted.

Kept from the paper: pixel shuffling in both directions, the top-down guidance, the residual output. Smaller: widths
and depth, so that a core denoises a KITTI frame in well under a second and the weights travel with the package.
"""

from typing import Annotated, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.config import Config

MIDDLE, SCALE = 127.5, 127.5  # grey levels; what is subtracted and divided by


Width = Annotated[int, Field(ge=1, le=1024)]
Depth = Annotated[int, Field(ge=1, le=16)]


class SgnConfig(Config):
    """Channels of each scale, from the full image down: each but the first a multiple of four, as it is shuffled up."""

    widths: tuple[Width, ...] = Field(default=(8, 24, 48, 64), min_length=2, max_length=5)
    blocks: tuple[Depth, ...] = (1, 1, 1, 2)  # residual blocks of each scale

    @property
    def cell(self) -> int:
        """Pixels to a side of the coarsest cell; height and width of an image must be multiples of it."""
        return int(2 ** (len(self.widths) - 1))

    @property
    def reach(self) -> int:
        """Pixels beyond which nothing counts for a pixel: every convolution looks one cell of its scale further."""
        each = [2 + 2 * count + (scale == 0) for scale, count in enumerate(self.blocks)]
        return int(sum(layers * 2**scale for scale, layers in enumerate(each))) + self.cell

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.blocks) != len(self.widths):
            raise ValueError(f"blocks needs {len(self.widths)} numbers, one for each of widths: {self.blocks}")
        if any(width % 4 for width in self.widths[1:]):
            raise ValueError(f"widths after the first must be multiples of 4: {self.widths}")
        return self


class Residual(nn.Module):
    """Two convolutions beside the identity: [B, C, H, W] -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, state: Tensor) -> Tensor:
        found: Tensor = state + self.second(F.relu(self.first(state)))
        return found


class Scale(nn.Module):
    """One scale: its own look at the image, joined with what the coarser scale found."""

    def __init__(self, image: int, guide: int, width: int, blocks: int) -> None:
        super().__init__()
        self.look = nn.Conv2d(image, width, 3, padding=1)
        self.join = nn.Conv2d(width + guide, width, 3, padding=1) if guide else None
        self.blocks = nn.ModuleList(Residual(width) for _ in range(blocks))

    def forward(self, image: Tensor, guide: Tensor | None) -> Tensor:
        state = F.relu(self.look(image))
        if self.join is not None and guide is not None:
            state = F.relu(self.join(torch.cat([state, guide], dim=1)))
        for block in self.blocks:
            state = block(state)
        return state


class Sgn(nn.Module):
    """Denoised images [B, 3, H, W] with values 0 to 255, not clipped, of noisy ones; H and W multiples of the cell."""

    def __init__(self, config: SgnConfig) -> None:
        super().__init__()
        self.config = config
        guides = (*(width // 4 for width in config.widths[1:]), 0)
        parts = zip(guides, config.widths, config.blocks, strict=True)
        self.scales = nn.ModuleList(
            Scale(3 * 4**number, guide, width, blocks) for number, (guide, width, blocks) in enumerate(parts)
        )
        self.noise = nn.Conv2d(config.widths[0], 3, 3, padding=1)
        nn.init.zeros_(self.noise.weight)  # begins as the identity
        nn.init.zeros_(torch.as_tensor(self.noise.bias))

    def forward(self, images: Tensor) -> Tensor:
        shown = (images - MIDDLE) / SCALE
        pyramid = [F.pixel_unshuffle(shown, 2**number) if number else shown for number in range(len(self.scales))]
        guide = None
        for image, scale in zip(reversed(pyramid), reversed(self.scales), strict=True):  # coarsest first
            state = scale(image, guide)  # [B, C, H / 2^n, W / 2^n]
            guide = F.pixel_shuffle(state, 2) if scale is not self.scales[0] else state
        found: Tensor = images - SCALE * self.noise(guide)
        return found
