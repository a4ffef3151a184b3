"""How sure a detector must be: confidences that are probabilities, and the limits from which landmarks are returned.

The mean probability of a region's pixels ranks detections, but is no probability that the landmark exists: a bar of ten
pixels is less likely a pole than one of a hundred. A logistic model for each category, fitted on labelled frames that
the network was not trained on, makes it one. On the same frames the limits are set where F1 is largest, as is the
probability from which a pixel belongs to a region.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustmat.detection.config import SourceConfig
from robustmat.detection.evaluate import Judged, judge
from robustmat.detection.regions import ExtractionConfig, evidence_of
from robustmat.detection.runtime import DenseLandmarkDetector
from robustmat.detection.samples import find_samples
from robustmat.detection.truth import sample_truth
from robustmat.detection.weights import read_description
from robustmat.errors import ConfigError
from robustmat.files import write_json
from robustmat.progress import Progress, silent
from robustmat.types import CATEGORIES

Weights = tuple[float, float, float, float]
FEWEST = 20  # right and wrong detections of a category; with fewer its model and its limit are those of all categories
COVERED = (0.4, 0.25, 0.15, 0.55)  # probabilities of a pixel that are tried; the first where frames cannot tell
USUAL_LIMIT = 0.5  # where the frames show hardly anything


def calibrate(
    folder: Path | str, data: Path | str, sources: Sequence[SourceConfig], progress: Progress = silent
) -> ExtractionConfig:
    """Fit thresholds, confidences and limits on `sources` below `data`, and write them into the checkpoint."""
    if not sources:
        raise ConfigError(f"no frames to calibrate {folder} on: add [[validation]] sources to its configuration")
    detector = DenseLandmarkDetector(folder)
    plain = detector.extraction.model_copy(update={"calibration": {}})
    rules = [plain.model_copy(update={"covered": dict.fromkeys(CATEGORIES, value)}) for value in COVERED]
    judged: list[list[Judged]] = [[] for _ in rules]
    samples = [(sample, source.labelled) for source in sources for sample in find_samples(source, data)]
    for sample, labelled in progress(samples, "calibrating"):
        truth = sample_truth(sample)
        for some, found in zip(judged, detector.candidates_by(truth.frame, rules), strict=True):
            some.extend(judge(found, truth, labelled))
    weights = [fit_confidence(some) for some in judged]
    limits = [
        {name: best_limit(some, name, of_category[name]) for name in CATEGORIES}
        for some, of_category in zip(judged, weights, strict=True)
    ]
    best = {name: int(np.argmax([limit[name][1] for limit in limits])) for name in CATEGORIES}
    description = read_description(folder)
    description["extraction"] = {
        "covered": {name: COVERED[k] for name, k in best.items()},
        "confidence": {name: limits[k][name][0] for name, k in best.items()},
        "calibration": {name: weights[k][name] for name, k in best.items()},
    }
    write_json(Path(folder) / "model.json", description)
    return ExtractionConfig.model_validate(description["extraction"])


def fit_confidence(judged: Sequence[Judged]) -> dict[str, Weights]:
    """Weights of `evidence_of` for every category."""
    shared = _fit(judged) or (1.0, 0.0, 0.0, 0.0)
    return {name: _fit([one for one in judged if one.category == name]) or shared for name in CATEGORIES}


def best_limit(judged: Sequence[Judged], category: str, weights: Weights) -> tuple[float, float]:
    """The confidence from which returning landmarks gives the largest F1, and that F1: 0 where it is unknown."""
    found = _best_limit([one for one in judged if one.category == category], weights)
    if found is not None:
        return found
    together = _best_limit(judged, weights)
    return (USUAL_LIMIT if together is None else together[0]), 0.0


def _best_limit(there: Sequence[Judged], weights: Weights) -> tuple[float, float] | None:
    offered = [one for one in there if one.found is not None]
    right = np.array([one.right for one in offered], bool)
    if right.sum() < FEWEST:
        return None
    confidence = 1 / (1 + np.exp(-_evidence(offered) @ np.array(weights)))
    order = np.argsort(-confidence, kind="stable")
    found = np.cumsum(right[order])
    missed = sum(one.found is None for one in there)
    f1 = 2 * found / (np.arange(1, len(order) + 1) + right.sum() + missed)
    best = int(f1.argmax())
    return float(np.floor(1e4 * confidence[order][best]) / 1e4), float(f1[best])


def _fit(judged: Sequence[Judged]) -> Weights | None:
    from sklearn.linear_model import LogisticRegression

    offered = [one for one in judged if one.found is not None]
    right = np.array([one.right for one in offered], bool)
    if min(right.sum(), (~right).sum()) < FEWEST:
        return None
    model = LogisticRegression(fit_intercept=False).fit(_evidence(offered), right)
    first, second, third, last = (round(float(value), 4) for value in model.coef_[0])
    return first, second, third, last


def _evidence(offered: Sequence[Judged]) -> np.typing.NDArray[np.float64]:
    return np.array([evidence_of(one.confidence or 0.0, one.found.box) for one in offered if one.found is not None])
