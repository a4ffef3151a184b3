"""Everything that is read from files or requests, as targets of the fuzzer: small, valid, quick to read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from fuzz_for_tests import Target
from layouts_for_tests import LAYOUTS, short_drive
from models_for_tests import untrained
from robustmat.checkpoints.store import load_checkpoint, read_header, save_checkpoint, shipped_checkpoints
from robustmat.config import parse
from robustmat.dataset.store import open_dataset, read_points, write_dataset, write_points
from robustmat.denoising.registry import SHIPPED as DENOISERS
from robustmat.denoising.runtime import SgnDenoiser
from robustmat.denoising.weights import load_network as load_denoising_network
from robustmat.detection.config import read_training_config
from robustmat.detection.regions import ExtractionConfig
from robustmat.detection.registry import SHIPPED
from robustmat.detection.weights import read_description
from robustmat.errors import InputError
from robustmat.evaluation.predictions import (
    FrameTruths,
    MethodRow,
    PairTruth,
    Predictions,
    read_predictions,
    write_predictions,
)
from robustmat.landmarks.corrections import read_corrections
from robustmat.mapping.packing import pack, unpack
from robustmat.mapping.settings import MapHeader
from robustmat.mapping.store import _read_header
from robustmat.matching.embedded import EmbeddedFrame, load_embedded
from robustmat.matching.manifest import read_manifest
from robustmat.simulation import StreetDrive, write_folder
from robustmat.sources import Drive, open_folder
from robustmat.sources.boxes import read_boxes
from robustmat.sources.images import image_size, read_image, read_semantics
from robustmat.sources.motion import read_motion
from robustmat.training.config import load_training_config
from robustmat.training.denoising import load_denoiser_config
from robustmat.types import Frame, Landmark
from robustmat.web.problems import HttpError
from robustmat.web.settings import Settings
from robustmat.web.uploads import (
    _read_object,
    decode,
    parse_camera,
    refuse_rest,
    take_boxes,
    take_image,
    to_frame,
)

MARKS = (Landmark((5.0, 5.0, 25.0, 30.0), "pole", 3, (1.0, 2.0, 3.0)), Landmark((30.0, 4.0, 44.0, 20.0), "window"))
PIXELS = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


def small_drive() -> StreetDrive:
    """A drive whose scans are short: reading thousands of them is cheap."""
    drive = short_drive()
    frames = [replace(frame, load_points=_first_points(frame)) for frame in drive.frames[:2]]
    return replace(drive, frames=tuple(frames))


def _first_points(frame: Frame) -> Callable[[], Any]:
    points = frame.points_lidar
    assert points is not None
    return points[:200].copy


def read_everything(drive: Drive) -> None:
    for frame in drive.frames:
        frame.image  # noqa: B018
        for load in (frame.load_points, frame.load_semantics, frame.load_boxes, frame.load_point_labels):
            if load is not None:
                load()


def layout(name: str) -> Target:
    kind = LAYOUTS[name]

    def read(place: Path) -> None:
        marks = sorted(place.rglob("identities.json"))
        folder = marks[0].parent if marks else json.loads((place.parent / f"{name}.json").read_text())
        read_everything(kind.open(Path(folder)))

    def write(place: Path) -> None:
        folder = kind.write(small_drive(), place)
        (place.parent / f"{name}.json").write_text(json.dumps(str(folder)))  # found again if the mark is removed

    return Target(write, read)


def write_boxes(place: Path) -> None:
    marks = [{"box": list(mark.box), "category": mark.category, "confidence": 0.5} for mark in MARKS]
    (place / "a.json").write_text(json.dumps({"landmarks": marks}))


def write_coco(place: Path) -> None:
    images = [{"id": n, "file_name": f"{n}.png", "width": 60, "height": 40} for n in range(2)]
    boxes = [{"id": 1, "image_id": 1, "category_id": 2, "bbox": [5, 5, 20, 25], "score": 0.5}]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 2, "name": "pole"}]}
    (place / "coco.json").write_text(json.dumps(content))


def write_data(place: Path) -> None:
    pose = np.eye(4)
    pose[:3, 3] = 1, 2, 3
    frame = Frame.from_array(PIXELS, MARKS, name="one")
    frames = [(frame, None), (replace(frame, name="two", T_world_camera=pose, time=1.5), None)]
    write_dataset(place / "data", "drive", "town", frames, source={"layout": "test"})
    write_points(place / "data", "one", np.random.default_rng(0).random((20, 3)) * 50)


def read_data(place: Path) -> None:
    dataset = open_dataset(place / "data")
    for frame in dataset.frames:
        frame.image  # noqa: B018
        read_points(place / "data", frame.name)


def read_weights(place: Path) -> None:
    load_checkpoint(place / "run")


def copy_headers(place: Path) -> None:
    for name, folder in shipped_checkpoints().items():
        (place / name).mkdir()
        shutil.copy(folder / "model.json", place / name)
        shutil.copy(folder / "onnx" / "export.json", place / name)


def read_headers(place: Path) -> None:
    for name in shipped_checkpoints():
        read_header(place / name)
        read_manifest(place / name)


CONFIGURATION = """
method = "robustmat"
steps = 10
learning_rate = 1e-3
perturbations = ["clean", "paper:16"]
preset = "street"
[model.vertex]
channels = 16
[model.graph]
num_neighbors = 3
[objective]
graph_loss_weight = 0.5
"""
DETECTOR = 'name = "d"\nsteps = 3\ncrop = [64, 64]\n[[sources]]\npath = "a"\nshare = 2.0\nscale = [0.5, 2.0]\n'
DENOISER = 'method = "sgn"\nsteps = 3\nperturbations = ["awgn:16"]\n[model]\nwidths = [4, 4]\nblocks = [1, 1]\n'


def write_map(place: Path) -> None:
    header = MapHeader(
        world="town",
        checkpoint="street",
        evidence="placement",
        fingerprint="x",
        dimension=8,
        arrays=("placement", "vertex"),
    )
    (place / "header.json").write_text(header.model_dump_json())
    arrays = {"vertex": np.ones((2, 32), np.float32), "placement": np.ones((2, 4))}
    (place / "frame.bin").write_bytes(pack(EmbeddedFrame(MARKS, arrays, "x", "one"), "int8"))


def read_map(place: Path) -> None:
    for path in (place / "header.json", place / "frame.bin"):
        if not path.exists():
            return
    _read_header((place / "header.json").read_bytes(), "map")
    unpack((place / "frame.bin").read_bytes(), "x", "map")


def write_judged(place: Path) -> None:
    whole, real, flag = np.zeros(2, np.int64), np.zeros(2), np.zeros(2, bool)
    pairs = PairTruth(whole, flag, *[whole] * 8, np.zeros((2, 4)), np.zeros((2, 4)))
    row = MethodRow("a", 0.5, real, whole, whole, whole, real, real, flag, whole, whole, whole, whole)
    truths = FrameTruths(np.zeros((1, 2), np.int64), whole, whole, np.zeros(1))
    write_predictions(place / "a.npz", Predictions({"seed": 0}, ("d/one", "d/two"), pairs, truths, (row,)))


def write_images(place: Path) -> None:
    picture = PIL.Image.fromarray(PIXELS)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    picture.save(place / "a.jpg", exif=exif)
    for suffix in ("png", "bmp", "tif", "webp", "ppm"):
        picture.save(place / f"a.{suffix}")
    PIL.Image.fromarray(np.arange(2400, dtype=np.uint16).reshape(40, 60)).save(place / "deep.png")
    picture.convert("P").save(place / "palette.png")
    PIL.Image.fromarray(np.full((40, 60), 5, np.uint8)).save(place / "labels.png")


def read_images(place: Path) -> None:
    for path in sorted(place.iterdir()):
        image_size(path)
        read_image(path)
    read_semantics(place / "labels.png")


def write_request(place: Path) -> None:
    import base64
    import io

    buffer = io.BytesIO()
    PIL.Image.fromarray(PIXELS).save(buffer, "png")
    marks = {"landmarks": [{"box": list(mark.box), "category": mark.category} for mark in MARKS]}
    body = {"boxes": marks, "camera": "50,50,30,20", "image": base64.b64encode(buffer.getvalue()).decode()}
    (place / "body.json").write_text(json.dumps(body))


def read_request(place: Path) -> None:
    path, settings = place / "body.json", Settings()
    try:
        parts = _read_object(path.read_bytes() if path.exists() else b"")
        upload = take_image(parts, "image", settings)
        content = take_boxes(parts, "boxes", settings)
        options = refuse_rest(parts)
        camera = options.get("camera")
        pixels = decode(upload, settings)
        to_frame(pixels, upload.name, content, "boxes", parse_camera(None if camera is None else str(camera)), settings)
    except HttpError as refused:
        raise InputError(str(refused)) from None


def text(name: str, content: str, read: Callable[[Path], object]) -> Target:
    return Target(lambda place: (place / name).write_text(content), lambda place: read(place / name))


TARGETS: dict[str, Target] = {
    **{
        name: layout(name)
        for name in ("kitti-raw", "kitti-odometry", "oxford", "oxford, raw scans", "boreas", "folder")
    },
    "folder with boxes": Target(
        lambda place: write_folder(small_drive(), place, boxes=True), lambda place: read_everything(open_folder(place))
    ),
    "images": Target(write_images, read_images),
    "box file": Target(write_boxes, lambda place: read_boxes(place / "a.json", "a.png", (60, 40))),
    "COCO file": Target(write_coco, lambda place: read_boxes(place / "coco.json", "1.png", (60, 40))),
    "corrections": text("c.json", '{"exclude": [1], "merge": [[2, 3]], "split": []}', read_corrections),
    "motion": text("m.json", json.dumps({"T_b_a": np.eye(4).tolist(), "rotation_deviation": 1.0}), read_motion),
    "data set": Target(write_data, read_data),
    "checkpoint": Target(lambda place: save_checkpoint(place / "run", untrained()), read_weights),
    "headers of checkpoint and export": Target(copy_headers, read_headers),
    "training configuration": text("a.toml", CONFIGURATION, load_training_config),
    "detector configuration": text("d.toml", DETECTOR, read_training_config),
    "denoiser configuration": text("s.toml", DENOISER, lambda path: load_denoiser_config(path, {})),
    "detector": Target(
        lambda place: shutil.copy(SHIPPED / "street-detector" / "model.json", place),
        lambda place: parse(ExtractionConfig, read_description(place).get("extraction", {}), "model.json"),
    ),
    "denoiser": Target(
        lambda place: shutil.copytree(DENOISERS / "sgn", place, dirs_exist_ok=True),
        lambda place: (SgnDenoiser(place), load_denoising_network(place)),
    ),
    "embedded frame": Target(
        lambda place: EmbeddedFrame(MARKS, {"vertex": np.ones((2, 8))}, "x", "one").save(place / "a.safetensors"),
        lambda place: load_embedded(place / "a.safetensors"),
    ),
    "predictions": Target(write_judged, lambda place: read_predictions(place / "a.npz")),
    "map": Target(write_map, read_map),
    "web request": Target(write_request, read_request),
}
