"""Videos: frames out of a file, pictures into one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Image

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg")
CODECS = {".mp4": "mp4v", ".avi": "MJPG"}  # what can be written, and how


@dataclass(frozen=True)
class Video:
    """A video file: its size in pixels and how many frames its header promises (0 where it does not tell)."""

    path: Path
    width: int
    height: int
    frames: int

    def images(self, every: int = 1) -> Iterator[tuple[int, Image]]:
        """Every frame, every second, every fifth ..., with its number; those between are not decoded."""
        capture = _open(self.path)
        try:
            number = 0
            while capture.grab():
                if number % every == 0:
                    good, pixels = capture.retrieve()
                    if not good:
                        raise InputError(f"video is broken at frame {number}: {self.path}")
                    yield number, np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)
                number += 1
        finally:
            capture.release()


def is_video(path: Path | str) -> bool:
    """Whether a file is named like a video."""
    return Path(path).suffix.lower() in VIDEO_SUFFIXES


def open_video(path: Path | str) -> Video:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"video not found: {path}")
    capture = _open(path)
    try:
        good, first = capture.read()
        frames = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
    finally:
        capture.release()
    if not good:
        raise InputError(f"video has no frame that can be decoded: {path}; convert it to H.264 in an .mp4 file")
    return Video(path, first.shape[1], first.shape[0], frames)


def _open(path: Path) -> cv2.VideoCapture:
    capture = cv2.VideoCapture(str(path))
    if not capture.isOpened():
        raise InputError(f"video cannot be opened: {path}; convert it to H.264 in an .mp4 file")
    return capture


def check_video_path(path: Path | str) -> Path:
    """The path, or an error if videos cannot be written under such a name."""
    path = Path(path)
    if path.suffix.lower() not in CODECS:
        raise InputError(f"cannot write a video as '{path.suffix}': use {' or '.join(CODECS)}: {path}")
    return path


class AddImage(Protocol):
    """Appends one RGB picture to a video."""

    def __call__(self, image: Image) -> None: ...


@contextmanager
def video_writer(path: Path | str, rate: float) -> Iterator[AddImage]:
    """Gives a function that appends pictures, `rate` of them a second; the first decides how large the video is."""
    path = check_video_path(path)
    writers: list[tuple[cv2.VideoWriter, tuple[int, int]]] = []
    with replacing(path) as temporary:

        def add(image: Image) -> None:
            if not writers:
                size = image.shape[1] // 2 * 2, image.shape[0] // 2 * 2  # codecs want even numbers
                code = cv2.VideoWriter.fourcc(*CODECS[path.suffix.lower()])
                writers.append((cv2.VideoWriter(str(temporary), code, rate, size), size))
                if not writers[0][0].isOpened():
                    raise InputError(f"cannot write a video to {path}: this OpenCV has no encoder for it; use .avi")
            writer, (width, height) = writers[0]
            fitted = image[:height, :width]
            if fitted.shape[:2] != (height, width):
                fitted = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
            writer.write(cv2.cvtColor(np.ascontiguousarray(fitted), cv2.COLOR_RGB2BGR))

        try:
            yield add
        finally:
            for writer, _ in writers:
                writer.release()
