"""Refined poses against known ones: a street of points that is scanned from poses we choose."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from robustmat.geometry.pose_graph import Spread, angle_between, solve_chain
from robustmat.geometry.registration import RegistrationConfig, refine_poses, register_steps
from robustmat.geometry.transforms import invert, rigid, transform

FRAMES = 30


def street(rng):
    """Points [N, 3] of a ground, two rows of house fronts with bays, and posts; x runs along the street."""
    along = rng.uniform(-20, 70, 60_000)
    ground = np.stack([along[:20_000], rng.uniform(-9, 9, 20_000), np.zeros(20_000)], axis=1)
    side = rng.choice([-1, 1], 30_000)
    depth = 9 + 0.8 * np.sin(along[20_000:50_000] / 2.5) + 1.5 * (along[20_000:50_000] % 17 < 6)
    fronts = np.stack([along[20_000:50_000], side * depth, rng.uniform(0, 8, 30_000)], axis=1)
    post = np.stack([np.arange(-18, 70, 4.4), rng.choice([-6, 6], 20) + rng.normal(0, 0.5, 20)], axis=1)
    which = rng.integers(0, 20, 10_000)
    posts = np.concatenate([post[which] + rng.normal(0, 0.06, (10_000, 2)), rng.uniform(0, 5, (10_000, 1))], axis=1)
    return np.concatenate([ground, fronts, posts])


def driven(count=FRAMES, step=1.0):
    """True T_world_lidar of a car that drives along the street in a gentle bend."""
    heading = np.radians(4) * np.sin(np.arange(count) / 8)
    position = np.cumsum(step * np.stack([np.cos(heading), np.sin(heading), np.zeros(count)], axis=1), axis=0)
    up = np.array([0, 0, 1.7])
    return np.array(
        [rigid(Rotation.from_euler("z", h).as_matrix(), p + up) for h, p in zip(heading, position, strict=True)]
    )


def scans_from(poses, seed=0):
    rng = np.random.default_rng(seed)
    world = street(rng)

    def scan(T_world_lidar, number):
        def load():
            local = transform(invert(T_world_lidar), world)
            near = np.flatnonzero(np.linalg.norm(local, axis=1) < 30)
            draw = np.random.default_rng(number)
            kept = draw.choice(near, min(6000, len(near)), replace=False)
            return local[kept] + draw.normal(0, 0.015, (len(kept), 3))

        return load

    return [scan(pose, number) for number, pose in enumerate(poses)]


def off(poses, true):
    """Metres and degrees [N] between poses."""
    return np.linalg.norm(poses[:, :3, 3] - true[:, :3, 3], axis=1), np.degrees(angle_between(poses, true))


def locally_off(poses, true, stretch=10):
    """Metres and degrees by which steps over `stretch` frames differ from the true ones."""
    ours = np.array([invert(a) @ b for a, b in zip(poses[:-stretch], poses[stretch:], strict=True)])
    theirs = np.array([invert(a) @ b for a, b in zip(true[:-stretch], true[stretch:], strict=True)])
    return off(ours, theirs)


@pytest.fixture(scope="module")
def true_poses():
    return driven()


@pytest.fixture(scope="module")
def scans(true_poses):
    return scans_from(true_poses)


def test_good_poses_stay_where_they_are(true_poses, scans):
    refined = refine_poses(true_poses, scans)
    metres, degrees = off(refined.poses, true_poses)
    assert refined.registered == FRAMES - 1
    assert metres.max() < 0.03
    assert degrees.max() < 0.1


def test_a_heading_that_is_off_by_a_constant_is_mended(true_poses, scans):
    turned = true_poses @ rigid(Rotation.from_euler("z", 1.5, degrees=True).as_matrix(), np.zeros(3))
    assert np.median(locally_off(turned, true_poses)[0]) > 0.2
    refined = refine_poses(turned, scans).poses
    metres, degrees = locally_off(refined, true_poses)
    assert metres.max() < 0.06
    assert degrees.max() < 0.2
    assert off(refined, true_poses)[1].max() < 0.5
    assert off(refined, turned)[0].max() < 0.3  # the drive as a whole stays where it was given


def test_jumping_positions_and_headings_are_mended(true_poses, scans):
    rng = np.random.default_rng(1)
    jumps = [
        rigid(Rotation.from_euler("z", rng.normal(0, 1.0), degrees=True).as_matrix(), rng.normal(0, 0.1, 3))
        for _ in true_poses
    ]
    refined = refine_poses(true_poses @ np.array(jumps), scans).poses
    metres, degrees = locally_off(refined, true_poses)
    assert metres.max() < 0.06
    assert degrees.max() < 0.2


def test_the_same_scans_give_the_same_poses(true_poses, scans):
    jumped = true_poses.copy()
    jumped[::2, 1, 3] += 0.2
    np.testing.assert_array_equal(refine_poses(jumped, scans).poses, refine_poses(jumped, scans).poses)


def test_frames_without_scans_follow_their_neighbours(true_poses, scans):
    jumped = true_poses.copy()
    jumped[15:, 1, 3] += 0.4  # a jump of the GPS
    some = [None if number in (4, 20, 21) else scan for number, scan in enumerate(scans)]
    refined = refine_poses(jumped, some).poses
    metres, _ = locally_off(refined, true_poses, 1)
    assert metres.max() < 0.1


@pytest.mark.parametrize("points", [0, 3, 150])
def test_scans_that_say_nothing_leave_the_given_poses(points):
    given = driven(6)
    poor = [lambda: np.random.default_rng(0).normal(0, 5, (points, 3))] * 6
    refined = refine_poses(given, poor)
    assert refined.registered == 0
    np.testing.assert_array_equal(refined.poses, given)


def test_scans_of_nothing_but_noise_do_not_carry_poses_away():
    given = driven(8)
    noise = [(lambda n=n: np.random.default_rng(n).uniform(-30, 30, (3000, 3))) for n in range(8)]
    assert off(refine_poses(given, noise).poses, given)[0].max() < 2


def test_a_car_that_stands_still_stays(scans):
    still = np.repeat(driven(1), 6, axis=0)
    refined = refine_poses(still, scans_from(still)).poses
    assert off(refined, still)[0].max() < 0.03


def test_one_frame_or_none_is_fine():
    assert refine_poses(driven(1), [None]).poses.shape == (1, 4, 4)
    assert refine_poses(np.zeros((0, 4, 4)), []).poses.shape == (0, 4, 4)


def test_a_registration_that_jumps_away_is_not_believed(true_poses, scans):
    moved = true_poses.copy()
    moved[10:, 0, 3] += 30  # the map is nowhere near any more
    steps, measured = register_steps(moved, scans, RegistrationConfig())
    given = invert(moved[9]) @ moved[10]
    if measured[9]:
        assert np.linalg.norm(steps[9][:3, 3] - given[:3, 3]) <= RegistrationConfig().largest_move
    assert measured[10:].mean() > 0.5


def test_the_pose_graph_finds_the_least_squares_solution():
    rng = np.random.default_rng(3)
    true = driven(6, step=2.0)
    given = true @ np.array([_small(rng, 0.3, 0.03) for _ in true])
    steps = np.array([invert(a) @ b @ _small(rng, 0.02, 0.002) for a, b in pairwise(true)])
    prior, step = Spread(np.full(6, 0.3), np.full(6, 0.03)), Spread(np.full(5, 0.02), np.full(5, 0.002))

    def cost(values):
        poses = given @ np.array([_motion(row) for row in values.reshape(6, 6)])
        rows = []
        for pose, start in zip(poses, given, strict=True):
            rows += [(pose[:3, 3] - start[:3, 3]) / 0.3, _turn(start, pose) / 0.03]
        for a, b, measured in zip(poses[:-1], poses[1:], steps, strict=True):
            way = invert(a) @ b
            rows += [(way[:3, 3] - measured[:3, 3]) / 0.02, _turn(measured, way) / 0.002]
        return np.concatenate(rows)

    oracle = given @ np.array([_motion(row) for row in least_squares(cost, np.zeros(36)).x.reshape(6, 6)])
    np.testing.assert_allclose(solve_chain(given, prior, steps, step), oracle, atol=2e-4)


def _small(rng, metres, radians):
    return rigid(Rotation.from_rotvec(rng.normal(0, radians, 3)).as_matrix(), rng.normal(0, metres, 3))


def _motion(row):
    return rigid(Rotation.from_rotvec(row[3:]).as_matrix(), row[:3])


def _turn(a, b):
    return Rotation.from_matrix(a[:3, :3].T @ b[:3, :3]).as_rotvec()
