"""Work that `prepare` has done so far, kept beside the data set until that is complete.

    .NAME-unfinished/plan.json      which drive and limits it belongs to
    .NAME-unfinished/poses.npz      refined poses
    .NAME-unfinished/map/           parts of the LiDAR reference map
    .NAME-unfinished/landmarks/     located landmarks, one file for some frames
    .NAME-unfinished/linked/        the data set being written, with images that were converted;
    .NAME-unfinished/copied/        the same where all images are copied

Every file appears under its name only when it is whole, so whatever is found can be used. Work for another
drive, other poses or other limits is thrown away, and so is work on files that have changed since: sizes and times of
all files are compared, and the content of some; of all, if it is asked for.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from robustmat.errors import DataError
from robustmat.files import parse_json, read_json, write_json, write_text
from robustmat.landmarks.config import LandmarkConfig
from robustmat.sources.drive import Drive
from robustmat.types import Array, Frame, Landmark

FORMAT = "robustmat-unfinished"
VERSION = 3  # to be raised whenever the same drive and limits give other landmarks
FRAMES_A_PART = 40
SAMPLED_FILES, SAMPLED_BYTES = 64, 2**16  # of so many files so many bytes at either end are compared

Found = list[tuple[Landmark, int]]  # a frame's landmarks, each with the number of its pixels


@dataclass(frozen=True)
class Unfinished:
    """Where the parts lie."""

    folder: Path

    @property
    def map(self) -> Path:
        return self.folder / "map"

    @property
    def poses(self) -> Path:
        return self.folder / "poses.npz"

    def find_all(self, frames: Sequence[Frame], progress: Iterable[Frame], find: Callable[[Frame], Found]) -> None:
        """Find the landmarks of all `frames`, given one by one through `progress`, part by part."""
        walk = iter(progress)
        for number, start in enumerate(range(0, len(frames), FRAMES_A_PART)):
            part = islice(walk, min(FRAMES_A_PART, len(frames) - start))
            path = self._part(number)
            if path.is_file():
                for _ in part:
                    pass
            else:
                write_text(path, "".join(json.dumps(_plain(find(frame))) + "\n" for frame in part))
        for _ in walk:  # lets a progress bar see its end
            pass

    def found(self, frames: int) -> Iterator[Found]:
        """The landmarks of each frame, read as they are asked for."""
        for number in range(-(-frames // FRAMES_A_PART)):
            with self._part(number).open(encoding="utf-8") as lines:
                yield from (
                    _landmarks(parse_json(line, f"{self._part(number)} is broken: delete it")) for line in lines
                )

    def done(self) -> int:
        """How many frames' landmarks are there already."""
        return FRAMES_A_PART * len(list((self.folder / "landmarks").glob("[0-9]*.jsonl")))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.folder / "landmarks" / f"{number:05d}.jsonl"


def open_unfinished(out: Path, drive: Drive, config: LandmarkConfig, verify: bool = False) -> Unfinished:
    """The folder for the unfinished work on `out`: what is there of the same drive and limits, else an empty one.

    Args:
        verify: compare every byte that was read, not sizes, times and samples alone.
    """
    folder = out.parent / f".{out.name}-unfinished"
    plan = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint(drive, config)}
    content = content_digest(files_of(drive), everything=True) if verify else None
    if folder.exists():
        try:
            before = read_json(folder / "plan.json", "plan of unfinished work")
            known = before.pop("content", None)
            same = before == plan and (content is None or content == known)
            content = content or known
        except (DataError, AttributeError):
            same = False
        if not same:
            shutil.rmtree(folder)
    write_json(folder / "plan.json", {**plan, "content": content})
    return Unfinished(folder)


def fingerprint(drive: Drive, config: LandmarkConfig) -> str:
    """Of everything that is known of a drive, and of its files: their names, sizes, times, and the content of some."""
    digest = hashlib.blake2b(digest_size=16)

    def add(value: Any) -> None:
        digest.update(json.dumps(value, sort_keys=True, default=str).encode() + b"\n")

    add([drive.name, drive.world, drive.source, config.model_dump()])
    for frame, image_path in zip(drive.frames, drive.image_paths, strict=True):
        loaders = (frame.load_points, frame.load_semantics, frame.load_boxes, frame.load_point_labels)
        camera = (
            None if frame.camera is None else (frame.camera.matrix.tolist(), frame.camera.width, frame.camera.height)
        )
        transforms = [_listed(frame.T_world_camera), _listed(frame.T_camera_lidar)]
        add([frame.name, frame.time, camera, transforms, [loader is not None for loader in loaders], image_path])
    files = files_of(drive)
    for path in files:
        add([path, _size_and_time(path)])
    add(content_digest(files[:: max(1, len(files) // SAMPLED_FILES)]))
    return digest.hexdigest()


def files_of(drive: Drive) -> list[Path]:
    """Every file that a drive's loaders read, once."""
    found = [path for path in drive.image_paths if path is not None]
    for frame in drive.frames:
        for loader in (frame.load_image, frame.load_points, frame.load_semantics, frame.load_boxes):
            found += _paths(loader)
        found += _paths(frame.load_point_labels)
    return list(dict.fromkeys(found))


def _paths(value: Any) -> Iterator[Path]:
    """The files that a loader was given: loaders are partial functions, so that what they read can be seen."""
    if isinstance(value, Path):
        yield from sorted(value.iterdir()) if value.is_dir() else [value]
    elif isinstance(value, partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _paths(part)
    elif isinstance(folder := getattr(value, "folder", None), Path):  # a detector's
        yield from _paths(folder)


def _size_and_time(path: Path) -> list[int] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # who reads it will say so
    return [found.st_size, found.st_mtime_ns]


def content_digest(files: Sequence[Path], everything: bool = False) -> str:
    """Of the files' bytes: the first and last of each, or all of them."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        try:
            with path.open("rb") as file:
                if everything:
                    digest.update(hashlib.file_digest(file, "blake2b").digest())
                    continue
                digest.update(file.read(SAMPLED_BYTES))
                file.seek(max(0, path.stat().st_size - SAMPLED_BYTES))
                digest.update(file.read(SAMPLED_BYTES))
        except OSError:
            digest.update(b"missing")
    return digest.hexdigest()


def _listed(transform: Array | None) -> Any:
    return None if transform is None else transform.tolist()


def _plain(found: Found) -> list[Any]:
    return [[one.box, one.category, one.position, area, one.confidence] for one, area in found]


def _landmarks(rows: list[Any]) -> Found:
    return [
        (Landmark(tuple(box), category, None, None if position is None else tuple(position), confidence), area)
        for box, category, position, area, confidence in rows
    ]
