"""Which landmarks of two frames are the same object: the ground truth that pairs and matches are held to.

An identity is a place in the world, known by LiDAR or by the bearings of several frames, so it carries doubt.
Candidates that cannot be judged fairly are *ambiguous* and count neither for nor against a method: the same identity
whose LiDAR points lie too far apart, different identities nearer than two metres (a sign and its own pole, one post in
two pieces), different identities of which one is seen just where the other must stand (LiDAR met the wall behind
a far pole, so that it became an object of its own), and landmarks without an identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.geometry.projection import NEAREST
from robustmat.geometry.transforms import invert, multiply, transform
from robustmat.types import AMBIGUOUS, CATEGORIES, MATCHED, UNMATCHED, Array, Camera, Frame

NEAREST_FRAMES, FARTHEST_FRAMES = 2.0, 25.0  # metres between the two cameras of a frame pair
TOLERANCE = {"window": 1.0}  # metres; how far apart two sightings of one object may be placed
DEFAULT_TOLERANCE = 0.5
SEPARATION = 2.0  # metres; different identities nearer than this may be one object
BESIDE = np.tan(np.radians(0.3))  # how far off a box its place may be seen: poses and calibration are no better
POLE_HEIGHT_WEIGHT = 0.2  # how much of a pole is seen decides the height of its mean, not its place
LABELS_KEPT = 10_000  # frame pairs, a kilobyte each
UNKNOWN = -1  # the identity of a landmark that has none

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)  # told apart by identity: labels of two frames are kept
class FrameTruth:
    """What is known of one frame: where it was taken, and what its landmarks are."""

    dataset: int
    index: int  # of the frame within its data set
    world: str
    T_world_camera: Array
    camera: Camera | None
    identity: Indices  # [L], unique over all data sets, UNKNOWN where not known
    category: Indices  # [L], index into CATEGORIES
    position: Array  # [L, 3], nan where not known
    box: Array  # [L, 4]

    @property
    def centre(self) -> Array:
        """The camera in the world: [3]."""
        return self.T_world_camera[:3, 3]

    @property
    def down(self) -> Array:
        """A unit vector in the world: [3]."""
        return self.T_world_camera[:3, 1]


@dataclass(frozen=True)
class Truth:
    """All frames with a pose and at least one landmark, of one or several data sets."""

    datasets: tuple[LandmarkDataset, ...]
    frames: tuple[FrameTruth, ...]

    def frame(self, index: int) -> Frame:
        it = self.frames[index]
        return self.datasets[it.dataset].frames[it.index]


def read_truth(datasets: Sequence[LandmarkDataset]) -> Truth:
    """Gather the ground truth; objects seen in several drives of one world get one identity."""
    names = [dataset.name for dataset in datasets]
    for dataset in datasets:
        if names.count(dataset.name) > 1:
            raise DataError(
                f"two data sets are called {dataset.name} ({dataset.path} is one): give each drive its own --name, and "
                "each town its own --world, when preparing"
            )
        if not dataset.has_identities:
            raise DataError(
                f"data set {dataset.name} has no landmark identities, so right and wrong matches cannot be "
                f"told apart: {dataset.path}; prepare it from a drive with poses"
            )
    united = unite_identities(datasets)
    frames = []
    for number, dataset in enumerate(datasets):
        for index, frame in enumerate(dataset.frames):
            if frame.T_world_camera is None or not frame.landmarks:
                continue
            marks = frame.landmarks
            frames.append(
                FrameTruth(
                    dataset=number,
                    index=index,
                    world=dataset.world,
                    T_world_camera=frame.T_world_camera,
                    camera=frame.camera,
                    identity=np.array([united.get((number, mark.identity), UNKNOWN) for mark in marks], np.int64),
                    category=np.array([CATEGORIES.index(mark.category) for mark in marks], np.int64),
                    position=np.array([mark.position or (np.nan,) * 3 for mark in marks], np.float64),
                    box=np.array([mark.box for mark in marks], np.float64),
                )
            )
    return Truth(tuple(datasets), tuple(frames))


def unite_identities(datasets: Sequence[LandmarkDataset]) -> dict[tuple[int, int | None], int]:
    """One number for each object of the world: (data set, its identity) -> number.

    Data sets number their identities on their own. Two identities of different drives of one world are one
    object if they have the same category, stand within the tolerance of each other, and each is the
    other's nearest.
    """
    united: dict[tuple[int, int | None], int] = {}
    known: dict[tuple[str, str], list[tuple[int, Array]]] = {}  # by world and category
    count = 0
    for number, dataset in enumerate(datasets):
        fresh: dict[tuple[str, str], list[tuple[int, Array]]] = {}
        for (identity, category), place in sorted(_places(dataset).items()):
            fresh.setdefault((dataset.world, category), []).append((identity, place))
        for group, members in fresh.items():
            seen = known.setdefault(group, [])
            vertical = abs(_down(dataset)) if group[1] == "pole" else np.zeros(3)
            partner = _mutual_nearest(members, seen, TOLERANCE.get(group[1], DEFAULT_TOLERANCE), vertical)
            for row, (identity, place) in enumerate(members):
                if row in partner:
                    united[number, identity] = partner[row]
                else:
                    united[number, identity] = count
                    seen.append((count, place))
                    count += 1
    return united


def frame_pairs(truth: Truth, nearest: float = NEAREST_FRAMES, farthest: float = FARTHEST_FRAMES) -> NDArray[np.int64]:
    """All pairs [P, 2] of frames of one world whose cameras stand `nearest` to `farthest` metres apart."""
    pairs = []
    for world in sorted({frame.world for frame in truth.frames}):
        members = np.array([i for i, frame in enumerate(truth.frames) if frame.world == world])
        centres = np.array([truth.frames[i].centre for i in members])
        near = cKDTree(centres).query_pairs(farthest, output_type="ndarray")
        distance = np.linalg.norm(centres[near[:, 0]] - centres[near[:, 1]], axis=1)
        pairs.append(members[near[distance >= nearest]].reshape(-1, 2))
    found: Indices = np.sort(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), axis=1)
    return found[np.lexsort((found[:, 1], found[:, 0]))]


@lru_cache(maxsize=LABELS_KEPT)  # every method of a table asks about the same frames
def label_candidates(a: FrameTruth, b: FrameTruth) -> NDArray[np.int8]:
    """UNMATCHED, MATCHED or AMBIGUOUS for every landmark of `a` with every one of `b`: [A, B], not to be written."""
    distance = landmark_distance(a, b)
    tolerance = np.array([TOLERANCE.get(CATEGORIES[one], DEFAULT_TOLERANCE) for one in a.category])
    same = a.identity[:, None] == b.identity[None]
    label = np.where(same, MATCHED, UNMATCHED).astype(np.int8)
    # Comparisons with an unknown place (nan) are false: then the identities alone decide.
    label[same & (distance > tolerance[:, None])] = AMBIGUOUS
    label[~same & (distance < SEPARATION)] = AMBIGUOUS
    matched = label == MATCHED
    found = matched.any(axis=1)[:, None] | matched.any(axis=0)  # what is seen itself is not what stands in its place
    in_place = _stands_in(a, b) | _stands_in(b, a).T
    label[~same & ~found & in_place & (a.category[:, None] == b.category)] = AMBIGUOUS
    label[(a.identity == UNKNOWN)[:, None] | (b.identity == UNKNOWN)[None]] = AMBIGUOUS
    label.flags.writeable = False
    return label


def _stands_in(a: FrameTruth, b: FrameTruth) -> NDArray[np.bool_]:
    """Whether the place of a landmark of `a` is seen within the box of one of `b`: [A, B]."""
    if b.camera is None:
        return np.zeros((len(a.identity), len(b.identity)), np.bool_)
    points_camera = transform(invert(b.T_world_camera), a.position)
    ahead = points_camera[:, 2] > NEAREST
    depth = np.where(ahead, points_camera[:, 2], np.nan)  # nan is within no box
    pixels = multiply(b.camera.matrix[:2], points_camera) / depth[:, None] + 0.5  # boxes count from pixels' edges
    slack = BESIDE * np.diag(b.camera.matrix)[:2]
    low, high = b.box[:, :2] - slack, b.box[:, 2:] + slack
    return np.asarray(((pixels[:, None] >= low) & (pixels[:, None] <= high)).all(axis=2))


def landmark_distance(a: FrameTruth, b: FrameTruth) -> Array:
    """Metres between the places of two frames' landmarks [A, B]; height counts little where one is a pole."""
    offset = a.position[:, None] - b.position[None]  # [A, B, 3]
    height = offset @ a.down  # [A, B]
    level = np.maximum(np.sum(offset**2, axis=2) - height**2, 0)
    pole = CATEGORIES.index("pole")
    weight = np.where((a.category == pole)[:, None] | (b.category == pole)[None], POLE_HEIGHT_WEIGHT, 1.0)
    return np.asarray(np.sqrt(level + (weight * height) ** 2))


