"""Points thinned to voxels, counted in whole micrometres.

Whole numbers add up to the same sum in any order and any grouping, so a map does not depend on how the scans
were divided into parts, nor on whether the work was interrupted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.types import Array

Whole = NDArray[np.int64]

MICROMETRES = 1_000_000
# Cells per axis and sign that fit into 21 bits, so that three make one key: +-83 km of voxels of 0.08 m.
MOST_CELLS = 1 << 20
RECORD = np.dtype([("cell", "<i8"), ("count", "<i8"), ("sum", "<i8", 3)])  # what a voxel is on disk


@dataclass(frozen=True)
class Voxels:
    """Occupied voxels: packed cell [N], sum of its points' offsets within it [N, 3], number of points [N]."""

    keys: Whole
    sums: Whole
    counts: Whole

    def __len__(self) -> int:
        return len(self.keys)


def thin(points: Array, voxel: int) -> Voxels:
    """The voxels, `voxel` micrometres wide, of points [N, 3] in metres."""
    fine = np.rint(points * MICROMETRES).astype(np.int64)
    cells = fine // voxel
    return _grouped(pack(cells), fine - cells * voxel, np.ones(len(fine), dtype=np.int64))


def merge(parts: Sequence[Voxels]) -> Voxels:
    """The voxels of all parts together."""
    return _grouped(
        np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)]),
        np.concatenate([np.zeros((0, 3), np.int64), *(part.sums for part in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)]),
    )


def means(voxels: Voxels, voxel: int) -> Array:
    """The mean point [N, 3] of each voxel, in metres."""
    return np.asarray((unpack(voxels.keys) * voxel + voxels.sums / voxels.counts[:, None]) / MICROMETRES)


def to_records(voxels: Voxels) -> NDArray[np.void]:
    records = np.empty(len(voxels), dtype=RECORD)
    records["cell"], records["sum"], records["count"] = voxels.keys, voxels.sums, voxels.counts
    return records


def from_records(records: NDArray[np.void]) -> Voxels:
    return Voxels(records["cell"], records["sum"], records["count"])


def pack(cells: Whole) -> Whole:
    """One number per cell [N, 3], within MOST_CELLS of zero on each axis."""
    shifted = cells + MOST_CELLS
    return np.asarray((shifted[:, 0] << 42) | (shifted[:, 1] << 21) | shifted[:, 2])


def unpack(keys: Whole) -> Whole:
    """The cells [N, 3] of packed keys [N]."""
    low = 2 * MOST_CELLS - 1
    return np.stack([keys >> 42, (keys >> 21) & low, keys & low], axis=1) - MOST_CELLS


def _grouped(keys: Whole, sums: Whole, counts: Whole) -> Voxels:
    """One entry for each key, in the order of the keys."""
    if not len(keys):
        return Voxels(keys, sums, counts)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Voxels(ordered[starts], np.add.reduceat(sums[order], starts), np.add.reduceat(counts[order], starts))
