"""What a detector should find in a labelled image, and where nobody can say."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

from robustmat.dataset.store import LandmarkDataset
from robustmat.detection.labels import LABEL_OF_CATEGORY, UNKNOWN
from robustmat.detection.regions import shafts
from robustmat.detection.samples import Sample, read_instances
from robustmat.landmarks.regions import Region, find_regions, is_landmark
from robustmat.sources.images import read_image, read_semantics
from robustmat.types import Box, Frame, Landmark

IGNORED_SHARE = 0.4  # of a detected box, that nobody can judge: then the detection counts neither way


@dataclass(frozen=True, eq=False)
class Truth:
    """A frame and the landmarks that it shows; a pole's box is its shaft's, as a detector's is.

    `doubtful` marks, for each category, pixels of objects that are no landmarks (too small, several in one) and
    pixels without a label. A detection there is neither right nor wrong.
    """

    frame: Frame
    landmarks: tuple[Landmark, ...]
    doubtful: dict[str, NDArray[np.bool_]]

    def is_doubtful(self, box: Box, category: str) -> bool:
        mask = self.doubtful.get(category)
        if mask is None:
            return False
        x0, y0, x1, y1 = (round(value) for value in box)
        window = mask[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)]
        return bool(window.size > 0 and window.mean() >= IGNORED_SHARE)


def sample_truth(sample: Sample) -> Truth:
    """The truth of a labelled image."""
    frame = Frame(sample.name, load_image=lambda: read_image(sample.image))
    if sample.masks is None:
        return Truth(frame, sample.boxes or (), {})
    semantics = read_semantics(sample.masks)
    if sample.instances is None:
        regions = [region for region in find_regions(semantics) if region.category != "pole"]
        poles = shafts(semantics == LABEL_OF_CATEGORY["pole"], possible=semantics == UNKNOWN)
        regions += [region for region in poles if is_landmark(region)]
    else:
        regions = instance_regions(semantics, read_instances(sample.instances))
    doubtful = {}
    for category, label in LABEL_OF_CATEGORY.items():
        mask = (semantics == label) | (semantics == UNKNOWN)
        for region in regions:
            if region.category == category:
                x0, y0 = int(region.box[0]), int(region.box[1])
                mask[y0 : y0 + region.mask.shape[0], x0 : x0 + region.mask.shape[1]] &= ~region.mask
        doubtful[category] = mask
    return Truth(frame, tuple(Landmark(region.box, region.category) for region in regions), doubtful)


def dataset_truth(dataset: LandmarkDataset) -> list[Truth]:
    """The truths of a prepared data set: its landmarks, and nothing that is doubtful."""
    return [Truth(frame, frame.landmarks, {}) for frame in dataset.frames]


def instance_regions(semantics: NDArray[np.uint8], instances: NDArray[np.uint16]) -> list[Region]:
    """The landmark regions of a label map whose single objects are numbered."""
    regions = []
    for category, label in LABEL_OF_CATEGORY.items():
        numbers = np.where(semantics == label, instances, 0).astype(np.int32)
        for number, window in enumerate(find_objects(numbers), start=1):
            if window is None:
                continue
            rows, columns = window
            box = (float(columns.start), float(rows.start), float(columns.stop), float(rows.stop))
            one = Region(box, category, numbers[window] == number)
            pieces = [_moved(piece, box) for piece in shafts(one.mask)] if category == "pole" else [one]
            regions += [region for region in pieces if is_landmark(region)]
    return regions


def _moved(region: Region, into: Box) -> Region:
    x0, y0, x1, y1 = region.box
    return Region((x0 + into[0], y0 + into[1], x1 + into[0], y1 + into[1]), region.category, region.mask)
