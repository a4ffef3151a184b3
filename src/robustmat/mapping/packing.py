"""An embedded frame as bytes: all its arrays in one safetensors blob, embeddings at the map's precision.

Arrays whose rows have at least `WIDE` numbers are embeddings and may lose digits. Narrow ones (boxes, pixels of
keypoints) and whole numbers are kept as they are.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from robustmat.errors import DataError
from robustmat.files import parse_json
from robustmat.mapping.settings import Precision
from robustmat.matching.combined import VIEW
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.types import Landmark

WIDE = 16
WHOLE_FRAME = ("keypoint", VIEW)  # begin the names of arrays that do not belong to single landmarks
SCALE = "!scale"  # behind the name of an array of int8: what its rows are multiplied by

Arrays = Mapping[str, NDArray[Any]]


def pack(frame: EmbeddedFrame, precision: Precision) -> bytes:
    """Everything that matching needs of a frame, its landmarks' identities and positions included."""
    landmarks = [
        {"box": mark.box, "category": mark.category, "identity": mark.identity, "position": mark.position}
        for mark in frame.landmarks
    ]
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in frame.arrays.items():
        arrays.update(_lowered(name, array, precision))
    told = json.dumps({"name": frame.name, "landmarks": landmarks})
    return save(arrays, {"frame": told})  # one key: several would stand in any order, and bytes differ


def unpack(blob: bytes, fingerprint: str, where: str) -> EmbeddedFrame:
    """What `pack` packed; embeddings come back as float32. `where` names the map in errors."""
    try:
        length = int.from_bytes(blob[:8], "little")
        header = parse_json(parse_json(blob[8 : 8 + length], "no JSON")["__metadata__"]["frame"], "no JSON")
        stored, name = load(blob), header["name"]
        marks = [
            Landmark(
                tuple(mark["box"]),
                mark["category"],
                mark["identity"],
                None if mark["position"] is None else tuple(mark["position"]),
            )
            for mark in header["landmarks"]
        ]
    except (SafetensorError, KeyError, TypeError, ValueError, DataError) as problem:
        raise DataError(f"a keyframe of map {where} cannot be read ({problem}): build the map again") from None
    arrays = {name: _raised(name, stored) for name in stored if not name.endswith(SCALE)}
    return EmbeddedFrame(tuple(marks), arrays, fingerprint, name)


def keep_landmarks(frame: EmbeddedFrame, kept: NDArray[np.intp]) -> EmbeddedFrame:
    """The frame with some of its landmarks alone; arrays of the whole frame stay.

    Neighbours are already part of the embeddings, so that leaving landmarks out changes none of the others.
    """
    if len(kept) == len(frame.landmarks):
        return frame
    arrays = {name: array[kept] if of_landmarks(name, frame) else array for name, array in frame.arrays.items()}
    marks = tuple(frame.landmarks[i] for i in kept)
    return EmbeddedFrame(marks, arrays, frame.fingerprint, frame.name, frame.frame)


def of_landmarks(name: str, frame: EmbeddedFrame) -> bool:
    """Whether an array has a row for each landmark, instead of telling of the whole frame."""
    return not name.startswith(WHOLE_FRAME) and len(frame.arrays[name]) == len(frame.landmarks)


def _lowered(name: str, array: NDArray[Any], precision: Precision) -> dict[str, NDArray[Any]]:
    array = np.ascontiguousarray(array)
    if array.dtype.kind != "f" or array.ndim < 2 or array[:1].size < WIDE or precision == "float32":
        return {name: array}
    if precision == "float16":
        return {name: np.clip(array, -65504, 65504).astype(np.float16)}
    most = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True)
    scale = np.where(most > 0, most / 127, 1.0).astype(np.float32)
    return {name: np.rint(array / scale).astype(np.int8), name + SCALE: scale}


def _raised(name: str, stored: Arrays) -> NDArray[Any]:
    array = stored[name]
    if name + SCALE in stored:
        return np.asarray(array * stored[name + SCALE], np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array
