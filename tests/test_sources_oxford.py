"""Oxford RobotCar: the reader against the development kit's formulas, written out here in plain numpy."""

import re
import shutil

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from typer.testing import CliRunner

from layouts_for_tests import short_drive
from robustmat.cli.prepare import app
from robustmat.dataset.store import open_dataset
from robustmat.errors import DataError, InputError
from robustmat.geometry.poses import Trajectory
from robustmat.geometry.undistortion import undistort
from robustmat.simulation import write_oxford
from robustmat.simulation.write_oxford import FIRST_TIME, ORIGIN
from robustmat.simulation.write_oxford_sensors import mosaic
from robustmat.sources import open_oxford
from robustmat.sources.oxford import _placing
from robustmat.sources.oxford_calibration import LENSES, read_distortion, xyzrpy
from robustmat.sources.oxford_images import demosaic
from robustmat.sources.oxford_poses import VehiclePoses
from robustmat.sources.oxford_velodyne import read_velodyne_bin, read_velodyne_raw, velodyne_loader

seeds = st.integers(0, 2**32 - 1)
NAMES = [FIRST_TIME + 100_000 * i for i in range(3)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_oxford(short_drive(), tmp_path_factory.mktemp("oxford"))


@pytest.fixture(scope="module")
def written_raw(tmp_path_factory):
    return write_oxford(short_drive(), tmp_path_factory.mktemp("oxford-raw"), raw_scans=True)


@pytest.fixture
def drive(written, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(written, tmp_path / "drive")


def about(axis, angle):
    """An elementary rotation, counter-clockwise seen from the axis' tip."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array(
        {
            "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
            "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
            "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        }[axis]
    )


def se3(values):
    """The kit's transform of x y z roll pitch yaw: R_z(yaw) R_y(pitch) R_x(roll), and the translation."""
    x, y, z, roll, pitch, yaw = values
    T = np.eye(4)
    T[:3, :3] = about("z", yaw) @ about("y", pitch) @ about("x", roll)
    T[:3, 3] = x, y, z
    return T


def numbers(path):
    return np.array([float(value) for value in path.read_text().split()])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6))
def test_six_components_are_the_kits_transform(values):
    np.testing.assert_allclose(xyzrpy(np.array(values)), se3(values), atol=1e-12)


