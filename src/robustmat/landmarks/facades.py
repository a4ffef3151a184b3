"""Windows by facade planes: where the rays through a window meet the plane of the wall around it."""

from dataclasses import dataclass

import numpy as np

from robustmat.geometry.transforms import multiply
from robustmat.landmarks.config import DEFAULT, FacadeConfig
from robustmat.landmarks.regions import Region
from robustmat.types import Array, Camera


@dataclass(frozen=True)
class Plane:
    """All points p with normal . p = offset; the normal is a unit vector."""

    normal: Array  # [3]
    offset: float

    def distance(self, points: Array) -> Array:
        """Metres [N] off the plane, with the sign of the normal's side."""
        return np.asarray(points @ self.normal - self.offset)


def on_facade(
    region: Region, wall_points: Array, camera: Camera, T_world_camera: Array, config: FacadeConfig = DEFAULT.facades
) -> Array | None:
    """World position [3] of a window's middle on the wall that the points [N, 3] around it show; else None."""
    up = -T_world_camera[:3, 1]
    plane = fit_wall(wall_points, up, config)
    return None if plane is None else middle_on_plane(region, plane, camera, T_world_camera, config)


def fit_wall(points: Array, up: Array, config: FacadeConfig = DEFAULT.facades) -> Plane | None:
    """The upright plane that most points lie on (RANSAC), refined on those; None if too few agree on one.

    Two points and the upward direction make a trial, so that trials seldom fail; the refined plane may lean,
    as far as `tilt`, because cameras do. The draw is seeded: the same points give the same plane.
    """
    fewest = max(config.fewest_points, config.smallest_share * len(points))
    if len(points) < fewest:
        return None
    rng = np.random.default_rng(0)
    if len(points) > config.most_points:
        points = points[np.sort(rng.choice(len(points), config.most_points, replace=False))]
        fewest = max(config.fewest_points, config.smallest_share * len(points))
    pairs = rng.integers(0, len(points), (config.trials, 2))
    normals = np.cross(points[pairs[:, 1]] - points[pairs[:, 0]], up)  # [trials, 3]
    length = np.linalg.norm(normals, axis=1)
    normals = normals[length > 0.2] / length[length > 0.2, None]  # nearer points give no direction
    if not len(normals):
        return None
    starts = points[pairs[length > 0.2, 0]]
    off = np.abs(points @ normals.T - np.sum(starts * normals, axis=1))  # [N, trials]
    inlier = off[:, np.argmax((off <= config.tolerance).sum(0))] <= config.tolerance
    for _ in range(2):
        if inlier.sum() < fewest:
            return None
        plane = _fit(points[inlier])
        inlier = np.abs(plane.distance(points)) <= config.tolerance
    leans = abs(float(plane.normal @ up)) > np.sin(np.radians(config.tilt))
    return None if leans or inlier.sum() < fewest else plane


def middle_on_plane(
    region: Region, plane: Plane, camera: Camera, T_world_camera: Array, config: FacadeConfig = DEFAULT.facades
) -> Array | None:
    """The middle [3] of the region as it lies on the plane; None where the view is too flat.

    The middle is halfway between the edges *on the wall*: the mean of the pixels would wander towards the far
    edge as the car drives by.
    """
    rows, columns = np.nonzero(region.mask)
    x, y = columns + float(int(region.box[0])), rows + float(int(region.box[1]))
    pixels = np.stack([x, y, np.ones(len(rows))], axis=1)
    rays = multiply(T_world_camera[:3, :3] @ np.linalg.inv(camera.matrix), pixels)  # [N, 3], world
    eye = T_world_camera[:3, 3]
    toward = rays @ plane.normal
    if np.median(np.abs(toward) / np.linalg.norm(rays, axis=1)) < np.sin(np.radians(config.grazing)):
        return None
    reach = (plane.offset - eye @ plane.normal) / np.where(toward == 0, np.inf, toward)
    hits = eye + reach[reach > 0, None] * rays[reach > 0]
    if len(hits) < len(rays) / 2:
        return None
    across = np.cross(plane.normal, T_world_camera[:3, 1])
    across /= np.linalg.norm(across)
    middle = eye + (plane.offset - eye @ plane.normal) * plane.normal  # some point of the plane
    for axis in (across, np.cross(plane.normal, across)):
        low, high = np.percentile((hits - middle) @ axis, (4, 96))  # a ragged edge should not count
        middle = middle + (low + high) / 2 * axis
    return np.asarray(middle)


def _fit(points: Array) -> Plane:
    """The plane of least squared distances."""
    centre = points.mean(0)
    normal = np.linalg.svd(points - centre, full_matrices=False)[2][2]
    return Plane(normal, float(normal @ centre))
