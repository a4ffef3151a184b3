"""Detections as box files: what `match` and `prepare` read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustmat.files import write_json
from robustmat.types import CATEGORIES, Landmark


def write_boxes(path: Path | str, landmarks: Sequence[Landmark]) -> None:
    """The box file of one image: `{"landmarks": [{"box", "category", "confidence"}]}`."""
    write_json(path, {"landmarks": [_entry(landmark) for landmark in landmarks]})


def write_coco(path: Path | str, found: Mapping[str, Sequence[Landmark]], sizes: Mapping[str, tuple[int, int]]) -> None:
    """The COCO file of several images: landmarks and (width, height) by the images' file names."""
    images = [
        {"id": number, "file_name": name, "width": sizes[name][0], "height": sizes[name][1]}
        for number, name in enumerate(found)
    ]
    annotations: list[dict[str, Any]] = []
    for number, landmarks in enumerate(found.values()):
        for landmark in landmarks:
            x0, y0, x1, y1 = landmark.box
            annotation = {
                "id": len(annotations),
                "image_id": number,
                "category_id": CATEGORIES.index(landmark.category) + 1,
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": (x1 - x0) * (y1 - y0),
                "iscrowd": 0,
            }
            annotations.append(annotation | _score(landmark, "score"))
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(CATEGORIES)]
    write_json(path, {"images": images, "annotations": annotations, "categories": categories})


def _entry(landmark: Landmark) -> dict[str, Any]:
    return {"box": list(landmark.box), "category": landmark.category} | _score(landmark, "confidence")


def _score(landmark: Landmark, key: str) -> dict[str, float]:
    return {} if landmark.confidence is None else {key: landmark.confidence}
