"""Descriptors from before deep learning, and its beginnings, on the very crops that the networks see: reference rows.

- `root-sift`: SIFT's histogram of gradients, compared by Hellinger's distance (Arandjelovic and Zisserman, 2012).
- `vgg`: pooled gradients with learned pooling regions and projection (Simonyan et al., 2014).
- `boost-desc`: 256 boosted binary tests (Trzcinski et al., 2015).

One upright keypoint in the middle of a grey crop describes all of it. Their weights come with opencv-contrib.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.matching.assign import mutual_best
from robustmat.matching.matcher import same_category, usable_pixels
from robustmat.types import Array, Frame, Landmark, Match, MatchResult

CROP = PatchConfig(size=64, margin=15, max_aspect=2.0)
OPENCV: Any = cv2  # its type stubs leave these descriptors out


@dataclass(frozen=True)
class Kind:
    """How a descriptor is made, how much of a crop a keypoint of size one covers, and how two are compared."""

    create: Callable[[], Any]
    reach: float  # pixels across, to one pixel of the keypoint's size
    prepare: Callable[[NDArray[Any]], NDArray[Any]]
    compare: Callable[[NDArray[Any], NDArray[Any]], Array]  # [A, D], [B, D] -> [A, B], higher is likelier


@dataclass(frozen=True)
class Described:
    """What is remembered of a frame: a descriptor of each landmark, [L, D]."""

    landmarks: tuple[Landmark, ...]
    values: NDArray[Any]


@dataclass
class ClassicDescriptor:
    """A matcher that learns nothing but its threshold."""

    name: str
    threshold: float
    match_threshold: float

    def __post_init__(self) -> None:
        self.kind = CLASSIC[self.name]
        self.extractor = self.kind.create()

    def embed(self, frame: Frame) -> Described:
        boxes = [landmark.box for landmark in frame.landmarks]
        if not boxes:
            return Described((), np.zeros((0, 0)))
        keypoint = cv2.KeyPoint((CROP.size - 1) / 2, (CROP.size - 1) / 2, CROP.size / self.kind.reach, 0.0)
        found = []
        for patch in cut_patches(usable_pixels(frame), boxes, CROP):
            grey = cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY)
            _, descriptor = self.extractor.compute(grey, [keypoint])
            found.append(descriptor[0])
        return Described(frame.landmarks, self.kind.prepare(np.stack(found)))

    def score(self, a: Described, b: Described) -> Array:
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        return self.kind.compare(a.values, b.values)

    def match(self, a: Described, b: Described) -> MatchResult:
        score = self.score(a, b)
        pairs = mutual_best(score, self.match_threshold, same_category(a.landmarks, b.landmarks))
        probability = np.clip(score, 0, 1)  # not calibrated: the score, cut to 0..1, stands in for it
        matches = tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs)
        return MatchResult(a.landmarks, b.landmarks, matches, score, probability, self.match_threshold)


def root_sift(values: NDArray[Any]) -> NDArray[Any]:
    """Rows of sum one, square-rooted: their inner product is Hellinger's kernel."""
    share = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)
    return np.asarray(np.sqrt(share))


def inner(a: NDArray[Any], b: NDArray[Any]) -> Array:
    return np.asarray(a @ b.T, np.float64)


def nearness(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """One for equal descriptors, falling with their Euclidean distance."""
    distance = np.linalg.norm(a[:, None].astype(np.float64) - b[None], axis=2)
    return np.asarray(1 / (1 + distance))


def equal_bits(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """The share of equal bits."""
    first, second = (np.unpackbits(it, axis=1) for it in (a, b))
    return np.asarray((first[:, None] == second[None]).mean(axis=2))


def _same(values: NDArray[Any]) -> NDArray[Any]:
    return values


CLASSIC: dict[str, Kind] = {
    "root-sift": Kind(OPENCV.SIFT_create, 6.0, root_sift, inner),  # 4 x 4 cells of 1.5 sizes each
    "vgg": Kind(lambda: OPENCV.xfeatures2d.VGG_create(scale_factor=6.25), 6.25, _same, nearness),
    "boost-desc": Kind(lambda: OPENCV.xfeatures2d.BoostDesc_create(scale_factor=6.25), 6.25, _same, equal_bits),
}
# Where there is no training side to fit a threshold on: about what frames of KITTI with 16 dB of noise ask for.
DEFAULT_THRESHOLDS = {"root-sift": 0.93, "vgg": 0.3, "boost-desc": 0.68}


def classic_descriptors() -> list[ClassicDescriptor]:
    return [ClassicDescriptor(name, *2 * (DEFAULT_THRESHOLDS[name],)) for name in CLASSIC]