def _places(dataset: LandmarkDataset) -> dict[tuple[int, str], Array]:
    """The mean place of each identity (nan if never known), with the category it is mostly seen as."""
    sightings: dict[int, list[tuple[str, tuple[float, float, float]]]] = {}
    for frame in dataset.frames:
        for mark in frame.landmarks:
            if mark.identity is not None:
                sightings.setdefault(mark.identity, []).append((mark.category, mark.position or (np.nan,) * 3))
    places = {}
    for identity, seen in sightings.items():
        names = [category for category, _ in seen]
        positions = np.array([position for _, position in seen])
        known = positions[np.isfinite(positions).all(axis=1)]
        place = np.median(known, axis=0) if len(known) else np.full(3, np.nan)
        places[identity, max(sorted(set(names)), key=names.count)] = place
    return places


def _down(dataset: LandmarkDataset) -> Array:
    axes = [frame.T_world_camera[:3, 1] for frame in dataset.frames if frame.T_world_camera is not None]
    return np.asarray(np.mean(axes, axis=0)) if axes else np.array([0.0, 1.0, 0.0])


def _mutual_nearest(
    fresh: list[tuple[int, Array]], seen: list[tuple[int, Array]], tolerance: float, down: Array
) -> dict[int, int]:
    """Row of `fresh` -> number of the `seen` object that it is."""
    if not seen:
        return {}
    offset = np.array([place for _, place in fresh])[:, None] - np.array([place for _, place in seen])[None]
    height = offset @ down
    square = np.sum(offset**2, axis=2) - (1 - POLE_HEIGHT_WEIGHT**2) * height**2
    distance = np.where(np.isfinite(square), np.sqrt(np.maximum(square, 0)), np.inf)  # [fresh, seen]
    column = distance.argmin(axis=1)
    return {
        row: seen[chosen][0]
        for row, chosen in enumerate(column)
        if distance[row, chosen] <= tolerance and distance[:, chosen].argmin() == row
    }
