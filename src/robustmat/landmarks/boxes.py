"""Landmarks that the user brings: box files, label maps, and the checks they all pass."""

import numpy as np
from numpy.typing import NDArray

from robustmat.landmarks.regions import find_regions
from robustmat.sources.boxes import check_category, check_landmarks, read_boxes, to_landmarks
from robustmat.types import Landmark

__all__ = ["check_category", "check_landmarks", "landmarks_from_mask", "read_boxes", "to_landmarks"]


def landmarks_from_mask(semantics: NDArray[np.uint8]) -> tuple[Landmark, ...]:
    """Landmarks of a label map [H, W] in Cityscapes train ids, 19 for windows."""
    return tuple(Landmark(region.box, region.category) for region in find_regions(semantics))
