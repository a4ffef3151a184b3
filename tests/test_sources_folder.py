"""One's own frames: whatever stands beside the images, and what is said when it does not fit."""

import json
import shutil

import numpy as np
import PIL.Image
import pytest
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from layouts_for_tests import short_drive
from robustmat.cli.prepare import app
from robustmat.dataset.store import open_dataset
from robustmat.errors import DataError, InputError
from robustmat.simulation import write_folder
from robustmat.sources import open_folder
from robustmat.types import Landmark

WIDTH, HEIGHT = 60, 40


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_folder(short_drive(), tmp_path_factory.mktemp("folder") / "mine")


@pytest.fixture
def drive(written, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(written, tmp_path / "mine")


@pytest.fixture
def plain(tmp_path):
    """Three images and nothing else."""
    return plain_folder(tmp_path / "plain", ["b", "a", "c"])


def plain_folder(root, names, suffix=".png"):
    (root / "images").mkdir(parents=True)
    for name in names:
        PIL.Image.new("RGB", (WIDTH, HEIGHT)).save(root / f"images/{name}{suffix}")
    return root


def random_poses(count, seed=0):
    rng = np.random.default_rng(seed)
    poses = np.repeat(np.eye(4)[None], count, axis=0)
    poses[:, :3, :3] = Rotation.random(count, random_state=rng).as_matrix()
    poses[:, :3, 3] = rng.normal(0, 10, (count, 3))
    return poses


def tum(times, poses):
    rows = [
        [time, *pose[:3, 3], *Rotation.from_matrix(pose[:3, :3]).as_quat()]
        for time, pose in zip(times, poses, strict=True)
    ]
    return "# time x y z qx qy qz qw\n" + "".join(" ".join(repr(float(v)) for v in row) + "\n" for row in rows)


def kitti(poses):
    return "".join(" ".join(repr(float(value)) for value in pose[:3].ravel()) + "\n" for pose in poses)


def poses_of(folder):
    return np.stack([frame.T_world_camera for frame in open_folder(folder).frames])


def test_images_alone_make_frames_in_the_order_of_their_names(plain):
    drive = open_folder(plain)
    assert [frame.name for frame in drive.frames] == ["a", "b", "c"]
    frame = drive.frames[0]
    assert frame.image.shape == (HEIGHT, WIDTH, 3)
    assert (frame.camera, frame.T_world_camera, frame.load_points, frame.load_semantics, frame.load_boxes) == (
        None,
    ) * 5
    assert (drive.name, drive.world) == ("plain", "plain")


@pytest.mark.parametrize("form", [tum, lambda _, poses: kitti(poses)])
def test_as_many_poses_as_images_belong_in_order(plain, form):
    poses = random_poses(3)
    (plain / "poses.txt").write_text(form([5.0, 6.0, 7.5], poses))
    np.testing.assert_allclose(poses_of(plain), poses, atol=1e-12)


def test_tum_times_become_the_images_times(plain):
    (plain / "poses.txt").write_text(tum([5.0, 6.0, 7.5], random_poses(3)))
    assert [frame.time for frame in open_folder(plain).frames] == [5.0, 6.0, 7.5]


def test_kitti_poses_of_a_longer_drive_go_by_frame_number(tmp_path):
    folder = plain_folder(tmp_path / "numbers", ["000007", "000002"], ".jpg")
    poses = random_poses(9)
    (folder / "poses.txt").write_text(kitti(poses))
    np.testing.assert_allclose(poses_of(folder), poses[[2, 7]], atol=1e-12)


@pytest.mark.parametrize(
    "names",
    [
        ["1305031102.175304", "1305031102.275326"],
        ["1305031102175304", "1305031102275326"],
        ["1305031102175304000", "1305031102275326000"],
    ],
    ids=["seconds", "microseconds", "nanoseconds"],
)
def test_images_named_by_time_are_placed_between_the_poses_around_them(tmp_path, names):
    folder = plain_folder(tmp_path / "times", names)
    times = [1305031102.0, 1305031102.2, 1305031102.4]
    poses = random_poses(3)
    (folder / "poses.txt").write_text(tum(times, poses))
    found = poses_of(folder)
    for time, pose in zip([1305031102.175304, 1305031102.275326], found, strict=True):
        expected = [np.interp(time, times, poses[:, axis, 3]) for axis in range(3)]
        np.testing.assert_allclose(pose[:3, 3], expected, atol=1e-4)


def test_a_times_file_places_images_of_any_name(plain):
    poses = np.repeat(np.eye(4)[None], 2, axis=0)
    poses[1, 0, 3] = 10.0
    (plain / "poses.txt").write_text(tum([0.0, 1.0], poses))
    (plain / "times.txt").write_text("0.1\n0.25\n1.0\n")
    np.testing.assert_allclose(poses_of(plain)[:, 0, 3], [1.0, 2.5, 10.0], atol=1e-9)
    assert [frame.time for frame in open_folder(plain).frames] == [0.1, 0.25, 1.0]


@pytest.mark.parametrize("text", ["200 210 30 20", "200 0 30\n0 210 20\n0 0 1\n"])
def test_intrinsics_may_be_plain_text(plain, text):
    (plain / "intrinsics.txt").write_text(text)
    camera = open_folder(plain).frames[0].camera
    np.testing.assert_array_equal(camera.matrix, [[200, 0, 30], [0, 210, 20], [0, 0, 1]])
    assert (camera.width, camera.height) == (WIDTH, HEIGHT)


def test_box_files_and_coco_say_the_same(plain):
    (plain / "boxes").mkdir()
    mine = {"landmarks": [{"box": [1, 2, 11.5, 30], "category": "pole"}]}
    (plain / "boxes/a.json").write_text(json.dumps(mine))
    (plain / "boxes/b.json").write_text(json.dumps({"landmarks": []}))
    by_image = {frame.name: frame.load_boxes for frame in open_folder(plain).frames}
    expected = (Landmark((1.0, 2.0, 11.5, 30.0), "pole"),)
    assert by_image["a"]() == expected
    assert by_image["b"]() == ()
    assert by_image["c"] is None

    shutil.rmtree(plain / "boxes")
    coco = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
        "categories": [{"id": 1, "name": "Pole"}],
        "annotations": [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 10.5, 28]}],
    }
    (plain / "boxes.json").write_text(json.dumps(coco))
    again = {frame.name: frame.load_boxes for frame in open_folder(plain).frames}
    assert {name: load() for name, load in again.items() if load} == {"a": expected, "b": ()}
    assert again["c"] is None