def bilinear(raw, pattern):
    """Each colour is the mean of its nearest samples: 2 or 4 of them, or itself."""
    known = np.zeros((*raw.shape, 3), bool)
    for place, colour in enumerate(pattern):
        known[place // 2 :: 2, place % 2 :: 2, "rgb".index(colour)] = True
    picture = np.zeros((*raw.shape, 3))
    for row in range(1, raw.shape[0] - 1):
        for column in range(1, raw.shape[1] - 1):
            for colour in range(3):
                window = np.s_[row - 1 : row + 2, column - 1 : column + 2]
                here, values = known[window][..., colour], raw[window]
                if here[1, 1]:
                    picture[row, column, colour] = values[1, 1]
                else:
                    picture[row, column, colour] = values[here].mean()
    return picture


@pytest.mark.parametrize("pattern", ["gbrg", "rggb"])
def test_demosaicing_is_bilinear_in_the_kits_patterns(pattern):
    raw = np.random.default_rng(0).integers(0, 256, (13, 16), dtype=np.uint8)
    inner = np.s_[1:-1, 1:-1]
    np.testing.assert_allclose(demosaic(raw, pattern)[inner], bilinear(raw, pattern)[inner], atol=1)


@pytest.mark.parametrize("lens", LENSES.values(), ids=lambda lens: lens.folder)
def test_a_colour_survives_its_mosaic(lens):
    image = np.empty((8, 10, 3), np.uint8)
    image[:] = 200, 90, 30
    np.testing.assert_array_equal(demosaic(mosaic(image, lens.bayer), lens.bayer), image)


def test_lenses_are_the_kits():
    """Stereo sensors have green first, single cameras red; the centre lens is the narrow pair's left."""
    assert {lens.folder: (lens.model, lens.bayer) for lens in LENSES.values()} == {
        "stereo/left": ("stereo_wide_left", "gbrg"),
        "stereo/centre": ("stereo_narrow_left", "gbrg"),
        "stereo/right": ("stereo_wide_right", "gbrg"),
        "mono_left": ("mono_left", "rggb"),
        "mono_right": ("mono_right", "rggb"),
        "mono_rear": ("mono_rear", "rggb"),
    }


def test_undistortion_is_the_kits_bilinear_look_up(tmp_path):
    """The table's file: all columns first, then all rows, of the pixels in reading order."""
    rng = np.random.default_rng(1)
    height, width = 20, 30
    image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    rows, columns = np.mgrid[:height, :width] + rng.uniform(-2, 2, (2, height, width))
    np.concatenate([columns.ravel(), rows.ravel()]).astype("<f8").tofile(tmp_path / "mono_rear_distortion_lut.bin")
    table = read_distortion(tmp_path, LENSES["mono_rear"], width, height)
    expected = np.stack([map_coordinates(image[..., c].astype(float), [rows, columns], order=1) for c in range(3)], -1)
    inside = (rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)
    # OpenCV looks up to 1/32 of a pixel.
    assert np.abs(undistort(image, table) - expected)[inside].max() < 255 / 32 * 2


def test_points_project_as_the_kit_projects_them(written):
    """inv(G_camera_image) G_camera_vehicle inv(G_vehicle_ins)^-1 ... , then focal length and principal point."""
    model = numbers(written / "models/stereo_narrow_left.txt")
    G_camera_image = model[4:].reshape(4, 4)
    G_camera_vehicle, G_vehicle_laser, G_vehicle_ins = (
        se3(numbers(written / f"extrinsics/{name}.txt")) for name in ("stereo", "velodyne_left", "ins")
    )
    frame = open_oxford(written, origin=ORIGIN).frames[1]
    points = np.fromfile(written / f"velodyne_left/{NAMES[1]}.bin", "<f4").reshape(4, -1)[:3].astype(float)
    G_ins_laser = np.linalg.solve(G_vehicle_ins, G_vehicle_laser)
    G_camera_ins = G_camera_vehicle @ G_vehicle_ins
    cloud = G_camera_ins @ G_ins_laser @ np.vstack([points, np.ones(points.shape[1])])
    xyz = np.linalg.solve(G_camera_image, cloud)
    u, v = model[0] * xyz[0] / xyz[2] + model[2], model[1] * xyz[1] / xyz[2] + model[3]
    ours = frame.T_camera_lidar @ np.vstack([frame.points_lidar[:, :3].T, np.ones(len(frame.points_lidar))])
    pixels = (frame.camera.matrix @ ours[:3])[:2] / ours[2]
    ahead = xyz[2] > 1
    assert ahead.sum() > 5000
    np.testing.assert_allclose(pixels[:, ahead], np.stack([u, v])[:, ahead], atol=1e-3)


def test_ins_poses_are_the_kits(written):
    """Northing, easting, down and roll, pitch, yaw of the INS, carried to the lens by the extrinsics."""
    lines = [line.split(",") for line in (written / "gps/ins.csv").read_text().splitlines()[1:]]
    by_time = {int(line[0]): [float(value) for value in line[5:8] + line[-3:]] for line in lines}
    G_camera_image = numbers(written / "models/stereo_narrow_left.txt")[4:].reshape(4, 4)
    G_camera_vehicle, G_vehicle_ins = (se3(numbers(written / f"extrinsics/{name}.txt")) for name in ("stereo", "ins"))
    T_image_ins = np.linalg.inv(G_camera_image) @ G_camera_vehicle @ G_vehicle_ins
    own = open_oxford(written)
    for time, frame in zip(NAMES, own.frames, strict=True):
        expected = se3(by_time[time]) @ np.linalg.inv(T_image_ins)
        expected[:3, 3] -= by_time[NAMES[0]][:3]
        np.testing.assert_allclose(frame.T_world_camera, expected, atol=1e-8)
    assert own.world == written.name
    assert own.source["poses"] == "ins"


def test_poses_are_interpolated_at_the_images_times(drive):
    """An image a quarter of the way between two readings: the kit's slerp and straight line, with true division."""
    readings = sorted(int(line.split(",")[0]) for line in (drive / "gps/ins.csv").read_text().splitlines()[1:])
    a, b = readings[1], readings[2]
    time = a + (b - a) // 4
    (drive / f"stereo/centre/{NAMES[1]}.png").rename(drive / f"stereo/centre/{time}.png")
    frame = open_oxford(drive).frames[1]
    shutil.copy(drive / f"stereo/centre/{time}.png", drive / f"stereo/centre/{a}.png")
    shutil.copy(drive / f"stereo/centre/{time}.png", drive / f"stereo/centre/{b}.png")
    around = {it.name: it.T_world_camera for it in open_oxford(drive).frames}
    T_vehicle_ins = se3(numbers(drive / "extrinsics/ins.txt"))
    model = numbers(drive / "models/stereo_narrow_left.txt")[4:].reshape(4, 4)
    T_ins_image = np.linalg.inv(np.linalg.inv(model) @ se3(numbers(drive / "extrinsics/stereo.txt")) @ T_vehicle_ins)
    low, high = (around[str(t)] @ np.linalg.inv(T_ins_image) for t in (a, b))
    ins = frame.T_world_camera @ np.linalg.inv(T_ins_image)
    np.testing.assert_allclose(ins[:3, 3], 0.75 * low[:3, 3] + 0.25 * high[:3, 3], atol=1e-9)
    whole, part = low[:3, :3].T @ high[:3, :3], low[:3, :3].T @ ins[:3, :3]
    angle = [np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) for turn in (whole, part)]
    assert angle[1] == pytest.approx(0.25 * angle[0], abs=1e-7)


