from dataclasses import replace
from itertools import combinations

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

from robustmat.cli.prepare import app
from robustmat.dataset.inspect import count, draw_sheets
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset
from robustmat.errors import DataError
from robustmat.landmarks.corrections import Corrections
from robustmat.sources import open_kitti_odometry, open_kitti_raw
from scene import DATE, DRIVE, SEQUENCE, write_kitti_odometry, write_kitti_raw

SEED, FRAMES = 3, 12


@pytest.fixture(scope="module")
def raw_scene(tmp_path_factory):
    return write_kitti_raw(tmp_path_factory.mktemp("raw"), seed=SEED, frames=FRAMES)


@pytest.fixture(scope="module")
def raw_drive(raw_scene):
    return open_kitti_raw(raw_scene.root, DATE, DRIVE)


@pytest.fixture(scope="module")
def raw_dataset(raw_drive, tmp_path_factory):
    return open_dataset(prepare(raw_drive, tmp_path_factory.mktemp("prepared") / "raw"))


@pytest.fixture(scope="module")
def odometry_scene(tmp_path_factory):
    return write_kitti_odometry(tmp_path_factory.mktemp("odometry"), seed=SEED, frames=FRAMES)


@pytest.fixture(scope="module")
def odometry_dataset(odometry_scene, tmp_path_factory):
    drive = open_kitti_odometry(odometry_scene.root, SEQUENCE)
    return open_dataset(prepare(drive, tmp_path_factory.mktemp("prepared") / "odometry"))


def overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def explained(dataset, truth):
    """(frame, true identity, found identity, found position, true position) of each landmark found."""
    rows = []
    for number, frame in enumerate(dataset.frames):
        for it in frame.landmarks:
            best = max(
                truth.landmarks[number], key=lambda seen: overlap(seen.box, it.box) * (seen.category == it.category)
            )
            assert best.category == it.category
            rows.append((number, best.identity, it.identity, it.position, best.position))
    return rows


@pytest.mark.parametrize("layout", ["raw", "odometry"])
def test_matched_pairs_are_those_of_the_scene(layout, request):
    dataset, scene = (request.getfixturevalue(f"{layout}_{what}") for what in ("dataset", "scene"))
    rows = explained(dataset, scene)
    pairs = [(a, b) for a, b in combinations(rows, 2) if a[0] != b[0]]
    said = [(a[1] == b[1]) for a, b in pairs if a[2] is not None and a[2] == b[2]]
    assert np.mean(said) >= 0.98
    worth_seeing = [
        (number, it.identity)
        for number, seen in enumerate(scene.landmarks)
        for it in seen
        if it.pixels >= 100 and it.box[2] - it.box[0] >= 8
    ]
    true_pairs = [a for a, b in combinations(worth_seeing, 2) if a[1] == b[1]]
    found = {(row[0], row[1]): row[2] for row in rows if row[2] is not None}
    recalled = [found.get(a, "a") == found.get(b, "b") for a, b in combinations(worth_seeing, 2) if a[1] == b[1]]
    assert len(true_pairs) > 150
    assert np.mean(recalled) >= 0.9


def test_positions_are_where_the_objects_stand(raw_dataset, raw_scene):
    known = [row for row in explained(raw_dataset, raw_scene) if row[2] is not None]
    offsets = [np.linalg.norm(np.subtract(found, true)[:2]) for _, _, _, found, true in known]
    assert np.median(offsets) < 0.05
    assert np.max(offsets) < 0.6


def test_both_layouts_give_the_same_landmarks(raw_dataset, odometry_dataset):
    for a, b in zip(raw_dataset.frames, odometry_dataset.frames, strict=True):
        assert [(it.box, it.category, it.identity) for it in a.landmarks] == [
            (it.box, it.category, it.identity) for it in b.landmarks
        ]


def test_the_scene_is_rich_enough_to_learn_from(raw_dataset):
    counts = count(raw_dataset)
    assert counts["identities"] >= 6
    assert set(counts["identities_by_category"]) == {"pole", "traffic_light", "traffic_sign", "window"}
    assert np.median([len(frame.landmarks) for frame in raw_dataset.frames]) >= 4


def test_the_same_seed_draws_the_same_street_and_another_seed_another(tmp_path, raw_scene):
    again = write_kitti_raw(tmp_path / "again", seed=SEED, frames=1)
    other = write_kitti_raw(tmp_path / "other", seed=SEED + 1, frames=1)
    np.testing.assert_array_equal(again.images[0], raw_scene.images[0])
    assert (again.images[0] != other.images[0]).mean() > 0.2


