"""A frame with its landmarks, from whatever the user has: files or arrays."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustmat.errors import InputError
from robustmat.landmarks.boxes import check_landmarks, landmarks_from_mask, read_boxes, to_landmarks
from robustmat.sources.boxes import BoxLike, check_drawn_boxes
from robustmat.sources.cameras import CameraLike, to_camera
from robustmat.sources.images import check_train_ids, image_size, read_image, read_semantics
from robustmat.types import Frame, Image, InMemory, Landmark, to_rgb

Boxes = Path | str | Iterable[BoxLike]
Detect = Callable[[Frame], tuple[Landmark, ...]]  # finds the landmarks of a frame


def read_frame(
    image: Path | str | ArrayLike,
    boxes: Boxes | None = None,
    masks: Path | str | ArrayLike | None = None,
    camera: CameraLike | None = None,
    *,
    name: str | None = None,
    detect: Detect | None = None,
) -> Frame:
    """A frame from an image and its landmarks, which are given as boxes or as a label map.

    Args:
        image: a file (PNG, JPEG, BMP, TIFF, WebP, PPM), or pixels: uint8, RGB [H, W, 3], grey or RGBA. A file is
            turned upright if its EXIF data say so; boxes and masks refer to the upright image.
        boxes: a box file, `{"landmarks": [{"box": [x0, y0, x1, y1], "category": "traffic_sign"}]}` or COCO; or a
            list of landmarks, dictionaries or (box, category) pairs. Boxes are tight, in pixels.
        masks: a label image, or an array [H, W], in Cityscapes train ids (5 pole, 6 traffic light, 7 traffic sign)
            and 19 for windows.
        camera: a `Camera`, a 3x3 matrix, (fx, fy, cx, cy), or a file such as camera.json. Without it a usual field
            of view is assumed.
        name: the frame's name in results; by default the file's.
        detect: finds the landmarks where neither boxes nor masks are given.

    >>> pixels = np.zeros((120, 160), np.uint8)
    >>> frame = read_frame(pixels, boxes=[((10, 20, 30, 90), "pole")], camera=(140, 140, 80, 60), name="front")
    >>> frame, frame.image.shape, frame.camera.width
    (Frame('front', 1 landmark), (120, 160, 3), 160)
    """
    load_image: Callable[[], Image]
    if isinstance(image, str | Path):
        where, name = str(image), name or Path(image).name
        width, height = image_size(image)
        load_image = partial(read_image, Path(image))
    else:
        name = name or "frame"
        where = f"frame '{name}'"
        pixels = to_rgb(image, where)
        height, width = pixels.shape[:2]
        load_image = InMemory(pixels)
    if boxes is not None and masks is not None:
        raise InputError(f"{where}: give boxes or masks, not both")
    if boxes is not None:
        landmarks = _from_boxes(boxes, name, width, height, where)
    elif masks is not None:
        landmarks = check_landmarks(_from_mask(masks, width, height, where), width, height)
    elif detect is not None:
        landmarks = check_landmarks(detect(Frame(name, InMemory(load_image()))), width, height)
    else:
        raise InputError(
            f"no landmarks for {where}: give its boxes (--boxes-a, --boxes-b) or a label map (--masks-a, --masks-b), "
            "or let a detector find them (without --no-detector)"
        )
    return Frame(name, load_image, landmarks, None if camera is None else to_camera(camera, width, height, where))


def _from_boxes(boxes: Boxes, name: str, width: int, height: int, where: str) -> tuple[Landmark, ...]:
    if isinstance(boxes, str | Path):
        found, origin = read_boxes(boxes, name, (width, height)), f"{boxes}, boxes of {where}"
    else:
        found, origin = to_landmarks(boxes), where
    try:
        return check_drawn_boxes(found, width, height)
    except InputError as problem:
        raise InputError(f"{origin}: {problem}") from None


def _from_mask(masks: Path | str | ArrayLike, width: int, height: int, where: str) -> tuple[Landmark, ...]:
    if isinstance(masks, str | Path):
        labels, named = read_semantics(masks), f"mask {masks}"
    else:
        labels, named = _labels(masks, where), "its mask"
    if labels.shape != (height, width):
        raise InputError(
            f"{named} is {labels.shape[1]}x{labels.shape[0]} pixels but its image {where} is {width}x{height}: "
            "a mask labels every pixel of its image"
        )
    return landmarks_from_mask(labels)


def _labels(masks: ArrayLike, where: str) -> NDArray[np.uint8]:
    labels = np.asarray(masks)
    if labels.ndim != 2 or labels.dtype.kind not in "ui":
        raise InputError(f"{where}: a mask is [height, width] of whole numbers, found {labels.shape} of {labels.dtype}")
    if labels.size and (labels.min() < 0 or labels.max() > 255):
        raise InputError(f"{where}: a mask holds train ids from 0 to 255, found {labels.min()} to {labels.max()}")
    return check_train_ids(labels.astype(np.uint8), f"mask of {where}")
