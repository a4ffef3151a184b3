"""SemanticKITTI's point labels beside a KITTI odometry sequence."""

import shutil

import numpy as np
import pytest

from layouts_for_tests import short_drive
from robustmat.errors import DataError
from robustmat.simulation import write_kitti_odometry
from robustmat.sources import open_kitti_odometry

FRAMES = 3


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("kitti")
    write_kitti_odometry(short_drive(), root)
    rng = np.random.default_rng(0)
    (root / "sequences/00/labels").mkdir()
    for scan in (root / "sequences/00/velodyne").iterdir():
        count = scan.stat().st_size // 16
        spoken = rng.choice([0, 10, 50, 80, 81, 99, 252], count).astype("<u4")
        (spoken | (rng.integers(0, 1 << 16, count).astype("<u4") << 16)).tofile(
            root / f"sequences/00/labels/{scan.stem}.label"
        )
    return root


@pytest.fixture
def root(written, tmp_path):
    return shutil.copytree(written, tmp_path / "kitti")


def words_of(root, name):
    """The lower halves of a label file, byte by byte."""
    raw = np.frombuffer((root / f"sequences/00/labels/{name}.label").read_bytes(), np.uint8).reshape(-1, 4).astype(int)
    return raw[:, 0] + 256 * raw[:, 1]


def test_labels_speak_cityscapes_and_forget_the_instance(root):
    meant = {0: 255, 10: 13, 50: 2, 80: 5, 81: 7, 99: 255, 252: 13}  # unlabelled, car, building, pole, sign, other, car
    for frame in open_kitti_odometry(root, "00").frames:
        labels = frame.load_point_labels()
        assert len(labels) == len(frame.points_lidar)
        np.testing.assert_array_equal(labels, [meant[word] for word in words_of(root, frame.name)])


def test_labels_stay_with_their_points_where_some_are_lost(root):
    path = root / "sequences/00/velodyne/000001.bin"
    points = np.fromfile(path, "<f4").reshape(-1, 4)
    points[::3, 1] = np.nan
    points.tofile(path)
    frame = open_kitti_odometry(root, "00").frames[1]
    whole = open_kitti_odometry(root, "00").frames[1].load_point_labels()
    kept = np.flatnonzero(np.arange(len(points)) % 3)
    np.testing.assert_array_equal(frame.points_lidar, points[kept])
    assert len(whole) == len(kept)
    meant = {80: 5, 81: 7}
    spoken = words_of(root, "000001")[kept]
    for word, label in meant.items():
        assert (whole[spoken == word] == label).all()


def test_a_scan_without_labels_is_no_error(root):
    (root / "sequences/00/labels/000001.label").unlink()
    frames = open_kitti_odometry(root, "00").frames
    assert [frame.load_point_labels is not None for frame in frames] == [True, False, True]


def test_labels_without_scans_are_left_alone(root):
    shutil.rmtree(root / "sequences/00/velodyne")
    assert open_kitti_odometry(root, "00").frames[0].load_point_labels is None


def test_labels_that_do_not_fit_their_scan_are_told(root):
    path = root / "sequences/00/labels/000002.label"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"000002\.label.*000002\.bin.*one uint32 each"):
        open_kitti_odometry(root, "00").frames[2].load_point_labels()
