"""How well places are recognised and poses found: revisits of a mapped street, and frames of other streets.

An answer is right when its keyframe is within 5 m. Weather is on the queries alone, as for a vehicle with a map.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.bench.places_rivals import RIVALS
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import InputError
from robustmat.files import write_text
from robustmat.mapping.answers import PlaceAnswer
from robustmat.mapping.build import build_map
from robustmat.mapping.calibration import GROUND_AXES
from robustmat.mapping.keyframes import choose_keyframes
from robustmat.mapping.landmark_map import LandmarkMap, open_map
from robustmat.mapping.pose import difference
from robustmat.mapping.settings import MapSettings
from robustmat.matching.matcher import Matcher
from robustmat.perturb import parse, perturb_frame
from robustmat.progress import Progress, silent
from robustmat.types import Array, Frame, Image

RIGHT = 5.0  # metres
PRECISION = 0.95
CHI_SQUARE_95 = 7.815  # of three degrees of freedom


@dataclass(frozen=True)
class Answered:
    """A method's best keyframes for one query: their distances from the truth, and how sure it is of the first."""

    distances: tuple[float, ...]  # metres, best first, at most five; of an unknown place infinite
    confidence: float
    known: bool

    @property
    def right(self) -> bool:
        return self.known and bool(self.distances) and self.distances[0] <= RIGHT


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
    seconds: float  # a query, median

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class LocateRow:
    """Poses of one way to locate under one weather."""

    method: str
    perturb: str
    answered: float  # share of the queries
    metres: float  # median
    degrees: float  # median
    metres_90: float  # nine in ten are better
    within_bounds: float  # share of normalised errors within the bounds of 95 %
    normalised: float  # median over its expectation: 1 if the covariance is exact

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def evaluate_places(
    place: Path,
    mapped: LandmarkDataset,
    queries: Sequence[Frame],
    unknown: Sequence[Frame],
    matcher: Matcher,
    perturbs: Sequence[str],
    *,
    settings: MapSettings | None = None,
    seed: int = 0,
    rivals: bool = True,
    progress: Progress = silent,
) -> tuple[list[PlaceRow], list[LocateRow]]:
    """Build a map and ask it, and its rivals, about all queries."""
    settings = settings or MapSettings()
    build_map(place, [mapped], matcher, settings, progress=progress)
    opened = open_map(place, matcher=matcher)
    keyframes = [one.frame for one in choose_keyframes(mapped.frames, settings, str(mapped.path))]
    positions = np.array([frame.T_world_camera[:3, 3] for frame in keyframes if frame.T_world_camera is not None])
    known = near_the_map(queries, positions)
    places, poses = [], []
    similar = {name: make(keyframes) for name, make in RIVALS.items()} if rivals else {}
    for perturb in perturbs:
        seen = [perturb_frame(frame, parse(perturb), seed, f"{i}/{frame.name}") for i, frame in enumerate(known)]
        others = [perturb_frame(frame, parse(perturb), seed, f"u{i}/{frame.name}") for i, frame in enumerate(unknown)]
        rows, located = _ask(opened, seen, others, perturb, progress)
        places += rows
        poses += located
        for name, similarity in similar.items():
            answers = [
                _ranked(similarity(frame), positions, frame if is_known else None)
                for frame, is_known in progress([*((f, True) for f in seen), *((f, False) for f in others)], name)
            ]
            places.append(place_row(name, perturb, answers, None, [0.0]))
    return places, poses


def _ask(
    opened: LandmarkMap, seen: Sequence[Frame], others: Sequence[Frame], perturb: str, progress: Progress
) -> tuple[list[PlaceRow], list[LocateRow]]:
    embedded = [opened.embed(frame) for frame in progress([*seen, *others], f"embedding, {perturb}")]
    first, rest = embedded[: len(seen)], embedded[len(seen) :]
    single = [opened.locate(frame, min_probability=0.0) for frame in progress(first, f"locating, {perturb}")]
    foreign = [opened.query(frame, min_probability=0.0) for frame in progress(rest, f"other places, {perturb}")]
    drives = runs(seen)
    tracked = [one for run in drives for one in opened.locate_sequence([first[i] for i in run], min_probability=0.0)]
    order = [i for run in drives for i in run]
    foreign_drive = list(opened.query_sequence(rest, min_probability=0.0))
    places, poses = [], []
    for name, found, frames, elsewhere in (
        (_named(opened), single, list(seen), foreign),
        (f"{_named(opened)}, sequence", tracked, [seen[i] for i in order], foreign_drive),
    ):
        answers = [_answered(one.place, frame) for one, frame in zip(found, frames, strict=True)]
        answers += [_answered(answer, None) for answer in elsewhere]
        places.append(place_row(name, perturb, answers, 0.5, [one.seconds for one in found]))
        sure = [None if one.place.probability < 0.5 or one.pose is None else one.pose for one in found]
        errors = [
            (difference(pose.T_world_camera, _pose(frame)), pose.covariance)
            for pose, frame in zip(sure, frames, strict=True)
            if pose is not None
        ]
        poses.append(locate_row(name, perturb, errors, len(frames)))
    return places, poses


def _named(opened: LandmarkMap) -> str:
    return "landmark map with keypoints" if opened.header.settings.keypoints else "landmark map"


