"""The LiDAR reference map: all scans of a drive in world coordinates, thinned to voxels."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from robustmat.geometry.projection import pixel_index, project
from robustmat.geometry.transforms import transform
from robustmat.types import Array, Frame

VOXEL = 0.08  # metres
REACH = 50.0  # metres from the sensor; beyond, beams are too far apart to place a thin pole
TILE = 16.0  # metres; the map is looked up by tiles, so a frame's share does not depend on the drive's length
MOVABLE_LABELS = tuple(range(11, 19))  # Cityscapes: person, rider, car, truck, bus, train, motorcycle, bicycle
MOVABLE_MARGIN = 2  # pixels around them
_HALF = 1 << 20  # cells per axis and sign that fit into 21 bits: +-83 km of voxels


@dataclass(frozen=True)
class ReferenceMap:
    """Points [N, 3] in world metres, ordered by tile, with the tile key [N] of each."""

    points: NDArray[np.float32]
    tile_keys: NDArray[np.int64]
    origin: Array  # [3]; points are stored relative to it, so that float32 keeps its millimetres

    def near(self, position: Array, radius: float) -> Array:
        """World points [M, 3] in the tiles within `radius` of `position`."""
        low = np.floor((position - self.origin - radius) / TILE).astype(np.int64)
        high = np.floor((position - self.origin + radius) / TILE).astype(np.int64)
        axes = [np.arange(start, stop + 1) for start, stop in zip(low, high, strict=True)]
        keys = _pack(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3))
        starts = np.searchsorted(self.tile_keys, keys, side="left")
        stops = np.searchsorted(self.tile_keys, keys, side="right")
        parts = [self.points[i:j] for i, j in zip(starts, stops, strict=True) if j > i]
        if not parts:
            return np.zeros((0, 3))
        return np.concatenate(parts).astype(np.float64) + self.origin


def build_reference_map(frames: Iterable[Frame]) -> ReferenceMap:
    """One map of all scans whose frame has a pose. Each voxel holds the mean of its points.

    Scans are merged into the map when they outweigh it, so time grows with the number of points and memory
    with the size of the mapped street, not with the number of scans.
    """
    origin: Array | None = None
    merged = _Voxels.empty()
    pending: list[_Voxels] = []
    for frame in frames:
        points = frame.points_lidar
        if points is None or frame.T_world_camera is None or frame.T_camera_lidar is None:
            continue
        T_world_lidar = frame.T_world_camera @ frame.T_camera_lidar
        origin = T_world_lidar[:3, 3].copy() if origin is None else origin
        xyz = points[:, :3].astype(np.float64)
        xyz = xyz[(xyz**2).sum(1) < REACH**2]
        xyz = xyz[~_on_movable(transform(frame.T_camera_lidar, xyz), frame)]
        pending.append(_Voxels.of(transform(T_world_lidar, xyz) - origin))
        if sum(len(part.keys) for part in pending) > max(len(merged.keys), 1_000_000):
            merged, pending = _Voxels.merge([merged, *pending]), []
    merged = _Voxels.merge([merged, *pending])
    points_local = merged.sums / merged.counts[:, None]
    tile_keys = _pack(np.floor(points_local / TILE).astype(np.int64))
    order = np.argsort(tile_keys, kind="stable")
    return ReferenceMap(
        points_local[order].astype(np.float32), tile_keys[order], np.zeros(3) if origin is None else origin
    )


def _on_movable(points_camera: Array, frame: Frame) -> NDArray[np.bool_]:
    """[N]: whether a point of this frame's scan lies on something that may drive or walk away.

    Traffic would smear through the map and stand in front of the landmarks it passed.
    """
    movable = np.zeros(len(points_camera), dtype=bool)
    semantics = frame.semantics
    if semantics is None or frame.camera is None:
        return movable
    mask = ndimage.binary_dilation(np.isin(semantics, MOVABLE_LABELS), iterations=MOVABLE_MARGIN)
    pixels, _, index = project(points_camera, frame.camera)
    movable[index] = mask[pixel_index(pixels)]
    return movable


@dataclass(frozen=True)
class _Voxels:
    """Occupied voxels: packed cell, sum of the points in it [N, 3], number of them [N]."""

    keys: NDArray[np.int64]
    sums: Array
    counts: Array

    @staticmethod
    def empty() -> "_Voxels":
        return _Voxels(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros(0))

    @staticmethod
    def of(points: Array) -> "_Voxels":
        keys = _pack(np.floor(points / VOXEL).astype(np.int64))
        return _Voxels._grouped(keys, points, np.ones(len(points)))

    @staticmethod
    def merge(parts: list["_Voxels"]) -> "_Voxels":
        return _Voxels._grouped(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.sums for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    @staticmethod
    def _grouped(keys: NDArray[np.int64], sums: Array, counts: Array) -> "_Voxels":
        unique, group = np.unique(keys, return_inverse=True)
        total = np.stack([np.bincount(group, sums[:, axis], len(unique)) for axis in range(3)], axis=1)
        return _Voxels(unique, total.astype(np.float64), np.bincount(group, counts, len(unique)).astype(np.float64))


def _pack(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """One integer per cell [N, 3]."""
    shifted = np.clip(cells + _HALF, 0, 2 * _HALF - 1)
    return np.asarray((shifted[:, 0] << 42) | (shifted[:, 1] << 21) | shifted[:, 2])
