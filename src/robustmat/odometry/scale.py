"""How many metres a step was: two cameras alone only tell its direction.

LiDAR measures the depth of keypoints; given poses (GPS, wheels) say it outright; a camera at a known height above the
road sees it by the road's keypoints. What is measured is weighed against the speed so far.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from robustmat.geometry.projection import project, visible
from robustmat.geometry.relative_pose import RelativePose, depths, rays
from robustmat.geometry.transforms import transform
from robustmat.matching.scene import SceneView
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.keypoints import PointMatches
from robustmat.types import Array, Frame

FEWEST = 8
NEAR_POINT = 2.5  # pixels between a keypoint and the LiDAR point that gives its depth
FARTHEST = 40.0  # depth in units of the step beyond which a keypoint's own depth says little
ROAD_BELOW, ROAD_BESIDE = 0.12, 1.5  # tangent below the horizon; how far aside, in camera heights
POSES_SURE = 0.003  # share of a step by which GPS and wheels are off
SURE = 0.01  # no measured step is surer than that share of it


@dataclass(frozen=True)
class Metres:
    """A distance, its standard deviation as a share of it, and who says so."""

    value: float
    deviation: float
    by: str


def measured_metres(
    kind: str,
    frame_a: Frame,
    frame_b: Frame,
    view: SceneView,
    points: PointMatches,
    pose: RelativePose,
    config: OdometryConfig,
) -> Metres | None:
    """The length of a step by `kind`, or None where that says nothing here."""
    if kind == "poses":
        if frame_a.T_world_camera is None or frame_b.T_world_camera is None:
            return None
        moved = float(np.linalg.norm(frame_a.T_world_camera[:3, 3] - frame_b.T_world_camera[:3, 3]))
        return Metres(moved, POSES_SURE, "poses")
    used = pose.inliers
    if kind not in ("lidar", "height") or used.sum() < FEWEST:
        return None
    rays_a, rays_b = rays(points.a[used], view.intrinsics), rays(points.b[used], view.intrinsics)
    z, _ = depths(pose.R_b_a, pose.direction, rays_a, rays_b)  # in units of the step
    known = (z > 0.5) & (z < FARTHEST)
    if kind == "lidar":
        return _by_lidar(frame_a, points.a[used][known], z[known])
    return _by_height(rays_a[known], z[known], config.camera_height)


def _by_lidar(frame: Frame, pixels: Array, z: Array) -> Metres | None:
    scan = frame.points_lidar
    if scan is None or frame.T_camera_lidar is None or frame.camera is None or not len(z):
        return None
    seen, depth, _ = project(transform(frame.T_camera_lidar, scan[:, :3].astype(np.float64)), frame.camera)
    if not len(seen):
        return None
    front = visible(seen, depth, frame.camera.width, frame.camera.height)
    seen, depth = seen[front], depth[front]
    if not len(seen):
        return None
    distance, nearest = cKDTree(seen + 0.5).query(pixels, distance_upper_bound=NEAR_POINT)
    there = np.isfinite(distance)
    return _robust(np.log(depth[nearest[there]] / z[there]), 1 / z[there] ** 2, "lidar")


def _by_height(rays_a: Array, z: Array, height: float) -> Metres | None:
    """Keypoints on the road are all as far below the camera as it stands above it."""
    x, y = rays_a[:, 0], rays_a[:, 1]
    road = (y > ROAD_BELOW) & (np.abs(x) < ROAD_BESIDE * y)
    return _robust(np.log(height / (y[road] * z[road])), (y[road]) ** 2, "camera height")


def _robust(logs: Array, weight: Array, by: str) -> Metres | None:
    """The densest place of the logarithms of metres [N], and how sure it is."""
    if len(logs) < FEWEST:
        return None
    width = 0.08
    density = (weight * np.exp(-0.5 * ((logs[:, None] - logs) / width) ** 2)).sum(axis=1)
    near = np.abs(logs - logs[density.argmax()]) < 2 * width
    middle = float(np.average(logs[near], weights=weight[near]))
    worth = float(weight[near].sum() ** 2 / (weight[near] ** 2).sum())  # how many equal ones
    spread = float(np.sqrt(np.average((logs[near] - middle) ** 2, weights=weight[near])))
    if near.sum() < FEWEST:
        return None
    share = float(weight[near].sum() / weight.sum())
    return Metres(float(np.exp(middle)), max(spread / np.sqrt(worth), SURE) / max(share, 0.1), by)


def weighed(measured: Metres | None, predicted: float | None, interval: float, config: OdometryConfig) -> Metres | None:
    """A measured distance weighed against the speed so far; one of them alone where the other is missing."""
    if predicted is None or predicted <= 0.05:
        return measured
    held = Metres(predicted * interval, config.speed_deviation * max(interval, 1.0), "the speed before")
    if measured is None:
        return held
    if measured.value <= 0:
        return measured
    a, b = 1 / measured.deviation**2, 1 / held.deviation**2
    value = float(np.exp((a * np.log(measured.value) + b * np.log(held.value)) / (a + b)))
    return Metres(value, float(1 / np.sqrt(a + b)), measured.by)


def scale_kind(frames: "list[Frame] | tuple[Frame, ...]", config: OdometryConfig) -> str:
    """What `auto` means for these frames."""
    if config.scale != "auto":
        return config.scale
    if any(frame.load_points and frame.T_camera_lidar is not None and frame.camera for frame in frames):
        return "lidar"
    if sum(frame.T_world_camera is not None for frame in frames) > len(frames) / 2:
        return "poses"
    return "height"
