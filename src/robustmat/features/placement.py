"""Where a landmark stands in its frame, as numbers: the evidence of boxes and categories, apart from all pixels.

Directions and sizes are tangents of viewing angles, so that two cameras of different resolution agree about
them. A frame without a known camera is taken to have KITTI's field of view.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.relative_pose import ASSUMED_FOCAL_LENGTH
from robustmat.types import CATEGORIES, Array, Camera, Landmark

BOX_DIM = 6
PLACEMENT_DIM = BOX_DIM + len(CATEGORIES)
# Brings each number to about one: right, down, log width, log height, top, bottom.
SPREAD = np.array([0.5, 0.25, 1.0, 1.0, 0.25, 0.25])
TYPICAL_WIDTH, TYPICAL_HEIGHT = 0.05, 0.1


def placements(landmarks: Sequence[Landmark], camera: Camera | None, width: int, height: int) -> NDArray[np.float32]:
    """Box and category of each landmark of a frame: [N, P], the category as one number each of ones and zeros."""
    boxes = np.array([landmark.box for landmark in landmarks], np.float64).reshape(-1, 4)
    category = np.array([CATEGORIES.index(landmark.category) for landmark in landmarks], np.int64)
    numbers = box_encoding(boxes, camera, width, height)
    return np.hstack([numbers, np.eye(len(CATEGORIES))[category]]).astype(np.float32)


def box_encoding(boxes: Array, camera: Camera | None, width: int, height: int) -> Array:
    """Boxes [N, 4] in pixels as [N, BOX_DIM]."""
    if camera is None:
        focal_x = focal_y = ASSUMED_FOCAL_LENGTH * width
        center_x, center_y = width / 2, height / 2
    else:
        focal_x, focal_y = camera.matrix[0, 0], camera.matrix[1, 1]
        center_x, center_y = camera.matrix[0, 2], camera.matrix[1, 2]
    left, right = (boxes[:, [0, 2]].T - center_x) / focal_x
    top, bottom = (boxes[:, [1, 3]].T - center_y) / focal_y
    logs = [
        np.log(np.maximum(size, 1e-4) / typical)
        for size, typical in ((right - left, TYPICAL_WIDTH), (bottom - top, TYPICAL_HEIGHT))
    ]
    return np.asarray(np.stack([(left + right) / 2, (top + bottom) / 2, *logs, top, bottom], axis=1) / SPREAD)


def mirrored_placements(placement: NDArray[np.float32]) -> NDArray[np.float32]:
    """The placements in a frame seen in a mirror: right becomes left."""
    turned = placement.copy()
    turned[:, 0] *= -1
    return turned
