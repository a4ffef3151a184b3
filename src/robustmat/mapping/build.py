"""From landmark data sets to the batches of a map: one batch a stretch of a drive, each independent of all others."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError, InputError
from robustmat.mapping.keyframes import Keyframe, choose_keyframes, stretches
from robustmat.mapping.objects import farthest_points, identity_positions, object_name
from robustmat.mapping.packing import keep_landmarks, pack
from robustmat.mapping.scene import add_keypoints, place_keypoints, stored_once
from robustmat.mapping.settings import POSE_ERROR, MapHeader, MapSettings, refuse_other_matcher
from robustmat.mapping.store import Batch, MapStore, create_store, held, open_store
from robustmat.mapping.vectors import search_vectors
from robustmat.mapping.words import frame_vector
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.progress import Progress, silent
from robustmat.types import Array, Camera, Frame, Landmark

FOR_SCENE = 500  # keypoints of a keyframe that evidence `scene` is given, unless told


@dataclass(frozen=True)
class Stretch:
    """What one batch is made of: keyframes whose landmarks have their objects' places."""

    name: str  # of the batch; the same input gives the same name
    dataset: str
    keyframes: tuple[Keyframe, ...]


@dataclass(frozen=True)
class Added:
    """What `add_datasets` did."""

    written: int
    already_there: int


def build_map(
    place: Path | str,
    datasets: Sequence[LandmarkDataset],
    matcher: Matcher,
    settings: MapSettings | None = None,
    *,
    checkpoint: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress = silent,
    append: "Append | None" = None,
) -> Added:
    """Make a map from data sets; made again after an interruption, it goes on where it was.

    Args:
        checkpoint: what the matcher was loaded by, so that whoever opens the map can load it, too.
        append: how stretches are embedded and written: one after the other, unless told (`cluster.running_on`).
    """
    settings = settings or MapSettings()
    if matcher.evidence == "scene" and not settings.keypoints:
        settings = settings.model_copy(update={"keypoints": FOR_SCENE})
    if settings.pose_error is None:
        by = {dataset.poses_refined_by for dataset in datasets}
        settings = settings.model_copy(update={"pose_error": max(POSE_ERROR[one] for one in by)})
    first = _first_embedded(datasets, matcher)
    header = MapHeader(
        world=one_world(datasets),
        checkpoint=checkpoint or matcher.name,
        evidence=matcher.evidence,
        fingerprint=matcher.fingerprint,
        dimension=int(search_vectors(first).shape[1]),
        arrays=tuple(sorted(first.arrays)),
        settings=settings,
    )
    return _append_all(create_store(place, header, storage_options), datasets, matcher, progress, append)


def add_datasets(
    place: Path | str,
    datasets: Sequence[LandmarkDataset],
    matcher: Matcher,
    *,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress = silent,
    append: "Append | None" = None,
) -> Added:
    """Add drives to a map; what is there already is not added again."""
    store = open_store(place, storage_options)
    refuse_other_matcher(store.header, matcher, str(place))
    if one_world(datasets) != store.header.world:
        raise InputError(
            f"map {place} is of the world '{store.header.world}', the data set of '{datasets[0].world}': places of two "
            "worlds do not share coordinates"
        )
    return _append_all(store, datasets, matcher, progress, append)


def _append_all(
    store: MapStore,
    datasets: Sequence[LandmarkDataset],
    matcher: Matcher,
    progress: Progress,
    append: "Append | None",
) -> Added:
    planned = plan(store, datasets)
    total = sum(len(drive_stretches(dataset, store.header)) for dataset in datasets)
    with held(store.place):
        written = (append or append_here)(store, planned, matcher, progress)
    return Added(written, total - written)


def append_here(store: MapStore, stretches: Sequence[Stretch], matcher: Matcher, progress: Progress) -> int:
    """Embed and write stretches one after the other; how many were written."""
    settings = store.header.settings
    return sum(store.append(make_batch(stretch, matcher, settings)) for stretch in progress(stretches, "mapping"))


Append = Callable[[MapStore, Sequence[Stretch], Matcher, Progress], int]


def plan(store: MapStore, datasets: Sequence[LandmarkDataset]) -> list[Stretch]:
    """The stretches of drives that a map lacks."""
    snapshot = store.snapshot()
    missing = []
    for dataset in datasets:
        pieces = drive_stretches(dataset, store.header)
        names = {piece.name for piece in pieces}
        foreign = [
            row for row in snapshot.batches.values() if row["dataset"] == dataset.name and row["batch"] not in names
        ]
        if foreign:
            raise DataError(
                f"map {store.place} holds a drive named '{dataset.name}' with other content: give the data set another "
                "name, or build the map again"
            )
        missing += [piece for piece in pieces if piece.name not in snapshot.batches]
    return missing


