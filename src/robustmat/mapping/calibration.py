"""Fitting the place model: which evidence means a place, and how wide a pose's covariance must be.

It is fitted on simulated towns, never on drives that are reported: the first drive of each town is the map, its other
drives, in another look, are asked about, and so are drives of the other towns, which are unknown places.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError, InputError
from robustmat.mapping.answers import KeyframeInfo
from robustmat.mapping.build import build_map
from robustmat.mapping.landmark_map import LandmarkMap, open_map
from robustmat.mapping.localisation import error_of_points, pose_of
from robustmat.mapping.place_model import FEATURES, PlaceModel, places
from robustmat.mapping.pose import PoseEstimate, difference
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
GROSS = 1.0  # metres
FEWEST, FEW = 1, 4  # landmarks that are left where a query is thinned
FARTHEST = 8.0  # metres from the map that a query of a known place may be


@dataclass(frozen=True)
class PoseExample:
    """A pose that was found, and how far it is off."""

    error: Array  # [6], in its own axes
    covariance: Array  # [6, 6], as computed, before it is scaled
    own: Array  # [6, 6], of the map's poses
    distance: float  # metres from the keyframe that the pose rests on


@dataclass(frozen=True)
class PlaceExample:
    """What a query saw of its candidates, and which of them are right: none where the place is unknown."""

    features: Array  # [N, F]
    positions: Array  # [N, 3]
    truth: Array | None  # [3]
    poses: tuple[PoseExample, ...] = ()

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
    drives: Sequence[LandmarkDataset] = (),
    progress: Progress = silent,
) -> PlaceModel:
    """A place model for maps with these settings; they are made in `folder`.

    Args:
        drives: real ones, which tell how poses err with the distance from a keyframe.
    """
    examples = town_examples(
        datasets, matcher, folder, settings, perturbs=perturbs, every=every, seed=seed, progress=progress
    )
    model = fit_place_model(examples, fitted_on)
    settings = (settings or MapSettings()).model_copy(update={"pose_error": None})
    located = [pose for one in drives for pose in drive_examples(one, matcher, folder, settings, every, progress)]
    in_towns = covariance_scale([pose for one in examples for pose in one.poses])
    scale = max(in_towns, covariance_scale(located)) if located else in_towns
    return model.model_copy(update={"covariance_scale": scale, "drift": drift(located, scale)})


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
        example = PlaceExample(
            np.array([one.features for one in found.place.candidates]).reshape(-1, len(FEATURES)),
            np.array([one.keyframe.position for one in found.place.candidates]).reshape(-1, 3),
            pose[:3, 3] if known and pose is not None else None,
        )
        if found.pose is not None and pose is not None and len(example.right) and example.right[0]:
            near = found.place.candidates[0].keyframe
            example = replace(example, poses=(_pose_example(found.pose, pose, near, opened.header.error_of_poses),))
        examples.append(example)
    return examples


def drive_examples(
    dataset: LandmarkDataset, matcher: Matcher, folder: Path, settings: MapSettings, every: int, progress: Progress
) -> list[PoseExample]:
    """A drive located in itself: of every second frame a map is made, every Nth of the others is asked about.

    Each keyframe around a frame tells a pose of its own, from near and far.
    """
    place = folder / f"drive {dataset.name}"
    build_map(place, [replace(dataset, frames=dataset.frames[::2])], matcher, settings, progress=progress)
    opened = open_map(place, matcher=matcher, model=PlaceModel())
    own, found = opened.header.error_of_poses, []
    for frame in progress(dataset.frames[1 :: 2 * every], f"{dataset.name}, located"):
        truth, camera = frame.T_world_camera, frame.camera
        if truth is None or camera is None:
            continue
        for one in opened.query(frame).candidates:
            near = np.linalg.norm(one.keyframe.position - truth[:3, 3]) < RIGHT
            pose = pose_of([one], camera, None, own, PlaceModel()) if near else None
            if pose is not None:
                found.append(_pose_example(pose, truth, one.keyframe, own))
    return found


def _pose_example(pose: PoseEstimate, truth: Array, keyframe: KeyframeInfo, own: Array) -> PoseExample:
    distance = float(np.linalg.norm(pose.T_world_camera[:3, 3] - keyframe.position))
    return PoseExample(difference(pose.T_world_camera, truth), pose.covariance - own, own, distance)


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


def covariance_scale(examples: Sequence[PoseExample]) -> float:
    """What makes 95 in a hundred of the normalised errors keep to the bounds that 95 in a hundred should keep to.

    The error of the map's poses is not scaled. It is added twice: the poses that errors are measured by have it, too.
    Gross errors are left out: they are wrong answers, and no covariance tells those.
    """
    examples = [one for one in examples if np.linalg.norm(one.error[:3]) < GROSS]
    return _least(np.geomspace(0.02, 50, 200), examples, lambda one, scale: scale * one.covariance + 2 * one.own, 1.0)


def drift(examples: Sequence[PoseExample], scale: float) -> float:
    """Metres of error for each metre from a keyframe that make 95 in a hundred errors keep to their bounds.

    The farther half of the examples tells it.
    """
    middle = np.median([one.distance for one in examples]) if examples else 0.0
    return _least(
        np.linspace(0, 0.1, 101),
        [one for one in examples if one.distance >= middle],
        lambda one, share: scale * one.covariance + 2 * one.own + error_of_points(share * one.distance),
        0.0,
    )


def _least(
    values: Array, examples: Sequence[PoseExample], covariance: Callable[[PoseExample, float], Array], nothing: float
) -> float:
    """The least value by which 95 in a hundred errors keep to their bounds; `nothing` without examples."""
    if not examples:
        return nothing
    within = [
        np.mean([normalised_error(one.error, covariance(one, value)) < CHI_SQUARE_95 for one in examples])
        for value in values
    ]
    return float(np.round(values[np.array(within) >= 0.95].min(initial=values[-1]), 3))


def _near(frame: Frame, positions: Array) -> bool:
    pose = frame.T_world_camera
    return pose is not None and bool(np.linalg.norm(positions - pose[:3, 3], axis=1).min() < FARTHEST)


def _model(weights: Array) -> PlaceModel:
    named = dict(zip(("bias", *FEATURES), weights.tolist(), strict=True))
    return PlaceModel.model_validate(named)
