import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robustmat.errors import DataError, InputError
from robustmat.geometry.projection import project
from robustmat.geometry.transforms import invert, rigid, transform
from robustmat.landmarks.boxes import check_landmarks, landmarks_from_mask, read_boxes
from robustmat.landmarks.config import DEFAULT, LandmarkConfig, MapConfig
from robustmat.landmarks.corrections import Corrections, correct, read_corrections
from robustmat.landmarks.identities import Observations, associate, up_direction
from robustmat.landmarks.known import identify, overlap
from robustmat.landmarks.positions import VisiblePoints, locate, nearest_cluster, robust_mean, visible_points
from robustmat.landmarks.reference_map import build_reference_map
from robustmat.landmarks.regions import Region, box_regions, find_regions
from robustmat.types import Camera, Frame, Landmark

UP = np.array([0.0, 0.0, 1.0])
CAMERA = Camera(np.array([[100.0, 0, 50], [0, 100.0, 40], [0, 0, 1]]), width=100, height=80)


def frame_with(points, pose=None, **more):
    scan = np.column_stack([points, np.zeros(len(points))]).astype(np.float32)
    return Frame(
        name="f",
        load_image=lambda: np.zeros((80, 100, 3), np.uint8),
        camera=CAMERA,
        T_world_camera=np.eye(4) if pose is None else pose,
        T_camera_lidar=np.eye(4),
        load_points=lambda: scan,
        **more,
    )


# Regions


def test_regions_have_tight_boxes_with_exclusive_far_edges():
    labels = np.zeros((60, 80), np.uint8)
    labels[10:50, 20:24] = 5
    labels[5:17, 40:55] = 7
    labels[30:45, 60:66] = 6
    labels[30:50, 2:16] = 19
    found = {region.category: region for region in find_regions(labels)}
    assert found["pole"].box == (20, 10, 24, 50)
    assert found["traffic_sign"].box == (40, 5, 55, 17)
    assert found["traffic_light"].box == (60, 30, 66, 45)
    assert found["window"].box == (2, 30, 16, 50)
    assert found["traffic_sign"].area == 12 * 15


def test_specks_ragged_patches_and_merged_poles_are_left_out():
    labels = np.zeros((100, 200), np.uint8)
    labels[5:9, 5:9] = 7  # a speck
    rng = np.random.default_rng(0)
    labels[20:50, 20:50][rng.random((30, 30)) < 0.5] = 7  # leaves
    labels[10:80, 100:104] = 5  # two poles that a crossbar joins
    labels[10:80, 112:116] = 5
    labels[40:44, 100:116] = 5
    labels[10:30, 150:180] = 5  # broader than tall
    assert [region.category for region in find_regions(labels)] == []


def test_a_slanted_pole_is_still_one_pole():
    labels = np.zeros((80, 60), np.uint8)
    for row in range(5, 75):
        labels[row, 20 + row // 12 : 24 + row // 12] = 5
    (region,) = find_regions(labels)
    assert region.category == "pole"


def test_unknown_pixels_and_other_classes_are_no_landmarks():
    labels = np.full((60, 80), 255, np.uint8)
    labels[:, 40:] = 2
    assert landmarks_from_mask(labels) == ()


def test_drawn_boxes_are_taken_as_they_are_with_every_pixel_they_touch():
    drawn = Landmark((3.4, 5.0, 6.2, 7.5), "traffic_sign")
    (region,) = box_regions([drawn])
    assert (region.box, region.category) == (drawn.box, drawn.category)
    assert region.mask.shape == (3, 4)  # rows 5 to 7, columns 3 to 6
    assert region.mask.all()


def test_limits_are_one_configuration_that_changes_what_is_found():
    labels = np.zeros((60, 80), np.uint8)
    labels[10:20, 20:30] = 7
    assert len(find_regions(labels)) == 1
    stricter = LandmarkConfig.model_validate({"regions": {"smallest_traffic_sign": (7, 7, 101)}})
    assert find_regions(labels, stricter.regions) == []


# Boxes the user brings


def test_own_box_files_are_read(tmp_path):
    path = tmp_path / "boxes.json"
    path.write_text('{"landmarks": [{"box": [1, 2, 3.5, 4], "category": "Traffic Sign"}]}')
    assert read_boxes(path) == (Landmark((1.0, 2.0, 3.5, 4.0), "traffic_sign"),)


def coco(**changes):
    content = {
        "images": [{"id": 7, "file_name": "left/a.png"}, {"id": 8, "file_name": "b.png"}],
        "categories": [{"id": 1, "name": "stop sign"}, {"id": 2, "name": "traffic light"}],
        "annotations": [
            {"image_id": 7, "category_id": 1, "bbox": [10, 20, 5, 6]},
            {"image_id": 8, "category_id": 2, "bbox": [0, 0, 9, 9]},
        ],
    }
    return {**content, **changes}


def test_coco_boxes_become_corners_and_belong_to_their_image(tmp_path):
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(coco()))
    assert read_boxes(path, "somewhere/a.png") == (Landmark((10, 20, 15, 26), "traffic_sign"),)
    assert read_boxes(path, "b.png") == (Landmark((0, 0, 9, 9), "traffic_light"),)


