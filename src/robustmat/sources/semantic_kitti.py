"""SemanticKITTI: a label for every point of a KITTI odometry scan, in sequences/NN/labels.

A `.label` file has one uint32 a point of its scan: the lower half says what it is, the upper half which one. Here
the classes are told in Cityscapes train ids, as label maps tell them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.sources.drive import read_points

UNKNOWN = 255
TRAIN_ID_OF = {
    10: 13,  # car
    11: 18,  # bicycle
    13: 15,  # bus
    15: 17,  # motorcycle
    16: 16,  # on rails
    18: 14,  # truck
    20: 14,  # other vehicle
    30: 11,  # person
    31: 12,  # bicyclist
    32: 12,  # motorcyclist
    40: 0,  # road
    44: 0,  # parking
    48: 1,  # sidewalk
    50: 2,  # building
    51: 4,  # fence
    60: 0,  # lane marking
    70: 8,  # vegetation
    71: 8,  # trunk
    72: 9,  # terrain
    80: 5,  # pole
    81: 7,  # traffic sign
    252: 13,  # moving car
    253: 12,  # moving bicyclist
    254: 11,  # moving person
    255: 12,  # moving motorcyclist
    256: 16,  # moving on rails
    257: 15,  # moving bus
    258: 14,  # moving truck
    259: 14,  # moving other vehicle
}
_TABLE = np.full(1 << 16, UNKNOWN, dtype=np.uint8)
_TABLE[list(TRAIN_ID_OF)] = list(TRAIN_ID_OF.values())


def point_labels_loader(scan: Path, labels: Path) -> Callable[[], NDArray[np.uint8]]:
    """Train ids [N] of the points that the scan's loader gives: those that are finite."""
    return partial(_read_point_labels, scan, labels)


def _read_point_labels(scan: Path, labels: Path) -> NDArray[np.uint8]:
    points = read_points(scan, 4)
    try:
        size = labels.stat().st_size
        values = np.fromfile(labels, dtype="<u4") if size == 4 * len(points) else None
    except OSError as problem:
        raise DataError(f"point labels cannot be read: {labels}: {problem}") from None
    if values is None:
        raise DataError(
            f"point labels do not fit their scan: {labels} has {size} bytes, but {scan} has {len(points)} points "
            f"(one uint32 each: {4 * len(points)} bytes); copy both again"
        )
    return np.asarray(_TABLE[values & 0xFFFF][np.isfinite(points).all(1)])
