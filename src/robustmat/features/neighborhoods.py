"""The neighbourhood graph G^x of each landmark: its K nearest landmarks in the same frame."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.types import Box


@dataclass(frozen=True)
class Neighborhoods:
    """For each of N landmarks, the indices of its graph's vertices and which of them exist: [N, K] each."""

    index: NDArray[np.int64]
    mask: NDArray[np.bool_]


def neighborhoods(boxes: Sequence[Box], num_neighbors: int, include_center: bool) -> Neighborhoods:
    """K nearest neighbours by the distance of box centres; ties break by box coordinates, so that the order
    in which landmarks are listed does not matter. Fewer landmarks than K: those there are, the rest masked.
    The center, where it is part of its graph, comes first. A landmark alone in its frame is its own graph.
    """
    count = len(boxes)
    columns = num_neighbors + int(include_center)
    index = np.zeros((count, columns), np.int64)
    mask = np.zeros((count, columns), np.bool_)
    if count == 0:
        return Neighborhoods(index, mask)
    corners = np.asarray(boxes, np.float64)  # [N, 4]
    centers = (corners[:, :2] + corners[:, 2:]) / 2
    distance = np.linalg.norm(centers[:, None] - centers, axis=-1)  # [N, N]
    found = min(num_neighbors, count - 1)
    for row in range(count):
        others = np.delete(np.arange(count), row)
        keys = (*corners[others].T[::-1], distance[row, others])  # lexsort sorts by the last key first
        nearest = others[np.lexsort(keys)][:found]
        vertices = [row, *nearest] if include_center or found == 0 else nearest
        index[row, : len(vertices)] = vertices
        mask[row, : len(vertices)] = True
    return Neighborhoods(index, mask)
