"""Parts of the reference map, in memory or on disk: the voxels of some scans, ordered by tile."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.files import replacing
from robustmat.landmarks.config import MapConfig
from robustmat.landmarks.voxels import MICROMETRES, RECORD, Voxels, Whole, pack, to_records, unpack


@dataclass(frozen=True)
class MapPart:
    """The voxels of some scans, ordered by tile: tile keys [T], where each begins [T + 1], and how to read them."""

    tiles: Whole
    starts: Whole
    read: Callable[[int, int], NDArray[np.void]]  # (from, to) -> records


def grid(config: MapConfig) -> tuple[int, int]:
    """A voxel's side in micrometres, and a tile's side in voxels."""
    voxel = max(1, round(config.voxel * MICROMETRES))
    return voxel, max(1, round(config.tile * MICROMETRES / voxel))


def keep_part(folder: Path | None, number: int, voxels: Voxels, config: MapConfig) -> MapPart:
    """A part from its voxels, kept in memory or on disk."""
    _, tile_cells = grid(config)
    keys = pack(unpack(voxels.keys) // tile_cells)
    order = np.argsort(keys, kind="stable")
    tiles, starts = np.unique(keys[order], return_index=True)
    records = to_records(voxels)[order]
    bounds = np.append(starts, len(records)).astype(np.int64)
    if folder is None:
        return MapPart(tiles, bounds, lambda start, stop: records[start:stop])
    voxel_path, tile_path = _paths(folder, number)
    with replacing(voxel_path) as temporary:
        records.tofile(temporary)
    with replacing(tile_path) as temporary:  # last: it says that the part is whole
        np.save(temporary, np.stack([np.append(tiles, 0), bounds]))
    opened = open_part(folder, number)
    assert opened is not None
    return opened


def open_part(folder: Path | None, number: int) -> MapPart | None:
    """A part that lies on disk, whole; else None."""
    if folder is None or not _paths(folder, number)[1].is_file():
        return None
    voxel_path, tile_path = _paths(folder, number)
    tiles, starts = np.load(tile_path)

    def read(start: int, stop: int) -> NDArray[np.void]:
        # Plain reading: pages of a memory-mapped file would count as ours and stay.
        return np.fromfile(voxel_path, dtype=RECORD, count=stop - start, offset=start * RECORD.itemsize)

    return MapPart(tiles[:-1], starts, read)


def _paths(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"{number:05d}.voxels", folder / f"{number:05d}.tiles.npy"
