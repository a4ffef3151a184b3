"""Fitting the place model: which evidence means a place, and how wide a pose's covariance must be.

It is fitted on simulated towns, never on drives that are reported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustmat.errors import DataError
from robustmat.mapping.landmark_map import ONE_PLACE, LandmarkMap
from robustmat.mapping.place_model import FEATURES, PlaceModel, places
from robustmat.mapping.pose import difference
from robustmat.types import Array, Frame

RIGHT = 10.0  # metres within which a candidate keyframe is right
GROUND_AXES = [0, 2, 4]  # sideways, ahead, and the turn about the vertical: what a vehicle does
SIGNS = {"votes": 1, "agreeing": 1, "disagreeing": -1, "share": 1, "keypoints": 1}
SHRINKAGE = 0.01


@dataclass(frozen=True)
class PlaceExample:
    """What a query saw of its candidates, and which of them are right: none where the place is unknown."""

    features: Array  # [N, F]
    positions: Array  # [N, 3]
    truth: Array | None  # [3]

    @property
    def right(self) -> Array:
        if self.truth is None:
            return np.zeros(len(self.positions), bool)
        return np.asarray(np.linalg.norm(self.positions - self.truth, axis=1) < RIGHT)


def place_examples(opened: LandmarkMap, frames: Iterable[Frame], *, known: bool) -> list[PlaceExample]:
    """Ask a map about frames; `known` says that they were taken in it."""
    examples = []
    for frame in frames:
        candidates = opened.query(frame).candidates
        pose = frame.T_world_camera
        if known and pose is None:
            raise DataError(f"frame '{frame.name}' has no pose: nobody knows whether an answer is right")
        examples.append(
            PlaceExample(
                np.array([one.features for one in candidates]).reshape(-1, len(FEATURES)),
                np.array([one.keyframe.position for one in candidates]).reshape(-1, 3),
                pose[:3, 3] if known and pose is not None else None,
            )
        )
    return examples


def fit_place_model(examples: Sequence[PlaceExample], fitted_on: str) -> PlaceModel:
    """The likeliest weights: each query is explained by its right place, or by no place at all."""
    kinds = [any(one.right) for one in examples]
    balance = {kind: 0.5 / max(1, kinds.count(kind)) for kind in (True, False)}

    def cost(weights: Array) -> float:
        model = _model(weights)
        total = SHRINKAGE * float(weights @ weights) / len(examples)
        for one, known in zip(examples, kinds, strict=True):
            total -= balance[known] * log_likelihood(model, one)
        return total

    bounds = [(-25.0, 0.0), *((0.0, 15.0) if SIGNS[name] > 0 else (-15.0, 0.0) for name in FEATURES)]
    start = np.array([-3.0, *(0.5 * SIGNS[name] for name in FEATURES)])
    found = minimize(cost, start, bounds=bounds, method="L-BFGS-B")
    return _model(np.round(found.x, 3)).model_copy(update={"fitted_on": fitted_on})


def log_likelihood(model: PlaceModel, example: PlaceExample) -> float:
    """Of the right place among all places, and none."""
    if not len(example.features):
        return 0.0
    ratio = model.log_ratio(example.features)
    groups = places(ratio, example.positions, ONE_PLACE)
    tops = np.array([ratio[group].max() for group in groups])
    right = np.array([any(example.right[group]) for group in groups])
    told = logsumexp(tops[right]) if right.any() else 0.0
    return float(told - logsumexp(np.append(tops, 0.0)))


def normalised_errors(opened: LandmarkMap, frames: Iterable[Frame]) -> Array:
    """Squared errors of located frames over their covariance, of three degrees of freedom: [N]."""
    found = []
    for frame in frames:
        pose = opened.locate(frame).pose
        if pose is not None and frame.T_world_camera is not None:
            off = difference(pose.T_world_camera, frame.T_world_camera)[GROUND_AXES]
            found.append(off @ np.linalg.solve(pose.covariance[np.ix_(GROUND_AXES, GROUND_AXES)], off))
    return np.array(found)


def covariance_scale(errors: Array) -> float:
    """What makes nine in ten of the normalised errors keep to the bounds of nine in ten: outliers do not widen all."""
    if not len(errors):
        return 1.0
    return float(np.quantile(errors, 0.9) / 6.251)


def _model(weights: Array) -> PlaceModel:
    named = dict(zip(("bias", *FEATURES), weights.tolist(), strict=True))
    return PlaceModel.model_validate(named)
