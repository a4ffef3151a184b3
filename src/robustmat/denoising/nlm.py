"""Non-local means (Buades et al., 2005), OpenCV's: the classic that needs no training."""

import cv2
import numpy as np

from robustmat.features.keypoints import noise_level
from robustmat.types import Image

STRENGTH = 1.2  # of the filter, in standard deviations of the noise; set on simulated towns
LEAST = 3.0  # grey levels of noise below which an image is left as it is
PATCH, SEARCH = 5, 15  # pixels


class NonLocalMeans:
    """Each pixel becomes a mean of those whose surroundings look alike; the noise is measured on the image itself."""

    name = "nlm"
    fingerprint = f"nlm-{STRENGTH}-{PATCH}-{SEARCH}"

    def denoise(self, image: Image) -> Image:
        noise = noise_level(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8))
        if noise < LEAST:
            return image.copy()
        if (image == image[:, :, :1]).all():
            plane = cv2.fastNlMeansDenoising(
                np.ascontiguousarray(image[:, :, 0]), None, STRENGTH * noise, PATCH, SEARCH
            )
            return np.repeat(plane[:, :, None], 3, axis=2)
        strength = STRENGTH * noise
        found = cv2.fastNlMeansDenoisingColored(np.ascontiguousarray(image), None, strength, strength, PATCH, SEARCH)
        return np.asarray(found, np.uint8)
