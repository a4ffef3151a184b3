import json
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

from robustmat.cli.prepare import app
from robustmat.dataset.drawing import draw_pair
from robustmat.dataset.inspect import count, draw_sheets
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset, read_points, sheet_frames
from robustmat.errors import DataError
from robustmat.geometry.transforms import invert, transform
from robustmat.landmarks.config import LandmarkConfig, MapConfig
from robustmat.landmarks.corrections import Corrections
from robustmat.sources import open_kitti_odometry, open_kitti_raw
from robustmat.types import Frame, Landmark
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


def test_without_poses_landmarks_have_no_identities(raw_drive, tmp_path):
    blind = replace(raw_drive, frames=tuple(replace(it, T_world_camera=None) for it in raw_drive.frames))
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


class PowerCut(BaseException):
    """Like an interruption from the keyboard: nothing but clean-up code may catch it."""


def breaking_at(drive, number, what, time=1):
    """The drive, whose frame `number` ends the process when `what` of it is loaded for the n-th time."""
    loads = []

    def cut(load):
        loads.append(1)
        if len(loads) == time:
            raise PowerCut
        return load()

    broken = partial(cut, getattr(drive.frames[number], what))  # it shows which files it reads, as all loaders do
    frames = [replace(it, **{what: broken}) if n == number else it for n, it in enumerate(drive.frames)]
    return replace(drive, frames=tuple(frames))


def every_byte(folder):
    return {str(it.relative_to(folder)): it.read_bytes() for it in sorted(folder.rglob("*")) if it.is_file()}


@pytest.mark.parametrize(
    ("number", "what", "time", "scans_again", "images_again"),
    [
        (7, "load_points", 1, 24, 12),
        (7, "load_points", 2, 8, 12),
        (9, "load_semantics", 3, 0, 12),
        (6, "load_image", 1, 0, 6),
    ],
    ids=["in the poses", "in the map", "in the landmarks", "in the images"],
)
def test_killed_and_called_again_it_goes_on_and_writes_the_same_bytes(
    raw_drive, tmp_path, monkeypatch, number, what, time, scans_again, images_again
):
    monkeypatch.setattr("robustmat.dataset.unfinished.FRAMES_A_PART", 4)
    limits = LandmarkConfig(map=MapConfig(scans_a_part=4))
    converted = replace(raw_drive, image_paths=(None,) * len(raw_drive.frames))  # images have to be written
    whole = prepare(converted, tmp_path / "one" / "data", config=limits)
    with pytest.raises(PowerCut):
        prepare(breaking_at(converted, number, what, time), tmp_path / "two" / "data", config=limits)
    assert not (tmp_path / "two" / "data").exists()
    reads = []

    def counted(what, load):
        reads.append(what)
        return load()

    def counting(frame):
        return replace(
            frame,
            load_points=partial(counted, "points", frame.load_points),
            load_image=partial(counted, "image", frame.load_image),
        )

    resumed = prepare(
        replace(converted, frames=tuple(map(counting, converted.frames))), tmp_path / "two" / "data", config=limits
    )
    assert every_byte(resumed) == every_byte(whole)
    # 12 scans in parts of 4: the part that was being built is built again, and those before it are not.
    assert reads.count("points") == scans_again
    assert reads.count("image") == images_again
    assert [it.name for it in (tmp_path / "two").iterdir()] == ["data"]


def test_bytes_do_not_depend_on_how_the_work_is_divided(raw_drive, tmp_path, monkeypatch):
    def lines(parts):
        monkeypatch.setattr("robustmat.dataset.unfinished.FRAMES_A_PART", parts)
        return (prepare(raw_drive, tmp_path / "data") / "frames.jsonl").read_bytes()

    assert lines(1) == lines(5) == lines(100)


def test_unfinished_work_on_other_poses_is_not_used(raw_drive, raw_dataset, tmp_path):
    shifted = tuple(
        replace(it, T_world_camera=it.T_world_camera + np.array([[0, 0, 0, 5.0], *np.zeros((3, 4))]))
        for it in raw_drive.frames
    )
    with pytest.raises(PowerCut):
        prepare(breaking_at(replace(raw_drive, frames=shifted), 11, "load_semantics", 3), tmp_path / "data")
    resumed = open_dataset(prepare(raw_drive, tmp_path / "data"))
    assert [frame.landmarks for frame in resumed.frames] == [frame.landmarks for frame in raw_dataset.frames]


