"""Fitting the place model: which evidence means a place, and how wide a pose's covariance must be.

It is fitted on simulated towns, never on drives that are reported: the first drive of each town is the map, its other
drives, in another look, are asked about, and so are drives of the other towns, which are unknown places.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError, InputError
from robustmat.mapping.build import build_map
from robustmat.mapping.landmark_map import LandmarkMap, open_map
from robustmat.mapping.localisation import error_of_poses
from robustmat.mapping.place_model import FEATURES, PlaceModel, places
from robustmat.mapping.pose import difference
from robustmat.mapping.recognition import ONE_PLACE
from robustmat.mapping.settings import MapSettings
from robustmat.matching.matcher import Matcher
from robustmat.perturb import parse, perturb_frame
from robustmat.progress import Progress, silent
from robustmat.types import Array, Frame

RIGHT = 10.0  # metres within which a candidate keyframe is right
GROUND_AXES = [0, 2, 4]  # sideways, ahead, and the turn about the vertical: what a vehicle does
CHI_SQUARE_95 = 7.815  # of three degrees of freedom
SIGNS = {"votes": 1, "agreeing": 1, "disagreeing": -1, "share": 1, "keypoints": 1}
SHRINKAGE = 0.01
FEWEST, FEW = 1, 4  # landmarks that are left where a query is thinned
FARTHEST = 8.0  # metres from the map that a query of a known place may be


@dataclass(frozen=True)
class PlaceExample:
    """What a query saw of its candidates, and which of them are right: none where the place is unknown."""

    features: Array  # [N, F]
    positions: Array  # [N, 3]
    truth: Array | None  # [3]
    error: Array | None = None  # [6], of the pose that was found, in its own axes
    covariance: Array | None = None  # [6, 6], as the map says

    @property
    def right(self) -> Array:
        if self.truth is None:
            return np.zeros(len(self.positions), bool)
        return np.asarray(np.linalg.norm(self.positions - self.truth, axis=1) < RIGHT)


def calibrate(
    datasets: Sequence[LandmarkDataset],
    matcher: Matcher,
    folder: Path,
    settings: MapSettings | None = None,
    *,
    perturbs: Sequence[str] = ("clean", "paper:16"),
    every: int = 4,
    seed: int = 0,
    fitted_on: str = "",
    progress: Progress = silent,
) -> PlaceModel:
    """A place model for maps with these settings; they are made in `folder`."""
    examples = town_examples(
        datasets, matcher, folder, settings, perturbs=perturbs, every=every, seed=seed, progress=progress
    )
    model = fit_place_model(examples, fitted_on)
    own = error_of_poses(*(settings or MapSettings()).pose_error)
    return model.model_copy(update={"covariance_scale": covariance_scale(examples, own)})


def town_examples(
    datasets: Sequence[LandmarkDataset],
    matcher: Matcher,
    folder: Path,
    settings: MapSettings | None = None,
    *,
    perturbs: Sequence[str] = ("clean", "paper:16"),
    every: int = 4,
    seed: int = 0,
    progress: Progress = silent,
) -> list[PlaceExample]:
    """What maps of towns say about every Nth frame of their other drives, and about half as many of other towns.

    Every second frame is left with a few of its landmarks: real streets have fewer than simulated ones.
    """
    worlds = sorted({one.world for one in datasets})
    drives = {world: [one for one in datasets if one.world == world] for world in worlds}
    if len(worlds) < 2 or any(len(found) < 2 for found in drives.values()):
        raise InputError("place models are fitted on at least two worlds of at least two drives each; more are better")
    rng = np.random.default_rng(seed)
    examples: list[PlaceExample] = []
    for number, world in enumerate(worlds):
        build_map(folder / world, drives[world][:1], matcher, settings, progress=progress)
        opened = open_map(folder / world, matcher=matcher, model=PlaceModel())
        known = [frame for one in drives[world][1:] for frame in one.frames[::every]]
        other = drives[worlds[number - 1]][1].frames[:: 2 * every]
        here = np.array([info.position for info in opened.keyframes()])
        for perturb in perturbs:
            for frames, is_known in ((known, True), (other, False)):
                asked = [frame for frame in frames if not is_known or _near(frame, here)]
                asked = [thinned(frame, rng) if i % 2 else frame for i, frame in enumerate(asked)]
                asked = [perturb_frame(frame, parse(perturb), seed, frame.name) for frame in asked]
                shown = progress(asked, f"{world}, {perturb}, {'known' if is_known else 'unknown'}")
                examples += place_examples(opened, shown, known=is_known)
    return examples


def thinned(frame: Frame, rng: np.random.Generator) -> Frame:
    """The frame with a few of its landmarks."""
    count = min(int(rng.integers(FEWEST, FEW + 1)), len(frame.landmarks))
    kept = sorted(rng.choice(len(frame.landmarks), count, replace=False)) if count else []
    return replace(frame, landmarks=tuple(frame.landmarks[i] for i in kept))


def place_examples(opened: LandmarkMap, frames: Iterable[Frame], *, known: bool) -> list[PlaceExample]:
    """Ask a map about frames; `known` says that they were taken in it."""
    examples = []
    for frame in frames:
        found = opened.locate(frame, min_probability=0.0)
        pose = frame.T_world_camera
        if known and pose is None:
            raise DataError(f"frame '{frame.name}' has no pose: nobody knows whether an answer is right")
        error = None
        if known and pose is not None and found.pose is not None:
            error = difference(found.pose.T_world_camera, pose)
        examples.append(
            PlaceExample(
                np.array([one.features for one in found.place.candidates]).reshape(-1, len(FEATURES)),
                np.array([one.keyframe.position for one in found.place.candidates]).reshape(-1, 3),
                pose[:3, 3] if known and pose is not None else None,
                error,
                None if found.pose is None else found.pose.covariance,
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


def normalised_error(error: Array, covariance: Array) -> float:
    """The squared error over its covariance on the ground: of three degrees of freedom."""
    off = error[GROUND_AXES]
    return float(off @ np.linalg.solve(covariance[np.ix_(GROUND_AXES, GROUND_AXES)], off))


def covariance_scale(examples: Sequence[PlaceExample], own: Array) -> float:
    """What makes 95 in a hundred of the normalised errors keep to the bounds that 95 in a hundred should keep to.

    Args:
        own: the covariance [6, 6] of the map's poses, which is in those of the examples and is not scaled.
    """
    located = [
        (one.error, one.covariance - own)
        for one in examples
        if one.error is not None and one.covariance is not None and len(one.right) and one.right[0]
    ]
    if not located:
        return 1.0
    scales = np.geomspace(0.02, 50, 200)
    within = [
        np.mean([normalised_error(error, scale * covariance + own) < CHI_SQUARE_95 for error, covariance in located])
        for scale in scales
    ]
    enough = scales[np.array(within) >= 0.95]
    return float(np.round(enough.min(initial=scales[-1]), 3))


def _near(frame: Frame, positions: Array) -> bool:
    pose = frame.T_world_camera
    return pose is not None and bool(np.linalg.norm(positions - pose[:3, 3], axis=1).min() < FARTHEST)


def _model(weights: Array) -> PlaceModel:
    named = dict(zip(("bias", *FEATURES), weights.tolist(), strict=True))
    return PlaceModel.model_validate(named)
