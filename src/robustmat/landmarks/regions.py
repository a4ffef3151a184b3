"""Label maps to landmark regions: connected pixels of one class that look like one object."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from skimage import measure
from skimage.morphology import convex_hull_image

from robustmat.types import Box

CATEGORY_OF_LABEL = {5: "pole", 6: "traffic_light", 7: "traffic_sign", 19: "window"}  # Cityscapes, and window

# Smallest width, height and number of pixels that still show something to match. Poles are judged by height.
SMALLEST = {
    "pole": (3, 18, 40),
    "traffic_light": (4, 7, 25),
    "traffic_sign": (7, 7, 50),
    "window": (8, 8, 80),
}
# Smallest share of its convex hull that a region fills. Boards and lamps are convex; what a segmentation
# takes for signs in treetops and on facades is ragged.
SMALLEST_SOLIDITY = {"traffic_light": 0.7, "traffic_sign": 0.8, "window": 0.8}


@dataclass(frozen=True)
class Region:
    """One object's pixels: a tight box (x1 and y1 exclusive) and which pixels in it are the object's."""

    box: Box
    category: str
    mask: NDArray[np.bool_]  # [y1 - y0, x1 - x0]

    @property
    def area(self) -> int:
        return int(self.mask.sum())


def find_regions(semantics: NDArray[np.uint8]) -> list[Region]:
    """The landmark regions of a label map [H, W], ordered by category and position."""
    regions = []
    for label, category in CATEGORY_OF_LABEL.items():
        components = measure.label(semantics == label, connectivity=2)  # type: ignore[no-untyped-call]
        for properties in measure.regionprops(components):  # type: ignore[no-untyped-call]
            y0, x0, y1, x1 = properties.bbox
            region = Region((float(x0), float(y0), float(x1), float(y1)), category, properties.image)
            if _is_large_enough(region) and _is_one_object(region):
                regions.append(region)
    return regions


def _is_large_enough(region: Region) -> bool:
    height, width = region.mask.shape
    smallest_width, smallest_height, smallest_area = SMALLEST[region.category]
    return width >= smallest_width and height >= smallest_height and region.area >= smallest_area


def _is_one_object(region: Region) -> bool:
    if region.category == "pole":
        return _is_one_pole(region.mask)
    hull = convex_hull_image(region.mask)  # type: ignore[no-untyped-call]
    return region.area >= SMALLEST_SOLIDITY[region.category] * int(hull.sum())


def _is_one_pole(mask: NDArray[np.bool_]) -> bool:
    """One upright bar: tall, and in most rows one run of pixels about as wide as everywhere else.

    Poles that overlap in the image merge into one region with a wrong box. As in the paper they are left
    out: such a region is broad for its height, or shows two runs in many rows.
    """
    height, width = mask.shape
    if height < 2 * width:
        return False
    starts = mask[:, :1].astype(int).sum(1) + (~mask[:, :-1] & mask[:, 1:]).sum(1)  # runs of pixels a row
    row_widths = mask.sum(1)
    typical = max(float(np.median(row_widths)), 1.0)
    return bool((starts > 1).mean() <= 0.25 and (row_widths > 2.5 * typical + 2).mean() <= 0.25)
