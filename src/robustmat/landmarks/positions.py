"""Where a region's object stands: the reference map seen by the camera, inside the region's pixels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from robustmat.geometry.projection import pixel_index, project, visible
from robustmat.geometry.transforms import invert, transform
from robustmat.landmarks.reference_map import ReferenceMap
from robustmat.landmarks.regions import Region
from robustmat.types import Array, Camera

FARTHEST = 80.0  # metres; farther objects are a few pixels wide
SLACK = 1  # pixels around a mask: calibration and masks are no better, and a far pole is three pixels wide
FEWEST_POINTS = 5
SMALLEST_SHARE = 0.15  # of the points in the region, for a depth cluster to be the object
DEPTH_GAP = 0.6  # metres between two depth clusters; grows with distance


@dataclass(frozen=True)
class VisiblePoints:
    """The map's points that a frame sees: pixels [N, 2], depths [N], world coordinates [N, 3]."""

    pixels: Array
    depth: Array
    world: Array


def visible_points(reference: ReferenceMap, camera: Camera, T_world_camera: Array) -> VisiblePoints:
    """The reference map projected into a frame, without the points that something nearer hides."""
    points_world = reference.near(T_world_camera[:3, 3], FARTHEST)
    pixels, depth, index = project(transform(invert(T_world_camera), points_world), camera)
    seen = visible(pixels, depth, camera.width, camera.height) & (depth < FARTHEST)
    return VisiblePoints(pixels[seen], depth[seen], points_world[index[seen]])


def locate(regions: Sequence[Region], points: VisiblePoints) -> list[tuple[float, float, float] | None]:
    """World position of each region's object, or None where LiDAR does not tell."""
    row, column = pixel_index(points.pixels)
    return [_locate_one(region, row, column, points) for region in regions]


def _locate_one(
    region: Region, row: NDArray[np.intp], column: NDArray[np.intp], points: VisiblePoints
) -> tuple[float, float, float] | None:
    """The object's points are those in its mask; only if they are too few, also those just beside it."""
    row = row - (int(region.box[1]) - SLACK)
    column = column - (int(region.box[0]) - SLACK)
    mask = np.pad(region.mask, SLACK)
    height, width = mask.shape
    in_box = np.flatnonzero((row >= 0) & (row < height) & (column >= 0) & (column < width))
    for pixels in (mask, ndimage.binary_dilation(mask, np.ones((3, 3)), iterations=SLACK)):
        index = in_box[pixels[row[in_box], column[in_box]]]
        cluster = index[nearest_cluster(points.depth[index])]
        if len(cluster):
            x, y, z = robust_mean(points.world[cluster])
            return (float(x), float(y), float(z))
    return None


def nearest_cluster(depth: Array) -> NDArray[np.intp]:
    """Indices of the nearest run of depths without a gap that holds enough of the points; else none.

    A mask's rim and the gaps in a treetop let background through, so the object is what is in front; a few
    stray points in front of it (a branch, a passing car's trace) are too few to be it.
    """
    order = np.argsort(depth, kind="stable")
    ordered = depth[order]
    gaps = np.flatnonzero(np.diff(ordered) > DEPTH_GAP + 0.01 * ordered[:-1]) + 1
    for cluster in np.split(order, gaps):
        if len(cluster) >= max(FEWEST_POINTS, SMALLEST_SHARE * len(depth)):
            return np.asarray(cluster)
    return np.zeros(0, dtype=np.intp)


def robust_mean(points: Array) -> Array:
    """Mean [3] of the points [N, 3] that lie near their median."""
    offset = np.abs(points - np.median(points, axis=0))
    spread = np.median(offset, axis=0)
    inlier = (offset <= 3 * spread + 0.05).all(1)
    return np.asarray(points[inlier].mean(0) if inlier.any() else np.median(points, axis=0))