@pytest.mark.parametrize(
    ("content", "image", "message"),
    [
        ("{", None, "not valid JSON"),
        ("[1]", None, "neither"),
        ('{"landmarks": 3}', None, "must be a list"),
        ('{"landmarks": [{"box": [1, 2, 3]}]}', None, "landmark 0.*'category'"),
        ('{"landmarks": [{"box": [1, 2, 3], "category": "pole"}]}', None, "landmark 0.*four numbers"),
        ('{"landmarks": [{"box": [1, 2, 3, "x"], "category": "pole"}]}', None, "landmark 0.*four numbers"),
        ('{"landmarks": [{"box": [1, 2, 3, 4], "category": "polle"}]}', None, "did you mean 'pole'"),
        ('{"landmarks": [{"box": [1, 2, 3, 4], "category": "zebra"}]}', None, "choose one of"),
        (json.dumps(coco()), None, "2 images"),
        (json.dumps(coco()), "aa.png", "did you mean 'a.png'"),
        (json.dumps(coco(categories=[{"id": 1, "name": "dog"}])), "a.png", "annotation 0.*'dog'"),
        (json.dumps(coco(categories=[])), "a.png", "category_id 1"),
        (json.dumps(coco(images=[{"id": 7}])), "a.png", "file_name"),
    ],
)
def test_a_bad_box_file_is_told_with_its_name_and_place(tmp_path, content, image, message):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_boxes(path, image)
    assert "bad.json" in str(caught.value)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((0, 0, float("nan"), 5), "not finite"),
        ((5, 5, 5, 9), "no area"),
        ((9, 5, 5, 9), "no area"),
        ((200, 5, 220, 9), "outside the image"),
        ((-9, -9, 0, 0), "outside the image"),
    ],
)
def test_a_box_that_cannot_be_used_is_named(box, message):
    good = Landmark((1, 1, 5, 5), "pole")
    with pytest.raises(InputError, match=f"landmark 1 .*{message}"):
        check_landmarks([good, Landmark(box, "pole")], 100, 80)


@given(
    st.tuples(st.floats(-50, 150), st.floats(-50, 150), st.floats(0.1, 100), st.floats(0.1, 100)),
)
def test_checked_boxes_lie_inside_the_image(values):
    x, y, width, height = values
    try:
        (landmark,) = check_landmarks([Landmark((x, y, x + width, y + height), "window", 4)], 100, 80)
    except InputError:
        assert x >= 100 or y >= 80 or x + width <= 0 or y + height <= 0
        return
    x0, y0, x1, y1 = landmark.box
    assert 0 <= x0 < x1 <= 100
    assert 0 <= y0 < y1 <= 80
    assert landmark.identity == 4


# The reference map


def test_map_holds_the_mean_of_each_voxel_like_a_plain_dictionary():
    rng = np.random.default_rng(3)
    scans = [rng.uniform(-1, 1, (400, 3)) for _ in range(3)]
    poses = [rigid(np.eye(3), np.array([number * 0.4, 0, 0])) for number in range(3)]
    reference = build_reference_map(frame_with(scan, pose) for scan, pose in zip(scans, poses, strict=True))
    cells = {}
    for scan, pose in zip(scans, poses, strict=True):
        for point in scan.astype(np.float32).astype(float) + pose[:3, 3]:
            cells.setdefault(tuple(np.floor(point / DEFAULT.map.voxel)), []).append(point)
    expected = np.array(sorted(np.mean(points, axis=0).round(4).tolist() for points in cells.values()))
    found = np.array(sorted(reference.near(np.zeros(3), 100.0).round(4).tolist()))
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_map_keeps_millimetres_far_from_the_origin():
    pose = rigid(np.eye(3), np.array([456_000.0, 5_430_000.0, 100.0]))
    reference = build_reference_map([frame_with(np.array([[1.234, 5.678, 2.345]]), pose)])
    expected = pose[:3, 3] + (1.234, 5.678, 2.345)
    np.testing.assert_allclose(reference.near(pose[:3, 3], 50.0), [expected], atol=1e-3)


