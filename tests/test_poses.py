"""Poses between poses, against SciPy's interpolation and matrix exponential."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial.transform import Rotation, Slerp

from robustmat.geometry.poses import Trajectory, carried, chain, from_quaternion, relative
from robustmat.geometry.transforms import is_rigid, rigid

seeds = st.integers(0, 2**32 - 1)


def random_trajectory(rng, count):
    times = np.cumsum(rng.integers(1, 100_000, count)) + 1_547_131_046_353_776
    turns = Rotation.random(count, random_state=rng)
    places = rng.normal(0, 100, (count, 3))
    poses = np.stack([rigid(turn, place) for turn, place in zip(turns.as_matrix(), places, strict=True)])
    return Trajectory(times, poses), turns, places


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 6))
def test_between_two_poses_the_way_is_straight_and_the_turn_even(seed, count):
    rng = np.random.default_rng(seed)
    trajectory, turns, places = random_trajectory(rng, count)
    since = (trajectory.times - trajectory.times[0]).astype(float)
    asked = rng.integers(trajectory.times[0], trajectory.times[-1] + 1, 5)
    found = trajectory.at(asked)
    moments = (asked - trajectory.times[0]).astype(float)
    np.testing.assert_allclose(found[:, :3, :3], Slerp(since, turns)(moments).as_matrix(), atol=1e-7)
    expected = np.stack([np.interp(moments, since, places[:, axis]) for axis in range(3)], axis=1)
    np.testing.assert_allclose(found[:, :3, 3], expected, atol=1e-6)
    assert all(is_rigid(pose) for pose in found)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_a_reading_is_given_back_exactly_at_its_time(seed):
    trajectory, _, _ = random_trajectory(np.random.default_rng(seed), 4)
    np.testing.assert_allclose(trajectory.at(trajectory.times), trajectory.poses, atol=1e-9)


def test_a_trajectory_of_one_pose_stays_there():
    trajectory = Trajectory(np.array([5]), np.eye(4)[None] * 1.0)
    np.testing.assert_array_equal(trajectory.at(np.array([1, 5, 9])), np.repeat(np.eye(4)[None], 3, axis=0))


def test_coverage_ends_with_the_poses_and_at_gaps():
    trajectory = Trajectory(np.array([10, 20, 100]), np.repeat(np.eye(4)[None], 3, axis=0))
    asked = np.array([9, 10, 15, 20, 50, 100, 101])
    assert asked[trajectory.covers(asked, 10)].tolist() == [10, 15, 20, 100]


@pytest.mark.parametrize("times", [[1, 1], [2, 1], [1]])
def test_times_that_do_not_rise_or_do_not_fit_are_refused(times):
    with pytest.raises(ValueError, match=r"rise|times for"):
        Trajectory(np.array(times), np.repeat(np.eye(4)[None], 2, axis=0))


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_steps_laid_end_to_end_give_the_poses_back(seed):
    trajectory, _, _ = random_trajectory(np.random.default_rng(seed), 5)
    steps = np.stack([relative(a, b) for a, b in zip(trajectory.poses, trajectory.poses[1:], strict=False)])
    np.testing.assert_allclose(trajectory.poses[0] @ chain(steps), trajectory.poses, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_a_quaternion_of_any_length_and_sign_is_its_rotation(seed):
    rng = np.random.default_rng(seed)
    turn, place = Rotation.random(random_state=rng), rng.normal(size=3)
    quaternion = turn.as_quat() * rng.uniform(0.1, 10) * rng.choice([-1, 1])
    np.testing.assert_allclose(from_quaternion(place, quaternion), rigid(turn.as_matrix(), place), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.0, 1e-7, 1e-3, 0.5, 20.0]))
def test_points_are_carried_by_the_exponential_of_the_twist(seed, rate_size):
    rng = np.random.default_rng(seed)
    points, seconds = rng.normal(0, 20, (6, 3)), rng.uniform(-0.06, 0.06, 6)
    velocity, rate = rng.normal(0, 10, 3), rate_size * rng.normal(size=3)
    twist = np.zeros((4, 4))
    twist[:3, 3] = velocity
    twist[0, 1], twist[0, 2], twist[1, 2] = -rate[2], rate[1], -rate[0]
    twist[1, 0], twist[2, 0], twist[2, 1] = rate[2], -rate[1], rate[0]
    expected = [(expm(t * twist) @ [*p, 1])[:3] for p, t in zip(points, seconds, strict=True)]
    np.testing.assert_allclose(carried(points, seconds, velocity, rate), expected, atol=1e-9)
