"""The JSON records of a data set, checked key by key, and the frames they stand for."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from robustmat.errors import DataError, brief
from robustmat.files import read_json
from robustmat.geometry.transforms import is_rigid
from robustmat.sources.images import read_image
from robustmat.types import Box, Camera, Frame, Image, Landmark

FORMAT = "robustmat-landmarks"
VERSION = 1

Metres = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]  # beyond any world, and squares of it are still numbers
Vector = tuple[Metres, Metres, Metres]
Row = tuple[Metres, Metres, Metres, Metres]
Pixels = Annotated[int, Field(gt=0, le=1_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Header(_Strict):
    format: Literal["robustmat-landmarks"]
    version: int
    name: str
    world: str
    has_identities: bool
    source: dict[str, Any]
    counts: dict[str, Any]


class LandmarkRecord(_Strict):
    box: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    category: Literal["traffic_sign", "traffic_light", "pole", "window"]
    identity: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    position: Vector | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None  # of a detector


class FrameRecord(_Strict):
    name: str
    image: str
    size: tuple[Pixels, Pixels]  # width, height
    time: FiniteFloat | None = None
    camera: tuple[Vector, Vector, Vector] | None = None
    T_world_camera: tuple[Row, Row, Row, Row] | None = None
    landmarks: list[LandmarkRecord]


def frame_to_json(frame: Frame, image: str) -> dict[str, Any]:
    """One line of `frames.jsonl`; `image` is the image's path relative to the data set."""
    if frame.camera is not None:
        size = (frame.camera.width, frame.camera.height)
    else:
        height, width = frame.image.shape[:2]
        size = (width, height)
    return {
        "name": frame.name,
        "image": image,
        "size": size,
        "time": frame.time,
        "camera": None if frame.camera is None else frame.camera.matrix.tolist(),
        "T_world_camera": None if frame.T_world_camera is None else frame.T_world_camera.tolist(),
        "landmarks": [
            {
                "box": mark.box,
                "category": mark.category,
                "identity": mark.identity,
                "position": _rounded(mark.position),
            }
            | ({} if mark.confidence is None else {"confidence": mark.confidence})
            for mark in frame.landmarks
        ],
    }


def _rounded(position: tuple[float, float, float] | None) -> list[float] | None:
    return None if position is None else [round(value, 4) for value in position]  # a tenth of a millimetre


def read_header(path: Path) -> Header:
    """The checked content of `dataset.json`."""
    content = read_json(path, "data set description")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise DataError(f"not a robustmat data set: {path} has format {found!r}, expected '{FORMAT}'")
    if content.get("version") != VERSION:
        raise DataError(
            f"data set has version {content.get('version')!r}, but this robustmat reads version {VERSION}: "
            f"{path}; prepare it again or use a matching robustmat"
        )
    try:
        return Header.model_validate(content)
    except ValidationError as problem:
        raise DataError(f"{path}: {first_problem(problem)}") from None


def first_problem(problem: ValidationError) -> str:
    """Which key is wrong, and how, in one line."""
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"'{where}': {first['msg']}" if where else first["msg"]


def record_to_frame(record: FrameRecord, folder: Path, where: str) -> Frame:
    """The frame that a line stands for; `where` (file and line) begins every error."""
    image_path = folder / record.image
    if Path(record.name).name != record.name or "\0" in record.name:
        raise DataError(f"{where}: the frame's name {brief(record.name)} is no plain file name")
    try:
        there = image_path.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise DataError(
            f"{where}: image not found: {image_path}; if the images moved, prepare the data set again "
            "(--copy-images keeps them inside)"
        )
    width, height = record.size
    pose = None if record.T_world_camera is None else np.array(record.T_world_camera, dtype=float)
    if pose is not None and not is_rigid(pose):
        raise DataError(f"{where}: T_world_camera is no finite rigid transform")
    for index, landmark in enumerate(record.landmarks):
        _check_box(landmark.box, width, height, f"{where}: landmark {index}")
    return Frame(
        name=record.name,
        load_image=partial(_read_unchanged, image_path, width, height),
        landmarks=tuple(
            Landmark(mark.box, mark.category, mark.identity, mark.position, mark.confidence)
            for mark in record.landmarks
        ),
        camera=None if record.camera is None else Camera(np.array(record.camera), width, height),
        T_world_camera=pose,
        time=record.time,
    )


def _check_box(box: Box, width: int, height: int, where: str) -> None:
    x0, y0, x1, y1 = box
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise DataError(f"{where}: box {list(box)} has no area or leaves the image of {width}x{height}")


def _read_unchanged(path: Path, width: int, height: int) -> Image:
    image = read_image(path)
    if image.shape[:2] != (height, width):
        raise DataError(
            f"image was replaced: {path} is {image.shape[1]}x{image.shape[0]} pixels, the data set says "
            f"{width}x{height}; prepare it again"
        )
    return image
