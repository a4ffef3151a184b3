"""Place recognition by whole images, to compare landmark maps with: pooled network features, and bags of SIFT words."""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.types import Array, Frame, Image

WORDS = 1000
KEYPOINTS = 500
SMOOTHED = 1.5  # pixels; of the grey image before SIFT: noise makes keypoints of its own
SIDE = 320  # pixels that a picture's width is brought to for the network
POWER = 3.0  # of generalised-mean pooling
BANDS = 3  # a picture is pooled from left to right in so many parts

OPENCV: Any = cv2  # its type stubs leave SIFT out
Similarity = Callable[[Frame], Array]  # of a frame with every keyframe: [K], higher is likelier


def pooled_features(keyframes: Sequence[Frame]) -> Similarity:
    """EfficientNet-Lite0, generalised-mean pooling in three bands, whitened by the keyframes: the cosine."""
    import torch

    from robustmat.features.patches import PatchConfig, to_input
    from robustmat.models.backbone import Backbone

    config = PatchConfig(size=64)
    network = Backbone(config).eval()
    network.load_imagenet()

    def describe(frame: Frame) -> NDArray[np.float32]:
        image = frame.image
        small = cv2.resize(
            image, (SIDE, round(SIDE * image.shape[0] / image.shape[1] / 8) * 8), interpolation=cv2.INTER_AREA
        )
        with torch.inference_mode():
            _, maps = network(torch.from_numpy(to_input(np.asarray(small[None], np.uint8), config)))
        bands = [band.clamp(min=1e-6).pow(POWER).mean(dim=(2, 3)).pow(1 / POWER) for band in maps.chunk(BANDS, dim=3)]
        return torch.cat(bands, dim=1)[0].numpy()

    known = np.stack([describe(frame) for frame in keyframes])
    mean = known.mean(axis=0)
    _, spread, axes = np.linalg.svd(known - mean, full_matrices=False)
    kept = min(len(known) // 2, 128)
    whiten = axes[:kept].T / (spread[:kept] + 0.1 * spread[0])
    rows = _unit((known - mean) @ whiten)
    return lambda frame: np.asarray(rows @ _unit((describe(frame) - mean)[None] @ whiten)[0], np.float64)


def sift_words(keyframes: Sequence[Frame], seed: int = 0) -> Similarity:
    """Histograms of quantised SIFT descriptors, weighted by how rare a word is (tf-idf): the cosine."""
    from sklearn.cluster import MiniBatchKMeans

    sift = OPENCV.SIFT_create(nfeatures=KEYPOINTS)

    def describe(image: Image) -> NDArray[np.float32]:
        grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), SMOOTHED)
        _, found = sift.detectAndCompute(grey, None)
        if found is None:
            return np.zeros((0, 128), np.float32)
        return np.asarray(np.sqrt(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-9)), np.float32)

    described = [describe(frame.image) for frame in keyframes]
    pool = np.concatenate(described)
    words = MiniBatchKMeans(min(WORDS, len(pool) // 4), random_state=seed, n_init=1, batch_size=4096).fit(pool)
    count = words.n_clusters

    def histogram(rows: NDArray[np.float32]) -> Array:
        return np.bincount(words.predict(rows), minlength=count).astype(float) if len(rows) else np.zeros(count)

    counts = np.stack([histogram(rows) for rows in described])
    rare = np.log(len(counts) / np.maximum((counts > 0).sum(axis=0), 1))
    known = _unit(counts * rare)
    return lambda frame: np.asarray(known @ _unit((histogram(describe(frame.image)) * rare)[None])[0])


def _unit(rows: Any) -> Any:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


RIVALS: dict[str, Callable[[Sequence[Frame]], Similarity]] = {
    "whole-image EfficientNet-Lite0": pooled_features,
    "bag of SIFT words": sift_words,
}
