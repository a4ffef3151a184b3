"""Boreas: the reader against the development kit's formulas and against lines of a real pose file."""

import shutil

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from layouts_for_tests import short_drive
from robustmat.errors import DataError, InputError
from robustmat.geometry.transforms import is_rigid
from robustmat.simulation import write_boreas
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.simulation.write_boreas import FIRST_TIME, SCAN_DELAY
from robustmat.sources import open_boreas
from robustmat.sources.boreas import POSE_COLUMNS, boreas_pose, boreas_velocity

NAMES = [FIRST_TIME + 100_000 * i for i in range(3)]
SCANS = [time + SCAN_DELAY for time in NAMES]

# Two lines of applanix/lidar_poses.csv and one of camera_poses.csv of boreas-2021-09-02-11-42 (CC BY 4.0), early in
# the drive: the car begins to move and turns to the right.
LIDAR_LINES = (
    "1630597336865967,623423.330832276,4848820.549788442,153.78200066473798,0.793011909896323,0.062282034352947616,"
    "0.01989750524720658,-0.017447695032519098,-0.032670907959958924,0.6114311096202593,-0.09954860103806867,"
    "0.007167923313992334,0.01447074082083071",
    "1630597336969849,623423.4176512971,4848820.557450683,153.78387555117624,0.8795606969094355,0.09184981942227474,"
    "0.017980437364230772,-0.01943600114874835,-0.033717259386472964,0.6221509628751205,-0.10234313265521099,"
    "0.020646693584916987,0.0038603710834890746",
)
CAMERA_LINE = (
    "1630597336927721,623423.9960784467,4848820.661481018,153.52352833113878,0.8430962679446712,0.08408283095708821,"
    "0.018296636935513134,1.8034241877766366,-1.3647277512080687,-0.2534326113670768,0.02211332130954749,"
    "0.10378154316247004,-0.009303862219951695"
)


def parsed(line):
    return np.array([float(value) for value in line.split(",")])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_boreas(short_drive(), tmp_path_factory.mktemp("boreas"))


@pytest.fixture
def drive(written, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(written, tmp_path / "boreas-2020-11-26-13-58")


def kit_rotation(r, p, y):
    """The kit's roll(r) pitch(p) yaw(y), whose factors turn coordinates instead of vectors."""
    roll = np.array([[1, 0, 0], [0, np.cos(r), np.sin(r)], [0, -np.sin(r), np.cos(r)]])
    pitch = np.array([[np.cos(p), 0, -np.sin(p)], [0, 1, 0], [np.sin(p), 0, np.cos(p)]])
    yaw = np.array([[np.cos(y), np.sin(y), 0], [-np.sin(y), np.cos(y), 0], [0, 0, 1]])
    return roll @ pitch @ yaw


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=13, max_size=13))
def test_poses_are_the_kits(values):
    reading = np.array(values)
    T = boreas_pose(reading)
    np.testing.assert_allclose(T[:3, :3], kit_rotation(*reading[7:10]), atol=1e-12)
    np.testing.assert_array_equal(T[:3, 3], reading[1:4])
    assert is_rigid(T)
    velocity, rate = boreas_velocity(reading)
    np.testing.assert_allclose(velocity, kit_rotation(*reading[7:10]).T @ reading[4:7], atol=1e-12)
    np.testing.assert_array_equal(rate, reading[[12, 11, 10]])


def test_real_sensors_stand_upright():
    """A convention the wrong way round would lay the car on its side: LiDAR's z is up, the camera's y down."""
    lidar, camera = boreas_pose(parsed(LIDAR_LINES[0])), boreas_pose(parsed(CAMERA_LINE))
    assert lidar[2, 2] > 0.99
    assert camera[2, 1] < -0.99
    ahead = parsed(CAMERA_LINE)[4:6] / np.linalg.norm(parsed(CAMERA_LINE)[4:6])
    assert camera[:2, 2] @ ahead > 0.9  # it looks to where it drives


