"""Objects: groups of sightings that are of one place in the world.

Groups come from clusters of LiDAR positions, where there are some, and from tracks of everything else. Then pieces of
one object are put together, and single sightings join the object that stands where they were seen. What an object is
made of is held to its place: a sighting whose box misses it is let go, and may find another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.spatial import cKDTree

from robustmat.landmarks.config import DEFAULT, LandmarkConfig
from robustmat.landmarks.identities import Observations, associate
from robustmat.landmarks.sightings import Flags, Indices, Sightings
from robustmat.landmarks.tracks import find_tracks
from robustmat.landmarks.triangulation import Place, find_place, hits, triangulate
from robustmat.types import CATEGORIES, Array

FARTHEST = 150.0  # metres from which an object may be seen
ROUNDS = 4  # of putting pieces together; an object that grew may fit more of them


@dataclass(frozen=True)
class Object:
    """One object of the world: its sightings, in the order of time, one a frame, and its place."""

    members: Indices
    place: Place


def find_objects(seen: Sightings, up: Array, config: LandmarkConfig = DEFAULT) -> list[Object]:
    """The objects of a drive, in the order in which they are first seen."""
    objects, rest = _verified(seen, _clusters(seen, up, config), config)
    tracked = find_tracks(seen.some(rest), config.tracks) if len(rest) else []
    more, _ = _verified(seen, [rest[np.array(track)] for track in tracked], config)
    objects = objects + more
    for _ in range(ROUNDS):
        before = len(objects), sum(len(found.members) for found in objects)
        objects = _joined(seen, _united(seen, objects, config), config)
        if before == (len(objects), sum(len(found.members) for found in objects)):
            break
    objects = _aligned(seen, _settled(seen, objects, up, config), up, config)
    return sorted(objects, key=lambda found: tuple(found.members))


def _clusters(seen: Sightings, up: Array, config: LandmarkConfig) -> list[Indices]:
    """Sightings whose LiDAR positions lie together."""
    located = np.flatnonzero(np.isfinite(seen.position).all(axis=1))
    if not len(located):
        return []
    observations = Observations(seen.frame[located], seen.category[located], seen.position[located], seen.area[located])
    identities = associate(observations, up, config.identities)
    groups: dict[int, list[int]] = {}
    for row, identity in zip(located.tolist(), identities, strict=True):
        if identity is not None:
            groups.setdefault(identity, []).append(row)
    return [np.array(group) for group in groups.values()]


def _verified(seen: Sightings, groups: Iterable[Indices], config: LandmarkConfig) -> tuple[list[Object], Indices]:
    """The groups that have a place, without the sightings that miss it; and all sightings that are in none of them."""
    objects = []
    free = np.ones(len(seen), dtype=bool)
    for group in groups:
        found = _verify(seen, group, config)
        if found is not None:
            objects.append(found)
            free[found.members] = False
    return objects, np.flatnonzero(free)


def _verify(seen: Sightings, group: Indices, config: LandmarkConfig) -> Object | None:
    if len(group) < config.identities.fewest_frames:
        return None
    place = find_place(seen, group, config.places)
    if place is None:
        return None
    members = group[hits(seen, group, place.point, config.places)]
    members = members[_on_one_height(seen, members, place.point, config)]
    return Object(members, place) if len(members) >= config.identities.fewest_frames else None


def _on_one_height(seen: Sightings, members: Indices, point: Array, config: LandmarkConfig) -> Flags:
    """[M]: whether what is seen of a pole is about the same piece of it as usual; True of all other objects."""
    if not len(members) or not seen.is_pole()[members[0]]:
        return np.ones(len(members), dtype=bool)
    size = metres(seen, members, point)
    low, high = float(np.median(size.low)), float(np.median(size.high))
    common = np.minimum(size.high, high) - np.maximum(size.low, low)
    return np.asarray(common >= config.places.overlap * np.minimum(size.high - size.low, high - low))


def _united(seen: Sightings, objects: list[Object], config: LandmarkConfig) -> list[Object]:
    """Put pieces of one object together, the larger first: the place of one falls into the boxes of the other."""
    order = sorted(range(len(objects)), key=lambda i: (-len(objects[i].members), int(objects[i].members[0])))
    kept: list[Object] = []
    for i in order:
        piece = objects[i]
        fitting = [
            number
            for number in _near(seen, kept, piece)
            if _fits(seen, kept[number], piece.members, config.places.size_ratio, config)
            and not _share_frames(seen, kept[number], piece)
        ]
        fitting.sort(key=lambda number: _gap(seen, kept[number], piece))
        if not fitting:
            kept.append(piece)
            continue
        whole = kept[fitting[0]]
        if any(_share_frames(seen, whole, kept[number]) for number in fitting[1:]):
            # It may be a piece of either of two objects: nobody can tell, unless it is an object of its own.
            if len(piece.members) >= config.places.own_object:
                kept.append(piece)
            continue
        together = _verify(seen, np.sort(np.concatenate([whole.members, piece.members])), config)
        if together is None or len(together.members) < len(whole.members) + 0.8 * len(piece.members):
            kept.append(piece)
        else:
            kept[fitting[0]] = together
    return kept


def _gap(seen: Sightings, a: Object, b: Object) -> int:
    """How many frames lie between the nearest sightings of two objects."""
    return int(np.abs(seen.frame[a.members][:, None] - seen.frame[b.members]).min())


def _near(seen: Sightings, objects: list[Object], piece: Object) -> list[int]:
    """Objects of the piece's category that its cameras could see."""
    if not objects:
        return []
    eyes = seen.views.eyes()[seen.frame[piece.members]]
    tree = cKDTree(np.array([found.place.point for found in objects]))
    within = tree.query_ball_point(eyes.mean(axis=0), FARTHEST)
    category = seen.category[piece.members[0]]
    return sorted(i for i in within if seen.category[objects[i].members[0]] == category)


