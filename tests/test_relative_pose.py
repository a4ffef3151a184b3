"""The relative pose of two frames from matched points, against motions that the test made up itself."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robustmat.geometry.relative_pose import (
    MotionPrior,
    RelativePose,
    depths,
    focal_and_center,
    rays,
    relative_pose,
)
from robustmat.types import Array, Camera

FOCAL = 720.0


def street_points(rng: np.random.Generator, count: int) -> Array:
    """Points in front of a car: 4 to 50 m away, to both sides, on the ground and above it."""
    depth = rng.uniform(4, 50, count)
    return np.stack([rng.uniform(-0.8, 0.8, count) * depth, rng.uniform(-6, 1.6, count), depth], axis=1)


def seen(rng: np.random.Generator, R: Array, t: Array, true: int, false: int) -> tuple[Array, Array]:
    """Rays of matches in both frames, half a pixel off, and false matches behind them."""
    points = street_points(rng, 20 * true)
    moved = points @ R.T + t
    points, moved = (it[moved[:, 2] > 1][:true] for it in (points, moved))
    a, b = points / points[:, 2:], moved / moved[:, 2:]
    low, high = (-0.8, -0.25, 1), (0.8, 0.25, 1)
    a, b = (np.concatenate([it, rng.uniform(low, high, (false, 3))]) for it in (a, b))
    a[:, :2] += rng.normal(0, 0.5 / FOCAL, (len(a), 2))
    b[:, :2] += rng.normal(0, 0.5 / FOCAL, (len(b), 2))
    return a, b


def car(yaw: float, distance: float, aside: float = 0.0) -> tuple[Array, Array]:
    """R_b_a and t of a car that turned right by `yaw` degrees on an arc."""
    R = Rotation.from_euler("y", yaw, degrees=True).as_matrix().T
    heading = np.radians(yaw) / 2
    place = distance * np.array([np.sin(heading), 0, np.cos(heading)]) + np.array([aside, 0, 0])
    return R, -R @ place


def errors(pose: RelativePose, R: Array, t: Array) -> tuple[float, float]:
    """Degrees that the rotation and the direction are off."""
    turn = np.degrees(np.linalg.norm(Rotation.from_matrix(pose.R_b_a @ R.T).as_rotvec()))
    cosine = np.clip(pose.direction @ t / np.linalg.norm(t), -1, 1)
    return float(turn), float(np.degrees(np.arccos(cosine)))


@pytest.mark.parametrize(("yaw", "distance"), [(0, 3), (2, 8), (-12, 15), (25, 12), (3, -9)])
def test_motion_of_a_car_is_found_among_three_times_as_many_false_matches(yaw: float, distance: float) -> None:
    rng = np.random.default_rng(0)
    R, t = car(yaw, distance)
    pose = relative_pose(*seen(rng, R, t, 60, 180), FOCAL)
    turn, direction = errors(pose, R, t)
    assert turn < 0.5
    assert direction < 3
    assert pose.inliers[:60].mean() > 0.9
    assert pose.inliers[60:].mean() < 0.15
    assert not pose.abstains


def test_another_lane_and_a_camera_that_is_no_car_are_found_too() -> None:
    rng = np.random.default_rng(1)
    tumbling = Rotation.from_euler("xyz", [8, -20, 15], degrees=True).as_matrix(), np.array([2.0, -1.0, 0.5])
    for R, t in (car(1, 6, aside=3.5), tumbling):
        pose = relative_pose(*seen(rng, R, t, 120, 60), FOCAL)
        turn, direction = errors(pose, R, t)
        assert turn < 0.5
        assert direction < 3


def test_frames_that_share_nothing_make_it_abstain() -> None:
    rng = np.random.default_rng(2)
    R, t = car(0, 5)
    pose = relative_pose(*seen(rng, R, t, 0, 100), FOCAL)
    shared = relative_pose(*seen(rng, R, t, 40, 60), FOCAL)
    assert pose.abstains
    assert pose.support < shared.support / 3
    assert relative_pose(*seen(rng, R, t, 0, 3), FOCAL).abstains


def test_either_frame_may_come_first() -> None:
    rng = np.random.default_rng(3)
    R, t = car(6, 10)
    a, b = seen(rng, R, t, 60, 60)
    there, back = relative_pose(a, b, FOCAL), relative_pose(b, a, FOCAL)
    turn, direction = errors(back, there.R_b_a.T, -there.R_b_a.T @ there.direction)
    assert turn < 0.2
    assert direction < 1.5


def test_odometry_leads_where_matches_are_too_few() -> None:
    rng = np.random.default_rng(4)
    R, t = car(5, 10)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, t
    pose = relative_pose(*seen(rng, R, t, 5, 60), FOCAL, MotionPrior(T))
    turn, direction = errors(pose, R, t)
    assert turn < 1.5
    assert direction < 6


def test_deviation_grows_as_matches_become_few() -> None:
    rng = np.random.default_rng(5)
    R, t = car(0, 6)
    many, few = (relative_pose(*seen(rng, R, t, count, 20), FOCAL) for count in (200, 15))
    assert np.trace(few.covariance) > 2 * np.trace(many.covariance)


def test_depths_are_those_of_the_points() -> None:
    rng = np.random.default_rng(6)
    R, t = car(4, 7)
    points = street_points(rng, 30) + np.array([0, 0, 10])
    moved = points @ R.T + t
    z_a, z_b = depths(R, t / 7, points / points[:, 2:], moved / moved[:, 2:])
    np.testing.assert_allclose(7 * z_a, points[:, 2], rtol=1e-6)
    np.testing.assert_allclose(7 * z_b, moved[:, 2], rtol=1e-6)


def test_unknown_camera_has_the_assumed_field_of_view() -> None:
    known = focal_and_center(Camera(np.array([[700.0, 0, 600], [0, 710, 180], [0, 0, 1]]), 1242, 375), 1242, 375)
    np.testing.assert_allclose(known, [700, 710, 600.5, 180.5])
    assumed = focal_and_center(None, 1000, 400)
    np.testing.assert_allclose(assumed, [580, 580, 500, 200])
    np.testing.assert_allclose(rays(np.array([[500.0, 200.0]]), assumed), [[0, 0, 1]])
