"""Tracks: sightings of neighbouring frames that one place in the world explains.

The depth of a single box is unknown, so a track keeps a likelihood over depths along the ray of its last sighting:
boxes seen before must fall where that depth puts them, with sizes to match, and LiDAR, where it met something, says
which depths it is for. The next frame's boxes are held to it. A track goes on only where one box fits far better than
every other, and that box fits no other track nearly as well.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from robustmat.landmarks.config import DEFAULT, TrackConfig
from robustmat.landmarks.sightings import Flags, Indices, Sightings
from robustmat.types import CATEGORIES, Array


@dataclass
class _Track:
    members: list[int] = field(default_factory=list)


class _Geometry:
    """What every comparison needs of the sightings, computed once."""

    def __init__(self, seen: Sightings, config: TrackConfig) -> None:
        self.seen, self.config = seen, config
        self.middle, self.extent, self.cut = seen.middle(), seen.extent(), seen.cut()
        self.rays, self.pole = seen.rays(), seen.is_pole()
        self.eyes = seen.views.eyes()
        self.depths = np.geomspace(config.nearest, config.farthest, config.depths)
        self.has_position: Flags = np.asarray(np.isfinite(seen.position).all(axis=1))

    def fit(self, rows: list[int], last: int) -> Array:
        """Log likelihood [M, K] of sightings `rows` if the object of sighting `last` is at each of the depths."""
        seen, config = self.seen, self.config
        index = np.array(rows, dtype=np.int64)
        frames = seen.frame[index]
        points = self.eyes[seen.frame[last]] + self.depths[:, None] * self.rays[last]
        pixels, depth = seen.views.project(frames, points)  # [M, K, 2], [M, K]
        scale = self.depths / depth  # how much larger the object is here than in `last`
        focal = seen.views.focal[frames][:, None]
        spread = config.pixels + config.bearing * focal + config.share * self.extent[index][:, None]
        off = (pixels - self.middle[index][:, None]) / spread  # [M, K, 2]
        pole = self.pole[index]
        # The edges of a pole's box come and go with branches and cars, those of a cut box with the image's border.
        sideways = np.asarray(~(self.cut[index][:, [0, 2]].any(1) | self.cut[last, [0, 2]].any()))
        upright = np.asarray(~(self.cut[index][:, [1, 3]].any(1) | self.cut[last, [1, 3]].any()) & ~pole)
        size = np.log(self.extent[index][:, None] / (self.extent[last] * scale[..., None])) / config.log_size
        found = -0.5 * np.minimum(off[..., 0] ** 2, config.cap)
        found -= 0.5 * np.where(upright[:, None], np.minimum(off[..., 1] ** 2, config.cap), 0)
        found -= 0.5 * np.where(sideways[:, None], np.minimum(size[..., 0] ** 2, config.soft_cap), 0)
        found -= 0.5 * np.where(upright[:, None], np.minimum(size[..., 1] ** 2, config.soft_cap), 0)
        found -= 0.5 * np.where(pole[:, None], np.minimum(self._vertical_gap(index, last, pixels, scale) ** 2, 9), 0)
        return np.asarray(found + self._by_lidar(rows, points))

    def by_size(self, last: int) -> Array:
        """Log likelihood [K] of the depths: objects of a kind are about as wide as usual."""
        config, seen = self.config, self.seen
        metres = self.extent[last, 0] / seen.views.focal[seen.frame[last], 0] * self.depths
        off = np.log(metres / config.usual(CATEGORIES[seen.category[last]])) / config.usual_spread
        return np.asarray(-0.5 * np.minimum(off**2, config.soft_cap))

    def _vertical_gap(self, index: Indices, last: int, pixels: Array, scale: Array) -> Array:
        """How far apart two pieces of a pole are, one above the other, in units of `pixels`: [M, K]; 0 if they meet."""
        half = self.extent[last, 1] * scale / 2
        box = self.seen.box[index]
        above = box[:, 1, None] - (pixels[..., 1] + half)
        below = (pixels[..., 1] - half) - box[:, 3, None]
        return np.asarray(np.maximum(np.maximum(above, below), 0) / (2 * self.config.pixels))

    def _by_lidar(self, rows: list[int], points: Array) -> Array:
        config = self.config
        told = np.zeros((len(rows), len(points)))
        for row, i in enumerate(rows):
            if self.has_position[i]:
                offset = np.linalg.norm(points - self.seen.position[i], axis=1)
                far = np.linalg.norm(self.seen.position[i] - self.eyes[self.seen.frame[i]])
                spread = config.lidar + 0.5 * far * (self.depths[1] / self.depths[0] - 1)
                told[row] = np.log(
                    config.lidar_wrong + (1 - config.lidar_wrong) * np.exp(-0.5 * (offset / spread) ** 2)
                )
        return told


def find_tracks(seen: Sightings, config: TrackConfig = DEFAULT.tracks) -> list[list[int]]:
    """Tracks of sightings, each in the order of time; every sighting is in one."""
    geometry = _Geometry(seen, config)
    travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(geometry.eyes, axis=0), axis=1))])
    tracks: list[_Track] = []
    active: list[_Track] = []
    bounds = np.searchsorted(seen.frame, np.arange(len(seen.views.known) + 1))
    for frame in range(len(seen.views.known)):
        boxes = list(range(bounds[frame], bounds[frame + 1]))
        active = [
            track
            for track in active
            if frame - seen.frame[track.members[-1]] <= config.longest_gap
            and travelled[frame] - travelled[seen.frame[track.members[-1]]] <= config.widest_gap
        ]
        taken = _continue(geometry, active, boxes)
        for box in boxes:
            if box not in taken:
                fresh = _Track([box])
                tracks.append(fresh)
                active.append(fresh)
    return [track.members for track in tracks]


def _continue(geometry: _Geometry, active: list[_Track], boxes: list[int]) -> set[int]:
    """Append the boxes of a frame to the tracks that they continue beyond doubt."""
    config, seen = geometry.config, geometry.seen
    if not active or not boxes:
        return set()
    score = np.full((len(active), len(boxes)), -np.inf)
    for row, track in enumerate(active):
        columns = [c for c, box in enumerate(boxes) if seen.category[box] == seen.category[track.members[-1]]]
        if columns:
            last = track.members[-1]
            before = geometry.fit(track.members[-config.memory :], last).sum(axis=0) + geometry.by_size(last)  # [K]
            joint = before + geometry.fit([boxes[c] for c in columns], last)  # [C, K]
            score[row, columns] = joint.max(axis=1) - before.max()
    # Of two tracks that may be pieces of one object, the box goes to the one seen last, then to the longer one.
    age = seen.frame[boxes[0]] - np.array([seen.frame[track.members[-1]] for track in active])
    length = np.array([min(len(track.members), config.memory) for track in active])
    favour = config.recency * age - config.constancy * length
    rows, columns_ = linear_sum_assignment(favour[:, None] - np.maximum(score, -1e3))
    frames = [{int(seen.frame[i]) for i in track.members} for track in active]
    taken: dict[int, int] = {}
    for row, column in zip(rows.tolist(), columns_.tolist(), strict=True):
        best = score[row, column]
        # Two tracks that share a frame are two objects; others are no rivals, they may be pieces of this one.
        rivals = [other for other in range(len(active)) if other != row and frames[row] & frames[other]]
        others = np.concatenate([np.delete(score[row], column), score[rivals, column]])
        if best >= config.worst and best - others.max(initial=-np.inf) >= config.margin:
            taken[row] = boxes[column]
    for row, box in taken.items():
        active[row].members.append(box)
    return set(taken.values())