def _share_frames(seen: Sightings, a: Object, b: Object) -> bool:
    return bool(np.isin(seen.frame[a.members], seen.frame[b.members]).any())


def _fits(seen: Sightings, found: Object, rows: Indices, ratio: float, config: LandmarkConfig) -> bool:
    """Whether sightings look like one more view of an object: its place is in their boxes, its size is theirs."""
    if hits(seen, rows, found.place.point, config.places).mean() < config.places.agreeing_pieces:
        return False
    ours, theirs = metres(seen, found.members, found.place.point), metres(seen, rows, found.place.point)
    if abs(np.log(np.nanmedian(theirs.width) / np.nanmedian(ours.width))) > np.log(ratio):
        return False
    if not seen.is_pole()[rows[0]]:
        return True
    low = max(float(np.median(ours.low)), float(np.median(theirs.low)))
    high = min(float(np.median(ours.high)), float(np.median(theirs.high)))
    shorter = min(float(np.median(ours.high - ours.low)), float(np.median(theirs.high - theirs.low)))
    return high - low >= config.places.overlap * shorter


def _contradicts(seen: Sightings, rows: Indices, found: Object, config: LandmarkConfig) -> Flags:
    """[M]: whether LiDAR puts the sightings elsewhere than the object."""
    offset = np.linalg.norm(seen.position[rows] - found.place.point, axis=1)
    return np.asarray(offset > 2 * config.identities.radius + found.place.spread)  # nan contradicts nothing


def _settled(seen: Sightings, objects: list[Object], up: Array, config: LandmarkConfig) -> list[Object]:
    """Let parts of one thing stand together: a lamp's head and its post, a sign and its pole, two pieces of a pole.

    Bearings know the depth of a far object to metres only. Where a place that is known better lies straight above or
    below an object in all frames that see it, the object takes its depth.
    """
    settled = []
    for found in objects:
        if found.place.by_lidar:
            settled.append(found)
            continue
        best: tuple[float, Array] | None = None
        for other in objects:
            if other.place.spread < found.place.spread / 2 and (best is None or other.place.spread < best[0]):
                point = _beside(seen, found, other.place.point, up, config)
                if point is not None:
                    best = (other.place.spread, point)
        place = found.place if best is None else Place(best[1], best[0], False)
        settled.append(Object(found.members, place))
    return settled


