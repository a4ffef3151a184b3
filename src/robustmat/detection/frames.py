"""The frames to detect in: images, folders of images, videos."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from robustmat.errors import InputError
from robustmat.sources.folder import named_files
from robustmat.sources.images import READABLE, read_image
from robustmat.sources.video import is_video, open_video
from robustmat.types import Frame, Image, InMemory


def is_single_image(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and not paths[0].is_dir() and not is_video(paths[0])


def frames_of(paths: Sequence[Path], every: int = 1) -> Iterator[Frame]:
    """One frame after the other, named like its file; of folders and videos every second, fifth ... one.

    A video's frames are named by their numbers: 000000, 000001, ...
    """
    for path in paths:
        if path.is_dir():
            for image in list(named_files(path, READABLE, "images").values())[::every]:
                yield Frame(image.name, InMemory(_read_one_of(path, image)))
        elif is_video(path):
            for number, pixels in open_video(path).images(every):
                yield Frame(f"{number:06d}", InMemory(pixels))
        else:
            yield Frame(path.name, InMemory(read_image(path)))


def _read_one_of(folder: Path, path: Path) -> Image:
    """An image that nobody named: who gave the folder may not want it."""
    try:
        return read_image(path)
    except InputError as problem:
        raise InputError(f"{problem}; to do without it, move it out of {folder}") from None
