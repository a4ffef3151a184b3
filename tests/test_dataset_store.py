import json
import shutil
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest

from robustmat.dataset.store import open_dataset, write_dataset
from robustmat.errors import DataError
from robustmat.types import Camera, Frame, Landmark

CAMERA = Camera(np.array([[90.0, 0, 32], [0, 91.0, 24], [0, 0, 1]]), width=64, height=48)


def picture(number):
    return np.random.default_rng(number).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def make_frame(number, landmarks=()):
    pose = np.eye(4)
    pose[:3, 3] = (number, 0.5, 0.25)
    return Frame(
        name=f"{number:06d}",
        load_image=lambda: picture(number),
        landmarks=tuple(landmarks),
        camera=CAMERA,
        T_world_camera=pose,
        time=0.1 * number,
    )


LANDMARKS = (
    Landmark((1.0, 2.0, 11.0, 40.0), "pole", 4, (1.0, 2.0, 3.0)),
    Landmark((20.0, 5.0, 64.0, 48.0), "window"),
)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "drive"
    folder.mkdir()
    for number in range(3):
        PIL.Image.fromarray(picture(number)).save(folder / f"{number:06d}.png")
    return folder


def write(path, images, **more):
    frames = [(make_frame(n, LANDMARKS if n else ()), images / f"{n:06d}.png") for n in range(3)]
    return write_dataset(path, "drive", "town", frames, source={"layout": "test"}, **more)


@pytest.mark.parametrize("copy_images", [False, True])
def test_what_was_written_is_read_back(tmp_path, images, copy_images):
    dataset = open_dataset(write(tmp_path / "out", images, copy_images=copy_images))
    assert (dataset.name, dataset.world, dataset.has_identities) == ("drive", "town", True)
    assert [frame.name for frame in dataset.frames] == ["000000", "000001", "000002"]
    assert dataset.frames[0].landmarks == ()
    assert dataset.frames[2].landmarks == LANDMARKS
    for number, frame in enumerate(dataset.frames):
        np.testing.assert_array_equal(frame.image, picture(number))
        np.testing.assert_array_equal(frame.T_world_camera, make_frame(number).T_world_camera)
        np.testing.assert_array_equal(frame.camera.matrix, CAMERA.matrix)
        assert frame.time == pytest.approx(0.1 * number)


def test_same_frames_give_the_same_bytes(tmp_path, images):
    first, second = write(tmp_path / "a", images), write(tmp_path / "b", images)
    for name in ("dataset.json", "frames.jsonl"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_data_set_with_copied_images_can_move_alone(tmp_path, images):
    path = write(tmp_path / "out", images, copy_images=True)
    shutil.rmtree(images)
    moved = tmp_path / "far/away"
    moved.parent.mkdir()
    path.rename(moved)
    np.testing.assert_array_equal(open_dataset(moved).frames[1].image, picture(1))


def test_a_data_set_can_move_together_with_its_images(tmp_path, images):
    write(tmp_path / "sets/out", images)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "sets").rename(elsewhere / "sets")
    images.rename(elsewhere / "drive")
    np.testing.assert_array_equal(open_dataset(elsewhere / "sets/out").frames[1].image, picture(1))


def test_frames_without_an_image_file_bring_their_pixels(tmp_path):
    path = write_dataset(tmp_path / "out", "n", "w", [(make_frame(5), None)], source={})
    (frame,) = open_dataset(path).frames
    np.testing.assert_array_equal(frame.image, picture(5))


def test_a_frame_may_lack_camera_pose_and_time(tmp_path):
    bare = Frame("a", lambda: picture(1), landmarks=(Landmark((0, 0, 5, 5), "pole"),))
    dataset = open_dataset(write_dataset(tmp_path / "out", "n", "w", [(bare, None)], source={}))
    (frame,) = dataset.frames
    assert (frame.camera, frame.T_world_camera, frame.time) == (None, None, None)
    assert not dataset.has_identities


