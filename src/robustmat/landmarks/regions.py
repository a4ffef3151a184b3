"""Label maps and drawn boxes to landmark regions: the pixels that show one object."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from skimage import measure
from skimage.morphology import convex_hull_image

from robustmat.landmarks.config import DEFAULT, RegionConfig
from robustmat.types import Box, Landmark

CATEGORY_OF_LABEL = {5: "pole", 6: "traffic_light", 7: "traffic_sign", 19: "window"}  # Cityscapes, and window


@dataclass(frozen=True)
class Region:
    """One object's pixels: a tight box (x1 and y1 exclusive) and which pixels in it are the object's."""

    box: Box
    category: str
    mask: NDArray[np.bool_]  # [rows, columns] from the pixel that holds (x0, y0)
    confidence: float | None = None  # of a detector

    @property
    def area(self) -> int:
        return int(self.mask.sum())


def find_regions(semantics: NDArray[np.uint8], config: RegionConfig = DEFAULT.regions) -> list[Region]:
    """The landmark regions of a label map [H, W], ordered by category and position."""
    regions = []
    for label, category in CATEGORY_OF_LABEL.items():
        components = measure.label(semantics == label, connectivity=2)  # type: ignore[no-untyped-call]
        for properties in measure.regionprops(components):  # type: ignore[no-untyped-call]
            y0, x0, y1, x1 = properties.bbox
            region = Region((float(x0), float(y0), float(x1), float(y1)), category, properties.image)
            if is_landmark(region, config):
                regions.append(region)
    return regions


def box_regions(landmarks: Iterable[Landmark]) -> list[Region]:
    """Regions of boxes that somebody drew: every pixel of the box, and no limits, for a person looked at them."""
    regions = []
    for mark in landmarks:
        x0, y0, x1, y1 = mark.box
        shape = (math.ceil(y1) - math.floor(y0), math.ceil(x1) - math.floor(x0))
        regions.append(Region(mark.box, mark.category, np.ones(shape, dtype=bool), mark.confidence))
    return regions


def is_landmark(region: Region, config: RegionConfig = DEFAULT.regions) -> bool:
    """Whether a region is large enough to show something, and one object by its outline."""
    return _is_large_enough(region, config) and _is_one_object(region, config)


def _is_large_enough(region: Region, config: RegionConfig) -> bool:
    height, width = region.mask.shape
    smallest_width, smallest_height, smallest_area = config.smallest(region.category)
    return width >= smallest_width and height >= smallest_height and region.area >= smallest_area


def _is_one_object(region: Region, config: RegionConfig) -> bool:
    if region.category == "pole":
        return _is_one_pole(region.mask, config)
    if region.area >= config.solidity(region.category) * region.mask.size:  # the hull is no larger than the box
        return True
    hull = convex_hull_image(region.mask)  # type: ignore[no-untyped-call]
    return region.area >= config.solidity(region.category) * int(hull.sum())


def _is_one_pole(mask: NDArray[np.bool_], config: RegionConfig) -> bool:
    """One upright bar: tall, and in most rows one run of pixels about as wide as everywhere else."""
    height, width = mask.shape
    if height < config.pole_aspect * width:
        return False
    runs = mask[:, 0].astype(int) + (~mask[:, :-1] & mask[:, 1:]).sum(1)  # of pixels, in each row
    row_widths = mask.sum(1)
    typical = max(float(np.median(row_widths)), 1.0)
    broad = row_widths > config.pole_broad * typical + 2
    return bool((runs > 1).mean() <= config.pole_odd_rows and broad.mean() <= config.pole_odd_rows)
