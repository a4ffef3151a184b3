"""Sizes and positions of boxes, and not a single pixel: a small gradient-boosting model, fitted on other drives."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from robustmat.errors import ConfigError
from robustmat.files import replacing
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.methods import Method
from robustmat.types import CATEGORIES, Array, Frame

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

EXAMPLES_FILE = "box-geometry.safetensors"


@dataclass(frozen=True)
class GeometryExamples:
    """Box geometry of candidates of the training side [N, F], and which of them match [N]."""

    features: NDArray[np.float32]
    labels: NDArray[np.bool_]


class BoxGeometry(Matcher):
    name = fingerprint = "box-geometry"
    # Classes are balanced in fitting, so one half is the balanced decision.
    decision = Decision(threshold=0.5, match_threshold=0.5)

    def __init__(self, model: "HistGradientBoostingClassifier") -> None:
        self.model = model

    def embed(self, frame: Frame) -> EmbeddedFrame:
        return EmbeddedFrame(frame.landmarks, {"box": box_values(frame)}, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        shape = len(a.landmarks), len(b.landmarks)
        if 0 in shape:
            return np.zeros(shape)
        first, second = a.arrays["box"], b.arrays["box"]
        forward, backward = box_features(first, second), box_features(second, first).transpose(1, 0, 2)
        both = np.stack([forward, backward])  # [2, A, B, F]
        probability = self.model.predict_proba(both.reshape(-1, both.shape[-1]))[:, 1]
        return np.asarray(probability.reshape(2, *shape).mean(axis=0))


def fit_box_geometry(examples: GeometryExamples, seed: int = 0) -> BoxGeometry:
    from sklearn.ensemble import HistGradientBoostingClassifier

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


def _unfitted() -> Matcher:
    raise ConfigError(
        "box-geometry is fitted on data of the training side: it stands in the tables of `robustmat evaluate` "
        "(--reference-data, or what a checkpoint brings)"
    )


METHOD = Method("box geometry", matcher=_unfitted)
