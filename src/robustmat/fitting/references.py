"""Reference rows: what simple methods reach on the same pairs, so that a table shows what a model adds.

- `always-match` says yes to everything: on three matched pairs to one unmatched that is an F1 of 0.857.
- `same-class` says yes to two landmarks of one category.
- `box-geometry` sees sizes and positions of the boxes and not a single pixel.
- `cross-correlation` compares two grey thumbnails, as one did before there was learning.
- `root-sift`, `vgg` and `boost-desc` are descriptors that come with OpenCV (`classic.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from scipy.optimize import linear_sum_assignment
from sklearn.ensemble import HistGradientBoostingClassifier

from robustmat.dataset.pairs import draw_frame_pairs, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import AMBIGUOUS, MATCHED, label_candidates, read_truth
from robustmat.evaluation.evaluate import References
from robustmat.evaluation.scoring import Progress, silent
from robustmat.files import replacing
from robustmat.fitting.classic import classic_descriptors
from robustmat.fitting.decision import embed_sample_with, fit_decision
from robustmat.matching.assign import mutual_best
from robustmat.matching.matcher import same_category
from robustmat.matching.protocol import Matcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.types import CATEGORIES, Array, Frame, Landmark, Match, MatchResult

MARGIN = 15  # pixels a box is grown by before it is cropped, as in the paper
THUMBNAIL, SHIFT = 32, 2  # pixels: side of a grey thumbnail, and how far it may be moved
EXAMPLES_FILE = "box-geometry.safetensors"
MOST_EXAMPLES = 30_000  # rows; enough for 60 small trees, and small enough to travel with a checkpoint
DEFAULT_CORRELATION = 0.5  # threshold where there is no training side to fit one on


@dataclass(frozen=True)
class Remembered:
    """What a reference keeps of a frame: its landmarks and one array of them."""

    landmarks: tuple[Landmark, ...]
    values: NDArray[Any]


class AlwaysMatch:
    """Everything matches. Of a frame pair, landmarks are paired off at random: no score prefers any."""

    name = "always-match"
    threshold = 0.5
    match_threshold = 0.5

    def embed(self, frame: Frame) -> Remembered:
        return Remembered(frame.landmarks, np.zeros(0))

    def score(self, a: Remembered, b: Remembered) -> Array:
        return np.ones((len(a.landmarks), len(b.landmarks)))

    def match(self, a: Remembered, b: Remembered) -> MatchResult:
        score = self.score(a, b)
        # All scores being equal, no pair is the mutual best: any one-to-one assignment is as good.
        whim = np.random.default_rng(len(a.landmarks) * 1000 + len(b.landmarks)).random(score.shape)
        rows, columns = linear_sum_assignment(score + 1e-3 * whim, maximize=True)
        chosen = [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if score[i, j] >= self.match_threshold]
        return _result(a, b, score, chosen, self.match_threshold)


class SameClass(AlwaysMatch):
    """Two landmarks of one category match."""

    name = "same-class"

    def score(self, a: Remembered, b: Remembered) -> Array:
        return same_category(a.landmarks, b.landmarks).astype(np.float64)


@dataclass
class CrossCorrelation:
    """Normalised cross-correlation of grey thumbnails, the best over a few pixels of shift."""

    threshold: float = DEFAULT_CORRELATION
    match_threshold: float = DEFAULT_CORRELATION
    name: str = "cross-correlation"

    def embed(self, frame: Frame) -> Remembered:
        grey = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)
        thumbnails = [_thumbnail(np.asarray(grey, np.uint8), landmark.box) for landmark in frame.landmarks]
        return Remembered(frame.landmarks, np.array(thumbnails, np.float32).reshape(-1, THUMBNAIL, THUMBNAIL))

    def score(self, a: Remembered, b: Remembered) -> Array:
        return (_correlate(a.values, b.values) + _correlate(b.values, a.values).T) / 2

    def match(self, a: Remembered, b: Remembered) -> MatchResult:
        score = self.score(a, b)
        pairs = mutual_best(score, self.match_threshold, same_category(a.landmarks, b.landmarks))
        return _result(a, b, score, pairs, self.match_threshold)


@dataclass
class BoxGeometry:
    """A small gradient-boosting model on the boxes' sizes and positions, fitted on other drives."""

    model: HistGradientBoostingClassifier
    threshold: float = 0.5  # classes are balanced in fitting, so one half is the balanced decision
    match_threshold: float = 0.5
    name: str = "box-geometry"

    def embed(self, frame: Frame) -> Remembered:
        return Remembered(frame.landmarks, box_values(frame))

    def score(self, a: Remembered, b: Remembered) -> Array:
        shape = len(a.landmarks), len(b.landmarks)
        if 0 in shape:
            return np.zeros(shape)
        forward = box_features(a.values, b.values)
        backward = box_features(b.values, a.values).transpose(1, 0, 2)
        both = np.stack([forward, backward])  # [2, A, B, F]
        said = self.model.predict_proba(both.reshape(-1, both.shape[-1]))[:, 1]
        return np.asarray(said.reshape(2, *shape).mean(axis=0))

    def match(self, a: Remembered, b: Remembered) -> MatchResult:
        score = self.score(a, b)
        pairs = mutual_best(score, self.match_threshold, same_category(a.landmarks, b.landmarks))
        return _result(a, b, score, pairs, self.match_threshold)


