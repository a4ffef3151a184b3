"""What the network learns of a labelled frame: which pixels each category covers, and which are inside one object.

Not every data set labels everything, so each channel carries where its label is known: KITTI and CamVid label walls and
the windows in them alike, photographs of facades leave their lamps unlabelled, drawn boxes say nothing about the rest.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

from robustmat.types import CATEGORIES, Landmark

LABEL_OF_CATEGORY = {"pole": 5, "traffic_light": 6, "traffic_sign": 7, "window": 19}  # Cityscapes, and window
WALLS = (2, 3)  # building, wall: where windows may hide that nobody labelled
UNKNOWN = 255
CLASSES = 20  # Cityscapes' 19, and window
CHANNELS = (*CATEGORIES, "inside")  # the last tells objects that touch apart
INSIDE = CHANNELS.index("inside")
RIM = 0.15  # of an object's shorter side belongs to its rim on each side, not to its inside


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image with what is known about it."""

    image: NDArray[np.uint8]  # [H, W, 3]
    target: NDArray[np.uint8]  # [H, W], bit c is set where channel c is true
    known: NDArray[np.uint8]  # [H, W], bit c is set where channel c is known
    semantics: NDArray[np.uint8]  # [H, W], what stands around landmarks; UNKNOWN where nobody said


def label_from_masks(
    image: NDArray[np.uint8],
    semantics: NDArray[np.uint8],
    labelled: tuple[str, ...],
    instances: NDArray[np.uint16] | None = None,
) -> LabelledImage:
    """From a label map; `labelled` are the categories that it labels wherever they are.

    Without `instances` (numbers of single objects) the connected pixels of one class are taken for one object.
    """
    target = np.zeros(semantics.shape, np.uint8)
    known = np.zeros(semantics.shape, np.uint8)
    sure = semantics != UNKNOWN
    inside_known = np.zeros(semantics.shape, bool)
    for channel, category in enumerate(CATEGORIES):
        covered = semantics == LABEL_OF_CATEGORY[category]
        target[covered] |= 1 << channel
        if category in labelled:
            known[sure] |= 1 << channel
        elif category == "window" and "pole" in labelled:  # a street scene: no window outside a wall
            known[sure & ~np.isin(semantics, WALLS)] |= 1 << channel
        if category != "pole" and category in labelled:  # poles are thin: all of one is rim
            inside = _insides(covered, instances)
            target[inside] |= 1 << INSIDE
            inside_known |= covered
    known[inside_known] |= 1 << INSIDE
    # Only a whole street scene says of all pixels what they are; photographs of facades are labelled in part.
    around = semantics if "pole" in labelled else np.full_like(semantics, UNKNOWN)
    return LabelledImage(image, target, known, around)


def label_from_boxes(image: NDArray[np.uint8], landmarks: tuple[Landmark, ...]) -> LabelledImage:
    """From drawn boxes, where not every object has one: sure are only their middles and what lies right around them."""
    height, width = image.shape[:2]
    target = np.zeros((height, width), np.uint8)
    known = np.zeros((height, width), np.uint8)
    taken = np.zeros((height, width), bool)
    for landmark in landmarks:
        x0, y0, x1, y1 = landmark.box
        taken[_rows_columns(x0, y0, x1, y1)] = True
    for landmark in landmarks:
        bit = 1 << CATEGORIES.index(landmark.category)
        both = 0b11  # signs and lights tell each other apart
        x0, y0, x1, y1 = landmark.box
        margin = max(3.0, 0.2 * min(x1 - x0, y1 - y0))
        around = np.zeros_like(taken)
        around[_rows_columns(x0 - margin, y0 - margin, x1 + margin, y1 + margin)] = True
        known[around & ~taken] |= both | 1 << CATEGORIES.index("window")
        ellipse = np.zeros((height, width), np.uint8)
        axes = (max(round((x1 - x0) / 2), 1), max(round((y1 - y0) / 2), 1))
        cv2.ellipse(ellipse, (round((x0 + x1) / 2), round((y0 + y1) / 2)), axes, 0, 0, 360, 1, -1)
        middle = ellipse > 0
        target[middle] |= bit
        known[middle] |= both | 1 << CATEGORIES.index("window")
    return LabelledImage(image, target, known, np.full((height, width), UNKNOWN, np.uint8))


def _insides(covered: NDArray[np.bool_], instances: NDArray[np.uint16] | None) -> NDArray[np.bool_]:
    """Pixels of objects without their rims: those far from the object's edge, for its size."""
    inside = np.zeros(covered.shape, bool)
    if not covered.any():
        return inside
    if instances is None:
        _, numbers = cv2.connectedComponents(covered.astype(np.uint8), connectivity=8)
    else:
        numbers = np.where(covered, instances, 0).astype(np.int32)
    for number, window in enumerate(find_objects(numbers), start=1):
        if window is None:
            continue
        one = np.pad((numbers[window] == number).astype(np.uint8), 1)
        depth = cv2.distanceTransform(one, cv2.DIST_L2, 3)[1:-1, 1:-1]
        rim = max(1.0, RIM * min(depth.shape))
        inside[window] |= depth > rim
    return inside


def _rows_columns(x0: float, y0: float, x1: float, y1: float) -> tuple[slice, slice]:
    return slice(max(round(y0), 0), max(round(y1), 0)), slice(max(round(x0), 0), max(round(x1), 0))
