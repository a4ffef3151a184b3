"""Which observations of a drive are the same object: clusters of positions over frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from robustmat.types import Array

CLUSTER_RADIUS = {"pole": 0.6, "traffic_light": 0.6, "traffic_sign": 0.6, "window": 1.0}  # metres
POLE_HEIGHT_WEIGHT = 0.1  # how much of a pole is seen, and so its mean height, changes from frame to frame
FEWEST_FRAMES = 3


@dataclass(frozen=True)
class Observation:
    """One located landmark: in which frame (by index), what, where, and how many pixels it covers."""

    frame: int
    category: str
    position: tuple[float, float, float]
    area: int


def associate(observations: Sequence[Observation], up: Array) -> list[int | None]:
    """An identity, counted from 0 in order of first sight, or None, for each observation.

    Two observations of one frame are never one object: where a cluster holds two (a pole cut in pieces by a
    sign or a branch), the larger keeps the identity and the other goes without. So do sightings far from
    the middle of a cluster that chained on from object to object. An identity seen in fewer than 3 frames
    is noise.
    """
    identities: list[int | None] = [None] * len(observations)
    clusters: list[NDArray[np.intp]] = []
    for category, radius in CLUSTER_RADIUS.items():
        members = np.array([i for i, it in enumerate(observations) if it.category == category], dtype=np.intp)
        if not len(members):
            continue
        positions = np.array([observations[i].position for i in members])
        if category == "pole":
            positions = positions - (1 - POLE_HEIGHT_WEIGHT) * np.outer(positions @ up, up)
        labels = DBSCAN(eps=radius, min_samples=FEWEST_FRAMES).fit_predict(positions)
        for label in range(labels.max() + 1):
            middle = np.median(positions[labels == label], axis=0)
            near = np.linalg.norm(positions - middle, axis=1) <= 2 * radius
            clusters.append(members[(labels == label) & near])

    kept = [_one_per_frame(cluster, observations) for cluster in clusters]
    kept = [cluster for cluster in kept if len(cluster) >= FEWEST_FRAMES]
    for identity, cluster in enumerate(sorted(kept, key=min)):
        for i in cluster:
            identities[i] = identity
    return identities


def _one_per_frame(cluster: NDArray[np.intp], observations: Sequence[Observation]) -> list[int]:
    largest: dict[int, int] = {}
    for i in cluster.tolist():
        frame = observations[i].frame
        if frame not in largest or observations[i].area > observations[largest[frame]].area:
            largest[frame] = i
    return sorted(largest.values())


def up_direction(poses: Sequence[Array]) -> Array:
    """The world's up [3], from a drive's T_world_camera: cameras are level, so their mean y axis is down."""
    down = np.mean([pose[:3, 1] for pose in poses], axis=0)
    return np.asarray(-down / np.linalg.norm(down))
