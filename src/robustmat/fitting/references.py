"""Reference rows: what simple methods reach on the same pairs, so that a table shows what a model adds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from robustmat.dataset.pairs import PairSample, draw_frame_pairs, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import label_candidates, read_truth
from robustmat.errors import ConfigError
from robustmat.evaluation.scoring import embed_sample
from robustmat.fitting.decision import decided, fit_decision
from robustmat.matching.matcher import Matcher
from robustmat.methods import find_method
from robustmat.methods.box_geometry import GeometryExamples, box_features, box_values, fit_box_geometry
from robustmat.perturb import CLEAN, Perturbation
from robustmat.progress import Progress, silent
from robustmat.types import AMBIGUOUS, MATCHED

CONSTANT = ("always-match", "same-class")  # nothing about them can be fitted
WHOLE_FRAMES = ("keypoints-in-boxes",)  # looks at more than landmarks; one vote decides
UNFITTED = (*CONSTANT, *WHOLE_FRAMES)
FITTED = ("cross-correlation", "root-sift", "vgg", "boost-desc")  # learn nothing but a threshold
MOST_EXAMPLES = 30_000  # rows; enough for 60 small trees, and small enough to travel with a checkpoint


@dataclass(frozen=True)
class References:
    """The rows that could be made, and why the others could not."""

    rows: tuple[Matcher, ...]
    omitted: dict[str, str] = field(default_factory=dict)


def make_references(
    training: Sequence[LandmarkDataset] = (),
    perturbation: Perturbation = CLEAN,
    negatives: str = "same-class",
    seed: int = 0,
    *,
    perturbed_frames: str = "both",
    examples: GeometryExamples | None = None,
    progress: Progress = silent,
) -> References:
    """All rows; those that learn do so on `training`, data of the training side, never on test data.

    Without it, box geometry learns from the `examples` that a checkpoint brings from its own training side, and the
    others keep their default thresholds.
    """
    if training:
        examples = geometry_examples(training, seed)
    rows = [_untrained(name) for name in FITTED]
    omitted = {}
    if examples is not None:
        rows.insert(0, fit_box_geometry(examples, seed))
    else:
        omitted["box-geometry"] = "it is fitted on data of the training side: none was given (--reference-data)"
    if training:
        sample = draw_pairs(training, negatives, seed)
        rows = fit_thresholds(rows, sample, perturbation, perturbed_frames=perturbed_frames, progress=progress)
    return References((*map(_untrained, CONSTANT), *rows, *map(_untrained, WHOLE_FRAMES)), omitted)


def fit_thresholds(
    rows: Sequence[Matcher],
    sample: PairSample,
    perturbation: Perturbation = CLEAN,
    *,
    perturbed_frames: str = "both",
    progress: Progress = silent,
) -> list[Matcher]:
    """The rows with thresholds and calibration from the sample, each frame read and perturbed once for all of them."""
    memories = embed_sample(rows, sample, perturbation, perturbed_frames=perturbed_frames, progress=progress)
    return [
        decided(row, fit_decision(row, memory, sample, perturbation, perturbed_frames=perturbed_frames).decision)
        for row, memory in zip(rows, memories, strict=True)
    ]


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


def _untrained(name: str) -> Matcher:
    make = find_method(name).matcher
    if make is None:
        raise ConfigError(f"{name} needs training and cannot be a reference row")
    return make()
