"""VGG: pooled gradients with learned pooling regions and projection (Simonyan et al., 2014), from opencv-contrib."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.methods import Method
from robustmat.methods.root_sift import OPENCV, KeypointDescriptor
from robustmat.types import Array

REACH = 6.25


def closeness(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """One for equal descriptors, falling with their Euclidean distance."""
    distance = np.linalg.norm(a[:, None].astype(np.float64) - b[None], axis=2)
    return np.asarray(1 / (1 + distance))


def make() -> KeypointDescriptor:
    return KeypointDescriptor(
        "vgg", lambda: OPENCV.xfeatures2d.VGG_create(scale_factor=REACH), REACH, closeness, threshold=0.3
    )


METHOD = Method("VGG", matcher=make)
