"""Box files that the user brings, JSON or COCO, and the checks that every drawn box passes."""

import difflib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.errors import InputError, InputWarning, brief
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
LARGEST_COORDINATE = 1e9  # pixels
COCO_KEYS = {"images", "annotations", "categories"}
SMALLEST_VISIBLE_SHARE = 0.5  # of a box; what shows less of itself in the image was probably drawn for another one

Size = tuple[int, int]  # width, height
BoxLike = Landmark | Mapping[str, Any] | tuple[Any, str]  # what a list of boxes may hold


def read_boxes(path: Path | str, image_name: str | None = None, size: Size | None = None) -> tuple[Landmark, ...]:
    """Landmarks of a box file: `{"landmarks": [{"box", "category"}]}` or COCO.

    Args:
        image_name: a COCO file may describe many images; the image's file name says which is meant.
        size: width and height of the image; a file that says it was drawn on an image of another size is refused.
    """
    path = Path(path)
    return parse_boxes(read_json(path, "box file", InputError), path, image_name, size)


def parse_boxes(
    content: Any, path: Path, image_name: str | None = None, size: Size | None = None
) -> tuple[Landmark, ...]:
    """`read_boxes` of a file's content; `path` only names it in errors."""
    if isinstance(content, dict) and "landmarks" in content:
        check_drawn_size((content.get("width"), content.get("height")), size, path)
        return _read_own(content["landmarks"], f"box file {path}, ")
    if isinstance(content, dict) and content.keys() >= COCO_KEYS:
        return _read_coco(content, path, image_name, size)
    raise InputError(f'box file is neither {{"landmarks": [...]}} nor COCO (images, annotations, categories): {path}')


def to_landmarks(boxes: Iterable[BoxLike]) -> tuple[Landmark, ...]:
    """Landmarks from what a program has at hand: landmarks, dictionaries, or pairs of a box and its category.

    >>> to_landmarks([((5, 5, 20, 30), "pole"), {"box": [40, 8, 60, 28], "category": "Traffic Sign"}])[1].category
    'traffic_sign'
    """
    landmarks = []
    for index, entry in enumerate(boxes):
        where = f"landmark {index}"
        if isinstance(entry, Landmark):
            landmarks.append(replace(entry, category=check_category(entry.category, where)))
        elif isinstance(entry, Mapping):
            landmarks.append(_read_entry(entry, where))
        elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2:
            landmarks.append(_read_entry({"box": entry[0], "category": entry[1]}, where))
        else:
            raise InputError(
                f"{where}: expected a Landmark, {{'box': [x0, y0, x1, y1], 'category': ...}} or a pair of both; "
                f"found {brief(entry)}"
            )
    return tuple(landmarks)


def check_landmarks(landmarks: Iterable[Landmark], width: int, height: int) -> tuple[Landmark, ...]:
    """The landmarks clipped to the image; one that cannot be used is an error that names it."""
    landmarks = tuple(landmarks)
    checked, hidden = [], []
    for index, landmark in enumerate(landmarks):
        box = _check_box(landmark.box, index, width, height)
        checked.append(replace(landmark, box=box))
        if _area(box) < SMALLEST_VISIBLE_SHARE * _area(landmark.box):
            hidden.append(index)
    if hidden:
        named = ", ".join(map(str, hidden[:5])) + (", ..." if len(hidden) > 5 else "")
        warnings.warn(
            f"{len(hidden)} of {len(landmarks)} boxes lie mostly outside the image of {width}x{height} pixels "
            f"(landmark {named}) and were clipped: were they drawn on an image of another size?",
            InputWarning,
            stacklevel=2,
        )
    return tuple(checked)


def check_drawn_boxes(landmarks: Sequence[Landmark], width: int, height: int) -> tuple[Landmark, ...]:
    """`check_landmarks` for boxes that somebody brought, who may have meant shares of the image instead of pixels."""
    if landmarks and max(max(landmark.box) for landmark in landmarks) <= 1:
        raise InputError(
            f"all {len(landmarks)} boxes have coordinates from 0 to 1, but boxes are in pixels: multiply x by the "
            f"image's width ({width}) and y by its height ({height})"
        )
    return check_landmarks(landmarks, width, height)


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
        raise InputError(
            f"{where}: the box has no area; boxes are x0, y0, x1, y1 with x0 < x1 and y0 < y1, not width and height"
        )
    clipped = (max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height)))
    if clipped[2] <= clipped[0] or clipped[3] <= clipped[1]:
        raise InputError(
            f"{where}: the box lies outside the image of {width}x{height} pixels; was it drawn on an image of another "
            "size?"
        )
    return clipped


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _read_own(entries: Any, where: str) -> tuple[Landmark, ...]:
    if not isinstance(entries, list):
        raise InputError(f"{where}'landmarks' must be a list")
    return tuple(_read_entry(entry, f"{where}landmark {index}") for index, entry in enumerate(entries))


def _read_entry(entry: Any, where: str) -> Landmark:
    if not isinstance(entry, Mapping) or not {"box", "category"} <= entry.keys():
        raise InputError(f"{where}: needs the keys 'box' and 'category'; found {brief(entry)}")
    box = _four_numbers(entry["box"], where, "box", "[x0, y0, x1, y1]")
    category = check_category(entry["category"], where)
    return Landmark(box, category, confidence=_confidence(entry, "confidence", where))


