"""The rules of the ground truth, at their borders."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import UNKNOWN, frame_pairs, label_candidates, read_truth, unite_identities
from robustmat.errors import DataError
from robustmat.types import AMBIGUOUS, CATEGORIES, MATCHED, UNMATCHED, Camera, Frame, Landmark

CAMERA = Camera(np.array([[100.0, 0, 50], [0, 200.0, 40], [0, 0, 1]]), 100, 80)
CORNER = (0.0, 0.0, 5.0, 5.0)  # a box where nothing of these tests is seen

Place = tuple[float, float, float]


def frame(*landmarks: Landmark, z: float = 0.0) -> Frame:
    T_world_camera = np.eye(4)
    T_world_camera[2, 3] = z
    return Frame(f"at {z}", load_image=None, landmarks=landmarks, camera=CAMERA, T_world_camera=T_world_camera)


def data(*frames: Frame, name: str = "drive", world: str = "town") -> LandmarkDataset:
    return LandmarkDataset(Path(name), name, world, has_identities=True, frames=frames)


def seen(place: Place | None, category: str = "pole", identity: int | None = 0) -> Landmark:
    return Landmark(CORNER, category, identity, place)


def label(first: Landmark, second: Landmark) -> int:
    a, b = read_truth([data(frame(first), frame(second))]).frames
    found = int(label_candidates(a, b)[0, 0])
    assert int(label_candidates(b, a)[0, 0]) == found
    return found


def test_cameras_exactly_2_and_25_m_apart_make_a_pair_and_none_beyond() -> None:
    places = [0.0, 1.999, 2.0, 25.0, 25.001]
    truth = read_truth([data(*(frame(seen((0, 0, 9)), z=z) for z in places))])
    pairs = [(0, 2), (0, 3), (1, 3), (1, 4), (2, 3), (2, 4)]  # rising; 0 and 4 are a millimetre too far apart
    assert frame_pairs(truth).tolist() == [list(pair) for pair in pairs]
    assert frame_pairs(truth, 0.0, 2.0).tolist() == [[0, 1], [0, 2], [1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("category", "offset", "expected"),
    [
        ("traffic_sign", (0.5, 0, 0), MATCHED),
        ("traffic_sign", (0, 0.4, 0), MATCHED),
        ("traffic_sign", (0, 0.6, 0), AMBIGUOUS),
        ("traffic_sign", (0.4, 0.4, 0), AMBIGUOUS),
        ("window", (0, 0, 1.0), MATCHED),
        ("pole", (0, 2.5, 0), MATCHED),  # a fifth of the height counts
        ("pole", (0, 2.6, 0), AMBIGUOUS),
        ("pole", (0.4, 2.0, 0), AMBIGUOUS),
    ],
)
def test_one_object_may_be_placed_as_far_apart_as_its_tolerance(category: str, offset: Place, expected: int) -> None:
    assert label(seen((0, 0, 0), category), seen(offset, category)) == expected


def test_two_objects_exactly_2_m_apart_are_two() -> None:
    assert label(seen((0, 0, 0), "window", 1), seen((2.0, 0, 0), "window", 2)) == UNMATCHED
    assert label(seen((0, 0, 0), "window", 1), seen((1.999, 0, 0), "window", 2)) == AMBIGUOUS


def test_identities_alone_decide_where_no_place_is_known() -> None:
    assert label(seen(None, "window", 1), seen((0, 0, 9), "window", 1)) == MATCHED
    assert label(seen(None, "window", 1), seen((0, 0, 9), "window", 2)) == UNMATCHED
    assert label(seen(None, "window", None), seen(None, "window", None)) == AMBIGUOUS


# The place of one landmark is seen at (50.5, 40.5), counted from the pixels' edges; a box may miss it by 0.3 degrees:
# 0.52 pixels across, 1.05 down.
@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((40, 30, 60, 50), AMBIGUOUS),
        ((51.0, 30, 60, 50), AMBIGUOUS),
        ((51.1, 30, 60, 50), UNMATCHED),
        ((40, 30, 50.0, 50), AMBIGUOUS),
        ((40, 30, 49.9, 50), UNMATCHED),
        ((40, 41.5, 60, 50), AMBIGUOUS),
        ((40, 41.6, 60, 50), UNMATCHED),
        ((40, 30, 60, 39.5), AMBIGUOUS),
        ((40, 30, 60, 39.4), UNMATCHED),
    ],
)
def test_a_box_over_the_place_of_another_object_leaves_doubt(
    box: tuple[float, float, float, float], expected: int
) -> None:
    there = seen((0, 0, 10), "window", 1)
    assert label(there, replace(seen((0, 0, 40), "window", 2), box=box)) == expected


def test_what_stands_behind_the_camera_is_in_no_box() -> None:
    wide = replace(seen((0, 0, 40), "window", 2), box=(0.0, 0.0, 100.0, 80.0))
    assert label(seen((0, 0, -10), "window", 1), wide) == UNMATCHED
    assert label(seen((0, 0, 10), "pole", 1), wide) == UNMATCHED  # of another kind


def test_a_match_elsewhere_takes_no_doubt_away() -> None:
    covers = replace(seen((0, 0, 40), "window", 2), box=(40.0, 30.0, 60.0, 50.0))
    elsewhere = seen((20, 0, 30), "traffic_sign", 5)
    a, b = read_truth([data(frame(seen((0, 0, 10), "window", 1), elsewhere), frame(covers, elsewhere))]).frames
    assert label_candidates(a, b).tolist() == [[AMBIGUOUS, UNMATCHED], [UNMATCHED, MATCHED]]


def test_frames_without_pose_or_landmarks_are_left_out_and_the_rest_keeps_its_place() -> None:
    mark = Landmark((1.0, 2.0, 3.0, 4.0), "traffic_light")
    frames = replace(frame(mark), T_world_camera=None), frame(mark, z=3.0), frame(), frame(mark, seen((1, 2, 3)), z=5.0)
    first, last = read_truth([data(*frames)]).frames
    assert (first.index, last.index) == (1, 3)
    assert (first.dataset, first.world, first.camera) == (0, "town", CAMERA)
    assert first.identity.tolist() == [UNKNOWN]
    assert last.identity.tolist() == [UNKNOWN, 0]
    assert [CATEGORIES[one] for one in last.category] == ["traffic_light", "pole"]
    assert np.isnan(last.position[0]).all()
    assert last.position[1].tolist() == [1, 2, 3]
    assert last.box.tolist() == [[1, 2, 3, 4], list(CORNER)]
    assert last.centre.tolist() == [0, 0, 5]
    assert last.down.tolist() == [0, 1, 0]


def test_two_data_sets_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match=r"two data sets are called drive .* its own --name"):
        read_truth([data(frame()), data(frame())])
    with pytest.raises(DataError, match=r"later has no landmark identities.* prepare it from a drive with poses"):
        read_truth([data(frame()), replace(data(frame(), name="later"), has_identities=False)])


def are_one(first: list[Landmark], second: list[Landmark], world: str = "town") -> bool:
    """Whether identity 0 of one drive and identity 0 of the next are one object."""
    one, other = (data(*map(frame, marks), name=name) for name, marks in (("one", first), ("other", second)))
    united = unite_identities([one, replace(other, world=world)])
    return united[0, 0] == united[1, 0]


@pytest.mark.parametrize(
    ("category", "offset", "expected"),
    [
        ("traffic_sign", (0.5, 0, 0), True),
        ("traffic_sign", (0.6, 0, 0), False),
        ("traffic_sign", (0, 0.6, 0), False),
        ("window", (1.0, 0, 0), True),
        ("window", (1.1, 0, 0), False),
        ("pole", (0, 2.4, 0), True),  # a fifth of the height counts
        ("pole", (0, 2.6, 0), False),
    ],
)
def test_objects_of_two_drives_are_one_within_the_tolerance(category: str, offset: Place, expected: bool) -> None:
    assert are_one([seen((0, 0, 0), category)], [seen(offset, category)]) == expected


@pytest.mark.parametrize(("offset", "expected"), [((0, 0, 2.4), True), ((0, 2.4, 0), False)])
def test_height_is_measured_along_the_cameras_own_down(offset: Place, expected: bool) -> None:
    """In a world whose third axis points up."""
    upright = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    drives = [
        data(replace(frame(seen(place)), T_world_camera=upright), name=name)
        for name, place in (("one", (0.0, 0.0, 0.0)), ("other", offset))
    ]
    united = unite_identities(drives)
    assert (united[0, 0] == united[1, 0]) == expected


def test_an_object_of_a_drive_stands_where_most_sightings_put_it_and_is_what_it_is_mostly_seen_as() -> None:
    sightings = [seen((0, 0, 0)), seen((0, 0, 0)), seen((9, 0, 0), "window"), seen(None)]
    assert are_one(sightings, [seen((0.1, 0, 0))])
    assert not are_one(sightings, [seen((0.1, 0, 0), "window")])
    assert not are_one(sightings, [seen((0.1, 0, 0))], world="village")
    assert not are_one([seen(None)], [seen(None)])  # nobody knows where


def test_every_object_has_a_number_of_its_own() -> None:
    marks = [seen((float(5 * n), 0, 0), "window", n) for n in range(3)]
    again = [seen((5.2, 0, 0), "window", 7), seen((50, 0, 0), "window", 8)]
    united = unite_identities([data(frame(*marks)), data(frame(*again), name="later")])
    assert united == {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 7): 1, (1, 8): 3}
