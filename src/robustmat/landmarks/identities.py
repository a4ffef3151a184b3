"""Which observations of a drive are the same object: clusters of positions over frames."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from robustmat.landmarks.config import DEFAULT, IdentityConfig
from robustmat.types import CATEGORIES, Array

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Observations:
    """Located landmarks, column by column: this is all that identities follow from."""

    frame: Indices  # [N], in the order of time
    category: Indices  # [N], index into CATEGORIES
    position: Array  # [N, 3], world metres
    area: Indices  # [N], pixels that it covers

    @staticmethod
    def of(rows: Iterable[tuple[int, str, tuple[float, float, float], int]]) -> "Observations":
        """From (frame, category, position, area) of each."""
        numbers = ((frame, CATEGORIES.index(category), position, area) for frame, category, position, area in rows)
        table = np.fromiter(numbers, dtype=[("frame", "i8"), ("category", "i8"), ("position", "f8", 3), ("area", "i8")])
        return Observations(table["frame"], table["category"], table["position"], table["area"])


def associate(seen: Observations, up: Array, config: IdentityConfig = DEFAULT.identities) -> list[int | None]:
    """An identity, counted from 0 in order of first sight, or None, for each observation.

    Two observations of one frame are never one object: where a cluster holds two (a pole cut in pieces by a
    sign or a branch), the larger keeps the identity and the other goes without. So do sightings far from
    the middle of a cluster that chained on from object to object. An identity seen in too few frames is noise.
    """
    clusters: list[Indices] = []
    for number, category in enumerate(CATEGORIES):
        members = np.flatnonzero(seen.category == number)
        if not len(members):
            continue
        radius = config.cluster_radius(category)
        positions = seen.position[members]
        if category == "pole":
            positions = positions - (1 - config.pole_height_weight) * np.outer(positions @ up, up)
        labels = DBSCAN(eps=radius, min_samples=config.fewest_frames).fit_predict(positions)
        for cluster in _groups(labels):
            middle = np.median(positions[cluster], axis=0)
            near = np.linalg.norm(positions[cluster] - middle, axis=1) <= 2 * radius
            clusters.append(members[cluster[near]])

    objects = [_one_per_frame(cluster, seen) for cluster in clusters]
    objects = [sightings for sightings in objects if len(sightings) >= config.fewest_frames]
    identities: list[int | None] = [None] * len(seen.frame)
    for identity, sightings in enumerate(sorted(objects, key=min)):
        for i in sightings:
            identities[i] = identity
    return identities


def _groups(labels: NDArray[np.intp]) -> list[Indices]:
    """The members of each cluster, in their order; label -1 is none."""
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(labels.max(initial=-1) + 2))
    return [order[start:stop] for start, stop in pairwise(bounds.tolist())]


def _one_per_frame(cluster: Indices, seen: Observations) -> list[int]:
    largest: dict[int, int] = {}
    for i in cluster.tolist():
        frame = int(seen.frame[i])
        if frame not in largest or seen.area[i] > seen.area[largest[frame]]:
            largest[frame] = i
    return sorted(largest.values())


def up_direction(poses: Sequence[Array]) -> Array:
    """The world's up [3], from a drive's T_world_camera: cameras are level, so their mean y axis is down."""
    down = np.mean([pose[:3, 1] for pose in poses], axis=0)
    return np.asarray(-down / np.linalg.norm(down))
