"""Windows: their glass returns few beams, so the wall around them says where they are."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset
from robustmat.geometry.projection import project
from robustmat.geometry.transforms import invert, rigid, rotation_from_roll_pitch_yaw, transform
from robustmat.landmarks.config import DEFAULT
from robustmat.landmarks.facades import Plane, fit_wall, middle_on_plane
from robustmat.landmarks.known import identify
from robustmat.landmarks.positions import VisiblePoints, locate
from robustmat.landmarks.regions import Region
from robustmat.simulation import build_town, drive_town
from robustmat.types import Camera

CAMERA = Camera(np.array([[400.0, 0, 320], [0, 400.0, 120], [0, 0, 1]]), width=640, height=240)
UP = np.array([0.0, -1.0, 0.0])
# A wall to the right of a street that runs along z; a window of 1.2 x 1.6 m in it.
WALL_X, MIDDLE, WIDE, TALL = 6.0, np.array([6.0, -1.0, 20.0]), 1.2, 1.6


def looking(z, yaw=0.25, x=0.0):
    return rigid(rotation_from_roll_pitch_yaw(0, yaw, 0), np.array([x, 0.0, z]))  # y is down: pitch turns sideways


def wall_points(rng, count=4000):
    z, y = rng.uniform(5, 45, count), rng.uniform(-5, 1.5, count)
    glass = (np.abs(z - MIDDLE[2]) < WIDE / 2) & (np.abs(y - MIDDLE[1]) < TALL / 2)
    points = np.column_stack([WALL_X + rng.normal(0, 0.02, count), y, z])
    points[glass, 0] += rng.uniform(0.5, 3.0, int(glass.sum()))  # the room behind it
    return points


def seen_window(pose):
    """The window as a perfect mask, by plain projection of its corners and a test of every pixel."""
    z, y = MIDDLE[2] + WIDE / 2 * np.array([-1, 1, 1, -1]), MIDDLE[1] + TALL / 2 * np.array([-1, -1, 1, 1])
    corners = transform(invert(pose), np.column_stack([np.full(4, WALL_X), y, z]))
    pixels = corners[:, :2] / corners[:, 2:] * 400 + (320, 120)
    x0, y0 = np.floor(pixels.min(0)).astype(int)
    x1, y1 = np.ceil(pixels.max(0)).astype(int) + 1
    columns, rows = np.meshgrid(np.arange(x0, x1), np.arange(y0, y1))
    edges = np.roll(pixels, -1, axis=0) - pixels
    side = [
        edge[0] * (rows - start[1]) - edge[1] * (columns - start[0]) for edge, start in zip(edges, pixels, strict=True)
    ]
    inside = (np.array(side) >= 0).all(0) | (np.array(side) <= 0).all(0)
    used = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    (top, bottom), (left, right) = ((int(it[0]), int(it[-1]) + 1) for it in used)
    box = (float(x0 + left), float(y0 + top), float(x0 + right), float(y0 + bottom))
    return Region(box, "window", inside[top:bottom, left:right])


def visible_from(points, pose):
    pixels, depth, index = project(transform(invert(pose), points), CAMERA)
    return VisiblePoints(pixels, depth, points[index], CAMERA, pose)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 12), st.floats(-0.1, 0.3))
def test_a_window_is_placed_on_its_wall_from_wherever_the_car_sees_it(seed, z, yaw):
    pose = looking(z, yaw)
    (place,) = locate([seen_window(pose)], visible_from(wall_points(np.random.default_rng(seed)), pose))
    assert np.linalg.norm(np.subtract(place, MIDDLE)) < 0.2


def test_beams_from_the_room_behind_would_have_misled():
    pose = looking(4.0)
    region = seen_window(pose)
    points = visible_from(wall_points(np.random.default_rng(0), 20_000), pose)
    no_planes = DEFAULT.model_copy(update={"facades": DEFAULT.facades.model_copy(update={"fewest_points": 10**6})})
    (without,) = locate([region], points, no_planes)
    (place,) = locate([region], points)
    assert np.linalg.norm(np.subtract(place, MIDDLE)) < 0.1
    assert np.linalg.norm(np.subtract(without, MIDDLE)) > 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.floats(0, 2 * np.pi), st.floats(0, 0.5))
def test_wall_is_found_among_leaves_and_equals_a_fit_by_numpy(seed, heading, clutter):
    rng = np.random.default_rng(seed)
    normal, along = np.array([np.cos(heading), 0, np.sin(heading)]), np.array([-np.sin(heading), 0, np.cos(heading)])
    count = 300
    wall = 12 * normal + np.outer(rng.uniform(-4, 4, count), along) + np.outer(rng.uniform(-3, 3, count), UP)
    wall += np.outer(rng.normal(0, 0.02, count), normal)
    leaves = rng.uniform(-4, 4, (int(clutter * count), 3)) + 8 * normal
    plane = fit_wall(rng.permutation(np.vstack([wall, leaves])), UP)
    # An independent fit on the wall's points alone: the smallest eigenvector of their covariance.
    values, vectors = np.linalg.eigh(np.cov(wall.T))
    expected = vectors[:, np.argmin(values)]
    assert abs(plane.normal @ expected) > 0.9995
    assert abs(abs(plane.offset) - 12) < 0.1


def test_ground_and_bushes_are_no_wall():
    rng = np.random.default_rng(0)
    ground = np.column_stack([rng.uniform(-5, 5, 500), rng.normal(1.5, 0.01, 500), rng.uniform(5, 15, 500)])
    assert fit_wall(ground, UP) is None
    assert fit_wall(rng.uniform(-4, 4, (500, 3)), UP) is None
    assert fit_wall(rng.normal(0, 1, (5, 3)), UP) is None
    assert fit_wall(np.zeros((0, 3)), UP) is None
    assert fit_wall(np.ones((50, 3)), UP) is None


def test_same_points_same_plane():
    points = wall_points(np.random.default_rng(3))
    first, second = fit_wall(points, UP), fit_wall(points.copy(), UP)
    assert first.normal.tobytes() == second.normal.tobytes()
    assert first.offset == second.offset


def test_a_wall_seen_too_flat_places_nothing():
    region = Region((300.0, 100.0, 340.0, 140.0), "window", np.ones((40, 40), bool))
    grazed = Plane(np.array([1.0, 0.0, 0.0]), 0.5)
    assert middle_on_plane(region, grazed, CAMERA, np.eye(4)) is None
    behind = Plane(np.array([0.0, 0.0, 1.0]), -5.0)
    assert middle_on_plane(region, behind, CAMERA, np.eye(4)) is None
    ahead = Plane(np.array([0.0, 0.0, 1.0]), 8.0)
    np.testing.assert_allclose(
        middle_on_plane(region, ahead, CAMERA, np.eye(4)), [-0.5 / 50, -0.5 / 50, 8.0], atol=1e-9
    )


def test_without_a_wall_the_points_in_the_mask_decide():
    pixels = np.column_stack([np.arange(100.0, 110.0), np.full(10, 50.0)])
    world = np.tile([1.0, 2.0, 9.0], (10, 1))
    points = VisiblePoints(pixels, np.full(10, 9.0), world, CAMERA, np.eye(4))
    region = Region((100.0, 45.0, 112.0, 57.0), "window", np.ones((12, 12), bool))
    assert locate([region], points) == [(1.0, 2.0, 9.0)]


@pytest.mark.parametrize("category", ["pole", "traffic_sign", "traffic_light"])
def test_other_landmarks_are_not_moved_onto_walls(category):
    pose = looking(4.0)
    region = seen_window(pose)
    points = wall_points(np.random.default_rng(0))
    board = np.column_stack([np.full(60, WALL_X - 1.0), *np.random.default_rng(1).uniform(-0.3, 0.3, (2, 60))])
    board[:, 1:] += MIDDLE[1:] - 1.0 / WALL_X * (MIDDLE - pose[:3, 3])[1:]  # where it hides the window
    other = Region(region.box, category, region.mask)
    ((x, _, _),) = locate([other], visible_from(np.vstack([points, board]), pose))
    assert x == pytest.approx(WALL_X - 1.0, abs=0.05)


# Against the simulator's own identities


def through_glass(frame, seed, lost=0.8):
    """The frame, whose scan lost most beams that hit a window, and has the others from the room behind it."""

    def load():
        rng = np.random.default_rng(seed)
        points = frame.load_points().copy()
        xyz = transform(frame.T_camera_lidar, points[:, :3].astype(float))
        pixels, _, index = project(xyz, frame.camera)
        column, row = np.floor(pixels + 0.5).astype(int).T
        glass = index[frame.semantics[row, column] == 19]
        swallowed = rng.random(len(glass)) < lost
        behind = glass[~swallowed]
        reach = np.linalg.norm(points[behind, :3], axis=1)
        points[behind, :3] *= (1 + rng.uniform(0.5, 3.0, len(behind)) / reach)[:, None]
        return np.delete(points, glass[swallowed], axis=0)

    return replace(frame, load_points=load)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "look", "lane"), [(21, "noon", "right"), (24, "overcast", "left")])
def test_windows_keep_the_simulators_identities_though_their_glass_swallows_beams(tmp_path, seed, look, lane):
    drive = drive_town(build_town(seed), 50, look=look, lane=lane)
    frames = tuple(through_glass(frame, number) for number, frame in enumerate(drive.frames))
    dataset = open_dataset(prepare(replace(drive, frames=frames), tmp_path / "data"))
    seen = []
    for number, frame in enumerate(dataset.frames):
        eye = frame.T_world_camera[:3, 3]
        known = [it for it in drive.truth(number) if np.linalg.norm(np.subtract(it.position, eye)) < 50]
        true = identify(frame.landmarks, [(it.box, it.category, it.identity) for it in known])
        pairs = zip(frame.landmarks, true, strict=True)
        seen.append((eye, [(a.identity, b.identity) for a, b in pairs if a.category == "window" and b.identity]))
    right = wrong = missed = 0
    for (eye_a, a), (eye_b, b) in combinations(seen, 2):
        if 2 <= np.linalg.norm(eye_a - eye_b) <= 25:
            for (said_a, true_a), (said_b, true_b) in product(a, b):
                said = said_a is not None and said_a == said_b
                right += said and true_a == true_b
                wrong += said and true_a != true_b
                missed += not said and true_a == true_b
    assert right > 1000
    assert right / (right + wrong) >= 0.98
    assert right / (right + missed) >= 0.9