@dataclass(frozen=True)
class GeometryExamples:
    """Box geometry of candidates of the training side [N, F], and which of them match [N]."""

    features: NDArray[np.float32]
    labels: NDArray[np.bool_]


def make_references(
    training: Sequence[LandmarkDataset] = (),
    perturbation: Perturbation = CLEAN,
    negatives: str = "same-class",
    seed: int = 0,
    *,
    side: str = "both",
    examples: GeometryExamples | None = None,
    progress: Progress = silent,
) -> References:
    """All rows; those that learn do so on `training`, data of the training side, never on test data.

    Without it, box geometry learns from the `examples` that a checkpoint brings from its own training side, and the
    others keep their default thresholds.
    """
    learning: list[Matcher] = [CrossCorrelation(), *classic_descriptors()]
    if training:
        examples = geometry_examples(training, seed)
    if examples is not None:
        learning.insert(0, fit_box_geometry(examples, seed))
    if training:
        sample = draw_pairs(training, negatives, seed)
        remembered = embed_sample_with(learning, sample, perturbation, side=side, progress=progress)
        for row, embedded in zip(learning, remembered, strict=True):
            decision = fit_decision(row, embedded, sample, perturbation, side=side).decision
            row.match_threshold = decision.match_threshold
            if not isinstance(row, BoxGeometry):
                row.threshold = decision.threshold
    reason = "it is fitted on data of the training side: none was given (--reference-data)"
    omitted = {"box-geometry": reason} if examples is None else {}
    return References((AlwaysMatch(), SameClass(), *learning), omitted)


def geometry_examples(
    training: Sequence[LandmarkDataset], seed: int = 0, most_frame_pairs: int = 2000
) -> GeometryExamples:
    """All judged candidates of the training side's frame pairs, in both orders, or a sample of them."""
    truth = read_truth(training)
    features, labels = [], []
    for pair in draw_frame_pairs(truth, most_frame_pairs, seed):
        for first, second in (pair, pair[::-1]):
            label = label_candidates(truth.frames[first], truth.frames[second])
            judged = label != AMBIGUOUS
            values = box_features(box_values(truth.frame(first)), box_values(truth.frame(second)))
            features.append(values[judged])
            labels.append(label[judged] == MATCHED)
    rows = np.concatenate(features).astype(np.float32)
    chosen = np.random.default_rng(seed).permutation(len(rows))[:MOST_EXAMPLES]
    return GeometryExamples(rows[chosen], np.concatenate(labels)[chosen])


