"""Frames with their landmarks, from whatever the user has: files, arrays, folders, videos."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustmat.errors import InputError
from robustmat.landmarks.boxes import check_landmarks, landmarks_from_mask, read_boxes, to_landmarks
from robustmat.sources.boxes import BoxLike, CocoImage, check_drawn_boxes, check_drawn_size, find_coco_image, read_coco
from robustmat.sources.cameras import CameraLike, to_camera
from robustmat.sources.folder import named_files
from robustmat.sources.images import READABLE, check_train_ids, image_size, read_image, read_semantics
from robustmat.sources.video import is_video, open_video
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


@dataclass(frozen=True)
class FrameSequence:
    """Frames in order, each read when its turn comes; `count` is how many there are, as far as is known."""

    name: str
    count: int
    read: Callable[[], Iterator[Frame]]

    def __iter__(self) -> Iterator[Frame]:
        return self.read()


def read_sequence(
    source: Path | str,
    boxes: Path | str | None = None,
    masks: Path | str | None = None,
    camera: CameraLike | None = None,
    *,
    every: int = 1,
    detect: Detect | None = None,
) -> FrameSequence:
    """The frames of a folder of images, in the order of their names, or of a video.

    Args:
        source: a folder of images; a folder that holds `images/` and beside it `boxes/`, `boxes.json`, `masks/`,
            `camera.json`; or a video, whose frames are named by their numbers: 000000, 000001, ...
        boxes: a COCO file, or a folder of box files named like the images: `0001.json` for `0001.png`.
        masks: a folder of label maps named like the images, `.png`.
        camera: as for `read_frame`; one for all frames.
        every: 1 takes every frame, 5 every fifth.
        detect: finds the landmarks of each frame where neither boxes nor masks are given.
    """
    source = Path(source)
    if every < 1:
        raise InputError(f"every {every} frames: give a whole number from 1")
    if boxes is not None and masks is not None:
        raise InputError(f"{source}: give boxes or masks, not both")
    if source.is_dir():
        return _folder(source, boxes, masks, camera, every, detect)
    if not source.exists():
        raise InputError(f"not found: {source}; expected a folder of images or a video")
    if not is_video(source):
        raise InputError(f"{source} is neither a folder nor a video; to match two images, give both")
    landmarks = _landmark_files(source, boxes, masks, detect)
    video = open_video(source)
    names = [_video_name(number) for number in range(0, video.frames, every)]
    landmarks.check(names)
    return FrameSequence(source.name, len(names), partial(_video_frames, source, landmarks, camera, every))


def _folder(
    source: Path,
    boxes: Path | str | None,
    masks: Path | str | None,
    camera: CameraLike | None,
    every: int,
    detect: Detect | None,
) -> FrameSequence:
    folder = source
    if (source / "images").is_dir():
        folder = source / "images"
        if boxes is None and masks is None:
            boxes = _first_there(source / "boxes.json", source / "boxes")
            masks = _first_there(source / "masks") if boxes is None else None
        camera = camera if camera is not None else _first_there(source / "camera.json", source / "intrinsics.txt")
    images = list(named_files(folder, READABLE, "images").values())[::every]
    landmarks = _landmark_files(source, boxes, masks, detect)
    landmarks.check([path.name for path in images])
    return FrameSequence(source.name, len(images), partial(_folder_frames, images, landmarks, camera))


def _first_there(*paths: Path) -> Path | None:
    return next((path for path in paths if path.exists()), None)


def _folder_frames(images: list[Path], landmarks: "_Landmarks", camera: CameraLike | None) -> Iterator[Frame]:
    for path in images:
        yield read_frame(path, camera=camera, **landmarks.of(path.name, partial(image_size, path)))


def _video_frames(source: Path, landmarks: "_Landmarks", camera: CameraLike | None, every: int) -> Iterator[Frame]:
    for number, pixels in open_video(source).images(every):
        name = _video_name(number)
        size = pixels.shape[1], pixels.shape[0]
        yield read_frame(pixels, camera=camera, name=name, **landmarks.of(name, partial(tuple, size)))


def _video_name(number: int) -> str:
    return f"{number:06d}"


@dataclass(frozen=True)
class _LandmarkFiles:
    """Where the landmarks of each frame come from: one COCO file, or a file for each frame."""

    path: Path
    kind: str  # boxes or masks
    coco: dict[str, CocoImage] | None
    files: dict[str, Path]  # by the image's name without suffix

    def check(self, names: list[str]) -> None:
        """Say at once which frames have no landmarks, instead of after half an hour."""
        if self.coco is not None:
            for name in names:
                self._in_coco(self.coco, name)
            return
        missing = [name for name in names if Path(name).stem not in self.files]
        if missing:
            suffix = ".json" if self.kind == "boxes" else ".png"
            empty = ', which may hold {"landmarks": []}' if self.kind == "boxes" else ""
            raise InputError(
                f"{len(missing)} of {len(names)} frames have no {self.kind} in {self.path}: expected "
                f"{Path(missing[0]).stem}{suffix}{empty}"
            )

    def of(self, name: str, size: Callable[[], tuple[int, ...]]) -> dict[str, Any]:
        """What `read_frame` is to be given for the frame of that name and size."""
        if self.coco is None:
            return {self.kind: self.files[Path(name).stem]}
        known = self._in_coco(self.coco, name)
        width, height = size()
        check_drawn_size(known.size, (width, height), self.path)
        return {"boxes": known.landmarks}

    def _in_coco(self, coco: dict[str, CocoImage], name: str) -> CocoImage:
        return coco[name] if name in coco else coco[find_coco_image(list(coco), self.path, name)]


@dataclass(frozen=True)
class _DetectedLandmarks:
    """No files: a detector looks at each frame."""

    detect: Detect

    def check(self, names: list[str]) -> None:
        """Any frame will do."""

    def of(self, name: str, size: Callable[[], tuple[int, ...]]) -> dict[str, Any]:
        return {"detect": self.detect}


_Landmarks = _LandmarkFiles | _DetectedLandmarks


def _landmark_files(
    source: Path, boxes: Path | str | None, masks: Path | str | None, detect: Detect | None
) -> _Landmarks:
    if boxes is not None:
        path = Path(boxes)
        if path.is_dir():
            return _LandmarkFiles(path, "boxes", None, named_files(path, (".json",), "boxes"))
        return _LandmarkFiles(path, "boxes", read_coco(path), {})
    if masks is not None:
        path = Path(masks)
        if not path.is_dir():
            raise InputError(f"masks: expected a folder of label maps named like the images: {path}")
        return _LandmarkFiles(path, "masks", None, named_files(path, (".png",), "masks"))
    if detect is not None:
        return _DetectedLandmarks(detect)
    raise InputError(
        f"no landmarks for {source}: give --boxes (a COCO file or a folder of box files) or --masks (a folder of label "
        "maps), named like the images, or let a detector find them (without --no-detector)"
    )
