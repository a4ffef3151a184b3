"""Work that `prepare` has done so far, kept beside the data set until that is complete.

    .NAME-unfinished/plan.json      which drive and limits it belongs to
    .NAME-unfinished/poses.npz      refined poses
    .NAME-unfinished/map/           parts of the LiDAR reference map
    .NAME-unfinished/landmarks/     located landmarks, one file for some frames
    .NAME-unfinished/linked/        the data set being written, with images that were converted;
    .NAME-unfinished/copied/        the same where all images are copied

Every file appears under its name only when it is whole, so whatever is found can be used. Work for another
drive, other poses or other limits is thrown away.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from robustmat.errors import DataError
from robustmat.files import read_json, write_json, write_text
from robustmat.landmarks.config import LandmarkConfig
from robustmat.sources.drive import Drive
from robustmat.types import Array, Frame, Landmark

FORMAT = "robustmat-unfinished"
VERSION = 2  # to be raised whenever the same drive and limits give other landmarks
FRAMES_A_PART = 40

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
                yield from (_landmarks(json.loads(line)) for line in lines)

    def done(self) -> int:
        """How many frames' landmarks are there already."""
        return FRAMES_A_PART * len(list((self.folder / "landmarks").glob("[0-9]*.jsonl")))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.folder / "landmarks" / f"{number:05d}.jsonl"


def open_unfinished(out: Path, drive: Drive, config: LandmarkConfig) -> Unfinished:
    """The folder for the unfinished work on `out`: what is there of the same drive and limits, else an empty one."""
    folder = out.parent / f".{out.name}-unfinished"
    plan = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint(drive, config)}
    if folder.exists():
        try:
            same = read_json(folder / "plan.json", "plan of unfinished work") == plan
        except DataError:
            same = False
        if not same:
            shutil.rmtree(folder)
    write_json(folder / "plan.json", plan)
    return Unfinished(folder)


def fingerprint(drive: Drive, config: LandmarkConfig) -> str:
    """Of everything that is known of a drive without reading its images, scans and labels."""
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
