"""Box files that the user brings, JSON or COCO, and the checks that every drawn box passes."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.errors import InputError
from robustmat.files import read_json
from robustmat.types import CATEGORIES, Box, Landmark

# What COCO and other detectors call the same things.
SYNONYMS = {
    "sign": "traffic_sign",
    "stop_sign": "traffic_sign",
    "light": "traffic_light",
    "traffic_lights": "traffic_light",
    "traffic_signs": "traffic_sign",
    "poles": "pole",
    "windows": "window",
}
COCO_KEYS = {"images", "annotations", "categories"}


def read_boxes(path: Path | str, image_name: str | None = None) -> tuple[Landmark, ...]:
    """Landmarks of a box file: `{"landmarks": [{"box", "category"}]}` or COCO.

    A COCO file may describe many images: `image_name` (the image's file name) says which is meant.
    """
    path = Path(path)
    content = read_json(path, "box file", InputError)
    if isinstance(content, dict) and "landmarks" in content:
        return _read_own(content["landmarks"], path)
    if isinstance(content, dict) and content.keys() >= COCO_KEYS:
        return _read_coco(content, path, image_name)
    raise InputError(f'box file is neither {{"landmarks": [...]}} nor COCO (images, annotations, categories): {path}')


def check_landmarks(landmarks: Iterable[Landmark], width: int, height: int) -> tuple[Landmark, ...]:
    """The landmarks clipped to the image; one that cannot be used is an error that names it."""
    return tuple(
        replace(landmark, box=_check_box(landmark.box, index, width, height))
        for index, landmark in enumerate(landmarks)
    )


def check_category(name: Any, where: str) -> str:
    """One of `CATEGORIES`, whatever its spelling ("Traffic Sign", "traffic-sign")."""
    if not isinstance(name, str):
        raise InputError(f"{where}: category must be text, one of {', '.join(CATEGORIES)}; found {name!r}")
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")
    plain = SYNONYMS.get(plain, plain)
    if plain in CATEGORIES:
        return plain
    near = difflib.get_close_matches(plain, CATEGORIES, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(CATEGORIES)}"
    raise InputError(f"{where}: unknown category '{name}'; {advice}")


def _check_box(box: Box, index: int, width: int, height: int) -> Box:
    x0, y0, x1, y1 = box
    where = f"landmark {index} with box [{x0:g}, {y0:g}, {x1:g}, {y1:g}]"
    if not np.isfinite(box).all():
        raise InputError(f"{where}: the box is not finite")
    if x1 <= x0 or y1 <= y0:
        raise InputError(f"{where}: the box has no area; boxes are x0, y0, x1, y1 with x0 < x1 and y0 < y1")
    clipped = (max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height)))
    if clipped[2] <= clipped[0] or clipped[3] <= clipped[1]:
        raise InputError(f"{where}: the box lies outside the image of {width}x{height} pixels")
    return clipped


def _read_own(entries: Any, path: Path) -> tuple[Landmark, ...]:
    if not isinstance(entries, list):
        raise InputError(f"box file: 'landmarks' must be a list: {path}")
    landmarks = []
    for index, entry in enumerate(entries):
        where = f"box file {path}, landmark {index}"
        if not isinstance(entry, dict) or not {"box", "category"} <= entry.keys():
            raise InputError(f"{where}: needs the keys 'box' and 'category'; found {_shown(entry)}")
        box = _four_numbers(entry["box"], where, "box", "[x0, y0, x1, y1]")
        landmarks.append(Landmark(box, check_category(entry["category"], where)))
    return tuple(landmarks)


def read_coco(path: Path | str) -> dict[str, tuple[Landmark, ...]]:
    """Landmarks of every image of a COCO file, by the image's file name; an image without any has an empty tuple."""
    path = Path(path)
    content = read_json(path, "COCO file", InputError)
    if not isinstance(content, dict) or not content.keys() >= COCO_KEYS:
        raise InputError(f"COCO file needs the keys {', '.join(sorted(COCO_KEYS))}: {path}")
    image_ids, names, annotations = _index_coco(content, path)
    return {name: _coco_landmarks(annotations.get(image, []), names, path) for name, image in image_ids.items()}


def _read_coco(content: Mapping[str, Any], path: Path, image_name: str | None) -> tuple[Landmark, ...]:
    image_ids, names, annotations = _index_coco(content, path)
    image_id = image_ids[_coco_image(list(image_ids), path, image_name)]
    return _coco_landmarks(annotations.get(image_id, []), names, path)


_Numbered = list[tuple[int, dict[str, Any]]]  # annotations with their place in the file


def _index_coco(content: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, _Numbered]]:
    """Image ids by file name, category names by id, annotations by image id."""
    try:
        image_ids = {Path(image["file_name"]).name: image["id"] for image in content["images"]}
        names = {category["id"]: category["name"] for category in content["categories"]}
    except (KeyError, TypeError):
        raise InputError(f"COCO file: images need 'id' and 'file_name', categories 'id' and 'name': {path}") from None
    by_image: dict[Any, _Numbered] = {}
    for index, annotation in enumerate(content["annotations"]):
        if not isinstance(annotation, dict) or not {"image_id", "category_id", "bbox"} <= annotation.keys():
            raise InputError(
                f"COCO file {path}, annotation {index}: needs the keys 'image_id', 'category_id' and 'bbox'"
            )
        by_image.setdefault(annotation["image_id"], []).append((index, annotation))
    return image_ids, names, by_image


def _coco_landmarks(annotations: _Numbered, names: Mapping[Any, Any], path: Path) -> tuple[Landmark, ...]:
    landmarks = []
    for index, annotation in annotations:
        where = f"COCO file {path}, annotation {index}"
        if annotation["category_id"] not in names:
            raise InputError(f"{where}: category_id {annotation['category_id']} is not among the categories")
        x, y, width, height = _four_numbers(annotation["bbox"], where, "bbox", "[x, y, width, height]")
        category = check_category(names[annotation["category_id"]], where)
        landmarks.append(Landmark((x, y, x + width, y + height), category))
    return tuple(landmarks)


def _coco_image(file_names: list[str], path: Path, image_name: str | None) -> str:
    if image_name is None:
        if len(file_names) == 1:
            return file_names[0]
        raise InputError(f"COCO file describes {len(file_names)} images: {path}; say which by its file name")
    name = Path(image_name).name
    if name in file_names:
        return name
    near = difflib.get_close_matches(name, file_names, n=1)
    advice = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(f"COCO file has no image named '{name}': {path}{advice}")


def _four_numbers(value: Any, where: str, key: str, meaning: str) -> Box:
    numbers = isinstance(value, list) and all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in value
    )
    if not numbers or len(value) != 4:
        raise InputError(f"{where}: '{key}' must be four numbers {meaning}; found {_shown(value)}")
    return (float(value[0]), float(value[1]), float(value[2]), float(value[3]))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