def test_an_odometry_step_is_the_later_pose_seen_from_the_earlier(drive):
    """source is the later moment: pose(source) = pose(destination) step, of the radar."""
    T_vehicle_radar = se3(numbers(drive / "extrinsics/radar.txt"))
    model = numbers(drive / "models/stereo_narrow_left.txt")[4:].reshape(4, 4)
    T_radar_image = (
        np.linalg.inv(T_vehicle_radar) @ np.linalg.inv(se3(numbers(drive / "extrinsics/stereo.txt"))) @ model
    )
    head = (
        "source_timestamp,destination_timestamp,x,y,z,roll,pitch,yaw,source_radar_timestamp,destination_radar_timestamp"
    )
    steps = [(2.0, 0.1, 0, 0, 0, 0.05), (1.5, -0.2, 0, 0, 0, -0.1)]
    lines = [",".join(map(str, (NAMES[i + 1], NAMES[i], *step))) for i, step in enumerate(steps)]
    (drive / "gt/radar_odometry.csv").write_text("\n".join([head, *lines]) + "\n")
    frames = open_oxford(drive, poses="radar").frames
    radar = np.eye(4)
    np.testing.assert_allclose(frames[0].T_world_camera, T_radar_image, atol=1e-9)
    for frame, step in zip(frames[1:], steps, strict=True):
        radar = radar @ se3(step)
        np.testing.assert_allclose(frame.T_world_camera, radar @ T_radar_image, atol=1e-9)


def raw_bytes(rng, firings=40, time=NAMES[0]):
    """A raw scan and the values in it."""
    ranges = rng.integers(0, 40_000, (32, firings)).astype("<u2")
    intensities = rng.integers(0, 256, (32, firings)).astype(np.uint8)
    angles = np.sort(rng.integers(0, 36_000, firings)).astype("<u2")
    times = (time + np.arange(firings) * 46).astype("<i8")
    low_high = np.stack([ranges & 0xFF, ranges >> 8], axis=1).reshape(64, firings)  # little end first
    turn = np.stack([angles & 0xFF, angles >> 8])
    clock = np.stack([(times >> (8 * k)) & 0xFF for k in range(8)])
    return np.concatenate([intensities, low_high, turn, clock]).astype(np.uint8), ranges, intensities, angles, times