def test_map_lookup_finds_every_point_within_the_radius():
    rng = np.random.default_rng(5)
    frames = [
        frame_with(rng.uniform(-20, 20, (50, 3)), rigid(np.eye(3), np.array([x, 0.0, 0.0]))) for x in range(0, 300, 30)
    ]
    reference = build_reference_map(frames)
    everything = reference.near(np.array([150.0, 0, 0]), 1000.0)
    assert len(everything) == 500
    for x in (0.0, 77.0, 310.0):
        centre = np.array([x, 3.0, -2.0])
        near = {tuple(point) for point in reference.near(centre, 25.0)}
        within = everything[np.linalg.norm(everything - centre, axis=1) <= 25]
        assert {tuple(point) for point in within} <= near
        assert len(near) < len(everything)


def test_points_beyond_reach_and_on_traffic_stay_out_of_the_map():
    labels = np.zeros((80, 100), np.uint8)
    labels[:, :30] = 13
    car, wall, far = [-3.0, 0, 10], [1.0, 0, 10], [0.0, 0, DEFAULT.map.reach + 1]
    frame = frame_with(np.array([car, wall, far]), load_semantics=lambda: labels)
    np.testing.assert_allclose(build_reference_map([frame]).near(np.zeros(3), 100.0), [wall], atol=1e-6)


def test_labels_of_points_say_what_may_drive_away_even_beside_the_picture():
    car_behind, wall = [0.0, 0, -10], [1.0, 0, 10]
    frame = frame_with(np.array([car_behind, wall]), load_point_labels=lambda: np.array([13, 2], np.uint8))
    np.testing.assert_allclose(build_reference_map([frame]).near(np.zeros(3), 100.0), [wall], atol=1e-6)


def street_of_scans(seed, count):
    rng = np.random.default_rng(seed)
    return [
        frame_with(rng.uniform(-20, 20, (60, 3)), rigid(np.eye(3), np.array([7.0 * x, 0.0, 0.0]))) for x in range(count)
    ]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9))
def test_map_does_not_depend_on_how_scans_are_divided_into_parts(seed, few, many):
    frames = street_of_scans(seed, 8)
    first, second = (
        build_reference_map(frames, config=MapConfig(scans_a_part=size)).near(np.array([20.0, 0, 0]), 60.0)
        for size in (few, many)
    )
    assert len(first) > 100
    assert first.tobytes() == second.tobytes()