@dataclass(frozen=True)
class CocoImage:
    """What a COCO file says about one image: its landmarks, maybe none, and the size it had."""

    landmarks: tuple[Landmark, ...]
    size: tuple[Any, Any]  # width and height; None where the file does not tell


def read_coco(path: Path | str) -> dict[str, CocoImage]:
    """Every image of a COCO file, by its file name."""
    path = Path(path)
    content = read_json(path, "COCO file", InputError)
    if not isinstance(content, dict) or not content.keys() >= COCO_KEYS:
        raise InputError(f"COCO file needs the keys {', '.join(sorted(COCO_KEYS))}: {path}")
    images, names, annotations = _index_coco(content, path)
    return {
        name: CocoImage(_coco_landmarks(annotations.get(image["id"], []), names, path), _coco_size(image))
        for name, image in images.items()
    }


def _read_coco(
    content: Mapping[str, Any], path: Path, image_name: str | None, size: Size | None
) -> tuple[Landmark, ...]:
    images, names, annotations = _index_coco(content, path)
    image = images[find_coco_image(list(images), path, image_name)]
    check_drawn_size(_coco_size(image), size, path)
    return _coco_landmarks(annotations.get(image["id"], []), names, path)


def _coco_size(image: Mapping[str, Any]) -> tuple[Any, Any]:
    return image.get("width"), image.get("height")


def check_drawn_size(told: tuple[Any, Any], size: Size | None, path: Path) -> None:
    """Refuse boxes that say they were drawn on an image of another size."""
    if size is None or not all(told) or told == size:
        return
    raise InputError(
        f"the boxes of {path} were drawn on an image of {told[0]}x{told[1]} pixels, but this one is "
        f"{size[0]}x{size[1]}: scale the boxes, or use the image at its full size"
    )


_Numbered = list[tuple[int, dict[str, Any]]]  # annotations with their place in the file


def _index_coco(
    content: Mapping[str, Any], path: Path
) -> tuple[dict[str, dict[str, Any]], dict[Any, Any], dict[Any, _Numbered]]:
    """Images by file name, category names by id, annotations by image id."""
    if not all(isinstance(content[key], list) for key in COCO_KEYS):
        raise InputError(f"COCO file: {', '.join(sorted(COCO_KEYS))} must be lists: {path}")
    try:
        images = {Path(image["file_name"]).name: image for image in content["images"] if image["id"] is not None}
        hash(tuple(image["id"] for image in images.values()))  # annotations are looked up by it
        names = {category["id"]: category["name"] for category in content["categories"]}
    except (KeyError, TypeError):
        raise InputError(f"COCO file: images need 'id' and 'file_name', categories 'id' and 'name': {path}") from None
    by_image: dict[Any, _Numbered] = {}
    for index, annotation in enumerate(content["annotations"]):
        if not isinstance(annotation, dict) or not {"image_id", "category_id", "bbox"} <= annotation.keys():
            raise InputError(
                f"COCO file {path}, annotation {index}: needs the keys 'image_id', 'category_id' and 'bbox'"
            )
        if not all(isinstance(annotation[key], int | str) for key in ("image_id", "category_id")):
            raise InputError(f"COCO file {path}, annotation {index}: ids must be numbers or texts")
        by_image.setdefault(annotation["image_id"], []).append((index, annotation))
    return images, names, by_image


def _coco_landmarks(annotations: _Numbered, names: Mapping[Any, Any], path: Path) -> tuple[Landmark, ...]:
    landmarks = []
    for index, annotation in annotations:
        where = f"COCO file {path}, annotation {index}"
        if annotation["category_id"] not in names:
            raise InputError(f"{where}: category_id {annotation['category_id']} is not among the categories")
        x, y, width, height = _four_numbers(annotation["bbox"], where, "bbox", "[x, y, width, height]")
        category = check_category(names[annotation["category_id"]], where)
        confidence = _confidence(annotation, "score", where)
        landmarks.append(Landmark((x, y, x + width, y + height), category, confidence=confidence))
    return tuple(landmarks)


def find_coco_image(file_names: list[str], path: Path, image_name: str | None) -> str:
    if image_name is None:
        if len(file_names) == 1:
            return file_names[0]
        raise InputError(f"COCO file describes {len(file_names)} images: {path}; say which by its file name")
    name = Path(image_name).name
    if name in file_names:
        return name
    same_stem = [known for known in file_names if Path(known).stem == Path(name).stem]
    if len(same_stem) == 1:  # converted to another format since, or a frame of a video
        return same_stem[0]
    near = difflib.get_close_matches(name, file_names, n=1)
    advice = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(f"COCO file has no image named '{name}': {path}{advice}")


def _four_numbers(value: Any, where: str, key: str, meaning: str) -> Box:
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    numbers = isinstance(listed, list | tuple) and all(
        isinstance(item, int | float | np.number) and not isinstance(item, bool) for item in listed
    )
    if not numbers or len(listed) != 4:
        raise InputError(f"{where}: '{key}' must be four numbers {meaning}; found {brief(value)}")
    if any(LARGEST_COORDINATE < abs(item) < math.inf for item in listed):
        raise InputError(f"{where}: '{key}' is beyond any image; found {brief(value)}")
    return (float(listed[0]), float(listed[1]), float(listed[2]), float(listed[3]))


def _confidence(entry: Mapping[str, Any], key: str, where: str) -> float | None:
    """A detector's confidence, where the file has one."""
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{where}: '{key}' must be a number from 0 to 1; found {brief(value)}")
    return float(value)
