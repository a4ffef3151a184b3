"""BoostDesc: 256 boosted binary tests (Trzcinski et al., 2015), from opencv-contrib."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.methods import Method
from robustmat.methods.root_sift import OPENCV, KeypointDescriptor
from robustmat.types import Array

REACH = 6.25


def equal_bits(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """The share of equal bits."""
    first, second = (np.unpackbits(rows, axis=1) for rows in (a, b))
    return np.asarray((first[:, None] == second[None]).mean(axis=2))


def make() -> KeypointDescriptor:
    return KeypointDescriptor(
        "boost-desc", lambda: OPENCV.xfeatures2d.BoostDesc_create(scale_factor=REACH), REACH, equal_bits, threshold=0.68
    )


METHOD = Method("BoostDesc", matcher=make)
