"""Keypoint matches of two frames, and what matched landmarks say about each of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.features.keypoints import match_keypoints
from robustmat.matching.scene import SceneView, inside
from robustmat.odometry.config import OdometryConfig
from robustmat.types import Array

GUIDED_RATIO = 0.9  # Lowe's test among the few keypoints of one landmark


@dataclass(frozen=True)
class PointMatches:
    """M matched keypoints: pixels in both frames, and how much each counts (0: not at all)."""

    a: Array  # [M, 2]
    b: Array  # [M, 2]
    weight: Array  # [M]
    on: NDArray[np.int64]  # [M], number of the matched landmark that holds it, -1 if none

    def __len__(self) -> int:
        return len(self.a)


Pairs = Sequence[tuple[int, int]]  # matched landmarks: numbers in both frames


def plain_matches(a: SceneView, b: SceneView) -> PointMatches:
    """Matches of the keypoints of two whole frames, all counting alike."""
    return _places(a, b, match_keypoints(a.keypoints, b.keypoints)[0])


def _places(a: SceneView, b: SceneView, pairs: NDArray[np.int64]) -> PointMatches:
    places = [
        np.asarray(view.keypoints["keypoint_place"][pairs[:, side]], np.float64) for side, view in enumerate((a, b))
    ]
    return PointMatches(places[0], places[1], np.ones(len(pairs)), np.full(len(pairs), -1, np.int64))


def assisted_matches(
    plain: PointMatches, a: SceneView, b: SceneView, landmarks: Pairs, parts: Collection[str], config: OdometryConfig
) -> PointMatches:
    """The same matches in the light of matched landmarks.

    A match from one landmark into its partner is nearly always right, one that leads past the partner nearly never:
    the landmarks say where in the frames the trustworthy points are.
    """
    if not landmarks:
        return plain
    points = plain
    if "guided" in parts:
        extra = guided_matches(a, b, landmarks, config)
        new = _new(extra, plain)
        points = PointMatches(
            *(np.concatenate([getattr(plain, one), getattr(extra, one)[new]]) for one in ("a", "b", "weight", "on"))
        )
    rows, columns = (np.array(one, np.int64) for one in zip(*landmarks, strict=True))
    around_a, around_b = inside(a.boxes[rows], points.a, config.grown), inside(b.boxes[columns], points.b, config.grown)
    within_a, within_b = inside(a.boxes[rows], points.a, 0.0), inside(b.boxes[columns], points.b, 0.0)
    joined = around_a & around_b  # [L, M]
    past = ((within_a & ~around_b) | (within_b & ~around_a)).any(axis=0) & ~joined.any(axis=0)
    weight = points.weight.copy()
    if "weigh" in parts:
        weight[~joined.any(axis=0)] = config.beside_weight
    if "agree" in parts:
        weight[past] = 0.0
    on = np.where(joined.any(axis=0), joined.argmax(axis=0), -1)
    return PointMatches(points.a, points.b, weight, on)


def guided_matches(a: SceneView, b: SceneView, landmarks: Pairs, config: OdometryConfig) -> PointMatches:
    """Keypoints in and around two matched landmarks, matched among themselves: rivals elsewhere do not count."""
    in_a, in_b = (
        inside(view.boxes, np.asarray(view.keypoints["keypoint_place"], np.float64), config.grown) for view in (a, b)
    )
    found: list[NDArray[np.int64]] = []
    for i, j in landmarks:
        rows, columns = np.flatnonzero(in_a[i]), np.flatnonzero(in_b[j])
        if len(rows) < 2 or len(columns) < 2:
            continue
        first, second = (
            {"keypoint_descriptor": view.keypoints["keypoint_descriptor"][chosen]}
            for view, chosen in ((a, rows), (b, columns))
        )
        inner, _ = match_keypoints(first, second, GUIDED_RATIO)
        found.append(np.stack([rows[inner[:, 0]], columns[inner[:, 1]]], axis=1))
    pairs = np.unique(np.concatenate(found), axis=0) if found else np.zeros((0, 2), np.int64)
    return _places(a, b, pairs)


def _new(extra: PointMatches, known: PointMatches) -> NDArray[np.bool_]:
    """Which of the extra matches use no keypoint that is matched already."""
    used_a, used_b = ({tuple(place) for place in side.tolist()} for side in (known.a, known.b))
    return np.array(
        [
            tuple(x) not in used_a and tuple(y) not in used_b
            for x, y in zip(extra.a.tolist(), extra.b.tolist(), strict=True)
        ],
        np.bool_,
    )