def test_real_velocities_lead_from_one_pose_to_the_next():
    """The twist that undoes the motion within a scan must be the motion: its sign and its axes."""
    first, second = (parsed(line) for line in LIDAR_LINES)
    velocity, rate = boreas_velocity(first)
    twist = np.zeros((4, 4))
    twist[:3, :3] = np.cross(np.eye(3), rate)
    twist[:3, 3] = velocity
    seconds = (second[0] - first[0]) / 1e6
    step = np.linalg.inv(boreas_pose(first)) @ boreas_pose(second)
    predicted = expm(seconds * twist)
    np.testing.assert_allclose(predicted[:3, 3], step[:3, 3], atol=0.006)  # of 0.087 m: it gains speed
    np.testing.assert_allclose(predicted[:3, :3], step[:3, :3], atol=0.0025)
    backwards = expm(-seconds * twist)
    assert np.abs(backwards[:3, :3] - step[:3, :3]).max() > 0.015


def test_points_of_a_moving_sensor_are_carried_to_the_scans_moment(drive):
    """Points seen at other times than the file's: as the kit, exp(t twist) point."""
    path = drive / f"lidar/{SCANS[1]}.bin"
    points = np.fromfile(path, "<f4").reshape(-1, 6)
    points[:, 5] = np.linspace(-0.05, 0.05, len(points))
    points.tofile(path)
    poses = drive / "applanix/lidar_poses.csv"
    lines = poses.read_text().splitlines()
    reading = parsed(lines[2])
    reading[4:7], reading[10:13] = (8.0, -3.0, 0.2), (0.3, -0.05, 0.02)
    lines[2] = f"{SCANS[1]}," + ",".join(repr(float(value)) for value in reading[1:])
    poses.write_text("\n".join(lines) + "\n")
    found = open_boreas(drive).frames[1].points_lidar
    twist = np.zeros((4, 4))
    twist[:3, :3] = np.cross(np.eye(3), reading[[12, 11, 10]])
    twist[:3, 3] = kit_rotation(*reading[7:10]).T @ reading[4:7]
    for i in range(0, len(points), 997):
        expected = expm(float(points[i, 5]) * twist) @ [*points[i, :3].astype(float), 1]
        np.testing.assert_allclose(found[i, :3], expected[:3], atol=1e-4)
        assert found[i, 3] == points[i, 3]
    assert np.abs(found[0, :3] - points[0, :3]).max() > 0.2


def test_image_and_scan_of_other_moments_are_tied_by_their_own_poses(drive):
    """The LiDAR's pose, not the calibration alone: a metre driven between image and scan is in T_camera_lidar."""
    poses = drive / "applanix/lidar_poses.csv"
    lines = poses.read_text().splitlines()
    reading = parsed(lines[1])
    lines[1] = f"{SCANS[0]},{float(reading[1]) + 1.0!r}," + lines[1].split(",", 2)[2]
    poses.write_text("\n".join(lines) + "\n")
    frame = open_boreas(drive).frames[0]
    T_world_lidar = frame.T_world_camera @ frame.T_camera_lidar
    expected = frame.T_world_camera @ T_CAMERA_LIDAR
    np.testing.assert_allclose((T_world_lidar - expected)[:3, 3], (1.0, 0, 0), atol=1e-9)


def test_a_test_sequence_without_poses_opens_with_its_calibration(drive):
    shutil.rmtree(drive / "applanix")
    frame = open_boreas(drive).frames[0]
    assert frame.T_world_camera is None
    np.testing.assert_allclose(frame.T_camera_lidar, T_CAMERA_LIDAR, atol=1e-9)
    assert frame.points_lidar is not None
    (drive / "calib/T_camera_lidar.txt").unlink()
    with pytest.raises(DataError, match=r"not found.*T_camera_lidar\.txt"):
        open_boreas(drive)


def test_all_sequences_share_a_world_unless_they_count_in_utm(drive):
    assert open_boreas(drive).world == "boreas"
    for name in ("camera", "lidar"):
        path = drive / f"applanix/{name}_poses.csv"
        lines = [line.split(",") for line in path.read_text().splitlines()]
        moved = [[line[0], repr(float(line[1]) + 623_423.0), *line[2:]] for line in lines[1:]]
        path.write_text("\n".join(",".join(line) for line in [lines[0], *moved]) + "\n")
    assert open_boreas(drive).world == "boreas-utm"


