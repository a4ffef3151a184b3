"""Frames in order: of a folder of images, a video or a ROS bag, each with its landmarks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robustmat.errors import InputError
from robustmat.landmarks.reading import Detect, read_frame
from robustmat.sources.boxes import CocoImage, check_drawn_size, find_coco_image, read_coco
from robustmat.sources.cameras import CameraLike
from robustmat.sources.folder import named_files
from robustmat.sources.images import READABLE, image_size
from robustmat.sources.rosbag import open_rosbag
from robustmat.sources.rosbag_file import is_rosbag
from robustmat.sources.video import is_video, open_video
from robustmat.types import Frame


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
    image_topic: str | None = None,
    detect: Detect | None = None,
) -> FrameSequence:
    """The frames of a folder of images, in the order of their names, of a video, or of a ROS bag.

    Args:
        source: a folder of images; a folder that holds `images/` and beside it `boxes/`, `boxes.json`, `masks/`,
            `camera.json`; a video, whose frames are named by their numbers: 000000, 000001, ...; or a ROS bag
            (.bag, .mcap, .db3, or its folder), whose frames are named by their time in nanoseconds.
        boxes: a COCO file, or a folder of box files named like the images: `0001.json` for `0001.png`.
        masks: a folder of label maps named like the images, `.png`.
        camera: as for `read_frame`; one for all frames.
        every: 1 takes every frame, 5 every fifth.
        image_topic: of a ROS bag with several cameras: which.
        detect: finds the landmarks of each frame where neither boxes nor masks are given.
    """
    source = Path(source)
    if every < 1:
        raise InputError(f"every {every} frames: give a whole number from 1")
    if boxes is not None and masks is not None:
        raise InputError(f"{source}: give boxes or masks, not both")
    if is_rosbag(source):
        return _bag(source, image_topic, boxes, masks, camera, every, detect)
    if image_topic is not None:
        raise InputError(f"only a ROS bag has topics: {source} is none; leave the image topic out")
    if source.is_dir():
        return _folder(source, boxes, masks, camera, every, detect)
    if not source.exists():
        raise InputError(f"not found: {source}; expected a folder of images, a video or a ROS bag")
    if not is_video(source):
        raise InputError(f"{source} is neither a folder nor a video nor a ROS bag; to match two images, give both")
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


def _bag(
    source: Path,
    image_topic: str | None,
    boxes: Path | str | None,
    masks: Path | str | None,
    camera: CameraLike | None,
    every: int,
    detect: Detect | None,
) -> FrameSequence:
    landmarks = _landmark_files(source, boxes, masks, detect)
    drive = open_rosbag(source, image_topic=image_topic, pose_topic="none", every=every)
    landmarks.check([frame.name for frame in drive.frames])
    return FrameSequence(source.name, len(drive.frames), partial(_bag_frames, drive.frames, landmarks, camera))


def _bag_frames(frames: tuple[Frame, ...], landmarks: "_Landmarks", camera: CameraLike | None) -> Iterator[Frame]:
    for frame in frames:
        pixels = frame.image
        size = pixels.shape[1], pixels.shape[0]
        known = frame.camera if camera is None else camera
        yield read_frame(pixels, camera=known, name=frame.name, **landmarks.of(frame.name, partial(tuple, size)))


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
