"""Positions and identities against plain, slow code that shares nothing with the package."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from robustmat.landmarks.identities import Observations, associate
from robustmat.landmarks.positions import VisiblePoints, locate, visible_points
from robustmat.landmarks.reference_map import build_reference_map
from robustmat.landmarks.regions import Region
from robustmat.types import CATEGORIES, Camera, Frame

UP = np.array([0.0, 0.0, 1.0])
CAMERA = Camera(np.array([[100.0, 0, 50], [0, 100.0, 40], [0, 0, 1]]), width=100, height=80)


def plain_chains(near, crowded):
    """Which chain of crowded places each place belongs to, by walking from neighbour to neighbour."""
    label = {}
    for start in crowded:
        stack = [] if start in label else [start]
        while stack:
            here = stack.pop()
            label.setdefault(here, start)
            stack += [j for j in near[here] if j in crowded and j not in label]
    for i in near:
        owners = {label[j] for j in near[i] if j in crowded} if i not in crowded else set()
        assume(len(owners) <= 1)  # between two chains: either is right
        label.update(dict.fromkeys([i] if owners else [], next(iter(owners), None)))
    return label


def plain_identities(rows):
    """Clusters by hand: objects are chains of crowded places; the docstring of `associate` says the rest."""
    groups = []
    for category in CATEGORIES:
        radius = 1.0 if category == "window" else 0.6
        members = [i for i, row in enumerate(rows) if row[1] == category]
        place = {i: np.array(rows[i][2]) * ((1, 1, 0.1) if category == "pole" else (1, 1, 1)) for i in members}
        near = {i: [j for j in members if np.linalg.norm(place[i] - place[j]) <= radius] for i in members}
        label = plain_chains(near, {i for i in members if len(near[i]) >= 3})
        for name in set(label.values()):
            cluster = [i for i in members if label.get(i) == name]
            middle = np.median([place[i] for i in cluster], axis=0)
            best = {}
            for i in cluster:
                known = best.get(rows[i][0])
                if np.linalg.norm(place[i] - middle) <= 2 * radius and (known is None or rows[i][3] > rows[known][3]):
                    best[rows[i][0]] = i
            groups.append(sorted(best.values()))
    answer = [None] * len(rows)
    for number, group in enumerate(sorted(it for it in groups if len(it) >= 3)):
        for i in group:
            answer[i] = number
    return answer


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.floats(0.02, 0.8), st.floats(2, 14))
def test_identities_equal_those_of_plain_code(seed, count, scatter, town):
    rng = np.random.default_rng(seed)
    objects = [(str(rng.choice(CATEGORIES)), rng.uniform(0, town, 3)) for _ in range(6)]
    rows = []
    for _ in range(count):
        category, place = objects[rng.integers(len(objects))]
        position = tuple((place + rng.normal(0, scatter, 3)).tolist())
        rows.append((int(rng.integers(0, 8)), category, position, int(rng.integers(10, 500))))
    assert associate(Observations.of(rows), UP) == plain_identities(rows)


def plain_position(region, pixels, depth, world):
    """A loop over points: in the mask, else within a pixel of it; the nearest crowd in depth; a trimmed mean."""
    x0, y0 = int(region.box[0]), int(region.box[1])
    inside = {(y0 + int(r), x0 + int(c)) for r, c in zip(*np.nonzero(region.mask), strict=True)}
    around = {(r + i, c + j) for r, c in inside for i in (-1, 0, 1) for j in (-1, 0, 1)}
    for pixel_set in (inside, around):
        chosen = [i for i, (x, y) in enumerate(pixels) if (int(np.floor(y + 0.5)), int(np.floor(x + 0.5))) in pixel_set]
        chosen.sort(key=lambda i: depth[i])
        crowd = []
        for i in chosen:
            if crowd and depth[i] - depth[crowd[-1]] > 0.6 + 0.01 * depth[crowd[-1]]:
                if len(crowd) >= max(5, 0.15 * len(chosen)):
                    break
                crowd = []
            crowd.append(i)
        if len(crowd) >= max(5, 0.15 * len(chosen)):
            points = np.array([world[i] for i in crowd])
            middle = np.median(points, axis=0)
            off = np.abs(points - middle)
            kept = [p for p, o in zip(points, off, strict=True) if (o <= 3 * np.median(off, axis=0) + 0.05).all()]
            return np.mean(kept, axis=0) if kept else middle
    return None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 400), st.sampled_from(["pole", "traffic_sign", "traffic_light"]))
def test_positions_equal_those_of_plain_code(seed, count, category):
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(-0.5, (99.49, 79.49), (count, 2))
    depth = np.where(rng.random(count) < 0.5, rng.normal(12, 0.2, count), rng.uniform(3, 40, count))
    world = rng.normal(0, 1, (count, 3)) * rng.choice([0.05, 3.0], (count, 1))
    height, width = rng.integers(3, 25, 2)
    x, y = rng.integers(0, 100 - width), rng.integers(0, 80 - height)
    mask = rng.random((height, width)) < 0.7
    region = Region((float(x), float(y), float(x + width), float(y + height)), category, mask)
    (found,) = locate([region], VisiblePoints(pixels, depth, world, CAMERA, np.eye(4)))
    expected = plain_position(region, pixels, depth, world)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_frame_sees_of_the_map_equals_plain_projection_of_all_scans(seed):
    """One point a voxel, far from its borders, so that the map is the points themselves."""
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(-250, 250, (3000, 3)), axis=0)
    origin = rng.normal(0, 30, 3)
    world = origin + (cells + rng.uniform(0.3, 0.7, cells.shape)) * 0.08
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, origin + rng.normal(0, 3, 3)
    T_world_lidar = np.eye(4)
    T_world_lidar[:3, 3] = origin
    scan = np.column_stack([world - origin, np.zeros(len(world))]).astype(np.float32)
    frame = Frame(
        "f",
        lambda: np.zeros((80, 100, 3), np.uint8),
        camera=CAMERA,
        T_world_camera=pose,
        T_camera_lidar=np.linalg.inv(pose) @ T_world_lidar,
        load_points=lambda: scan,
    )
    seen = visible_points(build_reference_map([frame]), CAMERA, pose)
    expected = []
    rows = []
    for point in scan[:, :3].astype(float) + origin:
        x, y, z = np.linalg.inv(pose)[:3] @ np.append(point, 1.0)
        u, v = (100 * x / z + 50, 100 * y / z + 40) if z > 0.5 else (-9.0, -9.0)
        if -0.5 <= u < 99.5 and -0.5 <= v < 79.5:
            rows.append((int(np.floor(u + 0.5)), int(np.floor(v + 0.5)), z, point))
    for u, v, z, point in rows:
        rivals = [other[2] for other in rows if abs(other[0] - u) <= 2 and abs(other[1] - v) <= 2]
        if z <= min(rivals) + 0.5 + 0.02 * z:
            expected.append(point)
    assert len(expected) > 20
    order = np.lexsort(np.round(seen.world, 4).T)
    np.testing.assert_allclose(seen.world[order], np.array(expected)[np.lexsort(np.round(expected, 4).T)], atol=2e-6)
