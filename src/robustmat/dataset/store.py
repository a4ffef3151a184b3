"""The landmark data set: a folder that a person can read and a program can trust.

    dataset.json    format, version, name, world, has_identities, source, counts
    frames.jsonl    one line a frame: name, image, image size, time, camera, pose, landmarks
    images/         only if images were copied; otherwise lines point to the originals
    lidar/          for some frames, points of the LiDAR map as the frame sees them: for contact sheets only

All paths are relative to the folder. It appears under its name only when it is complete.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from pydantic import ValidationError

from robustmat.dataset.records import (
    FORMAT,
    VERSION,
    FrameRecord,
    first_problem,
    frame_to_json,
    read_header,
    record_to_frame,
)
from robustmat.errors import DataError
from robustmat.files import make_folder, read_json, read_text, replacing, write_json, writing
from robustmat.folders import replacing_folder, swap
from robustmat.types import Array, Frame


@dataclass(frozen=True)
class LandmarkDataset:
    """An opened data set. Data sets with the same `world` share coordinates.

    A landmark without an identity stays in its frame: it is something a matcher meets, but nobody knows what
    it is. `has_identities` says whether any landmark has one.
    """

    path: Path
    name: str
    world: str
    has_identities: bool
    frames: tuple[Frame, ...]
    source: dict[str, Any] = field(default_factory=dict)  # where it came from, and how poses and identities were made
    image_paths: tuple[Path, ...] = ()  # of the frames

    @property
    def pose_corrections(self) -> dict[str, dict[str, float]] | None:
        """Median and largest correction of the poses, in metres and degrees; None if they are as they were given."""
        poses = self.source.get("poses")  # data sets of single images have a word here
        return poses.get("corrections") if isinstance(poses, dict) else None

    @property
    def poses_refined_by(self) -> str:
        """LiDAR, pictures, or nothing."""
        poses = self.source.get("poses")
        if not isinstance(poses, dict) or not poses.get("refined"):
            return "nothing"
        return "pictures" if poses.get("by") == "pictures" else "LiDAR"


def open_dataset(path: Path | str) -> LandmarkDataset:
    """Open and check a data set; images are looked for, but read only when asked for."""
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"data set not found: expected the folder {path}; `robustmat prepare` makes one")
    header = read_header(path / "dataset.json")
    lines_path = path / "frames.jsonl"
    frames, images = [], []
    for number, line in enumerate(read_text(lines_path, "data set frames").splitlines(), start=1):
        try:
            record = FrameRecord.model_validate_json(line)
        except ValidationError as problem:
            raise DataError(f"{lines_path}, line {number}: {first_problem(problem)}") from None
        frames.append(record_to_frame(record, path, f"{lines_path}, line {number}"))
        images.append(path / record.image)
    if len(frames) != header.counts.get("frames"):
        raise DataError(
            f"data set is incomplete: {lines_path} holds {len(frames)} frames, dataset.json counts "
            f"{header.counts.get('frames')}; prepare it again"
        )
    return LandmarkDataset(
        path, header.name, header.world, header.has_identities, tuple(frames), header.source, tuple(images)
    )


def write_dataset(
    path: Path | str,
    name: str,
    world: str,
    frames: Iterable[tuple[Frame, Path | None]],
    *,
    source: dict[str, Any],
    copy_images: bool = False,
    folder: Path | None = None,
) -> Path:
    """Write frames, each with the path of its image file, as a data set and return its folder.

    Where there is no image file (None), or with `copy_images`, the image goes into the data set. An older
    data set of that name is replaced, at the very end; any other folder is left alone. Until then all is in
    `folder`, on the same disk: it stays after an interruption, and images that it holds are not made again.
    Without one nothing stays.
    """
    path = Path(path)
    refuse_to_overwrite(path)
    if folder is not None:
        make_folder(path.parent)
        _fill(make_folder(folder), path, name, world, frames, source, copy_images)
        swap(folder, path)
    else:
        with replacing_folder(path) as temporary:
            _fill(temporary, path, name, world, frames, source, copy_images)
    return path


def _fill(
    folder: Path,
    path: Path,
    name: str,
    world: str,
    frames: Iterable[tuple[Frame, Path | None]],
    source: dict[str, Any],
    copy_images: bool,
) -> None:
    """Write the data set that will be at `path` into `folder`."""
    counts = _write_frames(folder, path, frames, copy_images)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "world": world,
        "has_identities": counts["identities"] > 0,
        "source": source,
        "counts": counts,
    }
    write_json(folder / "dataset.json", header)


def _write_frames(
    folder: Path, final: Path, frames: Iterable[tuple[Frame, Path | None]], copy_images: bool
) -> dict[str, Any]:
    names: set[str] = set()
    identities: dict[int, str] = {}
    landmarks: Counter[str] = Counter()
    with writing(folder / "frames.jsonl"), (folder / "frames.jsonl").open("w", encoding="utf-8") as lines:
        for frame, image_path in frames:
            if frame.name in names or Path(frame.name).name != frame.name:
                raise DataError(f"frame name '{frame.name}' is used twice or is no plain file name")
            names.add(frame.name)
            landmarks.update(mark.category for mark in frame.landmarks)
            identities.update({mark.identity: mark.category for mark in frame.landmarks if mark.identity is not None})
            image = _place_image(frame, image_path, folder, final, copy_images)
            lines.write(json.dumps(frame_to_json(frame, image), allow_nan=False) + "\n")
    if not names:
        raise DataError(f"there are no frames to write into the data set {final}")
    return {
        "frames": len(names),
        "landmarks": sum(landmarks.values()),
        "identities": len(identities),
        "landmarks_by_category": dict(sorted(landmarks.items())),
        "identities_by_category": dict(sorted(Counter(identities.values()).items())),
    }


def _place_image(frame: Frame, image_path: Path | None, folder: Path, final: Path, copy: bool) -> str:
    """The image's path relative to the data set, after copying or writing it there if need be."""
    if image_path is not None and not copy:
        return Path(os.path.relpath(image_path.resolve(), final.resolve())).as_posix()
    target = folder / "images" / f"{frame.name}{'.png' if image_path is None else image_path.suffix}"
    if not target.is_file():
        with replacing(target) as temporary:
            if image_path is not None:
                shutil.copyfile(image_path, temporary)
            else:
                PIL.Image.fromarray(frame.image).save(temporary)
    return f"images/{target.name}"


