"""Frames from files and arrays: what is accepted, and what is said about input that cannot be meant so."""

import json
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest

import robustmat
from robustmat.errors import InputError, InputWarning, RobustMatError
from robustmat.pipeline import read_frame, read_sequence
from robustmat.sources.images import image_size, read_image, read_semantics
from robustmat.sources.video import open_video, video_writer
from robustmat.types import Camera, Landmark

MATRIX = np.array([[700.0, 0, 45], [0, 710, 30], [0, 0, 1]])
POLE = {"box": [5, 5, 30, 50], "category": "pole"}


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (60, 90, 3)).astype(np.uint8)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    PIL.Image.fromarray(picture()).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def coco(*names: str, **image: Any) -> dict[str, Any]:
    return {
        "images": [{"id": i, "file_name": name, **image} for i, name in enumerate(names)],
        "categories": [{"id": 1, "name": "pole"}],
        "annotations": [{"image_id": i, "category_id": 1, "bbox": [5, 5, 25, 45]} for i in range(len(names))],
    }


def test_boxes_may_be_a_file_a_coco_file_or_a_list(image: Path, tmp_path: Path) -> None:
    expected = (Landmark((5, 5, 30, 50), "pole"),)
    for boxes in (
        write_json(tmp_path / "a.json", {"landmarks": [POLE]}),
        str(write_json(tmp_path / "coco.json", coco("b.png", "a.png"))),
        [POLE],
        [Landmark((5, 5, 30, 50), "pole")],
        [((5, 5, 30, 50), "Pole")],
        [(np.array([5, 5, 30, 50]), "pole")],
    ):
        assert read_frame(image, boxes=boxes).landmarks == expected
    assert read_frame(image, boxes=[]).landmarks == ()
    with pytest.raises(InputError, match=r"landmark 1: expected a Landmark"):
        read_frame(image, boxes=[POLE, (5, 5, 30, 50)])
    with pytest.raises(InputError, match="no landmarks for"):
        read_frame(image, detector=None)


def test_an_array_gives_the_same_frame_as_its_file(image: Path) -> None:
    from_file, from_array = read_frame(image, boxes=[POLE]), read_frame(picture(), boxes=[POLE], name="a.png")
    assert from_file.name == from_array.name == "a.png"
    assert (from_file.image == from_array.image).all()
    assert from_file.landmarks == from_array.landmarks


def test_a_mask_may_be_a_file_or_an_array(image: Path, tmp_path: Path) -> None:
    labels = np.zeros((60, 90), np.uint8)
    labels[5:50, 20:26] = 5
    cv2.imwrite(str(tmp_path / "m.png"), labels)
    for masks in (tmp_path / "m.png", labels, labels.astype(np.int64)):
        assert read_frame(image, masks=masks).landmarks == (Landmark((20, 5, 26, 50), "pole"),)
    for wrong, message in ((labels / 1.0, "whole numbers"), (labels.astype(int) - 1, "from 0 to 255")):
        with pytest.raises(InputError, match=message):
            read_frame(image, masks=wrong)
    with pytest.raises(InputError, match="30x20 pixels but its image"):
        read_frame(image, masks=labels[:20, :30])


def test_a_camera_may_be_itself_a_matrix_numbers_or_a_file(image: Path, tmp_path: Path) -> None:
    described = write_json(tmp_path / "camera.json", {"fx": 700, "fy": 710, "cx": 45, "cy": 30})
    (tmp_path / "intrinsics.txt").write_text("700 710 45 30\n")
    for camera in (
        Camera(MATRIX, 90, 60),
        MATRIX,
        MATRIX.tolist(),
        (700, 710, 45, 30),
        "700,710,45,30",
        described,
        str(tmp_path / "intrinsics.txt"),
    ):
        read = read_frame(image, boxes=[POLE], camera=camera).camera
        assert read is not None
        assert (read.matrix == MATRIX).all()
        assert (read.width, read.height) == (90, 60)