def place_row(
    method: str, perturb: str, answers: Sequence[Answered], threshold: float | None, seconds: Sequence[float]
) -> PlaceRow:
    """Recall of places, with and without unknown ones."""
    known = [one for one in answers if one.known]
    order = sorted(answers, key=lambda one: -one.confidence)
    right = np.cumsum([one.right for one in order])
    precision, recall = right / np.arange(1, len(order) + 1), right / max(len(known), 1)
    enough = recall[precision >= PRECISION]
    own = [] if threshold is None else [one for one in answers if one.confidence >= threshold]
    gained = np.diff(np.concatenate([[0.0], recall]))
    return PlaceRow(
        method=method,
        perturb=perturb,
        recall_at_1=float(np.mean([one.right for one in known])),
        recall_at_5=float(np.mean([any(distance <= RIGHT for distance in one.distances) for one in known])),
        recall_at_precision=float(enough.max(initial=0.0)),
        average_precision=float((precision * gained).sum()),
        queries=len(known),
        unknown=len(answers) - len(known),
        answers=len(own),
        precision=float(np.mean([one.right for one in own])) if own else 0.0,
        seconds=float(np.median(seconds)),
    )


def locate_row(method: str, perturb: str, errors: Sequence[tuple[Array, Array]], queries: int) -> LocateRow:
    """Errors [6] with their covariances, of the queries that were answered."""
    if not errors:
        return LocateRow(method, perturb, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    metres = [float(np.linalg.norm(off[:3])) for off, _ in errors]
    degrees = [float(np.degrees(np.linalg.norm(off[3:]))) for off, _ in errors]
    axes = np.ix_(GROUND_AXES, GROUND_AXES)
    normalised = np.array(
        [off[GROUND_AXES] @ np.linalg.solve(covariance[axes], off[GROUND_AXES]) for off, covariance in errors]
    )
    return LocateRow(
        method,
        perturb,
        len(errors) / queries,
        float(np.median(metres)),
        float(np.median(degrees)),
        float(np.quantile(metres, 0.9)),
        float(np.mean(normalised < CHI_SQUARE_95)),
        float(np.median(normalised) / 2.366),
    )


def runs(frames: Sequence[Frame]) -> list[list[int]]:
    """Frames as drives: a jump of more than 10 m begins another one."""
    found: list[list[int]] = [[]]
    for number, frame in enumerate(frames):
        if found[-1] and np.linalg.norm(_pose(frame)[:3, 3] - _pose(frames[number - 1])[:3, 3]) > 10:
            found.append([])
        found[-1].append(number)
    return [run for run in found if run]


def near_the_map(frames: Sequence[Frame], positions: Array) -> list[Frame]:
    """Queries that a keyframe could answer rightly, looking the same way."""
    near = [
        frame
        for frame in frames
        if np.linalg.norm(positions - _pose(frame)[:3, 3], axis=1).min(initial=np.inf) <= RIGHT
    ]
    if not near:
        raise InputError("no query was taken within 5 m of the map: nothing could be right")
    return near


def write_places(places: Sequence[PlaceRow], poses: Sequence[LocateRow], folder: Path) -> Path:
    """Write `places.csv`, all numbers, and `places.md`, two tables."""
    fields = [*PlaceRow.__dataclass_fields__]
    lines = [",".join(fields)] + [",".join(_plain(row.to_json()[name]) for name in fields) for row in places]
    write_text(folder / "places.csv", "\n".join(lines) + "\n")
    fields = [*LocateRow.__dataclass_fields__]
    lines = [",".join(fields)] + [",".join(_plain(row.to_json()[name]) for name in fields) for row in poses]
    write_text(folder / "places-poses.csv", "\n".join(lines) + "\n")
    text = [
        "# Places",
        "",
        "| method | queries | R@1 | R@5 | recall at precision 0.95 | average precision | answers, their precision |",
    ]
    text += ["|---|---|---|---|---|---|---|"]
    for row in places:
        own = f"{row.answers}, {row.precision:.2f}" if row.answers else "-"
        text.append(
            f"| {row.method} | {row.perturb} | {row.recall_at_1:.2f} | {row.recall_at_5:.2f} | "
            f"{row.recall_at_precision:.2f} | {row.average_precision:.2f} | {own} |"
        )
    text += [
        "",
        "| poses | queries | answered | metres, median | degrees, median | metres, 90 % | within 95 % bounds |",
    ]
    text += ["|---|---|---|---|---|---|---|"]
    for one in poses:
        text.append(
            f"| {one.method} | {one.perturb} | {one.answered:.2f} | {one.metres:.2f} | {one.degrees:.2f} | "
            f"{one.metres_90:.2f} | {one.within_bounds:.2f} |"
        )
    write_text(folder / "places.md", "\n".join(text) + "\n")
    return folder / "places.md"


def _plain(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def without_colours(frame: Frame) -> Frame:
    """Without colours: a grey map must not tell other drives apart by theirs."""
    return replace(frame, load_image=partial(_grey, frame))


def _grey(frame: Frame) -> Image:
    import cv2

    return np.repeat(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)


def _answered(answer: PlaceAnswer, frame: Frame | None) -> Answered:
    found = [answer.nearest] if answer.nearest is not None else []
    found += [one.keyframe for one in answer.candidates[1:5]]
    if frame is None:
        return Answered((), answer.probability, known=False)
    here = _pose(frame)[:3, 3]
    return Answered(tuple(float(np.linalg.norm(one.position - here)) for one in found), answer.probability, known=True)


def _ranked(similarity: Array, positions: Array, frame: Frame | None) -> Answered:
    order = np.argsort(-similarity, kind="stable")[:5]
    if frame is None:
        return Answered((), float(similarity[order[0]]), known=False)
    away = np.linalg.norm(positions[order] - _pose(frame)[:3, 3], axis=1)
    return Answered(tuple(away.tolist()), float(similarity[order[0]]), known=True)


def _pose(frame: Frame) -> Array:
    if frame.T_world_camera is None:
        raise InputError(f"frame '{frame.name}' has no pose: nobody knows whether an answer is right")
    return frame.T_world_camera
