"""Rows of `bench places`: recall of places and errors of poses, from single answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustmat.mapping.calibration import CHI_SQUARE_95, normalised_error
from robustmat.mapping.pose import difference
from robustmat.types import Array

RIGHT = 5.0  # metres
PRECISION = 0.95
CHI_SQUARE_MEDIAN = 2.366  # of three degrees of freedom


@dataclass(frozen=True)
class Answered:
    """A method's best keyframes for one query: their distances from the truth, and how sure it is of the first."""

    distances: tuple[float, ...]  # metres, best first, at most five; of an unknown place none
    confidence: float
    known: bool

    @property
    def right(self) -> bool:
        return self.known and bool(self.distances) and self.distances[0] <= RIGHT


@dataclass(frozen=True)
class Located:
    """A pose that a map was sure of, and the one that the data set gives."""

    drive: str  # which run of queries
    found: Array  # [4, 4]
    truth: Array  # [4, 4]
    covariance: Array  # [6, 6]
    reference: Array  # [6, 6], of the data set's pose

    @property
    def error(self) -> Array:
        return difference(self.found, self.truth)


@dataclass(frozen=True)
class PlaceRow:
    """One method under one weather."""

    method: str
    perturb: str
    recall_at_1: float
    recall_at_5: float
    recall_at_precision: float  # of right answers, at the threshold from which on 95 % of all answers are right
    average_precision: float
    queries: int
    unknown: int
    answers: int  # at the method's own threshold; of rivals, which have none, 0
    precision: float  # of those answers
    embed_seconds: float  # of the processor, a query, median; of rivals 0
    ask_seconds: float  # the same of the answer with its pose
    megabytes: float  # of the map, per kilometre; of rivals 0


@dataclass(frozen=True)
class LocateRow:
    """Poses of one map under one weather, against the poses of the data set or those less an offset."""

    method: str
    perturb: str
    drive: str
    against: str
    queries: int
    answered: float  # share of the queries
    metres: float  # median
    degrees: float  # median
    metres_90: float  # nine in ten are better
    within_bounds: float  # share of normalised errors within the bounds of 95 %
    normalised: float  # median over its expectation: 1 if the covariance is exact


def place_row(
    method: str,
    perturb: str,
    answers: Sequence[Answered],
    threshold: float | None = None,
    seconds: Sequence[tuple[float, float]] = ((0.0, 0.0),),
    megabytes: float = 0.0,
) -> PlaceRow:
    """Recall of places, with and without unknown ones."""
    known = [one for one in answers if one.known]
    precision, recall = precision_recall(answers)
    own = [] if threshold is None else [one for one in answers if one.confidence >= threshold]
    return PlaceRow(
        method=method,
        perturb=perturb,
        recall_at_1=float(np.mean([one.right for one in known])),
        recall_at_5=float(np.mean([any(distance <= RIGHT for distance in one.distances) for one in known])),
        recall_at_precision=float(recall[precision >= PRECISION].max(initial=0.0)),
        average_precision=float((precision * np.diff(np.concatenate([[0.0], recall]))).sum()),
        queries=len(known),
        unknown=len(answers) - len(known),
        answers=len(own),
        precision=float(np.mean([one.right for one in own])) if own else 0.0,
        embed_seconds=float(np.median([embed for embed, _ in seconds])),
        ask_seconds=float(np.median([ask for _, ask in seconds])),
        megabytes=megabytes,
    )


def precision_recall(answers: Sequence[Answered]) -> tuple[Array, Array]:
    """Of the surest answer, the two surest and so on: share of right ones among them, and among all known places."""
    order = sorted(answers, key=lambda one: -one.confidence)
    right = np.cumsum([one.right for one in order])
    return right / np.arange(1, len(order) + 1), right / max(sum(one.known for one in answers), 1)


def locate_row(
    method: str, perturb: str, drive: str, against: str, found: Sequence[Located], queries: int
) -> LocateRow:
    """Errors and how they keep to their covariances, of the queries that were answered."""
    if not found:
        return LocateRow(method, perturb, drive, against, queries, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    metres = [float(np.linalg.norm(one.error[:3])) for one in found]
    degrees = [float(np.degrees(np.linalg.norm(one.error[3:]))) for one in found]
    normalised = np.array([normalised_error(one.error, one.covariance + one.reference) for one in found])
    return LocateRow(
        method,
        perturb,
        drive,
        against,
        queries,
        len(found) / queries,
        float(np.median(metres)),
        float(np.median(degrees)),
        float(np.quantile(metres, 0.9)),
        float(np.mean(normalised < CHI_SQUARE_95)),
        float(np.median(normalised) / CHI_SQUARE_MEDIAN),
    )


def as_json(row: PlaceRow | LocateRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