@pytest.mark.parametrize(
    ("camera", "message"),
    [
        (Camera(MATRIX, 180, 120), "90x60 pixels, but its camera is for 180x120"),
        (np.eye(4), "expected a Camera"),
        ((700, -1, 45, 30), "positive fx and fy"),
        (MATRIX.T, "the matrix must be"),
        ("nowhere.json", "camera not found"),
        ("1,2,3", "found 3 numbers"),
    ],
)
def test_a_camera_that_does_not_fit_is_refused(image: Path, camera: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_frame(image, boxes=[POLE], camera=camera)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_images_are_read_upright_whatever_their_exif_rotation(tmp_path: Path, orientation: int, suffix: str) -> None:
    """The oracle is Exif's definition: where row 0 and column 0 of the stored pixels belong in the upright image."""
    upright = np.zeros((40, 64, 3), np.uint8)
    upright[:20, :32] = 255  # the upper left quarter is white
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{suffix}"
    PIL.Image.fromarray(np.ascontiguousarray(turned)).save(path, exif=exif)
    assert image_size(path) == (64, 40)
    assert np.abs(read_image(path).astype(int) - upright).mean() < 8
    read = read_frame(path, boxes=[((4, 4, 28, 16), "window")])
    x0, y0, x1, y1 = (int(value) for value in read.landmarks[0].box)
    assert read.image[y0:y1, x0:x1].mean() > 240  # the box shows what was boxed


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "tif", "webp", "ppm"])
def test_the_common_formats_are_read(tmp_path: Path, suffix: str) -> None:
    flat = np.full((20, 30, 3), (200, 100, 50), np.uint8)
    PIL.Image.fromarray(flat).save(tmp_path / f"a.{suffix}")
    assert np.abs(read_image(tmp_path / f"a.{suffix}").astype(int) - flat).max() <= 6
    PIL.Image.fromarray(flat[:, :, 0]).save(tmp_path / "a.pgm")
    assert (read_image(tmp_path / "a.pgm") == 200).all()


