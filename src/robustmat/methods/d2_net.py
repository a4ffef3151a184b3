"""D2-Net keypoints of two crops (Dusmanu et al., CVPR 2019), by their authors' own code, matched by nearest neighbours.

The user fetches code and weights: they do not come as a package.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.matching.keypoint_patches import MOST, KeypointPatchMatcher, NearestKeypoints
from robustmat.methods import Method
from robustmat.models.foreign import Foreign, import_from

NEEDED = Foreign(
    "D2-Net",
    "github.com/mihaidusmanu/d2-net",
    "BSD-3-Clause-Clear",
    ("d2-net", "d2-net/models/d2_tf.pth"),
    "clone the project there and download its d2_tf.pth into its models/",
)


class D2NetKeypoints(NearestKeypoints):
    def __init__(self) -> None:
        from robustmat.detection.torchvision_ops import import_torchvision

        super().__init__()
        folder, weights = NEEDED.find()
        import_torchvision()  # its VGG-16; made usable where its wheel does not fit torch
        model, pyramid, utils = import_from(folder, "lib.model_test", "lib.pyramid", "lib.utils")
        with NEEDED.usable(weights):
            self.network: Any = model.D2Net(model_file=str(weights), use_relu=True, use_cuda=False).eval()
        self.extract: Any = pyramid.process_multiscale
        self.preprocess: Any = utils.preprocess_image

    def find(self, patch: NDArray[np.uint8]) -> NDArray[np.float32]:
        import torch

        shown = np.asarray(self.preprocess(patch, preprocessing="caffe"), np.float32)[None]
        with torch.inference_mode():
            _, strength, found = self.extract(torch.from_numpy(shown), self.network, scales=[1])
        strongest = np.argsort(-np.asarray(strength), kind="stable")[:MOST]
        return np.asarray(found, np.float32)[strongest]  # [M, 512]


METHOD = Method(
    "D2-Net",
    matcher=lambda: KeypointPatchMatcher("d2-net", D2NetKeypoints(), threshold=0.1),
    steps=("neighbors",),
    fetched=True,
)