@settings(max_examples=5, deadline=None)
@given(seeds)
def test_raw_scans_decode_to_the_kits_points(tmp_path_factory, seed):
    """Beams in even steps from 10.67 degrees above to 30.67 below, z counted downwards from the sensor's base."""
    data, ranges, intensities, angles, _ = raw_bytes(np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("raw") / "1.png"
    PIL.Image.fromarray(data).save(path)
    elevation = np.radians(np.linspace(-10.67, 30.67, 32))[:, None]
    reach, angle = 0.002 * ranges, np.radians(0.01 * angles)
    x, y = np.sin(angle) * np.cos(elevation) * reach, -np.cos(angle) * np.cos(elevation) * reach
    z = np.sin(elevation) * reach - 0.090805
    valid = reach > 1
    found = read_velodyne_raw(path)
    error = np.abs(found[:, :3] - np.stack([x, y, z], axis=-1)[valid]).max(axis=1)
    assert (error < 2e-4 * reach[valid]).all()  # the kit rounds its angles to 1e-4
    np.testing.assert_array_equal(found[:, 3], intensities[valid])


def test_firings_of_a_raw_scan_share_its_moment(tmp_path):
    """A car at 20 m/s along x: a firing 1 ms later stands 2 cm further."""
    data, ranges, _, angles, times = raw_bytes(np.random.default_rng(3))
    path = tmp_path / "1.png"
    PIL.Image.fromarray(data).save(path)
    ends = np.array([times[0] - 1000, times[-1] + 1000])
    poses = np.repeat(np.eye(4)[None], 2, axis=0)
    poses[:, 0, 3] = 20 * (ends - times[0]) / 1e6
    T_source_lidar = se3((0.3, -0.2, 0.1, 0.0, 0.0, 0.4))
    way = VehiclePoses(path, Trajectory(ends, poses), np.eye(4))
    T_world_scan = way.at(times[:1])[0] @ T_source_lidar
    moved = velodyne_loader(path, _placing(way, T_source_lidar, T_world_scan))()
    still = velodyne_loader(path, None)()
    firing = np.array([f for beam in range(32) for f in range(len(angles)) if ranges[beam, f] > 500])
    driven = np.outer(20 * (times[firing] - times[0]) / 1e6, T_source_lidar[:3, :3].T @ [1, 0, 0])
    np.testing.assert_allclose(moved[:, :3] - still[:, :3], driven, atol=1e-4)


def test_a_bin_scan_holds_its_coordinates_one_after_the_other(tmp_path):
    points = np.random.default_rng(0).normal(size=(7, 4)).astype("<f4")
    points.T.tofile(tmp_path / "1.bin")
    np.testing.assert_array_equal(read_velodyne_bin(tmp_path / "1.bin"), points)


def test_raw_scans_are_preferred_where_both_are_there(drive, written_raw):
    few = open_oxford(written_raw).frames[0].points_lidar
    for path in (written_raw / "velodyne_left").iterdir():
        shutil.copy(path, drive / "velodyne_left")
    np.testing.assert_array_equal(open_oxford(drive).frames[0].points_lidar, few)


def test_a_drive_without_lidar_or_poses_still_has_images(drive):
    for folder in ("velodyne_left", "gps", "gt"):
        shutil.rmtree(drive / folder)
    frame = open_oxford(drive).frames[0]
    assert frame.load_points is None
    assert frame.T_world_camera is None
    assert frame.image.shape == short_drive().frames[0].image.shape


def test_scans_are_taken_from_the_nearest_moment_with_the_way_in_between(drive):
    """A scan named half a frame later is that far ahead of the image."""
    together = open_oxford(drive).frames
    middle = (NAMES[0] + NAMES[1]) // 2
    for time in NAMES[1:]:
        (drive / f"velodyne_left/{time}.bin").unlink()
    (drive / f"velodyne_left/{NAMES[0]}.bin").rename(drive / f"velodyne_left/{middle}.bin")
    first = open_oxford(drive).frames[0]
    way = 0.5 * (together[1].T_world_camera - together[0].T_world_camera)[:3, 3]
    moved = (first.T_world_camera @ first.T_camera_lidar - together[0].T_world_camera @ together[0].T_camera_lidar)[
        :3, 3
    ]
    np.testing.assert_allclose(moved, way, atol=0.02)  # the lever arm turns, too


def test_rectified_images_are_taken_as_they_are(drive, tmp_path):
    result = CliRunner().invoke(app, ["oxford", str(drive), "--rectify-to", str(tmp_path / "images")])
    assert result.exit_code == 0, result.output
    expected = open_oxford(drive).frames[0].image
    shutil.copy(tmp_path / f"images/{NAMES[0]}.png", drive / "stereo/centre")
    with pytest.raises(InputError, match=r"mode RGB.*--rectified"):
        open_oxford(drive).frames[0].load_image()
    shutil.rmtree(drive / "stereo/centre")
    shutil.copytree(tmp_path / "images", drive / "stereo/centre")
    read = open_oxford(drive, rectified=True)
    np.testing.assert_array_equal(read.frames[0].image, expected)
    assert read.image_paths[0] == drive / f"stereo/centre/{NAMES[0]}.png"


def test_models_and_extrinsics_may_stand_beside_the_drive(drive):
    for name in ("models", "extrinsics"):
        shutil.move(drive / name, drive.parent / name)
    assert len(open_oxford(drive).frames) == 3


def test_only_the_asked_stretch_is_opened(drive):
    assert [it.name for it in open_oxford(drive, first=NAMES[1]).frames] == [str(NAMES[1]), str(NAMES[2])]
    assert [it.name for it in open_oxford(drive, last=NAMES[1] - 1).frames] == [str(NAMES[0])]
    with pytest.raises(DataError, match=f"no frames.*{NAMES[0]} to {NAMES[2]}"):
        open_oxford(drive, first=NAMES[2] + 1)


def test_a_prepared_drive_holds_the_rectified_images(drive, tmp_path):
    origin = [str(value) for value in ORIGIN]  # a negative number is no option
    options = ["--out", str(tmp_path / "data"), "--origin", *origin, "--no-refine-poses"]
    result = CliRunner().invoke(app, ["oxford", str(drive), *options])
    assert result.exit_code == 0, result.output
    data = open_dataset(tmp_path / "data")
    assert data.world == "oxford at 5735000.000, 619500.000, -110.000"
    for ours, read in zip(data.frames, open_oxford(drive, origin=ORIGIN).frames, strict=True):
        np.testing.assert_array_equal(ours.image, read.image)
        np.testing.assert_allclose(ours.T_world_camera, read.T_world_camera)
    assert sum(len(frame.landmarks) for frame in data.frames) > 5
    refused = CliRunner().invoke(app, ["oxford", str(drive)])
    assert isinstance(refused.exception, InputError)
    assert "--out" in str(refused.exception)


def read_everything(drive, **options):
    return [(it.image, it.points_lidar, it.semantics) for it in open_oxford(drive, **options).frames]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def edit(path, change):
    path.write_text(change(path.read_text()))


def lines_of(path, kept):
    edit(path, lambda text: "\n".join(kept(text.splitlines())) + "\n")


BREAKAGES = {
    "truncated scan": (
        lambda d: cut(d / f"velodyne_left/{NAMES[1]}.bin", -6),
        {},
        [f"velodyne_left/{NAMES[1]}.bin", "truncated", "multiple of 16"],
    ),
    "empty image": (lambda d: cut(d / f"stereo/centre/{NAMES[1]}.png", 0), {}, [f"{NAMES[1]}.png", "empty"]),
    "truncated image": (lambda d: cut(d / f"stereo/centre/{NAMES[1]}.png", 300), {}, [f"{NAMES[1]}.png", "truncated"]),
    "image of another size": (
        lambda d: PIL.Image.new("L", (40, 30)).save(d / f"stereo/centre/{NAMES[1]}.png"),
        {},
        [f"{NAMES[1]}.png", "40x30"],
    ),
    "no images": (lambda d: shutil.rmtree(d / "stereo"), {}, ["stereo/centre", "expected the folder"]),
    "pose is NaN": (
        lambda d: edit(d / "gps/ins.csv", lambda text: re.sub(r"110\.0,[0-9.]+,", "110.0,nan,", text, count=1)),
        {},
        ["gps/ins.csv", "'northing' is not finite in line 2"],
    ),
    "column missing": (
        lambda d: edit(d / "gps/ins.csv", lambda text: text.replace("northing", "nothing", 1)),
        {},
        ["gps/ins.csv", "'northing'", "nothing"],
    ),
    "poses end early": (
        lambda d: lines_of(d / "gps/ins.csv", lambda lines: lines[:3]),
        {},
        ["gps/ins.csv", str(NAMES[1]), "--last"],
    ),
    "odometry has a hole": (
        lambda d: edit(
            d / "gt/radar_odometry.csv", lambda text: text.replace(f"{NAMES[2]},{NAMES[1]}", f"{NAMES[2]},7")
        ),
        {"poses": "radar"},
        ["gt/radar_odometry.csv", "line 3", str(NAMES[1])],
    ),
    "times fall": (
        lambda d: lines_of(d / "gps/ins.csv", lambda lines: [lines[0], *lines[:0:-1]]),
        {},
        ["gps/ins.csv", "do not rise"],
    ),
    "odometry with an origin": (
        lambda d: None,
        {"poses": "radar", "origin": ORIGIN},
        ["radar_odometry.csv", "--origin"],
    ),
    "model too short": (
        lambda d: lines_of(d / "models/stereo_narrow_left.txt", lambda lines: lines[:4]),
        {},
        ["models/stereo_narrow_left.txt", "20 numbers, found 16"],
    ),
    "model not rigid": (
        lambda d: lines_of(d / "models/stereo_narrow_left.txt", lambda lines: [*lines[:4], "0 0 0 2"]),
        {},
        ["models/stereo_narrow_left.txt", "G_camera_image"],
    ),
    "table too short": (
        lambda d: cut(d / "models/stereo_narrow_left_distortion_lut.bin", -16),
        {},
        ["stereo_narrow_left_distortion_lut.bin", "two float64 a pixel"],
    ),
    "table missing": (
        lambda d: (d / "models/stereo_narrow_left_distortion_lut.bin").unlink(),
        {},
        ["stereo_narrow_left_distortion_lut.bin", "not found"],
    ),
    "models missing": (lambda d: shutil.rmtree(d / "models"), {}, ["models", "--models"]),
    "extrinsics missing": (
        lambda d: (d / "extrinsics/velodyne_left.txt").unlink(),
        {},
        ["extrinsics/velodyne_left.txt", "x y z roll pitch yaw"],
    ),
    "extrinsics too short": (
        lambda d: (d / "extrinsics/ins.txt").write_text("1 2 3\n"),
        {},
        ["extrinsics/ins.txt", "6 numbers, found 3"],
    ),
    "scans of another drive": (
        lambda d: [path.rename(path.with_stem(f"1{path.stem[1:]}9")) for path in (d / "velodyne_left").iterdir()],
        {},
        ["velodyne_left", "same drive"],
    ),
    "unknown camera": (lambda d: None, {"camera": "mono_front"}, ["mono_front", "mono_rear"]),
    "unknown poses": (lambda d: None, {"poses": "gps"}, ["'gps'", "radar"]),
    "missing poses": (lambda d: None, {"poses": "vo"}, ["vo/vo.csv", "not found"]),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_drive_is_told_by_file_and_reason(drive, name):
    breakage, options, words = BREAKAGES[name]
    breakage(drive)
    with pytest.raises((DataError, InputError)) as caught:
        read_everything(drive, **options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("size", "word"), [(0, "empty"), (300, "truncated")])
def test_a_broken_raw_scan_is_told(written_raw, tmp_path, size, word):
    drive = shutil.copytree(written_raw, tmp_path / "raw")
    cut(drive / f"velodyne_left/{NAMES[1]}.png", size)
    with pytest.raises(InputError, match=rf"raw LiDAR scan is {word}.*{NAMES[1]}\.png"):
        read_everything(drive)
    PIL.Image.new("L", (10, 105)).save(drive / f"velodyne_left/{NAMES[1]}.png")
    with pytest.raises(DataError, match=rf"105 rows, expected 106.*{NAMES[1]}\.png"):
        read_everything(drive)
