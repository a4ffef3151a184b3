"""Objects found from boxes, poses and LiDAR positions, in a world whose objects we placed ourselves."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.geometry.transforms import invert, rigid, transform
from robustmat.landmarks.config import DEFAULT
from robustmat.landmarks.identities import up_direction
from robustmat.landmarks.objects import find_objects, position_of
from robustmat.landmarks.sightings import Sightings
from robustmat.landmarks.triangulation import find_place, hits, triangulate
from robustmat.types import Camera, Frame, Landmark

CAMERA = Camera(np.array([[700.0, 0, 610], [0, 700.0, 180], [0, 0, 1]]), width=1220, height=370)
# Camera axes in the world: x ahead, y left, z up.
LOOKING = np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])
UP = np.array([0.0, 0, 1])
SIZES = {"pole": (0.25, 4.0), "traffic_sign": (0.8, 0.8), "traffic_light": (0.4, 1.0)}


def pose(x, y=0.0, yaw=0.0):
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    return rigid(turn @ LOOKING, (x, y, 1.65))


def box_of(place, category, T_world_camera):
    """The box of an upright object, or None if it is not wholly ahead and partly in view."""
    width, height = SIZES[category]
    x, y, z = transform(invert(T_world_camera), np.array([place]))[0]
    if not 3 < z < 60:
        return None
    u, v = CAMERA.matrix[:2] @ (x, y, z) / z + 0.5
    half = np.array([width, height]) / 2 * 700 / z
    low = np.maximum([u - half[0], v - half[1]], 0)
    high = np.minimum([u + half[0], v + half[1]], [CAMERA.width, CAMERA.height])
    return (*low, *high) if (high - low > 3).all() else None


def watch(objects, poses, rng, noise=0.7, lost=0.1, lidar=None):
    """Frames, what is found in each, and the true object of every sighting in order."""
    frames, found, true = [], [], []
    for number, T_world_camera in enumerate(poses):
        seen = []
        for name, (category, place) in enumerate(objects):
            box = box_of(place, category, T_world_camera)
            if box is None or rng.random() < lost:
                continue
            low, high = np.array(box[:2]), np.array(box[2:])
            jitter = rng.normal(0, noise, (2, 2))
            low, high = low + jitter[0] * (low > 0), high + jitter[1] * (high < (CAMERA.width, CAMERA.height))
            low, high = np.clip(low, 0, None), np.minimum(high, (CAMERA.width, CAMERA.height))
            if (high - low < 2).any():
                continue
            position = None if lidar is None else lidar(name, place, number)
            seen.append((Landmark((*low, *high), category, position=position), 100))
            true.append(name)
        frames.append(Frame(f"{number:03d}", lambda: np.zeros((1, 1, 3), np.uint8), (), CAMERA, T_world_camera))
        found.append(seen)
    return frames, found, np.array(true)


def town(rng, count=14):
    """Poles, signs and lights on both sides of a street, no nearer than 3 m to each other."""
    kinds = list(SIZES)
    objects = []
    while len(objects) < count:
        side = rng.choice([-1, 1]) * rng.uniform(4, 8)
        category = kinds[len(objects) % 3]
        height = {"pole": 2.0, "traffic_sign": 2.6, "traffic_light": 3.0}[category]
        place = (rng.uniform(8, 60), side, height)
        if all(np.hypot(place[0] - other[0], place[1] - other[1]) > 3 for _, other in objects):
            objects.append((category, place))
    return objects


def pairs(identities, true):
    """Pairs of sightings: rightly and wrongly said to be one object, and missed."""
    tally = Counter()
    for i, j in combinations(range(len(true)), 2):
        said = identities[i] >= 0 and identities[i] == identities[j]
        tally["right"] += said and true[i] == true[j]
        tally["wrong"] += said and true[i] != true[j]
        tally["missed"] += not said and true[i] == true[j]
    return tally


def identities_of(seen, objects):
    answer = np.full(len(seen), -1)
    for number, thing in enumerate(objects):
        answer[thing.members] = number
    return answer


@pytest.mark.parametrize("seed", range(4))
def test_bearings_alone_tell_objects_apart(seed):
    rng = np.random.default_rng(seed)
    objects = town(rng)
    frames, found, true = watch(objects, [pose(x) for x in range(25)], rng)
    seen = Sightings.of(frames, found)
    things = find_objects(seen, UP)
    tally = pairs(identities_of(seen, things), true)
    assert tally["right"] / (tally["right"] + tally["wrong"]) >= 0.97
    assert tally["right"] / (tally["right"] + tally["missed"]) >= 0.7
    for thing in things:
        place = np.array(objects[Counter(true[thing.members]).most_common(1)[0][0]][1])
        assert np.linalg.norm((place - thing.place.point)[:2]) < max(0.5, 4 * thing.place.spread)


def test_the_place_of_an_object_falls_into_the_boxes_of_all_its_sightings():
    rng = np.random.default_rng(5)
    frames, found, _ = watch(town(rng), [pose(x) for x in range(25)], rng)
    seen = Sightings.of(frames, found)
    for thing in find_objects(seen, UP):
        assert hits(seen, thing.members, thing.place.point).all()
        assert len(set(seen.frame[thing.members])) == len(thing.members) >= DEFAULT.identities.fewest_frames


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(8, 40), st.floats(3, 8))
def test_exact_bearings_meet_in_the_point(seed, ahead, aside):
    rng = np.random.default_rng(seed)
    place = (ahead + 10, aside, 2.5)
    poses = [pose(x, rng.normal(0, 0.3), rng.normal(0, 0.02)) for x in range(8)]
    frames, found, _ = watch([("traffic_sign", place)], poses, rng, noise=0.0, lost=0.0)
    seen = Sightings.of(frames, found)
    whole = np.flatnonzero(~seen.cut().any(axis=1))
    if len(whole) < 3:
        return
    point, _ = triangulate(seen, whole)
    np.testing.assert_allclose(point, place, atol=1e-3)


def test_bearings_overrule_lidar_that_met_the_wall_behind():
    rng = np.random.default_rng(2)
    place = np.array((30.0, 5.0, 2.0))

    def wall_behind(_, true_place, number):
        ray = np.array(true_place) - pose(number)[:3, 3]
        return tuple(pose(number)[:3, 3] + ray * (40 - number) / ray[0])  # a wall across the street 10 m behind

    frames, found, _ = watch([("pole", tuple(place))], [pose(x) for x in range(20)], rng, lidar=wall_behind)
    seen = Sightings.of(frames, found)
    (thing,) = find_objects(seen, UP)
    assert not thing.place.by_lidar
    assert np.linalg.norm((thing.place.point - place)[:2]) < 0.7
    np.testing.assert_array_equal(position_of(seen, int(thing.members[0]), thing, UP), thing.place.point)


def test_lidar_that_agrees_with_the_boxes_is_the_place():
    rng = np.random.default_rng(2)
    place = (30.0, 5.0, 2.6)
    frames, found, _ = watch(
        [("traffic_sign", place)],
        [pose(x) for x in range(15)],
        rng,
        lidar=lambda *_: tuple(np.array(place) + rng.normal(0, 0.05, 3)),
    )
    seen = Sightings.of(frames, found)
    (thing,) = find_objects(seen, UP)
    assert thing.place.by_lidar
    np.testing.assert_allclose(thing.place.point, place, atol=0.1)
    assert np.linalg.norm(position_of(seen, 3, thing, UP) - seen.position[3]) == 0


def test_a_sighting_that_misses_the_place_has_no_part_in_it():
    rng = np.random.default_rng(4)
    place = (30.0, 5.0, 2.6)
    frames, found, _ = watch(
        [("traffic_sign", place)], [pose(x) for x in range(15)], rng, lost=0.0, lidar=lambda *_: place
    )
    landmark, area = found[7][0]
    x0, y0, x1, y1 = landmark.box
    found[7][0] = (Landmark((x0 + 60, y0, x1 + 60, y1), landmark.category, position=place), area)
    seen = Sightings.of(frames, found)
    (thing,) = find_objects(seen, UP)
    assert 7 not in seen.frame[thing.members]
    assert len(thing.members) == 14


def test_a_bearing_that_never_changes_has_no_place():
    frames, found, _ = watch(
        [("traffic_sign", (40.0, 0.0, 2.0))], [pose(0)] * 6, np.random.default_rng(0), lost=0.0
    )  # a car that stands still
    seen = Sightings.of(frames, found)
    assert find_place(seen, np.arange(6)) is None
    assert find_objects(seen, UP) == []


def test_without_sightings_or_poses_there_are_no_objects():
    frames = [Frame("a", lambda: np.zeros((1, 1, 3), np.uint8))]
    seen = Sightings.of(frames, [[(Landmark((0, 0, 5, 5), "pole"), 25)]])
    assert len(seen) == 0
    assert find_objects(seen, UP) == []
    assert up_direction([pose(0)]) == pytest.approx(UP)