def test_an_older_data_set_is_replaced_and_other_folders_are_left_alone(tmp_path, images):
    path = write(tmp_path / "out", images)
    write_dataset(path, "new", "w", [(make_frame(0), images / "000000.png")], source={})
    assert open_dataset(path).name == "new"
    with pytest.raises(DataError, match="nothing was overwritten"):
        write(images, images)
    assert len(list(images.iterdir())) == 3


def test_a_failed_writing_leaves_the_old_data_set_and_no_litter(tmp_path, images):
    path = write(tmp_path / "out", images)

    def breaking():
        yield make_frame(0), images / "000000.png"
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_dataset(path, "new", "w", breaking(), source={})
    assert open_dataset(path).name == "drive"
    assert sorted(it.name for it in tmp_path.iterdir()) == ["drive", "out"]


def test_two_frames_of_one_name_and_no_frames_at_all_are_refused(tmp_path):
    with pytest.raises(DataError, match="used twice"):
        write_dataset(tmp_path / "out", "n", "w", [(make_frame(0), None)] * 2, source={})
    with pytest.raises(DataError, match="no frames"):
        write_dataset(tmp_path / "out", "n", "w", [], source={})


def test_a_frame_name_cannot_leave_the_folder(tmp_path):
    with pytest.raises(DataError, match="plain file name"):
        write_dataset(tmp_path / "out", "n", "w", [(replace(make_frame(0), name="../evil"), None)], source={})


def edit_header(path, **changes):
    header = json.loads((path / "dataset.json").read_text())
    (path / "dataset.json").write_text(json.dumps({**header, **changes}))


def edit_line(path, number, **changes):
    lines = (path / "frames.jsonl").read_text().splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **changes})
    (path / "frames.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda path: edit_header(path, format="other"), "not a robustmat data set.*'other'"),
        (lambda path: edit_header(path, version=2), "version 2"),
        (lambda path: edit_header(path, colour="red"), "'colour'"),
        (lambda path: (path / "dataset.json").unlink(), r"not found.*dataset\.json"),
        (lambda path: (path / "frames.jsonl").unlink(), r"not found.*frames\.jsonl"),
        (lambda path: (path / "dataset.json").write_text("{"), "not valid JSON"),
        (lambda path: edit_line(path, 1, image="gone.png"), r"line 2.*image not found.*gone\.png"),
        (lambda path: edit_line(path, 1, size=[0, 5]), "line 2.*'size.0'"),
        (lambda path: edit_line(path, 2, T_world_camera=[[1.0] * 4] * 4), "line 3.*rigid"),
        (lambda path: edit_line(path, 0, extra=1), "line 1.*'extra'"),
        (
            lambda path: edit_line(path, 1, landmarks=[{"box": [5, 5, 70, 9], "category": "pole"}]),
            "line 2: landmark 0.*leaves the image",
        ),
        (
            lambda path: edit_line(path, 1, landmarks=[{"box": [5, 5, 9, 9], "category": "tree"}]),
            "line 2.*landmarks.0.category",
        ),
        (
            lambda path: (path / "frames.jsonl").write_text(
                (path / "frames.jsonl").read_text().split("\n", 1)[0] + "\n"
            ),
            "incomplete",
        ),
    ],
)
def test_a_broken_data_set_is_told_by_file_line_and_key(tmp_path, images, breakage, message):
    path = write(tmp_path / "out", images)
    breakage(path)
    with pytest.raises(DataError, match=message):
        open_dataset(path)


def test_a_missing_data_set_says_how_to_make_one(tmp_path):
    with pytest.raises(DataError, match="robustmat prepare"):
        open_dataset(tmp_path / "nowhere")


def test_an_image_that_was_replaced_by_another_size_is_noticed(tmp_path, images):
    path = write(tmp_path / "out", images)
    PIL.Image.new("RGB", (10, 10)).save(images / "000001.png")
    with pytest.raises(DataError, match="10x10"):
        _ = open_dataset(path).frames[1].image
