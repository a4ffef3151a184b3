"""Tracks: one landmark over the frames that saw it, its place in the world, and the table that others read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from robustmat.dataset.truth import SEPARATION
from robustmat.landmarks.sightings import Sightings
from robustmat.landmarks.triangulation import find_place, hits, triangulate
from robustmat.odometry.steps import Measured
from robustmat.types import Array, Frame, Landmark

FEWEST = 3  # sightings of a track that is worth an identity
AGREEING = 0.5  # share of the sightings that one standing place must explain


@dataclass(frozen=True)
class Track:
    """One landmark: (frame, number of the landmark there) in the order of time, and where it stands, if known."""

    identity: int
    category: str
    sightings: tuple[tuple[int, int], ...]
    position: tuple[float, float, float] | None = None
    spread: float | None = None  # metres, the worst direction
    moving: bool = False


@dataclass
class _Open:
    category: str
    members: list[tuple[int, int]] = field(default_factory=list)
    accused: int = 0


def join_tracks(measured: Sequence[Measured]) -> list[Track]:
    """Tracks from links, in the order of their first sighting; a landmark that nothing continues is no track."""
    owner: dict[tuple[int, int], _Open] = {}
    tracks: list[_Open] = []
    for done in measured:
        for link in sorted(done.links, key=lambda one: (-one.earlier, -one.probability)):
            here, there = (done.frame, link.b), (link.earlier, link.a)
            if here in owner:
                continue
            track = owner.get(there)
            if track is None:
                track = _Open(done.landmarks[link.b].category, [there])
                tracks.append(track)
                owner[there] = track
            if track.members[-1][0] >= done.frame:
                continue  # it has a sighting in this frame already
            track.members.append(here)
            owner[here] = track
            track.accused += link.b in done.moving
    tracks.sort(key=lambda one: one.members[0])
    return [
        Track(number, one.category, tuple(one.members), moving=one.accused > AGREEING * len(one.members))
        for number, one in enumerate(tracks)
    ]


def sightings_of(frames: Sequence[Frame], poses: Array, measured: Sequence[Measured]) -> Sightings:
    """All landmarks of a drive as columns, with the poses that odometry found."""
    placed = [replace(frame, T_world_camera=T) for frame, T in zip(frames, poses, strict=True)]
    return Sightings.of(placed, [[(mark, _area(mark)) for mark in done.landmarks] for done in measured])


def _area(mark: Landmark) -> int:
    x0, y0, x1, y1 = mark.box
    return round((x1 - x0) * (y1 - y0))


def placed_tracks(seen: Sightings, tracks: Sequence[Track]) -> list[Track]:
    """The tracks with their places by triangulation; one whose bearings meet nowhere moves by itself, or is wrong."""
    key_row = {key: index for index, key in enumerate(zip(seen.frame.tolist(), seen.number.tolist(), strict=True))}
    done = []
    for track in tracks:
        rows = np.array([key_row[key] for key in track.sightings if key in key_row], np.int64)
        if track.moving or len(rows) < FEWEST:
            done.append(track)
            continue
        place = find_place(seen, rows)
        if place is not None:
            x, y, z = place.point.tolist()
            done.append(replace(track, position=(x, y, z), spread=place.spread))
            continue
        crossing = triangulate(seen, rows)
        astray = crossing is not None and hits(seen, rows, crossing[0]).mean() < AGREEING
        done.append(replace(track, moving=bool(astray and len(rows) >= 2 * FEWEST)))
    return done


def tracks_table(tracks: Sequence[Track], measured: Sequence[Measured]) -> dict[str, Any]:
    """`tracks.json`: one entry a track, with its frames and boxes."""
    by_frame = {done.frame: done for done in measured}
    return {
        "tracks": [
            {
                "identity": track.identity,
                "category": track.category,
                "position": None if track.position is None else [round(value, 4) for value in track.position],
                "spread": None if track.spread is None else round(track.spread, 4),
                "moving": track.moving,
                "frames": [by_frame[frame].name for frame, _ in track.sightings],
                "boxes": [list(by_frame[frame].landmarks[number].box) for frame, number in track.sightings],
            }
            for track in tracks
        ]
    }


def with_tracks(
    frames: Sequence[Frame], poses: Array, measured: Sequence[Measured], tracks: Sequence[Track]
) -> list[Frame]:
    """The frames with odometry's poses, and landmarks whose identities and positions are those of their tracks.

    Short tracks and moving ones give no identity.
    """
    known = {
        key: track for track in tracks if len(track.sightings) >= FEWEST and not track.moving for key in track.sightings
    }
    complete = []
    for done, T in zip(measured, poses, strict=True):
        marks = []
        for number, mark in enumerate(done.landmarks):
            track = known.get((done.frame, number))
            marks.append(
                replace(mark, identity=track.identity, position=track.position)
                if track
                else replace(mark, identity=None, position=None)
            )
        complete.append(replace(frames[done.frame], landmarks=tuple(marks), T_world_camera=T))
    return complete


@dataclass(frozen=True)
class TrackReport:
    """How good tracks are against known identities."""

    tracks: int
    mean_length: float  # sightings
    precision: float | None  # of sightings that can be judged, those of their track's most frequent object
    strict: float | None  # the same, with ambiguous sightings counted as wrong
    ambiguous: int  # sightings of another identity less than two metres away: one object in two pieces, or two
    switches: int  # neighbouring sightings of one track that are two objects
    fragments: float | None  # tracks for each object that is in one

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def judge_tracks(tracks: Sequence[Track], truth: Sequence[Sequence[Landmark]]) -> TrackReport:
    """Compare tracks with the true landmarks of every frame; those without an identity are not judged.

    As everywhere (`dataset/truth.py`), different identities nearer than two metres count neither for nor against.
    """
    right = wrong = ambiguous = switches = 0
    owners: set[tuple[int, int]] = set()
    worth = [track for track in tracks if len(track.sightings) >= FEWEST]
    for track in worth:
        marks = [truth[frame][number] for frame, number in track.sightings]
        marks = [mark for mark in marks if mark.identity is not None]
        if not marks:
            continue
        values, counts = np.unique([mark.identity for mark in marks], return_counts=True)
        main = int(values[counts.argmax()])
        places = [mark.position for mark in marks if mark.identity == main and mark.position is not None]
        near = [mark.identity == main or _beside(mark, places) for mark in marks]
        ambiguous += sum(beside and mark.identity != main for mark, beside in zip(marks, near, strict=True))
        right += int(counts.max())
        wrong += near.count(False)
        switches += sum(a != b for a, b in pairwise(near))
        owners.add((track.identity, main))
    objects = {identity for _, identity in owners}
    lengths = [len(track.sightings) for track in worth]
    return TrackReport(
        len(worth),
        float(np.mean(lengths)) if lengths else 0.0,
        right / (right + wrong) if right else None,
        right / (right + wrong + ambiguous) if right else None,
        ambiguous,
        switches,
        len(owners) / len(objects) if objects else None,
    )


def _beside(mark: Landmark, places: Sequence[tuple[float, float, float]]) -> bool:
    """Whether a landmark stands so near to an object, seen at these places, that it may be the same."""
    if mark.position is None or not places:
        return False
    return float(np.linalg.norm(np.median(places, axis=0) - mark.position)) < SEPARATION
