"""From the network's numbers back to pixels: each method has its own idea of an input."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from robustmat.errors import ConfigError
from robustmat.features.patches import PatchConfig

LUMA = (0.299, 0.587, 0.114)


def pixels(patches: Tensor, config: PatchConfig) -> Tensor:
    """Colours from 0 to 1: [N, 3, S, S]; the inverse of `to_input`."""
    mean = patches.new_tensor(config.mean_color).view(1, 3, 1, 1)
    return (patches * config.scale + mean) / 255


def grey(patches: Tensor, config: PatchConfig, side: int) -> Tensor:
    """Brightness from 0 to 1, averaged down to `side` pixels: [N, 1, side, side]."""
    weights = patches.new_tensor(LUMA).view(1, 3, 1, 1)
    brightness = (pixels(patches, config) * weights).sum(dim=1, keepdim=True)
    return F.interpolate(brightness, size=(side, side), mode="area")


def by_view(patches: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
    """Embed crops [N, 3, S, S] as [N, D]; crop and surroundings [N, 6, S, S] as [N, 2D].

    Unit vectors give a unit vector, whose cosine with another is the mean of the two views' cosines.
    """
    if patches.shape[1] == 3:
        return embed(patches)
    views = embed(torch.cat(patches.chunk(2, dim=1)))  # [2N, D]
    return torch.cat(views.chunk(2), dim=1) / 2**0.5


def views(config: PatchConfig) -> int:
    return config.channels // 3


def refuse_context(config: PatchConfig, method: str) -> None:
    if config.context is not None:
        raise ConfigError(f"{method} looks at single crops: leave patch.context out of its model")
