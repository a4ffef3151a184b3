"""Everything that a model reads of one frame, as arrays: the same for torch and for exported files."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.features.placement import placements
from robustmat.types import Frame, Image


@dataclass(frozen=True)
class FrameFeatures:
    """The landmarks of one frame, [N, ...] each."""

    patches: NDArray[np.uint8]  # [N, S, S, C]
    index: NDArray[np.int64]  # [N, K], vertices of each neighbourhood graph
    mask: NDArray[np.bool_]  # [N, K], which of them exist
    placement: NDArray[np.float32]  # [N, P]


def frame_features(frame: Frame, pixels: Image, patch: PatchConfig, neighborhood: tuple[int, bool]) -> FrameFeatures:
    """Crop all landmarks, find their neighbours, note where they stand.

    Args:
        neighborhood: how many neighbours a graph has, and whether the landmark itself is part of it.
    """
    boxes = [landmark.box for landmark in frame.landmarks]
    graphs = neighborhoods(boxes, *neighborhood)
    height, width = pixels.shape[:2]
    placement = placements(frame.landmarks, frame.camera, width, height)
    return FrameFeatures(cut_patches(pixels, boxes, patch), graphs.index, graphs.mask, placement)