def test_preparing_twice_gives_the_same_bytes(raw_drive, raw_dataset, tmp_path):
    again = prepare(raw_drive, tmp_path / "again", copy_images=True)
    lines = [(path / "frames.jsonl").read_text().splitlines() for path in (again, raw_dataset.path)]
    for first, second in zip(*lines, strict=True):  # all but the image's place
        assert first.split('"size"')[1] == second.split('"size"')[1]
    assert (again / "images" / "0000000000.png").is_file()


def test_without_lidar_landmarks_have_no_identities(raw_drive, tmp_path):
    blind = replace(raw_drive, frames=tuple(replace(it, load_points=None) for it in raw_drive.frames))
    dataset = open_dataset(prepare(blind, tmp_path / "blind"))
    landmarks = [it for frame in dataset.frames for it in frame.landmarks]
    assert not dataset.has_identities
    assert len(landmarks) > 50
    assert {(it.identity, it.position) for it in landmarks} == {(None, None)}
    assert count(dataset)["matched_pairs"] == 0


def test_frames_without_labels_build_the_map_but_stay_out(raw_drive, raw_dataset, tmp_path):
    frames = tuple(
        replace(it, load_semantics=None) if number % 3 == 0 else it for number, it in enumerate(raw_drive.frames)
    )
    dataset = open_dataset(prepare(replace(raw_drive, frames=frames), tmp_path / "some"))
    assert [it.name for it in dataset.frames] == [it.name for number, it in enumerate(raw_dataset.frames) if number % 3]
    assert dataset.has_identities


def test_a_drive_without_labels_says_what_to_do(raw_drive, tmp_path):
    unlabelled = replace(raw_drive, frames=tuple(replace(it, load_semantics=None) for it in raw_drive.frames))
    with pytest.raises(DataError, match="--semantics"):
        prepare(unlabelled, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_corrections_are_honoured(raw_drive, raw_dataset, tmp_path):
    wanted = Corrections(exclude=(0,), merge=((1, 2),))
    dataset = open_dataset(prepare(raw_drive, tmp_path / "corrected", corrections=wanted))
    for before, after in zip(raw_dataset.frames, dataset.frames, strict=True):
        assert [it.box for it in before.landmarks] == [it.box for it in after.landmarks]
        change = {0: None, 2: 1}
        assert [change.get(it.identity, it.identity) for it in before.landmarks] == [
            it.identity for it in after.landmarks
        ]


def test_counts_agree_with_a_plain_recount(raw_dataset):
    counts = count(raw_dataset)
    observations = [
        (frame.T_world_camera[:3, 3], it.identity)
        for frame in raw_dataset.frames
        for it in frame.landmarks
        if it.identity is not None
    ]
    assert counts["observations"] == len(observations)
    assert counts["identities"] == len({identity for _, identity in observations})
    centres = [frame.T_world_camera[:3, 3] for frame in raw_dataset.frames]
    assert counts["frame_pairs"] == sum(2 <= np.linalg.norm(a - b) <= 25 for a, b in combinations(centres, 2))
    apart = sum(i == j and 2 <= np.linalg.norm(a - b) <= 25 for (a, i), (b, j) in combinations(observations, 2))
    assert 0.95 * apart <= counts["matched_pairs"] <= apart  # a few are too doubtful to count


def test_contact_sheets_show_frames_and_pairs(raw_dataset, tmp_path):
    frames, pairs = draw_sheets(raw_dataset, tmp_path / "sheets")
    assert (frames.name, pairs.name) == ("frames.png", "pairs.png")
    for path in (frames, pairs):
        pixels = np.asarray(PIL.Image.open(path))
        assert pixels.shape[0] > 300
        assert pixels.std() > 20


def test_command_line_prepares_both_layouts(raw_scene, odometry_scene, tmp_path):
    runner = CliRunner()
    raw = ["kitti-raw", str(raw_scene.root), "--date", DATE, "--drive", DRIVE, "--out", str(tmp_path / "raw")]
    result = runner.invoke(app, raw, catch_exceptions=False)
    assert result.exit_code == 0
    assert "12 frames" in result.output
    odometry = ["kitti-odometry", str(odometry_scene.root), "--sequence", "00", "--out", str(tmp_path / "00")]
    assert runner.invoke(app, odometry, catch_exceptions=False).exit_code == 0
    assert open_dataset(tmp_path / "raw").has_identities
    assert open_dataset(tmp_path / "00").has_identities