@pytest.mark.parametrize("kind", ["GIF", "ICO", "PDF", "EPS"])
def test_no_other_format_is_decoded(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.png"  # by content, not by name
    PIL.Image.fromarray(picture()).save(path, kind)
    with pytest.raises(InputError, match="no known image format"):
        read_image(path)


def test_an_image_beyond_all_measure_is_refused_in_megapixels(tmp_path: Path) -> None:
    path = tmp_path / "huge.ppm"
    path.write_bytes(b"P6 20000 20000 255\n")  # as much as is read before it is refused
    for read in (read_image, image_size):
        with pytest.raises(
            InputError, match=r"image has 400 megapixels, allowed are 179: .*huge\.ppm; reduce it first"
        ):
            read(path)
    path.write_bytes(b"P6 12000 12000 255\n")  # Pillow warns of such sizes; nobody here can do anything about it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert image_size(path) == (12000, 12000)


def test_cityscapes_label_ids_are_not_taken_for_train_ids(image: Path, tmp_path: Path) -> None:
    labels = np.full((60, 90), 23, np.uint8)  # sky, by label id
    labels[30:] = 7  # road; a traffic sign by train id
    labels[5:50, 20:26] = 17  # pole
    cv2.imwrite(str(tmp_path / "m.png"), labels)
    for masks in (tmp_path / "m.png", labels):
        with pytest.raises(InputError, match=r"value 23 .*looks like label ids .*sky.*labelTrainIds"):
            read_frame(image, masks=masks)
    labels[labels == 23] = 200
    with pytest.raises(InputError, match="value 200, which is no Cityscapes train id"):
        read_frame(image, masks=labels)
    labels[labels == 200] = 255
    with pytest.warns(InputWarning, match=r"traffic sign \(7\).*7 is road"):
        read_frame(image, masks=labels)


def test_usual_train_ids_raise_no_doubt(image: Path, tmp_path: Path) -> None:
    labels = np.arange(20, dtype=np.uint8).repeat(270).reshape(60, 90)
    labels[:2] = 255
    cv2.imwrite(str(tmp_path / "m.png"), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (read_semantics(tmp_path / "m.png") == labels).all()


def test_boxes_mostly_outside_the_image_are_clipped_and_mentioned(image: Path) -> None:
    boxes = [((-5, 5, 20, 50), "pole"), ((80, 5, 150, 50), "pole")]
    with pytest.warns(InputWarning, match=r"1 of 2 boxes lie mostly outside .*90x60.*landmark 1"):
        read = read_frame(image, boxes=boxes)
    assert read.landmarks[1].box == (80, 5, 90, 50)
    with pytest.raises(InputError, match=r"landmark 0 .*outside the image.*another size"):
        read_frame(image, boxes=[((100, 5, 150, 50), "pole")])


def test_boxes_of_another_image_size_are_refused(image: Path, tmp_path: Path) -> None:
    for number, content in enumerate(
        (coco("a.png", width=180, height=120), {"landmarks": [POLE], "width": 180, "height": 120})
    ):
        boxes = write_json(tmp_path / f"{number}.json", content)
        with pytest.raises(InputError, match="180x120 pixels, but this one is 90x60"):
            read_frame(image, boxes=boxes)
    fits = write_json(tmp_path / "fits.json", coco("a.png", width=90, height=60))
    assert read_frame(image, boxes=fits).landmarks


def test_boxes_as_shares_of_the_image_are_refused(image: Path) -> None:
    with pytest.raises(InputError, match=r"coordinates from 0 to 1.*width \(90\)"):
        read_frame(image, boxes=[((0.1, 0.1, 0.3, 0.5), "pole")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five images in the project's own layout, with a mask and a box file each."""
    for name in ("images", "boxes", "masks"):
        (tmp_path / "drive" / name).mkdir(parents=True)
    for number in range(5):
        PIL.Image.fromarray(picture(number)).save(tmp_path / "drive" / "images" / f"{number:03d}.png")
        write_json(tmp_path / "drive" / "boxes" / f"{number:03d}.json", {"landmarks": [POLE] * (number + 1)})
        labels = np.zeros((60, 90), np.uint8)
        labels[5:50, 20:26] = 5
        cv2.imwrite(str(tmp_path / "drive" / "masks" / f"{number:03d}.png"), labels)
    return tmp_path / "drive"


def test_a_folder_is_read_in_order_with_the_landmarks_beside_it(folder: Path, tmp_path: Path) -> None:
    every = read_sequence(folder, every=2)
    assert every.count == 3
    assert [frame.name for frame in every] == ["000.png", "002.png", "004.png"]
    assert [len(frame.landmarks) for frame in every] == [1, 3, 5]  # and it can be read twice
    described = write_json(tmp_path / "coco.json", coco(*(f"{number:03d}.jpg" for number in range(5))))
    for landmarks in ({"boxes": folder / "boxes"}, {"masks": folder / "masks"}, {"boxes": described}):
        sequence = read_sequence(folder / "images", **landmarks, camera="700,710,45,30")
        assert len(list(sequence)) == 5
        assert all(frame.camera is not None and frame.landmarks for frame in sequence)


def test_missing_landmarks_of_a_sequence_are_said_before_any_frame_is_read(folder: Path, tmp_path: Path) -> None:
    (folder / "boxes" / "003.json").unlink()
    with pytest.raises(InputError, match=r"1 of 5 frames have no boxes .*003\.json"):
        read_sequence(folder / "images", boxes=folder / "boxes")
    with pytest.raises(RobustMatError, match=r"no image named '002.png'"):
        read_sequence(folder / "images", boxes=write_json(tmp_path / "coco.json", coco("000.png", "001.png")))
    with pytest.raises(InputError, match="no landmarks for"):
        read_sequence(folder / "images", detector=None)
    with pytest.raises(InputError, match="neither a folder nor a video"):
        read_sequence(folder / "images" / "000.png")


@pytest.mark.parametrize("suffix", [".mp4", ".avi"])
def test_a_video_is_written_and_read_as_frames_named_by_number(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"drive{suffix}"
    shades = (20, 80, 140, 200)
    with video_writer(path, rate=5) as add:
        for shade in shades:
            add(np.full((64, 96, 3), (shade, 255 - shade, 40), np.uint8))
    assert not list(tmp_path.glob(".drive*"))
    video = open_video(path)
    assert (video.width, video.height, video.frames) == (96, 64, 4)
    for number, (index, pixels) in enumerate(video.images()):
        assert index == number
        assert np.abs(pixels.mean((0, 1)) - (shades[number], 255 - shades[number], 40)).max() < 8  # RGB, not BGR
    boxes = write_json(tmp_path / "coco.json", coco("000000.png", "000002.png"))
    frames = list(read_sequence(path, boxes=boxes, every=2))
    assert [frame.name for frame in frames] == ["000000", "000002"]
    assert frames[1].landmarks == (Landmark((5, 5, 30, 50), "pole"),)


def test_a_file_that_is_no_video_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video at all")
    with pytest.raises(InputError, match="video"):
        open_video(tmp_path / "a.mp4")
    with pytest.raises(InputError, match=r"use \.mp4 or \.avi"), video_writer(tmp_path / "a.gif", 5):
        pass


def test_read_frame_is_public() -> None:
    assert robustmat.read_frame is read_frame