def test_map_on_disk_is_the_map_in_memory_and_goes_on_where_it_was_left(tmp_path):
    frames, limits, place = street_of_scans(1, 8), MapConfig(scans_a_part=3), np.array([20.0, 0, 0])
    reads = []

    def watched(frame):
        return replace(frame, load_points=lambda: reads.append(1) or frame.load_points())

    def breaking(frame):
        return replace(frame, load_points=lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        build_reference_map([*frames[:7], breaking(frames[7])], tmp_path, limits)
    resumed = build_reference_map([watched(frame) for frame in frames], tmp_path, limits)
    assert len(reads) == 2  # two parts of three were whole
    assert resumed.near(place, 60.0).tobytes() == build_reference_map(frames, config=limits).near(place, 60.0).tobytes()


def test_map_remembers_only_the_tiles_around_the_last_place(tmp_path):
    reference = build_reference_map(street_of_scans(2, 40), tmp_path)
    held = []
    for x in np.linspace(0, 280, 15):
        reference.near(np.array([x, 0, 0]), 20.0)
        held.append(sum(len(points) for points in reference._loaded.values()))
    assert max(held) < 40 * 60 / 3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_looking_at_a_part_of_the_map_loses_no_point_of_the_picture(seed):
    rng = np.random.default_rng(seed)
    scan = frame_with(rng.uniform(-45, 45, (300, 3)), rigid(np.eye(3), rng.normal(0, 100, 3)))
    reference = build_reference_map([scan])
    pose = rigid(Rotation.random(random_state=rng).as_matrix(), scan.T_world_camera[:3, 3] + rng.normal(0, 20, 3))
    seen, everything = reference.in_view(CAMERA, pose, 60.0), reference.near(pose[:3, 3], 60.0)
    in_picture = [project(transform(invert(pose), points), CAMERA)[0] for points in (seen, everything)]
    assert len(seen) <= len(everything)
    np.testing.assert_array_equal(in_picture[0], in_picture[1])


def test_a_pose_in_another_country_is_named():
    frames = [frame_with(np.ones((3, 3))), frame_with(np.ones((3, 3)), rigid(np.eye(3), np.array([1e6, 0, 0])))]
    with pytest.raises(DataError, match="frame f stands more than 84 km"):
        build_reference_map(frames)


def test_a_drive_without_scans_gives_an_empty_map():
    assert build_reference_map([]).near(np.zeros(3), 50.0).shape == (0, 3)


# Positions


def board(x, y, z, size, count, rng):
    return np.column_stack(
        [rng.uniform(x - size, x + size, count), rng.uniform(y - size, y + size, count), np.full(count, z)]
    )


def test_a_hidden_object_gets_no_position_from_what_hides_it_or_through_it():
    rng = np.random.default_rng(0)
    front, behind = board(0, 0, 10, 1.0, 2000, rng), board(0, 0, 20, 1.0, 500, rng)
    reference = build_reference_map([frame_with(np.vstack([front, behind]))])
    seen = visible_points(reference, CAMERA, np.eye(4))
    assert (seen.depth < 11).all()
    np.testing.assert_allclose(seen.world[:, 2], seen.depth)


def test_position_is_the_object_and_not_the_wall_behind_it():
    rng = np.random.default_rng(1)
    pole = np.column_stack([rng.uniform(-0.1, 0.1, 40), rng.uniform(-1, 1, 40), np.full(40, 8.0)])
    wall = np.column_stack([rng.uniform(-2, 2, 4000), rng.uniform(-2, 2, 4000), np.full(4000, 15.0)])
    reference = build_reference_map([frame_with(np.vstack([pole, wall]))])
    region = Region((47.0, 28.0, 54.0, 53.0), "pole", np.ones((25, 7), bool))
    ((x, y, z),) = locate([region], visible_points(reference, CAMERA, np.eye(4)))
    assert abs(x) < 0.1
    assert abs(y) < 0.4
    assert z == pytest.approx(8.0)


def test_too_few_points_give_no_position():
    points = VisiblePoints(np.full((4, 2), 10.0), np.full(4, 5.0), np.zeros((4, 3)), CAMERA, np.eye(4))
    assert locate([Region((8.0, 8.0, 13.0, 13.0), "pole", np.ones((5, 5), bool))], points) == [None]


def test_points_beside_a_mask_help_only_when_it_holds_too_few():
    mask = np.ones((10, 3), bool)
    region = Region((10.0, 10.0, 13.0, 20.0), "pole", mask)
    inside = np.column_stack([np.full(6, 11.0), np.arange(12.0, 18.0)])
    beside = np.column_stack([np.full(6, 13.0), np.arange(12.0, 18.0)])
    far, near = np.full(6, 9.0), np.full(6, 5.0)
    both = VisiblePoints(
        np.vstack([inside, beside]),
        np.concatenate([far, near]),
        np.repeat(np.array([[1.0] * 3, [2.0] * 3]), 6, 0),
        CAMERA,
        np.eye(4),
    )
    assert locate([region], both) == [(1.0, 1.0, 1.0)]
    only = VisiblePoints(beside, near, np.full((6, 3), 2.0), CAMERA, np.eye(4))
    assert locate([region], only) == [(2.0, 2.0, 2.0)]


def test_nearest_cluster_skips_strays_and_splits_at_gaps():
    depth = np.array([3.0, 3.1, *np.linspace(8.0, 8.4, 12), *np.linspace(20.0, 20.5, 30)])
    chosen = nearest_cluster(depth)
    assert sorted(depth[chosen].tolist()) == pytest.approx(np.linspace(8.0, 8.4, 12).tolist())
    assert len(nearest_cluster(np.array([1.0, 5.0, 9.0]))) == 0
    assert len(nearest_cluster(np.zeros(0))) == 0


def test_robust_mean_ignores_outliers():
    rng = np.random.default_rng(2)
    points = np.vstack([rng.normal((4, 5, 6), 0.02, (50, 3)), [[9.0, 9, 9]] * 6])
    np.testing.assert_allclose(robust_mean(points), (4, 5, 6), atol=0.02)


# Identities


def sightings(category, place, frames, rng, spread=0.03, area=100):
    return [(frame, category, tuple((np.array(place) + rng.normal(0, spread, 3)).tolist()), area) for frame in frames]


def identities_of(rows, up=UP):
    return associate(Observations.of(rows), up)


def test_objects_are_told_apart_and_followed_through_frames():
    rng = np.random.default_rng(0)
    places = [("pole", (0, 0, 1)), ("pole", (3, 0, 1)), ("traffic_sign", (0, 0.2, 2)), ("window", (5, 5, 2))]
    groups = [sightings(category, place, range(5), rng) for category, place in places]
    identities = identities_of([it for group in groups for it in group])
    assert identities == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5


def test_fewer_than_three_frames_are_noise():
    rng = np.random.default_rng(0)
    assert identities_of(sightings("pole", (0, 0, 0), [1, 2], rng)) == [None, None]
    twice_each = sightings("pole", (0, 0, 0), [1, 2, 1, 2], rng)
    assert identities_of(twice_each) == [None] * 4


def test_of_two_pieces_in_one_frame_the_larger_keeps_the_identity():
    rng = np.random.default_rng(0)
    whole = sightings("pole", (0, 0, 1), range(4), rng, area=300)
    piece = sightings("pole", (0, 0, 1.2), [2], rng, area=40)
    assert identities_of([*piece, *whole]) == [None, 0, 0, 0, 0]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.permutations(range(12)))
