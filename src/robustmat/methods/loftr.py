"""LoFTR on two crops (Sun et al., CVPR 2021), kornia's network, with the weights that the user names.

It finds no keypoints of its own: cells of 8 x 8 pixels match, so that a crop of S pixels has (S / 8)^2 of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError
from robustmat.matching.keypoint_patches import CROP, Counts, Described, KeypointPatchMatcher
from robustmat.methods import Method
from robustmat.models.foreign import Foreign

CELL = 8  # pixels
TOGETHER = 8  # pairs in one pass
NEEDED = Foreign(
    "LoFTR",
    "github.com/zju3dv/LoFTR",
    "Apache-2.0",
    ("loftr_outdoor.ckpt",),
    "download outdoor_ds.ckpt or kornia's loftr_outdoor.ckpt and put it there under this name",
)


class Loftr:
    def __init__(self) -> None:
        (path,) = NEEDED.find()
        try:
            from kornia.feature import LoFTR
        except ModuleNotFoundError:
            raise ConfigError("LoFTR needs kornia: pip install 'robustmat[train]'") from None
        import torch

        self.network: Any = LoFTR(pretrained=None)
        with NEEDED.usable(path):
            weights = torch.load(path, map_location="cpu", weights_only=True)
            weights = weights.get("state_dict", weights)
            self.network.load_state_dict({name.removeprefix("matcher."): one for name, one in weights.items()})
        self.network.eval()

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        import cv2

        return {"grey": np.stack([cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY) for patch in patches])}

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        import torch

        matched = np.zeros(len(pairs), np.int64)
        with torch.inference_mode():
            for start in range(0, len(pairs), TOGETHER):
                some = pairs[start : start + TOGETHER]
                first, second = (
                    torch.from_numpy(crops["grey"][some[:, side]])[:, None].float() / 255
                    for side, crops in enumerate((a, b))
                )
                found = self.network({"image0": first, "image1": second})
                matched[start : start + len(some)] = np.bincount(found["batch_indexes"].numpy(), minlength=len(some))
        return matched, np.full(len(pairs), (CROP.size // CELL) ** 2, np.int64)


METHOD = Method(
    "LoFTR", matcher=lambda: KeypointPatchMatcher("loftr", Loftr(), threshold=0.05), steps=("neighbors",), fetched=True
)