def drive_stretches(dataset: LandmarkDataset, header: MapHeader) -> list[Stretch]:
    """A drive as stretches; landmarks that the map does not want are left out."""
    settings = header.settings
    places = identity_positions(dataset.frames)
    counts = Counter(mark.identity for frame in dataset.frames for mark in frame.landmarks)
    keyframes = choose_keyframes(dataset.frames, settings, f"data set {dataset.path}")
    placed = [replace(keyframe, frame=_with_places(keyframe.frame, places)) for keyframe in keyframes]
    wanted = [replace(keyframe, frame=_wanted(keyframe.frame, counts, settings)) for keyframe in placed]
    return [
        Stretch(batch_name(dataset.name, piece, header), dataset.name, tuple(piece))
        for piece in stretches([one for one in wanted if one.frame.landmarks or settings.keypoints], settings)
    ]


def batch_name(dataset: str, keyframes: Sequence[Keyframe], header: MapHeader) -> str:
    """Names a batch by everything that decides its rows, pixels excepted."""
    content = [
        [
            keyframe.frame.name,
            keyframe.T_world_camera.tolist(),
            [[m.box, m.category, m.identity] for m in keyframe.frame.landmarks],
        ]
        for keyframe in keyframes
    ]
    text = json.dumps([dataset, header.fingerprint, header.evidence, content])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def make_batch(stretch: Stretch, matcher: Matcher, settings: MapSettings) -> Batch:
    """Embed a stretch's keyframes: the long part of making a map."""
    embedded = [matcher.embed(keyframe.frame) for keyframe in stretch.keyframes]
    wholes: list[NDArray[Any] | None] = [None] * len(embedded)
    if settings.keypoints:
        seen = [add_keypoints(frame, one.frame.image) for frame, one in zip(embedded, stretch.keyframes, strict=True)]
        wholes = [_stored(frame_vector(frame.arrays), settings) for frame in seen]
        poses = [one.T_world_camera for one in stretch.keyframes]
        cameras = [_camera(stretch.dataset, one) for one in stretch.keyframes]
        embedded = [stored_once(frame) for frame in place_keypoints(seen, poses, cameras, settings.keypoints)]
    vectors = [search_vectors(frame) for frame in embedded]
    if settings.max_landmarks is not None:
        kept = rarest(vectors, settings.max_landmarks)
        embedded = [keep_landmarks(frame, rows) for frame, rows in zip(embedded, kept, strict=True)]
        vectors = [rows[index] for rows, index in zip(vectors, kept, strict=True)]
    names = [f"{stretch.dataset}/{keyframe.frame.name}" for keyframe in stretch.keyframes]
    keyframes = [
        _keyframe_row(name, stretch.dataset, keyframe, frame, whole, settings)
        for name, keyframe, frame, whole in zip(names, stretch.keyframes, embedded, wholes, strict=True)
    ]
    objects, views = _object_rows(stretch, names, embedded, vectors, settings)
    route = np.array([keyframe.travelled for keyframe in stretch.keyframes])
    about = {
        "dataset": stretch.dataset,
        "first": stretch.keyframes[0].frame.name,
        "last": stretch.keyframes[-1].frame.name,
        "keyframes": len(keyframes),
        "objects": len(objects),
        "landmarks": sum(len(frame.landmarks) for frame in embedded),
        "views": len(views),
        "metres": float(route.max() - route.min()) + settings.keyframe_spacing,
    }
    return Batch(stretch.name, about, keyframes, objects, views)


def rarest(vectors: Sequence[NDArray[np.float32]], most: int) -> list[NDArray[np.intp]]:
    """Which landmarks of each frame look least like those of frames that are not its neighbours."""
    kept = []
    for number, own in enumerate(vectors):
        others = [rows for other, rows in enumerate(vectors) if abs(other - number) > 5 and len(rows)]
        if len(own) <= most or not others:
            kept.append(np.arange(min(len(own), most)))
            continue
        alike = own @ np.concatenate(others).T
        kept.append(np.sort(np.argsort(np.sort(alike, axis=1)[:, -5:].mean(axis=1), kind="stable")[:most]))
    return kept