def test_identity_partition_does_not_depend_on_the_order_of_observations(seed, order):
    rng = np.random.default_rng(seed)
    groups = [sightings("traffic_sign", (3.0 * number, 0, 2), range(4), rng) for number in range(3)]
    observations = [it for group in groups for it in group]
    shuffled = identities_of([observations[i] for i in order])
    partition = {}
    for i, identity in zip(order, shuffled, strict=True):
        partition.setdefault(identity, set()).add(i)
    assert sorted(map(sorted, partition.values())) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("up", [(0, 0, 1.0), (0, -1.0, 0)])
def test_height_hardly_matters_for_poles_whatever_way_is_up(up):
    up = np.array(up)
    heights = [up * h for h in (0.0, 1.2, 2.4, 3.6)]
    poles = [(frame, "pole", tuple(h.tolist()), 9) for frame, h in enumerate(heights)]
    assert identities_of(poles, up) == [0, 0, 0, 0]
    signs = [(frame, "traffic_sign", position, 9) for frame, _, position, _ in poles]
    assert identities_of(signs, up) == [None] * 4


def test_up_is_against_the_cameras_down():
    R = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # camera y down, z ahead, in a z-up world
    np.testing.assert_allclose(up_direction([rigid(R, np.zeros(3))] * 2), UP, atol=1e-12)


# Corrections


def test_corrections_split_merge_and_exclude():
    identities = [0, 0, 1, 1, 2, None]
    names = ["a", "b", "a", "b", "a", "b"]
    wanted = Corrections.model_validate(
        {"split": [{"identity": 0, "frames": ["b"]}], "merge": [[1, 2]], "exclude": [0]}
    )
    assert correct(identities, names, wanted) == [None, 3, 1, 1, 1, None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"drop": [1]}', "drop"),
        ('{"merge": [[1]]}', "merge"),
        ('{"exclude": ["x"]}', "exclude"),
    ],
)
def test_a_bad_corrections_file_is_told_by_key(tmp_path, content, message):
    path = tmp_path / "corrections.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_corrections(path)


def test_corrections_of_unknown_identities_are_refused():
    with pytest.raises(InputError, match="identity 9"):
        correct([0, 1], ["a", "b"], Corrections(exclude=(9,)))


def test_known_objects_give_landmarks_their_identity_by_overlap_and_category() -> None:
    marks = [Landmark((0, 0, 10, 10), "pole"), Landmark((20, 0, 30, 10), "pole"), Landmark((40, 0, 50, 10), "window")]
    known = [
        ((1.0, 0.0, 10.0, 10.0), "pole", 5),
        ((27.0, 0.0, 40.0, 10.0), "pole", 6),
        ((40.0, 0.0, 50.0, 10.0), "pole", 7),
    ]
    assert [it.identity for it in identify(marks, known)] == [5, None, None]


def test_overlap_is_intersection_over_union() -> None:
    assert overlap((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap((0, 0, 1, 1), (1, 0, 2, 1)) == 0