def fit_box_geometry(examples: GeometryExamples, seed: int = 0) -> BoxGeometry:
    model = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, class_weight="balanced", early_stopping=False, random_state=seed
    )
    return BoxGeometry(model.fit(examples.features, examples.labels))


def write_examples(folder: Path, examples: GeometryExamples) -> None:
    """Put the examples beside a checkpoint, so that its tables have their box geometry row anywhere."""
    with replacing(folder / EXAMPLES_FILE) as temporary:
        save_file({"features": examples.features, "labels": examples.labels}, temporary)


def read_examples(folder: Path) -> GeometryExamples | None:
    """The examples beside a checkpoint, if it brings any."""
    if not (folder / EXAMPLES_FILE).is_file():
        return None
    arrays = load_file(folder / EXAMPLES_FILE)
    return GeometryExamples(arrays["features"], arrays["labels"])


def box_values(frame: Frame) -> Array:
    """Centre, width, height and category of each box [L, 5], in units of the image height."""
    if not frame.landmarks:
        return np.zeros((0, 5))
    height, width = (frame.camera.height, frame.camera.width) if frame.camera else frame.image.shape[:2]
    boxes = np.array([landmark.box for landmark in frame.landmarks]) / height
    centre, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    category = [[CATEGORIES.index(landmark.category)] for landmark in frame.landmarks]
    return np.hstack([centre - [width / height / 2, 0.5], np.maximum(size, 1e-6), category])


def box_features(a: Array, b: Array) -> Array:
    """Both boxes, their differences and ratios: [A, B, F]."""
    shape = (len(a), len(b), a.shape[1])
    first, second = np.broadcast_to(a[:, None], shape), np.broadcast_to(b[None], shape)
    moved = second[..., :2] - first[..., :2]
    grown = np.log(second[..., 2:4] / first[..., 2:4])
    same = first[..., 4:] == second[..., 4:]
    return np.concatenate([first, second[..., :4], moved, grown, same], axis=2)


def _thumbnail(grey: NDArray[np.uint8], box: tuple[float, float, float, float]) -> NDArray[np.float32]:
    height, width = grey.shape
    left, top = max(0, int(box[0]) - MARGIN), max(0, int(box[1]) - MARGIN)
    right, bottom = min(width, int(np.ceil(box[2])) + MARGIN), min(height, int(np.ceil(box[3])) + MARGIN)
    if right <= left or bottom <= top:  # a box off the image shows nothing
        return np.zeros((THUMBNAIL, THUMBNAIL), np.float32)
    size = (THUMBNAIL, THUMBNAIL)
    return np.asarray(cv2.resize(grey[top:bottom, left:right], size, interpolation=cv2.INTER_AREA), np.float32)


def _correlate(a: NDArray[np.float32], b: NDArray[np.float32]) -> Array:
    """The middle of each thumbnail of `a` against every shifted window of `b`'s: the best, [A, B]."""
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b)))
    side = THUMBNAIL - 2 * SHIFT
    middle = _normalised(a[:, SHIFT : SHIFT + side, SHIFT : SHIFT + side].reshape(len(a), side * side))
    windows = np.lib.stride_tricks.sliding_window_view(b, (side, side), axis=(1, 2))
    shifted = _normalised(windows.reshape(-1, side * side))  # [B * shifts, side * side]
    return np.asarray((middle @ shifted.T).reshape(len(a), len(b), -1).max(axis=2), np.float64)


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    rows = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-6), np.float32)


def _result(a: Remembered, b: Remembered, score: Array, pairs: list[tuple[int, int]], threshold: float) -> MatchResult:
    """References have no calibrated probability: their score, cut to 0..1, stands in for it."""
    probability = np.clip(score, 0, 1)
    matches = tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs)
    return MatchResult(a.landmarks, b.landmarks, matches, score, probability, threshold)
