"""SuperPoint keypoints of two crops matched by SuperGlue (Sarlin et al., CVPR 2020), by their authors' own code.

Code and weights are for non-commercial research only: they are never part of this package, and the user fetches them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.matching.keypoint_patches import (
    CROP,
    MOST,
    Counts,
    Described,
    KeypointPatchMatcher,
    fewer_keypoints,
    padded,
)
from robustmat.methods import Method
from robustmat.models.foreign import Foreign, import_from

NEEDED = Foreign(
    "SuperGlue",
    "github.com/magicleap/SuperGluePretrainedNetwork",
    "non-commercial research only",
    (
        "SuperGluePretrainedNetwork",
        "SuperGluePretrainedNetwork/models/weights/superglue_outdoor.pth",
        "SuperGluePretrainedNetwork/models/weights/superpoint_v1.pth",
    ),
    "clone the project there, weights included",
)


class SuperGlueKeypoints:
    def __init__(self) -> None:
        folder, *weights = NEEDED.find()
        point, glue = import_from(folder, "models.superpoint", "models.superglue")
        with NEEDED.usable(*weights):
            self.glue: Any = glue.SuperGlue({"weights": "outdoor"}).eval()
            self.point: Any = point.SuperPoint({"max_keypoints": MOST, "device": "cpu"}).eval()

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        import cv2
        import torch

        found: dict[str, list[NDArray[np.float32]]] = {"place": [], "strength": [], "descriptor": []}
        with torch.inference_mode():
            for patch in patches:
                grey = torch.from_numpy(cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY)).float()[None, None] / 255
                one = self.point({"image": grey})
                found["place"].append(one["keypoints"][0].numpy())  # [M, 2]
                found["strength"].append(one["scores"][0].numpy())  # [M]
                found["descriptor"].append(one["descriptors"][0].numpy().T)  # [M, 256]
        return padded(found)

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        import torch

        possible = fewer_keypoints(a, b, pairs)
        matched = np.zeros(len(pairs), np.int64)
        blank = torch.zeros(1, 1, CROP.size, CROP.size)  # only its size is looked at
        with torch.inference_mode():
            for number, (i, j) in enumerate(pairs.tolist()):
                if possible[number]:
                    shown = {"image0": blank, "image1": blank, **_features(a, i, "0"), **_features(b, j, "1")}
                    matched[number] = int((self.glue(shown)["matches0"] >= 0).sum())
        return matched, possible


def _features(crops: Described, number: int, side: str) -> dict[str, Any]:
    import torch

    count = int(crops["count"][number])
    place, strength, descriptor = (
        torch.from_numpy(crops[name][number, :count])[None] for name in ("place", "strength", "descriptor")
    )
    return {f"keypoints{side}": place, f"scores{side}": strength, f"descriptors{side}": descriptor.transpose(1, 2)}


METHOD = Method(
    "SuperGlue",
    matcher=lambda: KeypointPatchMatcher("superglue", SuperGlueKeypoints(), threshold=0.1),
    steps=("neighbors",),
    fetched=True,
)
