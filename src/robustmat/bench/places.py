"""How well places are recognised and poses found: revisits of mapped streets, and frames of other streets.

An answer is right when its keyframe is within 5 m. Weather is on the queries alone, as for a vehicle with a map.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from robustmat.bench.places_offsets import Offset, offset_of, without_offsets
from robustmat.bench.places_rivals import RIVALS
from robustmat.bench.places_rows import RIGHT, Answered, Located, LocateRow, PlaceRow, locate_row, place_row
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import InputError
from robustmat.mapping.answers import Location, PlaceAnswer
from robustmat.mapping.build import build_map
from robustmat.mapping.info import map_info
from robustmat.mapping.keyframes import choose_keyframes
from robustmat.mapping.landmark_map import LIKELY, LandmarkMap, open_map
from robustmat.mapping.settings import MapSettings
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.perturb import parse, perturb_frame
from robustmat.progress import Progress, silent
from robustmat.types import Array, Frame, Image

Given = TypeVar("Given")
Made = TypeVar("Made")
GIVEN, LESS_OFFSET = "poses as given", "less one offset a revisit"


@dataclass(frozen=True)
class World:
    """A street to map, drives along it to ask about, and frames of other places."""

    mapped: LandmarkDataset
    queries: Mapping[str, Sequence[Frame]]  # by what a run of them is called
    unknown: Sequence[Frame]


@dataclass
class PlaceReport:
    """All that was measured."""

    places: list[PlaceRow] = field(default_factory=list)
    poses: list[LocateRow] = field(default_factory=list)
    offsets: list[Offset] = field(default_factory=list)


@dataclass
class Answers:
    """Single answers and seconds to embed and to ask, by method and weather; bytes of maps, by method."""

    places: dict[tuple[str, str], list[Answered]] = field(default_factory=dict)
    poses: dict[tuple[str, str], list[Located]] = field(default_factory=dict)
    seconds: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)  # of the processor
    megabytes: dict[str, list[float]] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)  # by drive


def evaluate_places(
    folder: Path,
    worlds: Sequence[World],
    matcher: Matcher,
    kept: Mapping[str, MapSettings],
    perturbs: Sequence[str],
    *,
    seed: int = 0,
    rivals: bool = True,
    sequence: bool = True,
    offsets: bool = False,
    progress: Progress = silent,
) -> PlaceReport:
    """Build maps and ask them, and their rivals, about all queries.

    Args:
        folder: where maps are built.
        kept: what maps keep, by what they are called.
        offsets: hold poses also against given ones less one offset a revisit; the first map that keeps keypoints, or
            the first, tells them, in the first weather.
    """
    found = Answers()
    for number, world in enumerate(worlds):
        maps: dict[str, LandmarkMap] = {}
        for name, settings in kept.items():
            place = folder / f"{number}-{len(maps)}"
            build_map(place, [world.mapped], matcher, settings, progress=progress)
            maps[name] = open_map(place, matcher=matcher)
        for perturb in perturbs:
            _ask_world(found, world, maps, perturb, seed, rivals, sequence, progress)
    telling = found.poses[next((name for name, one in kept.items() if one.keypoints), next(iter(kept))), perturbs[0]]
    return _report(found, worlds, telling if offsets else None)


def _ask_world(
    found: Answers,
    world: World,
    maps: Mapping[str, LandmarkMap],
    perturb: str,
    seed: int,
    rivals: bool,
    sequence: bool,
    progress: Progress,
) -> None:
    every = choose_keyframes(world.mapped.frames, MapSettings(keypoints=1), str(world.mapped.path))
    keyframes = [one.frame for one in every]
    positions = np.array([one.T_world_camera[:3, 3] for one in every])
    weather = parse(perturb)
    found.queries.update({drive: len(near_the_map(frames, positions)) for drive, frames in world.queries.items()})
    known = [(drive, frame) for drive, frames in world.queries.items() for frame in near_the_map(frames, positions)]
    seen = [(d, perturb_frame(f, weather, seed, f"{i}/{f.name}")) for i, (d, f) in enumerate(known)]
    others = [perturb_frame(f, weather, seed, f"u{i}/{f.name}") for i, f in enumerate(world.unknown)]
    for name, opened in maps.items():
        size = map_info(opened).bytes_per_kilometre[opened.header.settings.precision] / 1e6
        for method, (answers, poses, times) in _ask(opened, seen, others, name, sequence, perturb, progress):
            found.places.setdefault((method, perturb), []).extend(answers)
            found.poses.setdefault((method, perturb), []).extend(poses)
            found.seconds.setdefault((method, perturb), []).extend(times)
            found.megabytes.setdefault(method, []).append(size)
    for name, make in RIVALS.items() if rivals else ():
        similarity = make(keyframes)
        for number, frame in enumerate(progress([*(one for _, one in seen), *others], f"{name}, {perturb}")):
            answer = _ranked(similarity(frame), positions, frame if number < len(seen) else None)
            found.places.setdefault((name, perturb), []).append(answer)


def _report(found: Answers, worlds: Sequence[World], telling: Sequence[Located] | None) -> PlaceReport:
    """Rows of all answers; `telling` are poses that tell the offsets of revisits."""
    report = PlaceReport()
    for (method, perturb), answers in found.places.items():
        if method in found.megabytes:
            size = float(np.mean(found.megabytes[method]))
            report.places.append(place_row(method, perturb, answers, LIKELY, found.seconds[method, perturb], size))
        else:
            report.places.append(place_row(method, perturb, answers))
    for (method, perturb), poses in found.poses.items():
        for drive, count in sorted(found.queries.items()):
            of_drive = [one for one in poses if one.drive == drive]
            report.poses.append(locate_row(method, perturb, drive, GIVEN, of_drive, count))
            if telling is not None:
                moved = without_offsets(of_drive, telling)
                report.poses.append(locate_row(method, perturb, drive, LESS_OFFSET, moved, count))
    for world in worlds if telling is not None else ():
        track = [_pose(frame) for frame in world.mapped.frames]
        told = [offset_of(drive, telling or (), track) for drive in world.queries]
        report.offsets += [one for one in told if one is not None]
    return report


Asked = tuple[list[Answered], list[Located], list[tuple[float, float]]]


def _ask(
    opened: LandmarkMap,
    seen: Sequence[tuple[str, Frame]],
    others: Sequence[Frame],
    name: str,
    sequence: bool,
    perturb: str,
    progress: Progress,
) -> list[tuple[str, Asked]]:
    """Answers, poses and seconds of single frames and, if wanted, of drives."""

    def locate(one: EmbeddedFrame) -> Location:
        return opened.locate(one, min_probability=0.0)

    frames = [frame for _, frame in seen]
    timed = [_timed(opened.embed, frame) for frame in progress([*frames, *others], f"{name}, embedding, {perturb}")]
    first, rest = [one for one, _ in timed[: len(seen)]], [one for one, _ in timed[len(seen) :]]
    asked = [_timed(locate, one) for one in progress(first, f"{name}, {perturb}")]
    single = [one for one, _ in asked]
    times = [(embed, ask) for (_, embed), (_, ask) in zip(timed, asked, strict=False)]
    foreign = [opened.query(one, min_probability=0.0) for one in progress(rest, f"{name}, other places, {perturb}")]
    reference = opened.header.error_of_poses  # queries' poses are known no better than the map's
    told = [(name, (*_asked(single, seen, foreign, reference), times))]
    if sequence:
        runs = {drive: [i for i, (one, _) in enumerate(seen) if one == drive] for drive, _ in seen}
        tracked = [
            one
            for run in progress(list(runs.values()), f"{name}, drives, {perturb}")
            for one in opened.locate_sequence([first[i] for i in run], min_probability=0.0)
        ]
        in_order = [seen[i] for run in runs.values() for i in run]
        elsewhere = list(opened.query_sequence(rest, min_probability=0.0))
        told.append((f"{name}, as a drive", (*_asked(tracked, in_order, elsewhere, reference), times)))
    return told


def _asked(
    found: Sequence[Location], seen: Sequence[tuple[str, Frame]], foreign: Sequence[PlaceAnswer], reference: Array
) -> tuple[list[Answered], list[Located]]:
    answers = [_answered(one.place, frame) for one, (_, frame) in zip(found, seen, strict=True)]
    answers += [_answered(answer, None) for answer in foreign]
    poses = [
        Located(drive, one.pose.T_world_camera, _pose(frame), one.pose.covariance, reference)
        for one, (drive, frame) in zip(found, seen, strict=True)
        if one.pose is not None and one.place.probability >= LIKELY
    ]
    return answers, poses


def _timed(work: Callable[[Given], Made], given: Given) -> tuple[Made, float]:
    """What comes of it, and seconds of the processor: other work on the machine does not stretch them."""
    start = time.process_time()
    made = work(given)
    return made, time.process_time() - start


def runs_of(name: str, frames: Sequence[Frame]) -> dict[str, list[Frame]]:
    """Frames as drives: a jump of more than 10 m begins another one; called by their first frame, if several."""
    found: list[list[Frame]] = [[]]
    for frame in frames:
        if found[-1] and np.linalg.norm(_pose(frame)[:3, 3] - _pose(found[-1][-1])[:3, 3]) > 10:
            found.append([])
        found[-1].append(frame)
    return {name if len(found) == 1 else f"{name} from {run[0].name}": run for run in found if run}


def near_the_map(frames: Sequence[Frame], positions: Array) -> list[Frame]:
    """Queries that a keyframe could answer rightly."""
    near = [
        frame
        for frame in frames
        if np.linalg.norm(positions - _pose(frame)[:3, 3], axis=1).min(initial=np.inf) <= RIGHT
    ]
    if not near:
        raise InputError("no query was taken within 5 m of the map: nothing could be right")
    return near


def without_colours(frame: Frame) -> Frame:
    """Without colours: a grey map must not tell other drives apart by theirs."""
    return replace(frame, load_image=partial(_grey, frame))


def _grey(frame: Frame) -> Image:
    import cv2

    return np.repeat(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)


def _answered(answer: PlaceAnswer, frame: Frame | None) -> Answered:
    if frame is None or answer.nearest is None:
        return Answered((), answer.probability, known=frame is not None)
    positions = np.array([answer.nearest.position, *(one.keyframe.position for one in answer.candidates[1:])])
    away = np.linalg.norm(positions[different_places(positions)] - _pose(frame)[:3, 3], axis=1)
    return Answered(tuple(away.tolist()), answer.probability, known=True)


def different_places(positions: Array, count: int = 5) -> list[int]:
    """The first `count` of positions [N, 3] that are not next to one before: five answers are five places."""
    chosen: list[int] = []
    for i, place in enumerate(positions):
        if all(np.linalg.norm(place - positions[j]) >= RIGHT for j in chosen):
            chosen.append(i)
    return chosen[:count]


def _ranked(similarity: Array, positions: Array, frame: Frame | None) -> Answered:
    order = np.argsort(-similarity, kind="stable")
    order = order[different_places(positions[order])]
    if frame is None:
        return Answered((), float(similarity[order[0]]), known=False)
    away = np.linalg.norm(positions[order] - _pose(frame)[:3, 3], axis=1)
    return Answered(tuple(away.tolist()), float(similarity[order[0]]), known=True)


def _pose(frame: Frame) -> Array:
    if frame.T_world_camera is None:
        raise InputError(f"frame '{frame.name}' has no pose: nobody knows whether an answer is right")
    return frame.T_world_camera
