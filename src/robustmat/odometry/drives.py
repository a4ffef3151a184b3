"""Drives from whatever is there: a data set, a folder with or without a layout, a video; and their landmarks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from robustmat.dataset.records import FORMAT
from robustmat.dataset.store import open_dataset
from robustmat.errors import DataError, InputError
from robustmat.files import read_json
from robustmat.landmarks.boxes import check_landmarks, landmarks_from_mask
from robustmat.sources.cameras import CameraLike, to_camera
from robustmat.sources.drive import Drive, image_loader
from robustmat.sources.folder import named_files, open_folder
from robustmat.sources.images import READABLE, image_size, write_image
from robustmat.sources.video import is_video, open_video
from robustmat.types import Frame, Landmark

Detect = Callable[[Frame], tuple[Landmark, ...]]


def open_drive(path: Path | str, work: Path) -> Drive:
    """A data set, a folder that holds images/, a folder of images, or a video, whose frames are written to `work`."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"not found: {path}; expected a data set, a folder of images, a video, or a layout's name")
    if (path / "dataset.json").is_file():
        return _of_dataset(path)
    if (path / "images").is_dir():
        return open_folder(path)
    if path.is_dir():
        return _of_images(path, path.resolve().name)
    if is_video(path):
        for number, pixels in open_video(path).images(1):
            image = work / f"{number:06d}.png"
            if not image.is_file():
                write_image(image, pixels)
        return _of_images(work, path.stem)
    raise InputError(f"{path} is neither a data set, nor a folder of images, nor a video")


def _of_dataset(path: Path) -> Drive:
    if read_json(path / "dataset.json", "data set description").get("format") != FORMAT:
        raise DataError(f"{path} is no data set of landmarks: prepare it again")
    data = open_dataset(path)
    return Drive(data.name, data.world, data.frames, data.image_paths, {"layout": "data set", "folder": path.name})


def _of_images(folder: Path, name: str) -> Drive:
    images = named_files(folder, READABLE, "images")
    frames = tuple(Frame(stem, image_loader(path, None)) for stem, path in images.items())
    return Drive(name, name, frames, tuple(images.values()), {"layout": "images", "folder": name})


def with_camera(drive: Drive, camera: CameraLike | None) -> Drive:
    """The drive with this camera in all frames, instead of its own."""
    if camera is None:
        return drive
    path = next((one for one in drive.image_paths if one is not None), None)
    width, height = image_size(path) if path else drive.frames[0].image.shape[1::-1]
    told = to_camera(camera, width, height, drive.name)
    return replace(drive, frames=tuple(replace(frame, camera=told) for frame in drive.frames))


def some_frames(drive: Drive, every: int = 1, first: str | None = None, last: str | None = None) -> Drive:
    """Every Nth frame from the one named `first` to the one named `last`."""
    chosen = [
        i
        for i, frame in enumerate(drive.frames)
        if (first is None or frame.name >= first) and (last is None or frame.name <= last)
    ][::every]
    if not chosen:
        raise InputError(
            f"no frames from {first} to {last}: {drive.name} has {drive.frames[0].name} to {drive.frames[-1].name}"
        )
    return replace(
        drive,
        frames=tuple(drive.frames[i] for i in chosen),
        image_paths=tuple(drive.image_paths[i] for i in chosen),
    )


def landmarks_of(frame: Frame, detect: Detect | None = None) -> tuple[Landmark, ...]:
    """Landmarks that a frame has, or that its boxes, its label map or a detector give; none if nobody says."""
    if frame.landmarks:
        return frame.landmarks
    if frame.load_boxes is not None:
        return frame.load_boxes()
    semantics = frame.semantics
    if semantics is not None:
        height, width = semantics.shape
        return check_landmarks(landmarks_from_mask(semantics), width, height)
    return () if detect is None else detect(frame)


def with_tracked_boxes(drive: Drive, path: Path | str) -> Drive:
    """The drive with the boxes of `tracks.json` instead of its own; frames without a track have none."""
    told = read_json(path, "tracks", InputError)
    if not isinstance(told, dict) or "tracks" not in told:
        raise InputError(f"no tracks: {path} lacks the key 'tracks'; `robustmat odometry` writes tracks.json")
    boxes: dict[str, list[Landmark]] = {frame.name: [] for frame in drive.frames}
    strangers = {name for track in told["tracks"] for name in track["frames"]} - boxes.keys()
    if strangers:
        raise InputError(
            f"{path} names {len(strangers)} frames that {drive.name} lacks, such as {min(strangers)}: is it another's?"
        )
    for track in told["tracks"]:
        if not track["moving"]:
            for name, (x0, y0, x1, y1) in zip(track["frames"], track["boxes"], strict=True):
                boxes[name].append(Landmark((x0, y0, x1, y1), track["category"]))
    frames = tuple(replace(frame, load_boxes=partial(tuple, boxes[frame.name])) for frame in drive.frames)
    return replace(drive, frames=frames, source={**drive.source, "boxes": "tracks of odometry"})
