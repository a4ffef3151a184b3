"""The road's centreline: a closed round through the town, with straights, gentle bends and tight corners.

A position on it is `s` metres along; an offset is metres to the left of the driving direction.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.spatial import cKDTree

from robustmat.types import Array

SPACING = 0.5  # metres between stored points


@dataclass(frozen=True, eq=False)
class Route:
    points: Array  # [M, 2], SPACING apart, closed
    directions: Array  # [M, 2], unit vectors
    tree: cKDTree

    @property
    def length(self) -> float:
        return len(self.points) * SPACING

    def at(self, s: Array | float) -> tuple[Array, Array]:
        """Points [..., 2] and headings [...] at `s`; going on past the end is going round again."""
        place = np.asarray(s, float) / SPACING
        low = np.floor(place).astype(int)
        share = (place - low)[..., None]
        count = len(self.points)
        points = (1 - share) * self.points[low % count] + share * self.points[(low + 1) % count]
        direction = (1 - share) * self.directions[low % count] + share * self.directions[(low + 1) % count]
        return points, np.arctan2(direction[..., 1], direction[..., 0])

    def beside(self, s: Array | float, offset: Array | float) -> Array:
        """Points [..., 2] at `offset` metres to the left of `s`."""
        points, heading = self.at(s)
        left = np.stack([-np.sin(heading), np.cos(heading)], axis=-1)
        return np.asarray(points + np.asarray(offset, float)[..., None] * left)

    def locate(self, points: Array) -> tuple[Array, Array]:
        """Where points [N, 2] lie: `s` of the nearest point of the centreline, and the offset to its left."""
        _, nearest = self.tree.query(points)
        cos, sin = self.directions[nearest].T
        away = points - self.points[nearest]
        along, offset = away[:, 0] * cos + away[:, 1] * sin, -away[:, 0] * sin + away[:, 1] * cos
        distance = np.hypot(away[:, 0], away[:, 1])
        # Beyond tight corners the nearest point is not square to the road; keep the true distance there.
        offset = np.where(np.abs(along) > SPACING, np.copysign(distance, offset), offset)
        return nearest * SPACING + np.clip(along, -SPACING, SPACING), offset


def make_route(rng: np.random.Generator, size: float = 105.0) -> Route:
    """A random round; `size` is about its radius in metres."""
    count = int(rng.integers(5, 8))
    angles = 2 * np.pi * (np.arange(count) + rng.uniform(-0.22, 0.22, count)) / count
    radii = size * rng.uniform(0.78, 1.2, count)
    corners = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    if rng.random() < 0.5:
        corners = corners[::-1]  # driven the other way round: bends to the right
    rough = _rounded(corners, rng)
    even = _resampled(rough)
    # A slow sideways swing makes the straights bend a little, as real streets do.
    phase = np.arange(len(even)) * SPACING
    length = len(even) * SPACING
    swing = sum(
        rng.uniform(0.8, 2.2) * np.sin(2 * np.pi * k * phase / length + rng.uniform(0, 2 * np.pi)) for k in (5, 8, 11)
    )
    tangent = np.roll(even, -1, axis=0) - np.roll(even, 1, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    even = even + np.asarray(swing)[:, None] * np.stack([-tangent[:, 1], tangent[:, 0]], axis=1)
    points = _resampled(gaussian_filter1d(even, 6.0, axis=0, mode="wrap"))
    ahead = np.roll(points, -1, axis=0) - np.roll(points, 1, axis=0)
    return Route(points, ahead / np.linalg.norm(ahead, axis=1, keepdims=True), cKDTree(points))


def _rounded(corners: Array, rng: np.random.Generator) -> Array:
    """The polygon with its corners replaced by curves."""
    pieces = []
    for before, corner, after in zip(np.roll(corners, 1, axis=0), corners, np.roll(corners, -1, axis=0), strict=True):
        reach = rng.uniform(16.0, 34.0)
        start = corner + reach * (before - corner) / np.linalg.norm(before - corner)
        end = corner + reach * (after - corner) / np.linalg.norm(after - corner)
        t = np.linspace(0, 1, 24)[:, None]
        pieces.append((1 - t) ** 2 * start + 2 * t * (1 - t) * corner + t**2 * end)
    return np.concatenate(pieces)


def _resampled(closed: Array) -> Array:
    """The closed line at even steps of SPACING (stretched a little to close)."""
    looped = np.concatenate([closed, closed[:1]])
    steps = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(looped, axis=0), axis=1))])
    count = round(steps[-1] / SPACING)
    wanted = np.arange(count) * steps[-1] / count
    return np.stack([np.interp(wanted, steps, looped[:, i]) for i in range(2)], axis=1)
