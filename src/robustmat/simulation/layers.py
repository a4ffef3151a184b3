"""A labelled image taken apart: what stands in the street, thing by thing, and the background without it."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.landmarks.config import DEFAULT, RegionConfig
from robustmat.landmarks.regions import CATEGORY_OF_LABEL, Region, find_regions
from robustmat.types import Array, Image

STANDING = [label for label, category in CATEGORY_OF_LABEL.items() if category != "window"]  # windows are background
BACKGROUND = 0


@dataclass(frozen=True)
class Layers:
    """`things` [H, W] numbers what stands in the street from 1, a sign and its pole together; 0 is background.

    `region_thing` says which of them each region is part of.
    """

    image: Image
    background: Image
    things: NDArray[np.int32]
    regions: tuple[Region, ...]
    region_thing: tuple[int, ...]

    @property
    def count(self) -> int:
        return int(self.things.max())


def take_apart(image: Image, semantics: NDArray[np.uint8], config: RegionConfig = DEFAULT.regions) -> Layers:
    """Split an image by its label map; where things stood, the background is painted in from around them."""
    standing = np.isin(semantics, STANDING)
    edge = 2 * max(1, len(image) // 200) + 1  # masks end a little inside of what they show
    around = cv2.dilate(standing.astype(np.uint8), np.ones((edge, edge), np.uint8))
    # A sign hides a piece of its pole, a branch another: what is one above the other with a small gap is one thing.
    gap = max(edge, len(image) // 40)
    linked = cv2.dilate(standing.astype(np.uint8), np.ones((gap, edge), np.uint8))
    _, numbered = cv2.connectedComponents(linked, connectivity=8)
    things = np.where(around > 0, numbered, BACKGROUND).astype(np.int32)
    background = cv2.inpaint(image, around, 3, cv2.INPAINT_TELEA)
    regions = tuple(find_regions(semantics, config))
    return Layers(
        image=image,
        background=np.asarray(background, np.uint8),
        things=things,
        regions=regions,
        region_thing=tuple(_thing(region, things) for region in regions),
    )


def region_pixels(region: Region) -> Array:
    """x and y [N, 2] of a region's pixels, in the image."""
    rows, columns = np.nonzero(region.mask)
    return np.stack([columns + region.box[0], rows + region.box[1]], axis=1)


def _thing(region: Region, things: NDArray[np.int32]) -> int:
    if region.category == "window":
        return BACKGROUND
    x, y = region_pixels(region)[0].astype(int)
    return int(things[y, x])
