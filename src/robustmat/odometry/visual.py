"""The motion between two frames from their matched keypoints: rotation and direction, standing still, or nothing.

A robust sample (PoseLib's, where installed, else OpenCV's MAGSAC) and the prediction are refined by all matches, with
the prediction as a prior; a prediction that the matches clearly contradict is let go. PoseLib was chosen by trial: on
KITTI raw 0013 its direction was off by 0.60 degrees (root mean square), MAGSAC's by 1.49.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from robustmat.geometry.relative_pose import (
    COARSE_RESIDUAL,
    DOUBT,
    FEWEST_MATCHES,
    MotionPrior,
    RelativePose,
    nothing,
    rays,
    refined_pose,
    relative_pose,
    sampled_pose,
)
from robustmat.matching.scene import SceneView
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.keypoints import PointMatches
from robustmat.odometry.prediction import START, Prediction
from robustmat.types import Array

SAMPLE_ERROR = 1.5  # pixels
FOCAL_SCALE = 0.5  # pixels
MOST = 0.5  # share of the matches that must agree on a motion which overrules the prediction
Start = tuple[Array, Array]  # rotation and direction to refine
SURPRISE = 5.0  # standard deviations from the prediction from which it may be let go


@dataclass(frozen=True)
class KeypointMotion:
    """What keypoints say of a step; `pose` abstains where they are too few, `still` where the camera only turned."""

    pose: RelativePose
    still: bool


def keypoint_motion(
    a: SceneView,
    b: SceneView,
    points: PointMatches,
    prediction: Prediction | None,
    interval: float,
    config: OdometryConfig,
) -> KeypointMotion:
    """The motion from `a` to `b`; without a prediction the motion of any car is possible."""
    used = points.weight > 0
    count = len(points)
    if used.sum() < FEWEST_MATCHES:
        return KeypointMotion(nothing(count), False)
    rays_a, rays_b = rays(points.a, a.intrinsics), rays(points.b, b.intrinsics)
    focal = float(np.sqrt(a.intrinsics[0] * b.intrinsics[0]))
    turn, moved = rotation_only(rays_a[used], rays_b[used], focal)
    if moved < config.still:
        direction = (prediction or START).step()[1]
        agree = np.zeros(count, np.bool_)
        agree[used] = True
        pose = RelativePose(turn, direction, agree, np.zeros(count), 0.0, np.eye(5) * 1e-6, False)
        return KeypointMotion(pose, True)
    sampled = _sampled(a, b, points, used, rays_a, rays_b, config)
    if (on := used & (points.on >= 0)).sum() >= FEWEST_MATCHES:  # matches on landmarks are the surest
        sampled += _sampled(a, b, points, on, rays_a, rays_b, config)
    prior = (prediction or START).prior(interval, config)
    if prediction is None:
        free = relative_pose(rays_a[used], rays_b[used], focal, fewest=config.fewest_inliers)
        sampled = [*sampled, (free.R_b_a, free.direction)]
    matched = _Matched(rays_a, rays_b, focal, config.independent * points.weight, config.fewest_inliers)
    told = _told(matched, sampled, prior)
    if any(float(direction @ prior.T_b_a[:3, 3]) < 0 for _, direction in sampled):  # reversing, or chance
        back = _told(matched, sampled, _reversed(prior))
        if not back.abstains and back.support > told.support + DOUBT:
            told, prior = back, _reversed(prior)
    return KeypointMotion(_overruled(matched, told, sampled, prior), False)


@dataclass(frozen=True)
class _Matched:
    """Keypoint matches of two frames, [M] each, and how motions are refined by them."""

    rays_a: Array
    rays_b: Array
    focal: float
    worth: Array  # of each match
    fewest: int  # inliers

    def refined(self, start: Start, prior: MotionPrior | None, coarse: float = 0.0) -> RelativePose:
        given = self.rays_a, self.rays_b, self.focal, prior
        return refined_pose(start, *given, weight=self.worth, fewest=self.fewest, coarse=coarse)

    def best(self, starts: list[Start], prior: MotionPrior | None) -> RelativePose:
        return _better(*(self.refined(start, prior) for start in starts))


def _told(matched: _Matched, sampled: list[Start], prior: MotionPrior) -> RelativePose:
    """The best motion near the prediction: from the prediction itself, coarse to fine, or from a sample."""
    start = (prior.T_b_a[:3, :3], prior.T_b_a[:3, 3])
    wide = matched.refined(start, prior, COARSE_RESIDUAL)
    return _better(wide, matched.best(sampled, prior)) if sampled else wide


def _better(*poses: RelativePose) -> RelativePose:
    return max(poses, key=lambda pose: (not pose.abstains, pose.support))


def _overruled(matched: _Matched, told: RelativePose, sampled: list[Start], prior: MotionPrior) -> RelativePose:
    """`told`, or a motion far from the prediction that most matches agree on (fewer agree on some motion by chance)."""
    most = MOST * (matched.worth > 0).sum()
    far = [start for start in sampled if _surprise(*start, prior) > SURPRISE]
    if told.count > most or not far:
        return told
    alone = matched.best(far, None)
    surprising = _surprise(alone.R_b_a, alone.direction, prior) > SURPRISE
    return alone if surprising and alone.count > most and alone.support > told.support + DOUBT else told


def _surprise(R_b_a: Array, direction: Array, prior: MotionPrior) -> float:
    """How many standard deviations a motion is from what was predicted, in its turn or its direction."""
    turn = float(Rotation.from_matrix(R_b_a @ prior.T_b_a[:3, :3].T).magnitude()) / prior.rotation_deviation
    ahead = prior.T_b_a[:3, 3] / np.linalg.norm(prior.T_b_a[:3, 3])
    return max(turn, float(np.linalg.norm(direction - ahead)) / prior.translation_deviation)


def _sampled(
    a: SceneView,
    b: SceneView,
    points: PointMatches,
    used: NDArray[np.bool_],
    rays_a: Array,
    rays_b: Array,
    config: OdometryConfig,
) -> list[Start]:
    try:
        import poselib
    except ImportError:
        return sampled_pose(rays_a[used], rays_b[used], float(np.sqrt(a.intrinsics[0] * b.intrinsics[0])))
    cameras = [
        {"model": "PINHOLE", "width": view.width, "height": view.height, "params": view.intrinsics.tolist()}
        for view in (a, b)
    ]
    options = {"max_epipolar_error": SAMPLE_ERROR, "seed": config.seed, "max_iterations": 2000}
    pose, found = poselib.estimate_relative_pose(points.a[used], points.b[used], *cameras, options, {})
    direction = np.asarray(pose.t, np.float64).ravel()
    if found["num_inliers"] < FEWEST_MATCHES or not np.isfinite(direction).all() or not direction.any():
        return []
    return [(np.asarray(pose.R, np.float64), direction / np.linalg.norm(direction))]


def rotation_only(rays_a: Array, rays_b: Array, focal: float) -> tuple[Array, float]:
    """The turn R_b_a that suits most matches if the camera did not move, and the pixels that it leaves (median)."""
    a, b = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (rays_a, rays_b))
    weight = np.ones(len(a))
    R, off = np.eye(3), np.zeros(len(a))
    for _ in range(5):
        turn, _ = Rotation.align_vectors(b, a, weights=weight)
        R = turn.as_matrix()
        off = focal * np.linalg.norm(a @ R.T - b, axis=1)
        weight = 1 / (1 + (off / max(float(np.median(off)), 0.1)) ** 2)
    return R, float(np.median(off))


def _reversed(prior: MotionPrior) -> MotionPrior:
    T = prior.T_b_a.copy()
    T[:3, 3] *= -1
    return MotionPrior(T, prior.rotation_deviation, prior.translation_deviation)


def focal_gain(a: SceneView, b: SceneView, points: PointMatches, change: float = 1.25) -> tuple[float, ...]:
    """How much better, in nats, a focal length shorter and one longer by `change` explain the matches.

    Driving straight ahead hides the focal length; turns show it.
    """
    if len(points) < 5 * FEWEST_MATCHES:
        return ()
    supports = []
    for factor in (1.0, 1 / change, change):
        told = [view.intrinsics * np.array([factor, factor, 1, 1]) for view in (a, b)]
        rays_a, rays_b = rays(points.a, told[0]), rays(points.b, told[1])
        focal = float(np.sqrt(told[0][0] * told[1][0]))
        starts = sampled_pose(rays_a, rays_b, focal)
        if not starts:
            return ()
        pose = refined_pose(starts[0], rays_a, rays_b, focal)
        supports.append(float(np.log1p((pose.residuals / FOCAL_SCALE) ** 2).sum()))
    return supports[0] - supports[1], supports[0] - supports[2]
