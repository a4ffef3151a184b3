"""The LiDAR reference map: all scans of a drive in world coordinates, thinned to voxels.

It is built in parts of some scans each, which may lie on disk, and read by tiles around a place. So neither
building nor reading it holds more than a stretch of the street in memory, however long the drive is.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from robustmat.errors import DataError
from robustmat.geometry.projection import NEAREST, pixel_index, project
from robustmat.geometry.transforms import invert, multiply, transform
from robustmat.landmarks.config import DEFAULT, MapConfig
from robustmat.landmarks.map_parts import MapPart, grid, keep_part, open_part
from robustmat.landmarks.voxels import (
    MICROMETRES,
    MOST_CELLS,
    Voxels,
    from_records,
    means,
    merge,
    pack,
    thin,
    unpack,
)
from robustmat.types import Array, Camera, Frame

REACH = DEFAULT.map.reach
MOVABLE_LABELS = tuple(range(11, 19))  # Cityscapes: person, rider, car, truck, bus, train, motorcycle, bicycle
MOST_PENDING = 500_000  # voxels of single scans that wait to be merged


class ReferenceMap:
    """World points by tiles. Remembers the tiles that were asked for last: the next frame asks for nearly the same."""

    def __init__(self, parts: Iterable[MapPart], origin: Array, config: MapConfig = DEFAULT.map) -> None:
        self._origin = origin
        self._voxel, self._tile_cells = grid(config)
        self._tile = self._voxel * self._tile_cells / MICROMETRES  # metres
        self._pieces: dict[int, list[tuple[MapPart, int, int]]] = {}
        self._loaded: dict[int, Array] = {}
        for part in parts:
            for key, start, stop in zip(part.tiles, part.starts[:-1], part.starts[1:], strict=True):
                self._pieces.setdefault(int(key), []).append((part, int(start), int(stop)))

    def near(self, position: Array, radius: float) -> Array:
        """World points [M, 3] in the tiles within `radius` of `position`."""
        return self._points(self._around(position, radius))

    def in_view(self, camera: Camera, T_world_camera: Array, radius: float) -> Array:
        """Those of `near` whose tile reaches into the camera's field of view."""
        keys = self._around(T_world_camera[:3, 3], radius)
        if not keys:
            return np.zeros((0, 3))
        corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), axis=-1).reshape(8, 3)
        cells = unpack(np.array(keys))[:, None] + corners  # [T, 8, 3]
        world = cells.reshape(-1, 3) * self._tile + self._origin
        seen = multiply(camera.matrix, transform(invert(T_world_camera), world)).reshape(-1, 8, 3)
        x, y, depth = seen[..., 0], seen[..., 1], seen[..., 2]
        # A tile is out of view if all its corners lie on the far side of one of the view's five planes.
        inside = (
            (depth > NEAREST).any(1)
            & (x > -0.5 * depth).any(1)
            & (y > -0.5 * depth).any(1)
            & (x < (camera.width - 0.5) * depth).any(1)
            & (y < (camera.height - 0.5) * depth).any(1)
        )
        return self._points([keys[i] for i in np.flatnonzero(inside)])

    def _around(self, position: Array, radius: float) -> list[int]:
        """Keys of the occupied tiles within the radius."""
        low = np.floor((position - self._origin - radius) / self._tile).astype(np.int64)
        high = np.floor((position - self._origin + radius) / self._tile).astype(np.int64)
        axes = [np.arange(start, stop + 1) for start, stop in zip(low, high, strict=True)]
        cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        return [key for key in pack(cells).tolist() if key in self._pieces]

    def _points(self, keys: list[int]) -> Array:
        """The points of these tiles; all others are forgotten."""
        self._loaded = {key: self._loaded[key] if key in self._loaded else self._read(key) for key in keys}
        return np.concatenate([np.zeros((0, 3)), *self._loaded.values()])

    def _read(self, key: int) -> Array:
        pieces = [from_records(part.read(start, stop)) for part, start, stop in self._pieces[key]]
        return means(merge(pieces), self._voxel) + self._origin


def build_reference_map(
    frames: Iterable[Frame], folder: Path | None = None, config: MapConfig = DEFAULT.map
) -> ReferenceMap:
    """One map of all scans whose frame has a pose. Each voxel holds the mean of its points.

    With a `folder`, parts are written there and forgotten, and those that are there already are not built
    again: the caller sees to it that they are of the same frames and limits. The map then reads that folder.
    """
    parts: list[MapPart] = []
    origin: Array | None = None
    pending: list[Voxels] = []
    number = 0
    done = open_part(folder, 0)

    def finish() -> None:
        nonlocal pending, done
        if done is None:
            done = keep_part(folder, len(parts), merge(pending), config)
        parts.append(done)
        pending = []
        done = open_part(folder, len(parts))

    for frame in frames:
        if frame.load_points is None or frame.T_world_camera is None or frame.T_camera_lidar is None:
            continue
        if origin is None:
            origin = (frame.T_world_camera @ frame.T_camera_lidar)[:3, 3].copy()
        if done is None:
            pending.append(_thinned_scan(frame, origin, config))
            if sum(len(part) for part in pending[1:]) > MOST_PENDING:
                pending = [merge(pending)]
        number += 1
        if number % config.scans_a_part == 0:
            finish()
    if number % config.scans_a_part:
        finish()
    return ReferenceMap(parts, np.zeros(3) if origin is None else origin, config)


def _thinned_scan(frame: Frame, origin: Array, config: MapConfig) -> Voxels:
    points = frame.points_lidar
    assert points is not None
    assert frame.T_world_camera is not None
    assert frame.T_camera_lidar is not None
    T_world_lidar = frame.T_world_camera @ frame.T_camera_lidar
    voxel, _ = grid(config)
    limit = MOST_CELLS * voxel / MICROMETRES - config.reach
    if np.abs(T_world_lidar[:3, 3] - origin).max() >= limit:
        raise DataError(
            f"frame {frame.name} stands more than {limit / 1000:.0f} km from the drive's first scan: "
            "check its pose, or prepare the drive in pieces"
        )
    xyz = points[:, :3].astype(np.float64)
    kept = ((xyz**2).sum(1) < config.reach**2) & ~movable_points(xyz, frame, config)
    return thin(transform(T_world_lidar, xyz[kept]) - origin, voxel)


def movable_points(points_lidar: Array, frame: Frame, config: MapConfig) -> NDArray[np.bool_]:
    """[N]: whether a point of this frame's scan lies on something that may drive or walk away.

    Traffic would smear through the map and stand in front of the landmarks it passed.
    """
    if frame.load_point_labels is not None:
        return np.isin(frame.load_point_labels(), MOVABLE_LABELS)
    movable = np.zeros(len(points_lidar), dtype=bool)
    semantics = frame.semantics
    if semantics is None or frame.camera is None or frame.T_camera_lidar is None:
        return movable
    mask = ndimage.binary_dilation(np.isin(semantics, MOVABLE_LABELS), iterations=config.movable_margin)
    pixels, _, index = project(transform(frame.T_camera_lidar, points_lidar), frame.camera)
    movable[index] = mask[pixel_index(pixels)]
    return movable
