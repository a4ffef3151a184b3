"""Labelled images on disk, as a detector's training and evaluation read them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from robustmat.detection.config import SourceConfig
from robustmat.detection.labels import LabelledImage, label_from_boxes, label_from_masks
from robustmat.errors import DataError
from robustmat.sources.boxes import read_coco
from robustmat.sources.drive import IMAGE_SUFFIXES
from robustmat.sources.images import read_image, read_numbers, read_semantics
from robustmat.types import Landmark


@dataclass(frozen=True)
class Sample:
    """One labelled image, read when it is asked for."""

    name: str
    image: Path
    load: Callable[[], LabelledImage]
    masks: Path | None = None  # its label map, where it has one
    instances: Path | None = None
    boxes: tuple[Landmark, ...] | None = None  # or the boxes that somebody drew


def find_samples(source: SourceConfig, root: Path | str) -> list[Sample]:
    """The samples of a source below `root`, by name; none at all is an error."""
    root = Path(root)
    folders = sorted(root.glob(source.path)) if source.path not in ("", ".") else [root]
    found = [sample for folder in folders if folder.is_dir() for sample in _samples_of(folder, source)]
    if not found:
        raise DataError(
            f"no labelled images in {root / source.path}: expected {source.images}/ beside {source.masks}/ "
            f"(label maps of the same names) or beside {source.boxes}"
        )
    return found[:: source.every]


def _samples_of(folder: Path, source: SourceConfig) -> list[Sample]:
    images = sorted(
        path
        for path in (folder / source.images).glob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES
        and fnmatch(path.name, source.include)
        and not (source.exclude and fnmatch(path.name, source.exclude))
    )
    if (folder / source.masks).is_dir():
        return _with_masks(folder, images, source)
    if (folder / source.boxes).is_file():
        boxes = read_coco(folder / source.boxes)
        return [_boxed(path, boxes[path.name].landmarks) for path in images if path.name in boxes]
    return []


def _with_masks(folder: Path, images: Sequence[Path], source: SourceConfig) -> list[Sample]:
    samples = []
    for path in images:
        masks = folder / source.masks / f"{path.stem}.png"
        instances = folder / source.instances / f"{path.stem}.png"
        if masks.is_file():
            samples.append(_masked(path, masks, instances if instances.is_file() else None, source.labelled))
    return samples


def _masked(image: Path, masks: Path, instances: Path | None, labelled: tuple[str, ...]) -> Sample:
    def load() -> LabelledImage:
        pixels, semantics = read_image(image), read_semantics(masks)
        if pixels.shape[:2] != semantics.shape:
            raise DataError(f"label map {masks} has {semantics.shape} rows and columns, its image {pixels.shape[:2]}")
        return label_from_masks(pixels, semantics, labelled, None if instances is None else read_instances(instances))

    return Sample(image.stem, image, load, masks=masks, instances=instances)


def _boxed(image: Path, boxes: tuple[Landmark, ...]) -> Sample:
    return Sample(image.stem, image, lambda: label_from_boxes(read_image(image), boxes), boxes=boxes)


def read_instances(path: Path) -> np.typing.NDArray[np.uint16]:
    """[H, W] numbers of single objects, 0 for none, from a 16-bit PNG."""
    return read_numbers(path, "map of single objects")