def test_only_the_asked_stretch_is_opened(drive):
    assert [it.name for it in open_boreas(drive, first=NAMES[1], last=NAMES[1]).frames] == [str(NAMES[1])]


def test_a_missing_scan_is_no_error_and_the_nearest_one_serves(drive):
    (drive / f"lidar/{SCANS[0]}.bin").unlink()
    first, second, _ = open_boreas(drive).frames
    assert first.load_points is None  # the next is more than a turn away
    assert second.points_lidar is not None


def read_everything(drive):
    return [(it.image, it.points_lidar, it.semantics) for it in open_boreas(drive).frames]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def drop_line(path, number):
    lines = path.read_text().splitlines()
    del lines[number]
    path.write_text("\n".join(lines) + "\n")


BREAKAGES = {
    "truncated scan": (
        lambda d: cut(d / f"lidar/{SCANS[1]}.bin", -4),
        [f"lidar/{SCANS[1]}.bin", "truncated", "multiple of 24"],
    ),
    "empty image": (lambda d: cut(d / f"camera/{NAMES[1]}.png", 0), [f"camera/{NAMES[1]}.png", "empty"]),
    "empty first image": (lambda d: cut(d / f"camera/{NAMES[0]}.png", 0), [f"camera/{NAMES[0]}.png", "empty"]),
    "label map of another size": (
        lambda d: PIL.Image.new("L", (9, 9)).save(d / f"semantics/camera/{NAMES[2]}.png"),
        [f"semantics/camera/{NAMES[2]}.png", "9x9"],
    ),
    "pose is NaN": (
        lambda d: change(d / "applanix/camera_poses.csv", f"{NAMES[1]},", f"{NAMES[1]},nan,"),
        ["applanix/camera_poses.csv", "line 3", "'easting' is not finite"],
    ),
    "fewer poses than images": (
        lambda d: drop_line(d / "applanix/camera_poses.csv", 2),
        ["applanix/camera_poses.csv", str(NAMES[1]), "2 lines"],
    ),
    "fewer poses than scans": (
        lambda d: drop_line(d / "applanix/lidar_poses.csv", 3),
        ["applanix/lidar_poses.csv", str(SCANS[2])],
    ),
    "scans without poses": (
        lambda d: (d / "applanix/lidar_poses.csv").unlink(),
        ["applanix/lidar_poses.csv", "not found"],
    ),
    "pose column missing": (
        lambda d: change(d / "applanix/lidar_poses.csv", "heading", "yaw"),
        ["applanix/lidar_poses.csv", "'heading'"],
    ),
    "pose is text": (
        lambda d: change(d / "applanix/camera_poses.csv", f"{NAMES[2]},", f"{NAMES[2]},east,"),
        ["applanix/camera_poses.csv", "line 4"],
    ),
    "projection too short": (
        lambda d: (d / "calib/P_camera.txt").write_text("700 0 600\n0 700 170\n0 0 1\n"),
        ["calib/P_camera.txt", "12 or 16 numbers, found 9"],
    ),
    "projection missing": (lambda d: (d / "calib/P_camera.txt").unlink(), ["calib/P_camera.txt", "not found"]),
    "projection singular": (
        lambda d: (d / "calib/P_camera.txt").write_text("0 " * 16),
        ["calib/P_camera.txt", "projection"],
    ),
    "no images": (lambda d: shutil.rmtree(d / "camera"), ["boreas-2020-11-26-13-58/camera", "expected the folder"]),
    "scans of another drive": (
        lambda d: [path.rename(path.with_stem(f"2{path.stem[1:]}")) for path in (d / "lidar").iterdir()],
        ["lidar", "same drive"],
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_sequence_is_told_by_file_and_reason(drive, name):
    breakage, words = BREAKAGES[name]
    breakage(drive)
    with pytest.raises((DataError, InputError)) as caught:
        read_everything(drive)
    for word in words:
        assert word in str(caught.value)


def test_the_folder_of_all_sequences_names_them(drive):
    with pytest.raises(DataError, match="boreas-2020-11-26-13-58"):
        open_boreas(drive.parent)


def test_columns_are_those_of_the_data_set():
    assert len(POSE_COLUMNS) == 13
    assert POSE_COLUMNS[7:10] == ("roll", "pitch", "heading")
