"""ROS bags: what was put into one comes out of it, whichever ROS wrote it."""

import json
import pickle
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

pytest.importorskip("rosbags", reason="needs the extra 'ros'")

from robustmat import read_sequence
from robustmat.cli import app
from robustmat.dataset.store import open_dataset
from robustmat.errors import DataError, InputError, InputWarning
from robustmat.sources import open_rosbag
from robustmat.sources.rosbag_messages import image_pixels
from rosbag_for_tests import KINDS, START, Entry, Messages

WIDTH, HEIGHT = 64, 48
MATRIX = np.array([[60.0, 0, 31], [0, 58.0, 23], [0, 0, 1]])
SECOND = 1_000_000_000
# The camera looks ahead: its z is the body's x, its x the body's -y.
T_BODY_CAMERA = np.array([[0.0, 0, 1, 1.5], [-1, 0, 0, 0.2], [0, -1, 0, 1.7], [0, 0, 0, 1]])


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def image_entries(make: Messages, count: int = 3, delay: int = 70_000_000) -> list[Entry]:
    """Images every half second, each recorded a little later than it was taken."""
    times = [START + k * SECOND // 2 for k in range(count)]
    return [("/front/image_raw", make.image(picture(k), time), time + delay) for k, time in enumerate(times)]


@pytest.mark.parametrize("kind", KINDS)
def test_images_camera_and_times_come_out_as_they_were_put_in(kind: str, tmp_path: Path) -> None:
    make = Messages(kind)
    info = ("/front/camera_info", make.camera_info((WIDTH, HEIGHT), MATRIX), START)
    drive = open_rosbag(make.write(tmp_path, [*image_entries(make), info]))
    assert [frame.name for frame in drive.frames] == [str(START + k * SECOND // 2) for k in range(3)]
    for k in (2, 0, 1):  # in any order, and in another process
        assert (pickle.loads(pickle.dumps(drive.frames[k])).image == picture(k)).all()
    camera = drive.frames[0].camera
    assert camera is not None
    assert (camera.matrix == MATRIX).all()
    assert (camera.width, camera.height) == (WIDTH, HEIGHT)
    assert drive.frames[0].T_world_camera is None


@pytest.mark.parametrize("kind", ["ros1", "mcap"])
def test_compressed_images_are_read_like_their_files(kind: str, tmp_path: Path) -> None:
    make, expected = Messages(kind), {}
    entries: list[Entry] = []
    for k, form in enumerate(("png", "jpeg")):
        data = BytesIO()
        PIL.Image.fromarray(picture(k)).save(data, form)
        expected[k] = np.array(PIL.Image.open(data).convert("RGB"))
        time = START + k * SECOND
        entries.append(("/cam/image/compressed", make.compressed(data.getvalue(), time, f"rgb8; {form}"), time))
    drive = open_rosbag(make.write(tmp_path, entries))
    for k, frame in enumerate(drive.frames):
        assert (frame.image == expected[k]).all()


def test_every_encoding_shows_the_same_colours() -> None:
    make = Messages("mcap")
    rgb = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    rgb[:] = (200, 90, 30)
    mosaic = np.empty((HEIGHT, WIDTH), np.uint8)
    mosaic[0::2, 0::2], mosaic[0::2, 1::2], mosaic[1::2, 0::2], mosaic[1::2, 1::2] = 200, 90, 90, 30
    shown = {
        "rgb8": rgb,
        "bgr8": rgb[..., ::-1],
        "rgba8": np.dstack([rgb, rgb[..., :1]]),
        "bgra8": np.dstack([rgb[..., ::-1], rgb[..., :1]]),
        "bayer_rggb8": mosaic,
        "bayer_bggr8": mosaic[::-1, ::-1],
        "bayer_grbg8": mosaic[:, ::-1],
        "bayer_gbrg8": mosaic[::-1],
    }
    for encoding, pixels in shown.items():
        found = image_pixels(make.image(pixels, START, encoding, padding=5), encoding)
        assert (found[4:-4, 4:-4] == rgb[4:-4, 4:-4]).all(), encoding
    grey = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 20
    found = image_pixels(make.image(grey, START, "mono16"), "mono16")
    assert (found == (grey // 256)[..., None]).all()
    packed = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV)
    yuyv = np.stack([packed[..., 0], np.where(np.arange(WIDTH) % 2, packed[..., 2], packed[..., 1])], axis=-1)
    found = image_pixels(make.image(yuyv.astype(np.uint8), START, "yuv422_yuy2"), "yuv422_yuy2")
    assert np.abs(found.astype(int) - rgb).max() < 40  # video range instead of full range
    with pytest.raises(DataError, match="encoded as '32FC1'"):
        image_pixels(make.image(rgb, START, "32FC1"), "here")
    broken = make.image(rgb, START)
    broken.height = 2 * HEIGHT
    with pytest.raises(DataError, match="broken"):
        image_pixels(broken, "here")


LENSES = [("plumb_bob", (-0.3, 0.1, 0.002, 0.001, 0.0)), ("equidistant", (0.1, -0.02, 0, 0))]


@pytest.mark.parametrize(("model", "distortion"), LENSES)
def test_lens_distortion_is_taken_out(model: str, distortion: tuple[float, ...], tmp_path: Path) -> None:
    make, point = Messages("sqlite"), np.array([[[0.3, -0.2, 1.0]]])
    project = cv2.projectPoints if model == "plumb_bob" else cv2.fisheye.projectPoints
    lens = project(point, np.zeros(3), np.zeros(3), MATRIX, np.array(distortion, float))[0].reshape(2)
    rows, columns = np.indices((HEIGHT, WIDTH))
    blob = 255 * np.exp(-((columns - lens[0]) ** 2 + (rows - lens[1]) ** 2) / 4)
    image = np.repeat(blob.astype(np.uint8)[..., None], 3, axis=2)
    info = make.camera_info((WIDTH, HEIGHT), MATRIX, distortion, model)
    entries = [("/cam/image_raw", make.image(image, START), START), ("/cam/camera_info", info, START)]
    path = make.write(tmp_path, entries)
    found = open_rosbag(path).frames[0].image[..., 0].astype(float)
    center = np.array([(columns * found).sum(), (rows * found).sum()]) / found.sum()
    assert np.abs(center - (MATRIX @ point[0, 0])[:2]).max() < 0.15
    assert np.abs(lens - (MATRIX @ point[0, 0])[:2]).max() > 0.4  # there was something to take out
    plain = open_rosbag(path, rectified=True).frames[0]  # P belongs to rectified images
    assert (plain.image == image).all()
    assert plain.camera is not None
    assert plain.camera.matrix[0, 0] == 2 * MATRIX[0, 0]


@pytest.mark.parametrize("kind", ["ros1", "sqlite"])
def test_odometry_of_the_body_becomes_poses_of_the_camera(kind: str, tmp_path: Path) -> None:
    make, entries = Messages(kind), []
    for k in range(3):  # one metre ahead a second; the first image is older than the first pose
        T = np.eye(4)
        T[0, 3] = float(k)
        time = START + SECOND // 4 + k * SECOND
        entries.append(("/odom", make.odometry(T, time, "base"), time + 5))
    split = np.eye(4)
    split[2, 3] = 1.0
    entries += [
        ("/tf_static", make.static("base", "mast", split), START),
        ("/tf_static", make.static("mast", "camera", np.linalg.inv(split) @ T_BODY_CAMERA), START + 1),
    ]
    path = make.write(tmp_path, [*image_entries(make), *entries])
    with pytest.warns(InputWarning, match="1 of 3 images have no pose"):
        frames = open_rosbag(path).frames
    for k, frame in enumerate(frames, start=1):
        expected = T_BODY_CAMERA.copy()
        expected[0, 3] += 0.5 * k - 0.25
        assert frame.T_world_camera is not None
        assert np.allclose(frame.T_world_camera, expected)
    assert len(open_rosbag(path, pose_topic="none").frames) == 3


def test_poses_without_a_known_mounting_are_not_guessed(tmp_path: Path) -> None:
    make = Messages("mcap")
    poses = [("/odom", make.odometry(np.eye(4), START + k * SECOND, "base"), START + k * SECOND) for k in range(3)]
    path = make.write(tmp_path, [*image_entries(make), *poses])
    with pytest.warns(InputWarning, match="poses are left out"):
        assert open_rosbag(path).frames[0].T_world_camera is None
    with pytest.raises(DataError, match="--extrinsics"):
        open_rosbag(path, pose_topic="/odom")
    np.savetxt(tmp_path / "mounting.txt", T_BODY_CAMERA)
    placed = open_rosbag(path, pose_topic="/odom", extrinsics=tmp_path / "mounting.txt").frames[0]
    assert placed.T_world_camera is not None
    assert np.allclose(placed.T_world_camera, T_BODY_CAMERA)


def test_what_cannot_be_chosen_or_read_is_named(tmp_path: Path) -> None:
    make = Messages("ros1")
    entries = [
        ("/left/image", make.image(picture(0), START), START),
        ("/right/image", make.image(picture(1), START), START),
    ]
    path = make.write(tmp_path, entries)
    with pytest.raises(DataError, match="--image-topic: /left/image, /right/image"):
        open_rosbag(path)
    with pytest.raises(DataError, match=r"/up.*its topics: /left/image"):
        open_rosbag(path, image_topic="/up")
    assert (open_rosbag(path, image_topic="/right/image").frames[0].image == picture(1)).all()
    torn = tmp_path / "torn.bag"
    torn.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="cannot be read"):
        open_rosbag(torn)
    with pytest.raises(DataError, match="not found"):
        open_rosbag(tmp_path / "no.bag")
    with pytest.raises(InputError, match="only a ROS bag"):
        read_sequence(tmp_path, image_topic="/left/image")


def test_a_bag_is_matched_and_prepared_like_any_drive(tmp_path: Path) -> None:
    make = Messages("sqlite")
    path = make.write(tmp_path, image_entries(make, 4))
    boxes = [{"id": k, "image_id": k, "category_id": 1, "bbox": [10, 5, 20, 30]} for k in range(4)]
    images = [{"id": k, "file_name": str(START + k * SECOND // 2)} for k in range(4)]
    coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "pole"}]}
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    sequence = read_sequence(path, tmp_path / "boxes.json", every=2)
    assert sequence.count == 2
    assert [(frame.name, len(frame.landmarks)) for frame in sequence] == [(str(START + k * SECOND), 1) for k in (0, 1)]

    labels = np.full((HEIGHT, WIDTH), 255, np.uint8)
    labels[5:40, 10:18] = 5
    for frame in open_rosbag(path).frames:
        (tmp_path / "labels").mkdir(exist_ok=True)
        PIL.Image.fromarray(labels).save(tmp_path / "labels" / f"{frame.name}.png")
    options = ["--semantics", str(tmp_path / "labels"), "--every", "2", "--out", str(tmp_path / "data")]
    done = CliRunner().invoke(app, ["prepare", "rosbag", str(path), *options], catch_exceptions=False)
    assert done.exit_code == 0
    frames = open_dataset(tmp_path / "data").frames
    assert [frame.landmarks[0].category for frame in frames] == ["pole", "pole"]
    assert (frames[1].image == picture(2)).all()
