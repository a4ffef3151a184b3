import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robustmat.geometry.projection import NEAREST, pixel_index, project, visible
from robustmat.geometry.transforms import (
    invert,
    is_rigid,
    rigid,
    rotation_from_roll_pitch_yaw,
    transform,
)
from robustmat.types import Camera

CAMERA = Camera(np.array([[200.0, 0, 50], [0, 210.0, 30], [0, 0, 1]]), width=100, height=60)
angles = st.floats(-3.0, 3.0)
seeds = st.integers(0, 2**32 - 1)


def random_rigid(seed):
    rng = np.random.default_rng(seed)
    return rigid(Rotation.random(random_state=rng).as_matrix(), rng.normal(0, 50, 3))


@given(seeds)
def test_inverse_undoes_a_rigid_transform(seed):
    T = random_rigid(seed)
    np.testing.assert_allclose(invert(T) @ T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(invert(T), np.linalg.inv(T), atol=1e-10)


@given(seeds)
def test_transform_is_the_homogeneous_product(seed):
    T = random_rigid(seed)
    points = np.random.default_rng(seed).normal(0, 20, (7, 3))
    expected = (T @ np.column_stack([points, np.ones(7)]).T).T[:, :3]
    np.testing.assert_allclose(transform(T, points), expected, atol=1e-10)


@given(angles, angles, angles)
def test_roll_pitch_yaw_follows_the_aerospace_order(roll, pitch, yaw):
    expected = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
    np.testing.assert_allclose(rotation_from_roll_pitch_yaw(roll, pitch, yaw), expected, atol=1e-12)


@pytest.mark.parametrize(
    "broken",
    [
        np.full((4, 4), np.nan),
        np.diag([1.0, 1, -1, 1]),
        np.diag([2.0, 1, 1, 1]),
        np.eye(3),
        np.eye(4) + np.outer([0, 0, 0, 1], [0, 0, 0, 1]),
    ],
)
def test_what_is_no_rigid_transform_is_recognised(broken):
    assert not is_rigid(broken)
    assert is_rigid(random_rigid(1))


@settings(max_examples=50)
@given(seeds)
def test_projection_equals_a_plain_loop_and_drops_points_behind(seed):
    points = np.random.default_rng(seed).uniform(-10, 10, (200, 3))
    pixels, depth, index = project(points, CAMERA)
    expected = []
    for number, (x, y, z) in enumerate(points):
        if z <= NEAREST:
            continue
        u, v = 200 * x / z + 50, 210 * y / z + 30
        if -0.5 <= u < 99.5 and -0.5 <= v < 59.5:
            expected.append((number, u, v, z))
    assert index.tolist() == [row[0] for row in expected]
    np.testing.assert_allclose(pixels.reshape(-1, 2), np.array([row[1:3] for row in expected]).reshape(-1, 2))
    np.testing.assert_allclose(depth, [row[3] for row in expected])


def test_every_projected_point_has_a_pixel_inside_the_image():
    corners = np.array([[-0.5, -0.5], [99.49, 59.49], [0.49, 0.51]])
    row, column = pixel_index(corners)
    assert column.tolist() == [0, 99, 0]
    assert row.tolist() == [0, 59, 1]


@settings(max_examples=30)
@given(seeds)
def test_visibility_equals_a_search_over_all_point_pairs(seed):
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(-0.5, (39.49, 29.49), (120, 2))
    depth = rng.uniform(1, 30, 120)
    seen = visible(pixels, depth, width=40, height=30)
    cells = np.floor(pixels + 0.5)
    for i in range(120):
        rivals = (np.abs(cells - cells[i]) <= 2).all(1)
        assert seen[i] == (depth[i] <= depth[rivals].min() + 0.5 + 0.02 * depth[i])


def test_nothing_to_project_is_no_error():
    pixels, depth, _ = project(np.zeros((0, 3)), CAMERA)
    assert visible(pixels, depth, 100, 60).shape == (0,)
