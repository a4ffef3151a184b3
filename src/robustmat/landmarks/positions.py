"""Where a region's object stands: the reference map seen by the camera, inside the region's pixels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from robustmat.geometry.projection import pixel_index, project, visible
from robustmat.geometry.transforms import invert, transform
from robustmat.landmarks.config import DEFAULT, LandmarkConfig, PositionConfig
from robustmat.landmarks.facades import on_facade
from robustmat.landmarks.reference_map import ReferenceMap
from robustmat.landmarks.regions import Region
from robustmat.types import Array, Camera

Position = tuple[float, float, float]


@dataclass(frozen=True)
class VisiblePoints:
    """The map's points that a frame sees: pixels [N, 2], depths [N], world coordinates [N, 3]; and from where."""

    pixels: Array
    depth: Array
    world: Array
    camera: Camera
    T_world_camera: Array


def visible_points(
    reference: ReferenceMap, camera: Camera, T_world_camera: Array, config: PositionConfig = DEFAULT.positions
) -> VisiblePoints:
    """The reference map projected into a frame, without the points that something nearer hides."""
    points_world = reference.in_view(camera, T_world_camera, config.farthest)
    pixels, depth, index = project(transform(invert(T_world_camera), points_world), camera)
    seen = visible(pixels, depth, camera.width, camera.height) & (depth < config.farthest)
    return VisiblePoints(pixels[seen], depth[seen], points_world[index[seen]], camera, T_world_camera)


def locate(regions: Sequence[Region], points: VisiblePoints, config: LandmarkConfig = DEFAULT) -> list[Position | None]:
    """World position of each region's object, or None where LiDAR does not tell.

    A window is placed on the plane of its wall: its glass returns few beams, and some of those from the room behind.
    """
    row, column = pixel_index(points.pixels)
    found: list[Position | None] = []
    for region in regions:
        place = None
        if region.category == "window":
            beside = _beside(region, row, column, config.facades.margin(region.mask.shape))
            place = on_facade(region, points.world[beside], points.camera, points.T_world_camera, config.facades)
        if place is None:
            place = _nearest_thing(region, row, column, points, config.positions)
        found.append(None if place is None else (float(place[0]), float(place[1]), float(place[2])))
    return found


def _nearest_thing(
    region: Region, row: NDArray[np.intp], column: NDArray[np.intp], points: VisiblePoints, config: PositionConfig
) -> Array | None:
    """The object's points are those in its mask; only if they are too few, also those just beside it."""
    row = row - (int(region.box[1]) - config.slack)
    column = column - (int(region.box[0]) - config.slack)
    mask = np.pad(region.mask, config.slack)
    height, width = mask.shape
    in_box = np.flatnonzero((row >= 0) & (row < height) & (column >= 0) & (column < width))
    for pixels in (mask, ndimage.binary_dilation(mask, np.ones((3, 3)), iterations=config.slack)):
        index = in_box[pixels[row[in_box], column[in_box]]]
        cluster = index[nearest_cluster(points.depth[index], config)]
        if len(cluster):
            return robust_mean(points.world[cluster])
    return None


def _beside(
    region: Region, row: NDArray[np.intp], column: NDArray[np.intp], margin: tuple[int, int]
) -> NDArray[np.intp]:
    """Indices of the points around a region, so many pixels up and down and to both sides, but not in it."""
    row = row - (int(region.box[1]) - margin[0])
    column = column - (int(region.box[0]) - margin[1])
    mask = np.pad(region.mask, ((margin[0], margin[0]), (margin[1], margin[1])))
    height, width = mask.shape
    near = np.flatnonzero((row >= 0) & (row < height) & (column >= 0) & (column < width))
    return near[~mask[row[near], column[near]]]


def nearest_cluster(depth: Array, config: PositionConfig = DEFAULT.positions) -> NDArray[np.intp]:
    """Indices of the nearest run of depths without a gap that holds enough of the points; else none.

    A mask's rim and the gaps in a treetop let background through, so the object is what is in front; a few
    stray points in front of it (a branch, a passing car's trace) are too few to be it.
    """
    order = np.argsort(depth, kind="stable")
    ordered = depth[order]
    gaps = np.flatnonzero(np.diff(ordered) > config.depth_gap + 0.01 * ordered[:-1]) + 1
    for cluster in np.split(order, gaps):
        if len(cluster) >= max(config.fewest_points, config.smallest_share * len(depth)):
            return np.asarray(cluster)
    return np.zeros(0, dtype=np.intp)


def robust_mean(points: Array) -> Array:
    """Mean [3] of the points [N, 3] that lie near their median."""
    offset = np.abs(points - np.median(points, axis=0))
    spread = np.median(offset, axis=0)
    inlier = (offset <= 3 * spread + 0.05).all(1)
    return np.asarray(points[inlier].mean(0) if inlier.any() else np.median(points, axis=0))