def test_boxes_become_landmarks_without_identities_where_nothing_tells_depth(plain, tmp_path):
    (plain / "boxes").mkdir()
    boxes = {"landmarks": [{"box": [1, 2, 11.5, 30], "category": "pole"}]}
    for name in "abc":
        (plain / f"boxes/{name}.json").write_text(json.dumps(boxes))
    result = CliRunner().invoke(app, ["folder", str(plain), "--out", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    data = open_dataset(tmp_path / "data")
    assert not data.has_identities
    assert [frame.landmarks for frame in data.frames] == [(Landmark((1.0, 2.0, 11.5, 30.0), "pole"),)] * 3


def test_boxes_with_lidar_and_poses_become_identities(tmp_path):
    """The simulator's own boxes; what is near and uncovered keeps one identity over the frames."""
    folder = write_folder(short_drive(), tmp_path / "boxes", boxes=True)
    assert not (folder / "masks").exists()
    result = CliRunner().invoke(app, ["folder", str(folder), "--out", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    data = open_dataset(tmp_path / "data")
    assert data.has_identities
    names: dict[int, set[int]] = {}
    for i, frame in enumerate(data.frames):
        truth = {seen.box: seen for seen in short_drive().truth(i)}
        assert {it.box for it in frame.landmarks} == set(truth)
        for it in frame.landmarks:
            if it.identity is not None:
                names.setdefault(it.identity, set()).add(truth[it.box].identity)
    assert len(names) >= 5
    assert np.mean([len(true) == 1 for true in names.values()]) >= 0.8


def read_everything(folder):
    return [
        (it.image, it.points_lidar, it.semantics, it.load_boxes() if it.load_boxes else None)
        for it in open_folder(folder).frames
    ]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def camera_with(folder, **changes):
    path = folder / "camera.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def lines(path, kept):
    path.write_text("\n".join(kept(path.read_text().splitlines())) + "\n")


def add_boxes(folder, content):
    (folder / "boxes").mkdir()
    (folder / "boxes/000001.json").write_text(content)


BREAKAGES = {
    "truncated scan": (lambda d: cut(d / "lidar/000001.bin", -3), ["lidar/000001.bin", "truncated", "16"]),
    "empty image": (lambda d: cut(d / "images/000001.png", 0), ["images/000001.png", "empty"]),
    "image of another size": (
        lambda d: PIL.Image.new("RGB", (9, 9)).save(d / "images/000001.png"),
        ["images/000001.png", "9x9"],
    ),
    "no images": (lambda d: shutil.rmtree(d / "images"), ["images", "expected the folder"]),
    "no image files": (lambda d: [path.unlink() for path in (d / "images").iterdir()], ["images", ".png or .jpg"]),
    "two images of one name": (
        lambda d: PIL.Image.new("RGB", (9, 9)).save(d / "images/000001.jpg"),
        ["000001.jpg", "twice"],
    ),
    "mask of another size": (
        lambda d: PIL.Image.new("L", (9, 9)).save(d / "masks/000002.png"),
        ["masks/000002.png", "9x9"],
    ),
    "masks of other names": (
        lambda d: [path.rename(path.with_stem(f"x{path.stem}")) for path in (d / "masks").iterdir()],
        ["masks", "expected 000000.png", "x000000.png"],
    ),
    "pose is NaN": (
        lambda d: (d / "poses.txt").write_text("0 0 0 0 0 0 0 1\n1 nan 0 0 0 0 0 1\n2 0 0 0 0 0 0 1\n"),
        ["poses.txt", "pose 2", "not finite"],
    ),
    "no rotation": (
        lambda d: (d / "poses.txt").write_text("0 0 0 0 0 0 0 0\n" * 3),
        ["poses.txt", "pose 1"],
    ),
    "kitti pose is no rotation": (
        lambda d: (d / "poses.txt").write_text("1 0 0 0 0 2 0 0 0 0 1 0\n" * 3),
        ["poses.txt", "pose 1", "rigid"],
    ),
    "fewer poses than images": (
        lambda d: lines(d / "poses.txt", lambda text: text[:-1]),
        ["poses.txt", "2 poses for 3 images", "times.txt"],
    ),
    "poses of seven numbers": (
        lambda d: (d / "poses.txt").write_text("1 2 3 4 5 6 7\n"),
        ["poses.txt", "line 1", "8 or 12 numbers"],
    ),
    "mixed poses": (
        lambda d: (d / "poses.txt").write_text("0 0 0 0 0 0 0 1\n1 0 0 0 0 1 0 0 0 0 1 0\n"),
        ["poses.txt", "line 2", "8 numbers"],
    ),
    "poses do not cover an image": (
        lambda d: (d / "times.txt").write_text("0.0\n0.1\n0.3\n"),
        ["poses.txt", "000002.png", "0.300000"],
    ),
    "fewer times than images": (lambda d: (d / "times.txt").write_text("0.0\n"), ["times.txt", "1 times for 3 images"]),
    "camera key missing": (lambda d: camera_with(d, fx=None), ["camera.json", "'fx'", "required"]),
    "camera key unknown": (
        lambda d: camera_with(d, distortion=[0.1, 0.2]),
        ["camera.json", "'distortion'", "undistorted"],
    ),
    "camera of another size": (lambda d: camera_with(d, width=640), ["camera.json", "640", "000000.png"]),
    "camera not JSON": (lambda d: (d / "camera.json").write_text("{fx: 3}"), ["camera.json", "JSON"]),
    "LiDAR without its place": (lambda d: camera_with(d, T_camera_lidar=None), ["lidar", "T_camera_lidar.txt"]),
    "LiDAR without camera": (lambda d: (d / "camera.json").unlink(), ["lidar", "camera.json or intrinsics.txt"]),
    "LiDAR's place is no rotation": (
        lambda d: camera_with(d, T_camera_lidar=np.diag([1, 2, 1, 1]).tolist()),
        ["camera.json", "rigid"],
    ),
    "intrinsics of five numbers": (
        lambda d: ((d / "camera.json").unlink(), (d / "intrinsics.txt").write_text("1 2 3 4 5")),
        ["intrinsics.txt", "4 or 9 numbers, found 5"],
    ),
    "box outside the image": (
        lambda d: add_boxes(d, '{"landmarks": [{"box": [-9, 0, -2, 5], "category": "pole"}]}'),
        ["boxes/000001.json", "outside"],
    ),
    "box of an unknown kind": (
        lambda d: add_boxes(d, '{"landmarks": [{"box": [1, 0, 2, 5], "category": "poll"}]}'),
        ["boxes/000001.json", "did you mean 'pole'"],
    ),
    "COCO of other images": (
        lambda d: (d / "boxes.json").write_text('{"images": [], "annotations": [], "categories": []}'),
        ["boxes.json", "none of the images"],
    ),
    "COCO without images": (
        lambda d: (d / "boxes.json").write_text('{"annotations": []}'),
        ["boxes.json", "images"],
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_folder_is_told_by_file_and_reason(drive, name):
    breakage, words = BREAKAGES[name]
    breakage(drive)
    with pytest.raises((DataError, InputError)) as caught:
        read_everything(drive)
    for word in words:
        assert word in str(caught.value)


def test_a_semantics_folder_of_ones_own_is_taken(drive, tmp_path):
    shutil.move(drive / "masks", tmp_path / "elsewhere")
    assert open_folder(drive).frames[0].load_semantics is None
    assert open_folder(drive, semantics=tmp_path / "elsewhere").frames[0].semantics is not None
    with pytest.raises(DataError, match="masks not found"):
        open_folder(drive, semantics=tmp_path / "nowhere")
