"""From a landmark's mean probability to its confidence: the share of such detections that are right.

The mean over a landmark's pixels ranks detections, but is no probability that the landmark exists. A logistic curve for
each category, fitted on labelled frames that the network was not trained on, makes it one.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from robustmat.detection.evaluate import Judged, judge
from robustmat.detection.regions import ExtractionConfig, calibrated, log_odds
from robustmat.detection.runtime import DenseLandmarkDetector
from robustmat.detection.truth import Truth
from robustmat.detection.weights import read_description
from robustmat.files import write_json
from robustmat.types import CATEGORIES

FEWEST = 20  # right and wrong detections of a category; with fewer its curve is that of all categories


def calibrate(folder: Path | str, truths: Iterable[Truth], labelled: Sequence[str] = CATEGORIES) -> ExtractionConfig:
    """Fit the curves on `truths` and write them into the checkpoint; its limits keep their meaning."""
    raw = DenseLandmarkDetector(folder)
    plain = raw.extraction.model_copy(update={"calibration": {}})
    detector = DenseLandmarkDetector(folder, extraction=plain)
    judged = [one for truth in truths for one in judge(detector.candidates(truth.frame), truth, labelled)]
    curves = fit_confidence(judged)
    limits = {
        category: round(_moved(limit, raw.extraction.calibration.get(category), curves[category]), 4)
        for category, limit in raw.extraction.confidence.items()
    }
    description = read_description(folder)
    description["extraction"] = {"confidence": limits, "calibration": curves}
    write_json(Path(folder) / "model.json", description)
    return ExtractionConfig.model_validate(description["extraction"])


def fit_confidence(judged: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """Slope and intercept, over log odds of the mean probability, for every category."""
    shared = _fit(judged) or (1.0, 0.0)
    return {name: _fit([one for one in judged if one.category == name]) or shared for name in CATEGORIES}


def _fit(judged: Sequence[Judged]) -> tuple[float, float] | None:
    from sklearn.linear_model import LogisticRegression

    offered = [one for one in judged if one.confidence is not None]
    right = np.array([one.right for one in offered], bool)
    if min(right.sum(), (~right).sum()) < FEWEST:
        return None
    odds = np.array([[log_odds(one.confidence or 0.0)] for one in offered])
    curve = LogisticRegression().fit(odds, right)
    return round(float(curve.coef_[0, 0]), 4), round(float(curve.intercept_[0]), 4)


def _moved(limit: float, before: tuple[float, float] | None, after: tuple[float, float]) -> float:
    """A limit under another curve, so that it separates the same landmarks."""
    odds = log_odds(limit)
    if before is not None:
        odds = (odds - before[1]) / before[0]
    return calibrated(1 / (1 + np.exp(-odds)), after)
