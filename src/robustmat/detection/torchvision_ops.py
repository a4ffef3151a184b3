"""Import torchvision whether or not its compiled operations fit the installed torch.

The wheel on PyPI is built against torch with CUDA; beside a CPU torch its operations do not load and the import fails
at `operator torchvision::nms does not exist`. Non-maximum suppression and the pooling of regions are then done here,
in Python: slower, and right.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustmat.errors import ConfigError

_LIBRARIES: list[Any] = []  # a definition lives as long as its library


def import_torchvision() -> Any:
    """The module `torchvision`, with its detection models ready to use."""
    try:
        import torchvision
    except RuntimeError as problem:
        if "torchvision::nms" not in str(problem):
            raise
        _forget_half_imported()
        _define_operations()
        import torchvision

        torchvision.extension._has_ops = lambda: True
        torchvision.ops.boxes.nms = nms
        torchvision.ops.nms = nms
        torchvision.ops.poolers.roi_align = roi_align
    except ModuleNotFoundError:
        raise ConfigError("Faster R-CNN needs torchvision: pip install 'robustmat[faster-rcnn]'") from None
    return torchvision


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes [N, 4] that overlap no higher-scoring kept one by more than the threshold, best first."""
    order = scores.sort(descending=True, stable=True).indices
    x0, y0, x1, y1 = boxes.detach()[order].numpy().T
    area = (x1 - x0) * (y1 - y0)
    alive = np.ones(len(order), bool)
    for i in range(len(order)):
        if alive[i]:
            rest = i + 1 + np.flatnonzero(alive[i + 1 :])
            width = np.minimum(x1[i], x1[rest]) - np.maximum(x0[i], x0[rest])
            height = np.minimum(y1[i], y1[rest]) - np.maximum(y0[i], y0[rest])
            both = np.maximum(width, 0) * np.maximum(height, 0)
            alive[rest[both > iou_threshold * (area[i] + area[rest] - both)]] = False
    return order[torch.from_numpy(alive)]


def roi_align(
    maps: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Means of bilinear samples in the cells of each box: [R, C, rows, columns]."""
    if isinstance(boxes, list):
        numbers = torch.cat([torch.full((len(some), 1), float(k)) for k, some in enumerate(boxes)])
        boxes = torch.cat([numbers, torch.cat(boxes)], dim=1)
    rows, columns = output_size
    samples = sampling_ratio if sampling_ratio > 0 else 2
    shift = 0.5 if aligned else 0.0
    height, width = maps.shape[2:]
    x0, y0, x1, y1 = (boxes[:, 1:] * spatial_scale - shift).unbind(1)
    least = 0.0 if aligned else 1.0
    wide, tall = (x1 - x0).clamp(min=least), (y1 - y0).clamp(min=least)
    across = (torch.arange(columns * samples) + 0.5) / (columns * samples)
    down = (torch.arange(rows * samples) + 0.5) / (rows * samples)
    xs = x0[:, None] + wide[:, None] * across  # [R, columns * samples]
    ys = y0[:, None] + tall[:, None] * down
    # From pixels, whose middles are whole numbers, to the -1..1 of grid_sample; beyond the border its value goes on.
    grid = torch.stack(
        [
            ((2 * xs + 1) / width - 1)[:, None, :].expand(-1, ys.shape[1], -1),
            ((2 * ys + 1) / height - 1)[:, :, None].expand(-1, -1, xs.shape[1]),
        ],
        dim=3,
    )
    found = maps.new_zeros((len(boxes), maps.shape[1], rows, columns))
    for number in range(len(maps)):
        chosen = (boxes[:, 0] == number).nonzero()[:, 0]
        if len(chosen) == 0:
            continue
        flat = grid[chosen].reshape(1, -1, xs.shape[1], 2)
        sampled = torch.nn.functional.grid_sample(
            maps[number : number + 1], flat.to(maps.dtype), padding_mode="border", align_corners=False
        )
        cells = torch.nn.functional.avg_pool2d(sampled, samples)[0]  # [C, R * rows, columns]
        cells = cells.reshape(maps.shape[1], len(chosen), rows, columns).transpose(0, 1)
        found = found.index_copy(0, chosen, cells)
    return found


def _define_operations() -> None:
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", nms, "CPU")
    _LIBRARIES.append(library)


def _forget_half_imported() -> None:
    import sys

    for name in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
        del sys.modules[name]
