import shutil

import numpy as np
import PIL.Image
import pytest

from robustmat.errors import DataError, InputError
from robustmat.sources import SOURCES, open_kitti_odometry, open_kitti_raw
from robustmat.sources.images import image_size, read_image, read_semantics
from scene import DATE, DRIVE, SEQUENCE, write_kitti_odometry, write_kitti_raw

FRAMES = 2


@pytest.fixture(scope="module")
def raw_scene(tmp_path_factory):
    return write_kitti_raw(tmp_path_factory.mktemp("raw"), frames=FRAMES)


@pytest.fixture(scope="module")
def odometry_scene(tmp_path_factory):
    return write_kitti_odometry(tmp_path_factory.mktemp("odometry"), frames=FRAMES)


@pytest.fixture
def raw(raw_scene, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(raw_scene.root, tmp_path / "raw")


@pytest.fixture
def odometry(odometry_scene, tmp_path):
    return shutil.copytree(odometry_scene.root, tmp_path / "odometry")


def open_raw(root):
    return open_kitti_raw(root, DATE, DRIVE)


def drive_folder(root):
    return root / DATE / f"{DATE}_drive_{DRIVE}_sync"


def test_raw_reader_returns_what_was_written(raw_scene):
    drive = open_raw(raw_scene.root)
    assert [frame.name for frame in drive.frames] == raw_scene.names
    for number, frame in enumerate(drive.frames):
        np.testing.assert_array_equal(frame.image, raw_scene.images[number])
        np.testing.assert_array_equal(frame.semantics, raw_scene.semantics[number])
        np.testing.assert_array_equal(frame.points_lidar, raw_scene.points_lidar[number])
        np.testing.assert_allclose(frame.T_world_camera, raw_scene.T_scene_camera[number], atol=1e-6)
        np.testing.assert_allclose(frame.T_camera_lidar, raw_scene.T_camera_lidar, atol=1e-9)
        np.testing.assert_allclose(frame.camera.matrix, raw_scene.K)
        assert (frame.camera.width, frame.camera.height) == (480, 160)
    assert drive.frames[1].time - drive.frames[0].time == pytest.approx(0.1, abs=1e-6)


def test_both_layouts_of_one_street_give_the_same_poses_points_and_pixels(raw_scene, odometry_scene):
    raw, odometry = open_raw(raw_scene.root), open_kitti_odometry(odometry_scene.root, SEQUENCE)
    assert len(raw.frames) == len(odometry.frames) == FRAMES
    T_raw_odometry = raw.frames[0].T_world_camera @ np.linalg.inv(odometry.frames[0].T_world_camera)
    for a, b in zip(raw.frames, odometry.frames, strict=True):
        np.testing.assert_allclose(a.T_world_camera, T_raw_odometry @ b.T_world_camera, atol=1e-6)
        np.testing.assert_allclose(a.T_camera_lidar, b.T_camera_lidar, atol=1e-9)
        np.testing.assert_array_equal(a.points_lidar, b.points_lidar)
        np.testing.assert_array_equal(a.image, b.image)
        np.testing.assert_array_equal(a.semantics, b.semantics)


def test_lidar_points_of_a_sign_fall_on_its_pixels(raw_scene):
    frame = open_raw(raw_scene.root).frames[0]
    points = np.column_stack([frame.points_lidar[:, :3], np.ones(len(frame.points_lidar))])
    camera = frame.T_camera_lidar @ points.T
    u, v = (frame.camera.matrix @ camera[:3])[:2] / camera[2]
    signs = [it for it in raw_scene.landmarks[0] if it.category == "traffic_sign" and it.pixels > 400]
    assert signs
    for sign in signs:
        x0, y0, x1, y1 = sign.box
        on = (u > x0 + 1) & (u < x1 - 2) & (v > y0 + 1) & (v < y1 - 2) & (camera[2] > 0)
        world = (frame.T_world_camera @ camera[:, on])[:3].T
        assert len(world) >= 5
        np.testing.assert_allclose(np.median(world, axis=0), sign.position, atol=0.15)


def test_frames_may_start_anywhere_and_have_gaps(odometry, raw):
    _, whole = open_kitti_odometry(odometry, SEQUENCE).frames
    (odometry / "sequences/00/image_2/000000.png").unlink()
    (frame,) = open_kitti_odometry(odometry, "0").frames
    assert frame.name == "000001"
    assert frame.time == pytest.approx(0.1)
    np.testing.assert_array_equal(frame.T_world_camera, whole.T_world_camera)
    np.testing.assert_array_equal(frame.points_lidar, whole.points_lidar)

    (drive_folder(raw) / "image_02/data/0000000000.png").unlink()
    assert [it.name for it in open_raw(raw).frames] == ["0000000001"]


def test_one_missing_scan_or_label_map_is_no_error(raw):
    (drive_folder(raw) / "velodyne_points/data/0000000001.bin").unlink()
    (drive_folder(raw) / "semantics_02/data/0000000000.png").unlink()
    first, second = open_raw(raw).frames
    assert first.points_lidar is not None
    assert first.semantics is None
    assert second.points_lidar is None
    assert second.semantics is not None


def test_jpeg_images_are_found(raw):
    for path in (drive_folder(raw) / "image_02/data").iterdir():
        PIL.Image.open(path).save(path.with_suffix(".jpg"), quality=95)
        path.unlink()
    frame = open_raw(raw).frames[0]
    assert frame.image.shape == (160, 480, 3)


@pytest.mark.parametrize("camera", [0, 1, 3])
def test_any_camera_of_a_raw_drive_sees_from_its_own_place(raw, camera):
    folder = drive_folder(raw)
    for kind in ("image", "semantics"):
        (folder / f"{kind}_02").rename(folder / f"{kind}_{camera:02d}")
    path = raw / DATE / "calib_cam_to_cam.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"P_rect_{camera:02d}")]
    lines.append(f"P_rect_{camera:02d}: 260 0 240 -130 0 260 80 0 0 0 1 0")  # half a metre to the right of camera 0
    path.write_text("\n".join(lines) + "\n")
    frame = open_kitti_raw(raw, DATE, DRIVE, camera=camera).frames[0]
    assert frame.image.shape == (160, 480, 3)
    assert frame.semantics is not None
    calibration = dict(line.split(": ") for line in (raw / DATE / "calib_velo_to_cam.txt").read_text().splitlines())
    rotation, shift = (np.array(calibration[key].split(), float) for key in "RT")
    rectify = next(line for line in lines if line.startswith("R_rect_00")).split()[1:]
    point = np.array(rectify, float).reshape(3, 3) @ (rotation.reshape(3, 3) @ [9.0, 1.0, 0.5] + shift)
    np.testing.assert_allclose((frame.T_camera_lidar @ [9.0, 1.0, 0.5, 1.0])[:3], point - [0.5, 0, 0], atol=1e-9)


def test_drives_with_one_origin_share_a_world(raw):
    origin = (49.0005, 8.4005, 100.0)
    near = open_kitti_raw(raw, DATE, DRIVE, origin=origin)
    own = open_raw(raw)
    assert near.world != own.world
    assert near.world == open_kitti_raw(raw, DATE, DRIVE, origin=origin).world
    shift = near.frames[0].T_world_camera[:3, 3] - own.frames[0].T_world_camera[:3, 3]
    metres_per_degree = np.pi / 180 * 6378137
    expected = (-0.0005 * metres_per_degree * np.cos(np.radians(49)), -0.0005 * metres_per_degree, 10.0)
    np.testing.assert_allclose(shift, expected, atol=0.05)


def test_grey_odometry_without_lidar_opens(odometry):
    sequence = odometry / "sequences/00"
    for path in (sequence / "velodyne").iterdir():
        path.unlink()
    (sequence / "velodyne").rmdir()
    (odometry / "poses/00.txt").unlink()
    frame = open_kitti_odometry(odometry, "00").frames[0]
    assert frame.load_points is None
    assert frame.T_world_camera is None


def test_first_camera_that_is_there_is_taken(odometry):
    assert open_kitti_odometry(odometry, "00").source["camera"] == 2


def test_every_source_is_listed_by_its_layout_name():
    assert SOURCES["kitti-raw"] is open_kitti_raw
    assert SOURCES["kitti-odometry"] is open_kitti_odometry


def read_everything(root):
    return [(frame.image, frame.points_lidar, frame.semantics) for frame in open_raw(root).frames]


def break_calibration_key(root):
    path = root / DATE / "calib_cam_to_cam.txt"
    path.write_text(path.read_text().replace("P_rect_02", "P_rect_09"))


def break_scan(root):
    path = drive_folder(root) / "velodyne_points/data/0000000001.bin"
    path.write_bytes(path.read_bytes()[:-7])


def break_pose(root):
    path = drive_folder(root) / "oxts/data/0000000001.txt"
    path.write_text("nan " + path.read_text().split(" ", 1)[1])


def break_oxts_fields(root):
    (drive_folder(root) / "oxts/data/0000000001.txt").write_text("49.0 8.4 110\n")


def remove_oxts(root):
    (drive_folder(root) / "oxts/data/0000000001.txt").unlink()


def remove_images(root):
    for path in (drive_folder(root) / "image_02/data").iterdir():
        path.unlink()


def truncate_image(root):
    path = drive_folder(root) / "image_02/data/0000000001.png"
    path.write_bytes(path.read_bytes()[:500])


def resize_labels(root):
    PIL.Image.new("L", (240, 80)).save(drive_folder(root) / "semantics_02/data/0000000001.png")


def resize_images(root):
    for path in (drive_folder(root) / "image_02/data").iterdir():
        PIL.Image.new("RGB", (240, 80)).save(path)


def shorten_timestamps(root):
    (drive_folder(root) / "image_02/timestamps.txt").write_text("2011-09-26 13:02:44.3\n")


def break_rotation(root):
    (root / DATE / "calib_velo_to_cam.txt").write_text("R: 1 0 0 0 1 0 0 0 2\nT: 0 0 0\n")


@pytest.mark.parametrize(
    ("breakage", "names"),
    [
        (break_calibration_key, ["P_rect_02", "calib_cam_to_cam.txt"]),
        (break_scan, ["0000000001.bin", "truncated", "16"]),
        (break_pose, ["oxts/data/0000000001.txt", "not finite"]),
        (break_oxts_fields, ["oxts/data/0000000001.txt", "3 fields", "30"]),
        (remove_oxts, ["oxts/data/0000000001.txt", "not found"]),
        (remove_images, ["image_02/data", "no frames"]),
        (truncate_image, ["0000000001.png", "truncated"]),
        (resize_labels, ["semantics_02/data/0000000001.png", "240x80", "480x160"]),
        (resize_images, ["image_02/data/0000000000.png", "240x80", "480x160"]),
        (shorten_timestamps, ["timestamps.txt", "frame 1", "1 line"]),
        (break_rotation, ["calib_velo_to_cam.txt", "rotation"]),
    ],
)
def test_a_broken_raw_drive_is_told_by_file_and_reason(raw, breakage, names):
    breakage(raw)
    with pytest.raises((DataError, InputError)) as caught:
        read_everything(raw)
    for name in names:
        assert name in str(caught.value)


def test_a_missing_drive_lists_those_that_are_there(raw):
    with pytest.raises(DataError, match=f"{DATE}_drive_{DRIVE}_sync"):
        open_kitti_raw(raw, DATE, "0077")


@pytest.mark.parametrize(
    ("file", "content", "names"),
    [
        ("poses/00.txt", "1 0 0 0 0 1 0 0 0 0 1 0\n", ["poses/00.txt", "frame 1", "1 line"]),
        ("poses/00.txt", "1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 nan 0 1 0 0 0 0 1 0\n", ["poses/00.txt", "line 2"]),
        ("poses/00.txt", "1 0 0 0\n", ["poses/00.txt", "line 1", "12 numbers"]),
        ("sequences/00/times.txt", "0.0\n", ["times.txt", "frame 1"]),
        ("sequences/00/times.txt", "0.0\nsoon\n", ["times.txt", "line 2"]),
        ("sequences/00/calib.txt", "P0: 1 2 3\n", ["calib.txt", "P2"]),
    ],
)
def test_a_broken_odometry_sequence_is_told_by_file_and_reason(odometry, file, content, names):
    (odometry / file).write_text(content)
    with pytest.raises(DataError) as caught:
        open_kitti_odometry(odometry, "00")
    for name in names:
        assert name in str(caught.value)


def test_lidar_without_its_calibration_is_refused(odometry):
    path = odometry / "sequences/00/calib.txt"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("Tr")))
    with pytest.raises(DataError, match=r"'Tr'.*calib\.txt"):
        open_kitti_odometry(odometry, "00")


