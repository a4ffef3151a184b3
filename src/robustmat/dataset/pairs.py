"""Draw the pairs that a method is judged by: single landmark pairs, and whole frame pairs.

The *pair protocol* is the paper's: three matched landmark pairs to one unmatched. No object dominates (at
most 20 matched pairs each), unmatched pairs are spread over the objects, and either frame of a pair may
come first: in the order of time, boxes only grow, and the order alone would give the answer away.
The *frame protocol* matches whole frame pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import UNKNOWN, Indices, Truth, frame_pairs, label_candidates, read_truth
from robustmat.errors import ConfigError, DataError
from robustmat.types import MATCHED, UNMATCHED

# Metres between cameras beyond which no landmark is expected in both frames, and the same along one straight road.
FARTHEST_SIGHT, FARTHEST_AHEAD = 40.0, 80.0
SAME_WAY = 0.7  # cosine
MOST_UNRELATED, UNRELATED_TRIES = 60, 40
NEGATIVES = ("same-class", "random")
MATCHED_PER_UNMATCHED = 3
MOST_PER_IDENTITY = 20
# A long drive has millions of frame pairs; so many, drawn at random, are looked at for landmark pairs.
MOST_SEARCHED = 20_000


@dataclass(frozen=True)
class PairSample:
    """Drawn landmark pairs, one row each, and drawn frame pairs. Frames are indices into `truth.frames`."""

    truth: Truth
    negatives: str
    seed: int
    frame_a: Indices  # [N]
    frame_b: Indices
    landmark_a: Indices  # [N], index into the frame's landmarks
    landmark_b: Indices
    label: NDArray[np.bool_]  # [N], True where matched
    identity_a: Indices  # [N], unique over all data sets
    identity_b: Indices
    category_a: Indices  # [N], index into CATEGORIES
    category_b: Indices
    frame_pairs: Indices  # [F, 2], for the frame protocol
    unrelated_pairs: Indices  # [U, 2], frames that share nothing: every match between them is wrong
    n_frame_pairs_found: int  # how many there were to draw them from


@dataclass(frozen=True)
class _Candidates:
    """Every judged landmark pair of the searched frame pairs, column by column."""

    pair: Indices  # [M, 2] frames
    landmark: Indices  # [M, 2]
    identity: Indices  # [M, 2]
    category: Indices  # [M, 2]
    label: Indices  # [M]


def draw_pairs(
    datasets: Sequence[LandmarkDataset],
    negatives: str = "same-class",
    seed: int = 0,
    most_frame_pairs: int = 300,
) -> PairSample:
    """Draw landmark pairs and frame pairs; the same seed draws the same ones."""
    if negatives not in NEGATIVES:
        raise ConfigError(f"unknown negatives {negatives!r}: choose one of {', '.join(NEGATIVES)}")
    rng = np.random.default_rng(seed)
    truth = read_truth(datasets)
    found = frame_pairs(truth)
    searched = _some(found, MOST_SEARCHED, rng)
    candidates = _judge(truth, searched)
    matched = _draw_matched(candidates, rng)
    unmatched = _draw_unmatched(candidates, negatives, round(len(matched) / MATCHED_PER_UNMATCHED), rng)
    # Where unmatched pairs are scarce, the ratio is kept by giving matched pairs up.
    matched = _some(matched, MATCHED_PER_UNMATCHED * len(unmatched), rng)
    if not len(matched) or not len(unmatched):
        names = ", ".join(dataset.name for dataset in datasets)
        raise DataError(
            f"no matched and unmatched landmark pairs can be drawn from {names}: "
            f"{len(found)} frame pairs 2 to 25 m apart, {np.sum(candidates.label == MATCHED)} matched and "
            f"{np.sum(candidates.label == UNMATCHED)} unmatched candidates, negatives {negatives}; "
            "use a longer drive, or one with more landmarks"
        )
    rows = rng.permutation(np.concatenate([matched, unmatched]))
    order = _random_order(len(rows), rng)  # [N, 2]
    pair, landmark, identity, category = (
        np.take_along_axis(column[rows], order, axis=1)
        for column in (candidates.pair, candidates.landmark, candidates.identity, candidates.category)
    )
    return PairSample(
        truth=truth,
        negatives=negatives,
        seed=seed,
        frame_a=pair[:, 0],
        frame_b=pair[:, 1],
        landmark_a=landmark[:, 0],
        landmark_b=landmark[:, 1],
        label=candidates.label[rows] == MATCHED,
        identity_a=identity[:, 0],
        identity_b=identity[:, 1],
        category_a=category[:, 0],
        category_b=category[:, 1],
        frame_pairs=draw_frame_pairs(truth, most_frame_pairs, seed),
        unrelated_pairs=draw_unrelated_pairs(truth, min(MOST_UNRELATED, most_frame_pairs), seed),
        n_frame_pairs_found=len(found),
    )


def draw_frame_pairs(truth: Truth, most: int, seed: int) -> Indices:
    """At most so many frame pairs [P, 2] with known landmarks on both sides, either frame first."""
    rng = np.random.default_rng(seed)
    drawn = _some(_telling(truth, frame_pairs(truth)), most, rng)
    return np.take_along_axis(drawn, _random_order(len(drawn), rng), axis=1)


def draw_unrelated_pairs(truth: Truth, most: int, seed: int) -> Indices:
    """At most so many pairs [P, 2] of frames with landmarks that share nothing: of different worlds, or so far apart
    that no landmark is seen from both."""
    rng = np.random.default_rng([seed, 40])
    telling = np.flatnonzero([len(frame.identity) > 0 for frame in truth.frames])
    if not len(telling):
        return np.zeros((0, 2), np.int64)
    tried = telling[rng.integers(0, len(telling), (UNRELATED_TRIES * most, 2))]
    found = [(a, b) for a, b in dict.fromkeys(map(tuple, tried.tolist())) if _share_nothing(truth, a, b)]
    return np.array(found[:most], np.int64).reshape(-1, 2)


def _share_nothing(truth: Truth, a: int, b: int) -> bool:
    first, second = truth.frames[a], truth.frames[b]
    if first.world != second.world:
        return True
    apart = second.centre - first.centre
    distance = float(np.linalg.norm(apart))
    looks = [frame.T_world_camera[:3, 2] for frame in (first, second)]
    # Down a straight road a far landmark is seen by both; around a corner, or looking back, none is.
    same_way = looks[0] @ looks[1] > SAME_WAY and all(abs(look @ apart) > SAME_WAY * distance for look in looks)
    if distance < (FARTHEST_AHEAD if same_way else FARTHEST_SIGHT):
        return False
    return not set(first.identity.tolist()) & set(second.identity.tolist()) - {UNKNOWN}


def _judge(truth: Truth, pairs: Indices) -> _Candidates:
    """All landmark pairs of the frame pairs that are matched or unmatched beyond doubt."""
    columns: list[list[Indices]] = [[], [], [], [], []]
    for pair in pairs:
        a, b = truth.frames[pair[0]], truth.frames[pair[1]]
        label = label_candidates(a, b)
        rows, cols = np.nonzero((label == MATCHED) | (label == UNMATCHED))
        columns[0].append(np.broadcast_to(pair, (len(rows), 2)))
        columns[1].append(np.stack([rows, cols], axis=1))
        columns[2].append(np.stack([a.identity[rows], b.identity[cols]], axis=1))
        columns[3].append(np.stack([a.category[rows], b.category[cols]], axis=1))
        columns[4].append(label[rows, cols].astype(np.int64))
    empty = [np.zeros((0, 2), np.int64)] * 4 + [np.zeros(0, np.int64)]
    return _Candidates(*(np.concatenate([none, *column]) for none, column in zip(empty, columns, strict=True)))


def _draw_matched(candidates: _Candidates, rng: np.random.Generator) -> Indices:
    """At most MOST_PER_IDENTITY rows of each identity."""
    rows = rng.permutation(np.flatnonzero(candidates.label == MATCHED))
    rows = rows[np.argsort(candidates.identity[rows, 0], kind="stable")]
    identities = candidates.identity[rows, 0]
    place_in_group = np.arange(len(rows)) - np.searchsorted(identities, identities)
    return np.asarray(rows[place_in_group < MOST_PER_IDENTITY], np.int64)


def _draw_unmatched(candidates: _Candidates, negatives: str, wanted: int, rng: np.random.Generator) -> Indices:
    """Round after round, each identity in random order gives one pair that it is part of."""
    fits = candidates.label == UNMATCHED
    if negatives == "same-class":
        fits &= candidates.category[:, 0] == candidates.category[:, 1]
    rows = rng.permutation(np.flatnonzero(fits))
    both = np.concatenate([candidates.identity[rows, 0], candidates.identity[rows, 1]])
    identities, group = np.unique(both, return_inverse=True)
    members = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[members], np.arange(len(identities) + 1))
    stacks = [iter(members[starts[i] : starts[i + 1]] % max(len(rows), 1)) for i in range(len(identities))]
    chosen: dict[int, None] = {}
    open_stacks = stacks
    while open_stacks and len(chosen) < wanted:
        still_open = []
        for position in rng.permutation(len(open_stacks)):
            fresh = next((row for row in open_stacks[position] if int(row) not in chosen), None)
            if fresh is not None and len(chosen) < wanted:
                chosen[int(fresh)] = None
                still_open.append(open_stacks[position])
        open_stacks = still_open
    return rows[np.array(list(chosen), dtype=np.int64)]


def _some(rows: Indices, most: int, rng: np.random.Generator) -> Indices:
    """A random choice of at most so many rows, in their order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(rng.choice(len(rows), most, replace=False))]


def _random_order(count: int, rng: np.random.Generator) -> Indices:
    """[0, 1] or [1, 0] for each row: which frame of a pair comes first."""
    first = rng.integers(0, 2, count)
    return np.stack([first, 1 - first], axis=1)


def _telling(truth: Truth, pairs: Indices) -> Indices:
    """Frame pairs with known landmarks on both sides; the others would say nothing."""
    known = np.array([(frame.identity != UNKNOWN).any() for frame in truth.frames], dtype=bool)
    return pairs[known[pairs].all(axis=1)]