def test_drawn_boxes_win_over_masks_and_get_identities(raw_drive, raw_dataset, tmp_path):
    drawn = tuple(
        tuple(replace(it, identity=None, position=None) for it in frame.landmarks if it.category != "window")[:-1]
        for frame in raw_dataset.frames
    )
    frames = tuple(replace(it, load_boxes=lambda n=n: drawn[n]) for n, it in enumerate(raw_drive.frames))
    dataset = open_dataset(prepare(replace(raw_drive, frames=frames), tmp_path / "drawn"))
    for frame, boxes in zip(dataset.frames, drawn, strict=True):
        assert [(it.box, it.category) for it in frame.landmarks] == [(it.box, it.category) for it in boxes]
    known = [it.identity for frame in dataset.frames for it in frame.landmarks]
    assert np.mean([it is not None for it in known]) > 0.7


def test_boxes_without_camera_or_scan_become_landmarks_without_identities(raw_drive, tmp_path):
    drawn = (Landmark((3.5, 4.0, 20.0, 30.25), "traffic_sign"),)
    bare = tuple(Frame(it.name, it.load_image, load_boxes=lambda: drawn) for it in raw_drive.frames)
    dataset = open_dataset(prepare(replace(raw_drive, frames=bare), tmp_path / "bare"))
    assert all(frame.landmarks == drawn for frame in dataset.frames)


def test_limits_other_than_the_usual_are_written_down(raw_drive, raw_dataset, tmp_path):
    limits = LandmarkConfig.model_validate({"regions": {"smallest_pole": (3, 60, 40)}})
    dataset = open_dataset(prepare(raw_drive, tmp_path / "tall", config=limits))
    poles = [
        sum(it.category == "pole" for frame in each.frames for it in frame.landmarks) for each in (dataset, raw_dataset)
    ]
    assert poles[0] < poles[1]
    assert json.loads((dataset.path / "dataset.json").read_text())["source"]["limits"] == {
        "regions": {"smallest_pole": [3, 60, 40]}
    }
    assert "limits" not in json.loads((raw_dataset.path / "dataset.json").read_text())["source"]


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


def test_sheets_number_as_many_pairs_as_asked_for(raw_dataset, tmp_path, monkeypatch):
    drawn = []

    def watched(*arguments):
        drawn.append(arguments)
        return draw_pair(*arguments)

    monkeypatch.setattr("robustmat.dataset.inspect.draw_pair", watched)
    sheets = draw_sheets(raw_dataset, tmp_path, pairs=42)
    assert [it.name for it in sheets] == ["frames.png", "pairs-1.png", "pairs-2.png"]
    assert [it[4] for it in drawn] == list(range(1, 43))
    for frame_a, a, frame_b, b, _ in drawn:
        assert frame_a.landmarks[a].identity == frame_b.landmarks[b].identity
        assert frame_a.landmarks[a].identity is not None
    first, again, other = ([it[:4] for it in draw_again(raw_dataset, tmp_path, drawn, seed)] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def draw_again(dataset, folder, drawn, seed):
    drawn.clear()
    draw_sheets(dataset, folder, seed=seed, pairs=4)
    return list(drawn)


def test_kept_lidar_points_lie_where_the_frame_sees_the_map(raw_dataset, raw_scene):
    shown = [frame for frame in raw_dataset.frames if read_points(raw_dataset.path, frame.name) is not None]
    assert [frame.name for frame in shown] == [raw_dataset.frames[i].name for i in sheet_frames(FRAMES)]
    for frame in shown:
        points = read_points(raw_dataset.path, frame.name)
        assert len(points) > 500
        assert (points >= 0).all()
        assert (points[:, :2] <= (frame.camera.width, frame.camera.height)).all()
        # Depths are those of the landmarks they fall on, for most of them.
        for it in frame.landmarks:
            inside = (points[:, :2] >= it.box[:2]).all(1) & (points[:, :2] < it.box[2:]).all(1)
            if it.identity is not None and it.category == "traffic_sign" and inside.sum() > 5:
                depth = transform(invert(frame.T_world_camera), np.array([it.position]))[0, 2]
                assert np.median(points[inside, 2]) == pytest.approx(depth, abs=0.5)


def test_points_kept_by_nobody_are_none_and_broken_ones_are_told(tmp_path):
    assert read_points(tmp_path, "a") is None
    (tmp_path / "lidar").mkdir()
    (tmp_path / "lidar" / "a.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.npy"):
        read_points(tmp_path, "a")


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