def _keyframe_row(
    name: str,
    dataset: str,
    keyframe: Keyframe,
    frame: EmbeddedFrame,
    whole: NDArray[Any] | None,
    settings: MapSettings,
) -> dict[str, Any]:
    """`whole` is what the whole frame looks like, where that is kept."""
    pose, camera = keyframe.T_world_camera, _camera(dataset, keyframe)
    return {
        **({} if whole is None else {"vector": whole}),
        "keyframe": name,
        "dataset": dataset,
        "frame": keyframe.frame.name,
        "time": np.nan if keyframe.frame.time is None else keyframe.frame.time,
        "travelled": keyframe.travelled,
        **_place(pose[:3, 3]),
        "pose": pose.ravel().tolist(),
        "camera": camera.matrix.ravel().tolist(),
        "width": camera.width,
        "height": camera.height,
        "landmarks": len(frame.landmarks),
        "embedded": pack(frame, settings.precision),
    }


def _camera(dataset: str, keyframe: Keyframe) -> Camera:
    if keyframe.frame.camera is None:
        raise DataError(f"data set '{dataset}', frame '{keyframe.frame.name}' has no camera matrix: a map needs one")
    return keyframe.frame.camera


def _object_rows(
    stretch: Stretch,
    names: Sequence[str],
    embedded: Sequence[EmbeddedFrame],
    vectors: Sequence[NDArray[np.float32]],
    settings: MapSettings,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    seen: dict[str, list[tuple[int, int]]] = {}  # keyframe and landmark
    for k, frame in enumerate(embedded):
        for i, mark in enumerate(frame.landmarks):
            seen.setdefault(object_name(stretch.dataset, names[k], i, mark.identity), []).append((k, i))
    objects, views = [], []
    for name, sightings in seen.items():
        marks = [embedded[k].landmarks[i] for k, i in sightings]
        position = marks[0].position
        about = {
            "object": name,
            "category": Counter(mark.category for mark in marks).most_common(1)[0][0],
            **_place(np.full(3, np.nan) if position is None else np.array(position)),
        }
        times = [time for k, _ in sightings if (time := stretch.keyframes[k].frame.time) is not None]
        objects.append(
            {
                **about,
                "sightings": len(sightings),
                "first_time": min(times, default=np.nan),
                "last_time": max(times, default=np.nan),
                "keyframes": sorted({names[k] for k, _ in sightings}),
            }
        )
        rows = np.stack([vectors[k][i] for k, i in sightings])
        for chosen in farthest_points(rows, settings.views):
            box = marks[chosen].box
            views.append({**about, "pixels": box[3] - box[1], "vector": _stored(rows[chosen], settings)})
    return objects, views


def _stored(vector: NDArray[np.float32], settings: MapSettings) -> NDArray[Any]:
    return vector if settings.precision == "float32" else vector.astype(np.float16)


def _place(point: Array) -> dict[str, float]:
    return {"x": float(point[0]), "y": float(point[1]), "z": float(point[2])}


def _with_places(frame: Frame, places: Mapping[int, Array]) -> Frame:
    marks = []
    for mark in frame.landmarks:
        place = places.get(mark.identity) if mark.identity is not None else None
        position = None if place is None else (float(place[0]), float(place[1]), float(place[2]))
        marks.append(Landmark(mark.box, mark.category, mark.identity, position))
    return replace(frame, landmarks=tuple(marks))


def _wanted(frame: Frame, counts: Mapping[int | None, int], settings: MapSettings) -> Frame:
    marks = [
        mark
        for mark in frame.landmarks
        if mark.box[3] - mark.box[1] >= settings.min_height
        and (1 if mark.identity is None else counts[mark.identity]) >= settings.min_sightings
    ]
    return replace(frame, landmarks=tuple(marks))


def one_world(datasets: Iterable[LandmarkDataset]) -> str:
    """The world that all data sets share."""
    worlds = sorted({dataset.world for dataset in datasets})
    if len(worlds) != 1:
        listed = ", ".join(worlds) or "none"
        raise InputError(f"a map is of one world, found {listed}: data sets share coordinates only within a world")
    return worlds[0]


def _first_embedded(datasets: Sequence[LandmarkDataset], matcher: Matcher) -> EmbeddedFrame:
    """What the matcher keeps of a frame with landmarks."""
    for dataset in datasets:
        for frame in dataset.frames:
            if frame.landmarks:
                return matcher.embed(frame)
    raise DataError("the data sets hold no landmarks: there is nothing to make a map of")
