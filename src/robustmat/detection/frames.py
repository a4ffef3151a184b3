"""The frames to detect in: images, folders of images, videos."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from robustmat.errors import InputError
from robustmat.sources.drive import IMAGE_SUFFIXES
from robustmat.sources.images import read_image
from robustmat.types import Frame, Image

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
MORE_SUFFIXES = (*IMAGE_SUFFIXES, ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


def is_single_image(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and not paths[0].is_dir() and paths[0].suffix.lower() not in VIDEO_SUFFIXES


def frames_of(paths: Sequence[Path], every: int = 1) -> Iterator[tuple[str, Frame]]:
    """Each image with its file name; of folders and videos every so manieth. A video's frames are named by number."""
    for path in paths:
        if path.is_dir():
            inside = sorted(it for it in path.iterdir() if it.suffix.lower() in MORE_SUFFIXES)
            if not inside:
                raise InputError(f"no images in the folder {path}; expected {', '.join(MORE_SUFFIXES)}")
            for image in inside[::every]:
                yield image.name, _image_frame(image)
        elif path.suffix.lower() in VIDEO_SUFFIXES:
            yield from _video_frames(path, every)
        else:
            yield path.name, _image_frame(path)


def _image_frame(path: Path) -> Frame:
    pixels = read_image(path)
    return Frame(path.stem, load_image=lambda: pixels)


def _video_frames(path: Path, every: int) -> Iterator[tuple[str, Frame]]:
    import cv2

    if not path.is_file():
        raise InputError(f"video not found: {path}")
    video = cv2.VideoCapture(str(path))
    number = 0
    try:
        while True:
            there, bgr = video.read()
            if not there:
                break
            if number % every == 0:
                name = f"{path.stem}-{number:06d}"
                yield f"{name}.png", _frame(name, np.ascontiguousarray(bgr[:, :, ::-1]))
            number += 1
    finally:
        video.release()
    if number == 0:
        raise InputError(f"video has no readable frame: {path}; use a common format such as MP4 with H.264")


def _frame(name: str, pixels: Image) -> Frame:
    return Frame(name, load_image=lambda: pixels)
