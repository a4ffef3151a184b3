"""Objects of a map: put together from what single landmarks and single stretches say about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet
from scipy.spatial import cKDTree

from robustmat.types import Array, Frame

SAME_PLACE = {"window": 1.0}  # metres between two drives' places of one object
DEFAULT_SAME_PLACE = 0.5


@dataclass(frozen=True)
class MapObject:
    """A thing that stands in the world, as all drives together know it."""

    names: tuple[str, ...]  # what each drive calls it
    category: str
    position: tuple[float, float, float] | None  # world metres
    sightings: int
    first_time: float | None
    last_time: float | None
    keyframes: tuple[str, ...]


def object_name(dataset: str, keyframe: str, index: int, identity: int | None) -> str:
    """What a landmark's object is called; a landmark without an identity is an object of its own."""
    return f"{dataset}#{identity}" if identity is not None else f"{keyframe}:{index}"


def identity_positions(frames: Sequence[Frame]) -> dict[int, Array]:
    """The median of the places at which each identity of a drive was seen: [3]."""
    seen: dict[int, list[Any]] = {}
    for frame in frames:
        for mark in frame.landmarks:
            if mark.identity is not None and mark.position is not None:
                seen.setdefault(mark.identity, []).append(mark.position)
    return {identity: np.median(np.array(places), axis=0) for identity, places in seen.items()}


def farthest_points(vectors: NDArray[np.float32], count: int) -> list[int]:
    """Rows that stand for all: the one nearest to the mean, then always the one farthest from those chosen."""
    if len(vectors) <= count:
        return list(range(len(vectors)))
    chosen = [int(np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).argmin())]
    distance = np.linalg.norm(vectors - vectors[chosen[0]], axis=1)
    while len(chosen) < count:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(vectors - vectors[chosen[-1]], axis=1))
    return chosen


def merge_objects(rows: Sequence[Mapping[str, Any]]) -> list[MapObject]:
    """Rows of the table as objects: one name is one object, and so are things of one category at one place."""
    names = sorted({row["object"] for row in rows})
    number = {name: i for i, name in enumerate(names)}
    places = _places(rows, number)
    category = {number[row["object"]]: row["category"] for row in rows}
    together = DisjointSet(range(len(names)))
    for kind in sorted(set(category.values())):
        members = np.array([i for i in range(len(names)) if category[i] == kind and np.isfinite(places[i]).all()])
        if len(members) > 1:
            near = cKDTree(places[members]).query_pairs(SAME_PLACE.get(kind, DEFAULT_SAME_PLACE))
            for i, j in near:
                together.merge(int(members[i]), int(members[j]))
    by_root: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_root.setdefault(int(together[number[row["object"]]]), []).append(row)
    return [_united(group, places, number) for _, group in sorted(by_root.items())]


def _places(rows: Sequence[Mapping[str, Any]], number: Mapping[str, int]) -> Array:
    """The mean place of each name, weighted by sightings: [N, 3], nan where it is not known."""
    total, weight = np.zeros((len(number), 3)), np.zeros(len(number))
    for row in rows:
        place = np.array([row["x"], row["y"], row["z"]], float)
        if np.isfinite(place).all():
            total[number[row["object"]]] += row["sightings"] * place
            weight[number[row["object"]]] += row["sightings"]
    with np.errstate(invalid="ignore"):
        return np.asarray(total / weight[:, None])


def _united(group: Sequence[Mapping[str, Any]], places: Array, number: Mapping[str, int]) -> MapObject:
    names = sorted({row["object"] for row in group})
    counts = {name: sum(row["sightings"] for row in group if row["object"] == name) for name in names}
    known = [name for name in names if np.isfinite(places[number[name]]).all()]
    position = None
    if known:
        mean = np.average([places[number[name]] for name in known], axis=0, weights=[counts[name] for name in known])
        position = (float(mean[0]), float(mean[1]), float(mean[2]))
    times = [row[key] for row in group for key in ("first_time", "last_time") if np.isfinite(row[key])]
    return MapObject(
        names=tuple(names),
        category=group[0]["category"],
        position=position,
        sightings=sum(counts.values()),
        first_time=min(times) if times else None,
        last_time=max(times) if times else None,
        keyframes=tuple(sorted({keyframe for row in group for keyframe in row["keyframes"]})),
    )
