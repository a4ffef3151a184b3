"""LiDAR odometry with few points: a street of walls and poles."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robustmat.geometry.transforms import invert, rigid, transform
from robustmat.odometry.lidar import choose_points, lidar_odometry, on_landmarks, register, surfaces
from robustmat.types import Array, Camera


def street(rng: np.random.Generator) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Points of a road, two walls and poles (x ahead, y left, z up), and which are on poles."""
    road = np.stack([rng.uniform(0, 40, 2000), rng.uniform(-6, 6, 2000), np.full(2000, -1.7)], axis=1)
    walls = [
        np.stack([rng.uniform(0, 40, 1000), np.full(1000, y), rng.uniform(-1.7, 4, 1000)], axis=1) for y in (-6, 6)
    ]
    poles = [
        np.stack([np.full(60, x), np.full(60, y), rng.uniform(-1.7, 4, 60)], axis=1)
        for x, y in ((8, -4.5), (14, 4.2), (21, -4.4), (27, 4.6), (33, -4.0))
    ]
    points = np.concatenate([road, *walls, *poles]) + rng.normal(0, 0.01, (4000 + 300, 3))
    return points, np.arange(len(points)) >= 4000


@pytest.mark.parametrize("step", [0.4, 1.2])  # the drive begins at full speed
def test_a_straight_drive_is_followed_to_centimetres(step: float) -> None:
    scans, truth = [], []
    for i in range(5):
        points, on = street(np.random.default_rng(i))
        T = np.eye(4)
        T[0, 3] = step * i
        truth.append(T)
        scans.append((transform(invert(T), points), on))
    found = lidar_odometry(scans, 1000)
    assert found.registered.all()
    assert np.abs(found.poses[:, :3, 3] - np.stack(truth)[:, :3, 3]).max() < 0.06
    assert found.points <= 1000


def test_few_points_know_the_surfaces_of_the_whole_scan() -> None:
    points, on = street(np.random.default_rng(0))
    some = surfaces(points, np.flatnonzero(on)[::7])
    size, axes = np.linalg.eigh(some.shape)
    assert np.median(size[:, 1]) < 0.05  # a pole is thin in two directions
    assert np.median(np.abs(axes[:, 2, 2])) > 0.95  # and long upwards
    road = surfaces(points, np.arange(0, 2000, 40))
    size, axes = np.linalg.eigh(road.shape)
    assert np.median(size[:, 1]) > 0.1
    assert np.median(np.abs(axes[:, 2, 0])) > 0.95


def test_lines_of_the_scanner_are_no_edges() -> None:
    across = np.linspace(-5, 5, 200)
    ring = np.stack([np.full(200, 12.0), across, np.full(200, -1.7)], axis=1)
    size, axes = np.linalg.eigh(surfaces(ring, np.arange(0, 200, 10)).shape)
    assert np.allclose(size[:, 1:], 1.0)  # a plane: it holds in one direction only
    assert np.abs(axes[:, 1, 0]).max() < 0.01  # not along the line


def test_sixty_points_are_registered_to_centimetres() -> None:
    points, _ = street(np.random.default_rng(0))
    again, _ = street(np.random.default_rng(1))
    T = rigid(Rotation.from_euler("z", 2.0, degrees=True).as_matrix(), np.array([0.6, 0.1, 0.0]))
    chosen = np.random.default_rng(2).permutation(len(again))[:60]
    source = surfaces(transform(invert(T), again), chosen)
    found = register(surfaces(points, np.arange(len(points))), source, np.eye(4))
    assert found is not None
    assert np.linalg.norm(found[:2, 3] - T[:2, 3]) < 0.06
    assert np.degrees(np.arccos((np.trace(found[:3, :3].T @ T[:3, :3]) - 1) / 2)) < 0.5


def test_nothing_in_reach_is_not_registered() -> None:
    points, _ = street(np.random.default_rng(0))
    some = surfaces(points, np.arange(0, len(points), 20))
    assert register(some.moved(rigid(np.eye(3), np.array([0.0, 0, 500]))), some, np.eye(4)) is None


def test_the_budget_holds_and_landmarks_get_their_share() -> None:
    points, on = street(np.random.default_rng(0))
    rng = np.random.default_rng(0)
    even = choose_points(points, on, 200, 0.0, rng)
    more = choose_points(points, on, 200, 0.5, rng)
    assert len(even) == len(more) == 200
    assert on[more].sum() == 100 > on[even].sum()
    assert len(set(more.tolist())) == 200


def test_points_of_a_box_are_those_of_the_nearest_thing() -> None:
    camera = Camera(np.array([[500.0, 0, 320], [0, 500, 200], [0, 0, 1]]), 640, 400)
    rng = np.random.default_rng(0)
    pole = np.stack([rng.uniform(-0.05, 0.05, 50), rng.uniform(-1, 1, 50), np.full(50, 10.0)], axis=1)
    wall = np.stack([rng.uniform(-3, 3, 500), rng.uniform(-2, 2, 500), np.full(500, 20.0)], axis=1)
    on = on_landmarks(np.concatenate([pole, wall]), [(310.0, 140.0, 330.0, 260.0)], camera, np.eye(4))
    assert on[:50].mean() > 0.9
    assert not on[50:].any()
