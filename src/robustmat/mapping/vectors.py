"""The vector that a landmark is searched by: what its matcher knows of the patch alone, as a unit vector."""

import math

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import InputError
from robustmat.mapping.packing import WIDE, of_landmarks
from robustmat.matching.embedded import EmbeddedFrame

NAMES = ("vertex", "patch", "descriptor")  # of arrays that describe single patches, by method
MULTIPLE = 8  # indexes want dimensions divisible by it


def search_vectors(frame: EmbeddedFrame) -> NDArray[np.float32]:
    """Unit vectors [N, D] of a frame's landmarks, padded with zeros; the smaller their distance, the more alike."""
    array = np.asarray(frame.arrays[_array_name(frame)], np.float32)
    array = array.reshape(len(frame.landmarks), math.prod(array.shape[1:]))
    length = np.linalg.norm(array, axis=1, keepdims=True)
    array = array / np.maximum(length, 1e-12)
    return np.pad(array, ((0, 0), (0, -array.shape[1] % MULTIPLE)))


def _array_name(frame: EmbeddedFrame) -> str:
    known = [name for name in NAMES if name in frame.arrays]
    if known:
        return known[0]
    sizes = {
        name: array[:1].size
        for name, array in frame.arrays.items()
        if array.dtype.kind == "f" and of_landmarks(name, frame) and array[:1].size >= WIDE
    }
    if not sizes:
        raise InputError(
            f"frame '{frame.name}': its matcher keeps no embedding of single landmarks that a map could be searched by "
            f"(arrays: {', '.join(frame.arrays) or 'none'})"
        )
    return max(sizes, key=lambda name: (sizes[name], name))