def test_grey_rgba_palette_and_16_bit_images_show_the_same_picture(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    grey = rgb[:, :, 0]
    PIL.Image.fromarray(rgb).save(tmp_path / "rgb.png")
    alpha = np.dstack([rgb, np.full((12, 16), 7, np.uint8)])
    PIL.Image.fromarray(alpha).save(tmp_path / "rgba.png")
    PIL.Image.fromarray(grey).save(tmp_path / "grey.png")
    PIL.Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "grey16.png")
    PIL.Image.fromarray(grey).convert("P").save(tmp_path / "palette.png")
    np.testing.assert_array_equal(read_image(tmp_path / "rgb.png"), rgb)
    np.testing.assert_array_equal(read_image(tmp_path / "rgba.png"), rgb)
    for name in ("grey.png", "grey16.png", "palette.png"):
        np.testing.assert_array_equal(read_image(tmp_path / name), np.repeat(grey[:, :, None], 3, 2))
    assert image_size(tmp_path / "rgb.png") == (16, 12)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "not found"), (b"", "empty"), (b"hello world", "no known image format")]
)
def test_an_unreadable_image_is_an_input_error_that_names_it(tmp_path, content, message):
    path = tmp_path / "frame.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{message}.*frame\.png"):
        read_image(path)


def test_a_colour_picture_is_no_label_map(tmp_path):
    PIL.Image.new("RGB", (4, 4)).save(tmp_path / "labels.png")
    with pytest.raises(InputError, match="one 8-bit channel"):
        read_semantics(tmp_path / "labels.png")