SHEET_FRAMES = 12


def sheet_frames(count: int) -> list[int]:
    """Which of `count` frames contact sheets show: some, evenly from the first to the last."""
    return sorted({round(i * (count - 1) / (SHEET_FRAMES - 1)) for i in range(SHEET_FRAMES)})


def write_points(folder: Path, name: str, points: Array) -> None:
    """Keep LiDAR points [N, 3] (pixel x and y, depth in metres) for the contact sheets, as pixels and centimetres."""
    whole = np.rint(np.clip(points * (1, 1, 100), 0, 65535)).astype("<u2")
    with replacing(folder / "lidar" / f"{name}.npy") as temporary:
        np.save(temporary, whole)


def read_points(path: Path, name: str) -> Array | None:
    """The kept LiDAR points [N, 3] of a frame (pixel x and y, depth in metres), or None."""
    file = path / "lidar" / f"{name}.npy"
    try:
        return np.asarray(np.load(file) * (1, 1, 0.01)) if file.is_file() else None
    except Exception as problem:  # numpy reads its header with Python's own tokenizer, which has errors of its own
        raise DataError(f"kept LiDAR points cannot be read: {file}: {problem}; delete the file") from None


def refuse_to_overwrite(path: Path) -> None:
    """An error if something other than a data set is at `path`: ask before long work, not after it."""
    if not path.exists() and not path.is_symlink():
        return
    if path.is_dir() and (not any(path.iterdir()) or _is_dataset(path)):
        return
    raise DataError(f"{path} exists and is no data set; choose another place, nothing was overwritten")


def _is_dataset(path: Path) -> bool:
    try:
        content = read_json(path / "dataset.json", "data set description")
    except DataError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT
