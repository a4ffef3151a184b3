"""Which keyframes could it be: every landmark of a frame votes for the keyframes that saw objects like it.

A landmark has one vote, which it divides among the objects that look like it, and "none of them". So one that looks
like nothing else counts fully for its place, and one of many look-alike poles hardly counts anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from robustmat.mapping.scene import LOOK
from robustmat.mapping.store import MapStore, Snapshot
from robustmat.mapping.vectors import search_vectors
from robustmat.mapping.words import frame_vector
from robustmat.matching.embedded import EmbeddedFrame

NEAREST_VIEWS = 30  # of each landmark
SHARPNESS = 40.0  # of a vote: by how much a cosine that is higher by one weighs more, as a logarithm
NONE = 0.6  # the cosine that "none of them" has


@dataclass(frozen=True)
class Area:
    """A ball of the world: only what stands in it is asked for."""

    center: tuple[float, float, float]
    radius: float  # metres

    def to_sql(self) -> str:
        """As a box around it."""
        limits = zip("xyz", self.center, strict=True)
        return " AND ".join(f"{n} BETWEEN {c - self.radius!r} AND {c + self.radius!r}" for n, c in limits)


def keyframe_votes(
    store: MapStore, snapshot: Snapshot, frame: EmbeddedFrame, area: Area | None = None
) -> dict[str, float]:
    """How much of the frame's votes each keyframe gets; those with none are left out."""
    if not frame.landmarks:
        return {}
    shares = object_shares(store, snapshot, frame, area)
    names = sorted({name for share in shares for name in share})
    seen_in: dict[str, set[str]] = {}
    for row in _rows_of(store, snapshot, names):
        seen_in.setdefault(row["object"], set()).update(row["keyframes"])
    votes: dict[str, float] = {}
    for share in shares:
        best: dict[str, float] = {}  # a landmark is one thing: it counts once for a keyframe
        for name, part in share.items():
            for keyframe in seen_in.get(name, ()):
                best[keyframe] = max(best.get(keyframe, 0.0), part)
        for keyframe, part in best.items():
            votes[keyframe] = votes.get(keyframe, 0.0) + part
    return votes


def keyframes_alike(store: MapStore, snapshot: Snapshot, frame: EmbeddedFrame, count: int) -> list[str]:
    """The keyframes whose keypoints look most like the frame's, where the map keeps keypoints."""
    if LOOK not in frame.arrays or not len(frame.arrays[LOOK]):
        return []
    found = store.search(frame_vector(frame.arrays)[None], count, snapshot, table="keyframes", wanted="keyframe")
    return [hit["keyframe"] for hit in found[0]]


def object_shares(
    store: MapStore, snapshot: Snapshot, frame: EmbeddedFrame, area: Area | None
) -> list[dict[str, float]]:
    """For each landmark, how its vote is divided among objects of its category."""
    vectors = search_vectors(frame)
    shares: list[dict[str, float]] = [{} for _ in frame.landmarks]
    for category in sorted({mark.category for mark in frame.landmarks}):
        rows = [i for i, mark in enumerate(frame.landmarks) if mark.category == category]
        where = f"category = '{category}'" + (f" AND {area.to_sql()}" if area else "")
        for i, hits in zip(rows, store.search(vectors[rows], NEAREST_VIEWS, snapshot, where), strict=True):
            shares[i] = divided(hits)
    return shares


def divided(hits: Sequence[Any]) -> dict[str, float]:
    """One vote among the objects of the nearest views, by how alike their nearest view is."""
    alike: dict[str, float] = {}
    for hit in hits:
        alike.setdefault(hit["object"], 1 - hit["_distance"] / 2)  # of unit vectors: the cosine
    parts = softmax(SHARPNESS * np.array([*alike.values(), NONE]))
    return dict(zip(alike, parts[:-1].tolist(), strict=True))


def _rows_of(store: MapStore, snapshot: Snapshot, names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for start in range(0, len(names), 500):
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in names[start : start + 500])
        rows += store.rows("objects", snapshot, f"object IN ({listed})", ["object", "keyframes"])
    return rows