def _aligned(seen: Sightings, objects: list[Object], up: Array, config: LandmarkConfig) -> list[Object]:
    """Let pieces of one pole stand in one line: where one upright line explains the boxes of both, both stand there."""
    aligned = list(objects)
    poles = [i for i, found in enumerate(objects) if seen.is_pole()[found.members[0]]]
    for a, b in combinations(poles, 2):
        if np.linalg.norm(aligned[a].place.point - aligned[b].place.point) > config.places.piece_distance:
            continue
        crossing = triangulate(seen, np.concatenate([aligned[a].members, aligned[b].members]), config.places)
        if crossing is None or crossing[1] > config.places.widest:
            continue
        on_line = [hits(seen, aligned[i].members, crossing[0], config.places).all() for i in (a, b)]
        for i in (a, b) if all(on_line) else ():
            place = aligned[i].place
            height = float((place.point - crossing[0]) @ up)
            aligned[i] = Object(aligned[i].members, Place(crossing[0] + height * up, crossing[1], place.by_lidar))
    return aligned


def _beside(seen: Sightings, found: Object, place: Array, up: Array, config: LandmarkConfig) -> Array | None:
    """The object's point right above or below another's place; None if that is not where it is seen."""
    if np.linalg.norm(place - found.place.point) > 5 * found.place.spread + 1:
        return None
    size = metres(seen, found.members, place)
    point = place + float(np.median((size.low + size.high) / 2)) * up
    return point if hits(seen, found.members, point, config.places).all() else None


def position_of(seen: Sightings, row: int, found: Object, up: Array, config: LandmarkConfig = DEFAULT) -> Array:
    """Where a sighting says that its object stands [3]: by its own LiDAR points, unless these are of something else."""
    position = seen.position[row]
    offset = position - found.place.point
    if seen.is_pole()[row]:
        offset = offset - (1 - config.identities.pole_height_weight) * float(offset @ up) * up
    near = np.linalg.norm(offset) <= config.identities.cluster_radius(CATEGORIES[seen.category[row]])
    return np.asarray(position if near else found.place.point)  # nan is not near


@dataclass(frozen=True)
class Metres:
    """How large boxes are at a place: widths [M], and the heights [M] over it of their lower and upper edges."""

    width: Array
    low: Array
    high: Array


def metres(seen: Sightings, rows: Indices, point: Array) -> Metres:
    """The boxes of sightings as they would be, upright, at a point of the world."""
    frames = seen.frame[rows]
    pixels, depth = seen.views.project(frames, point[None])
    a_metre = seen.views.focal[frames] / depth  # pixels
    box = seen.box[rows]
    return Metres(
        (box[:, 2] - box[:, 0]) / a_metre[:, 0],
        (pixels[:, 0, 1] - box[:, 3]) / a_metre[:, 1],
        (pixels[:, 0, 1] - box[:, 1]) / a_metre[:, 1],
    )


def _joined(seen: Sightings, objects: list[Object], config: LandmarkConfig) -> list[Object]:
    """Add single sightings to the objects that stand where they are, if each is the other's only choice."""
    free = np.ones(len(seen), dtype=bool)
    for found in objects:
        free[found.members] = False
    eyes = seen.views.eyes()
    claims: dict[int, list[int]] = {}  # sighting -> objects
    wanted: dict[tuple[int, int], list[int]] = {}  # (object, frame) -> sightings
    rest = np.flatnonzero(free)
    for number, found in enumerate(objects):
        where = eyes[seen.frame[found.members]]
        near = rest[seen.category[rest] == seen.category[found.members[0]]]
        near = near[~np.isin(seen.frame[near], seen.frame[found.members])]
        if not len(near):
            continue
        way = np.linalg.norm(eyes[seen.frame[near]][:, None] - where[None], axis=2).min(axis=1)
        near = near[
            way <= np.where(_contradicts(seen, near, found, config), config.places.way_against, config.places.way)
        ]
        near = near[hits(seen, near, found.place.point, config.places)] if len(near) else near
        for row in near.tolist():
            if _fits(seen, found, np.array([row]), config.places.single_ratio, config):
                claims.setdefault(row, []).append(number)
                wanted.setdefault((number, int(seen.frame[row])), []).append(row)
    added: dict[int, list[int]] = {}
    for (number, _), rows in wanted.items():
        if len(rows) == 1 and len(claims[rows[0]]) == 1:
            added.setdefault(number, []).append(rows[0])
    return [
        Object(np.sort(np.concatenate([found.members, np.array(added.get(number, []), dtype=np.int64)])), found.place)
        for number, found in enumerate(objects)
    ]
