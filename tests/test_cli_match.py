"""`robustmat match` on whole drives, and what the command line refuses before it computes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest

import robustmat
from robustmat.cli import main
from robustmat.cli.checks import check_output, choose_device, need
from robustmat.errors import ConfigError, InputError
from robustmat.matching.onnx import OnnxMatcher

FRAMES = 5
MODEL = ("--checkpoint", "street", "--runtime", "onnx")  # what an installation without torch runs
EVERYTHING = (*MODEL, "--min-probability", 0)  # the images are noise: no match of them is probable


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short drive: images, box files, and all of them as a video."""
    root = tmp_path_factory.mktemp("match")
    for name in ("images", "boxes"):
        (root / "drive" / name).mkdir(parents=True)
    for number in range(FRAMES):
        pixels = np.random.default_rng(number).integers(0, 256, (64, 96, 3)).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(root / "drive" / "images" / f"{number:06d}.png")
        boxes = [{"box": [10.0 * i, 5, 10 * i + 8, 40], "category": "pole"} for i in range(3)]
        (root / "drive" / "boxes" / f"{number:06d}.json").write_text(json.dumps({"landmarks": boxes}))
    writer = cv2.VideoWriter(str(root / "drive.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (96, 64))
    for number in range(FRAMES):
        writer.write(cv2.imread(str(root / "drive" / "images" / f"{number:06d}.png")))
    writer.release()
    return root


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """The command in this process, as `robustmat` runs it: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["robustmat", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


@pytest.fixture
def robust(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def test_the_version_is_told(robust: Any) -> None:
    assert robust("--version") == (0, f"robustmat {robustmat.__version__}\n", "")


@pytest.mark.parametrize("source", ["drive", "drive/images", "drive.avi"])
def test_a_folder_or_a_video_gives_one_json_line_for_each_two_consecutive_frames(
    files: Path, tmp_path: Path, robust: Any, source: str
) -> None:
    out = tmp_path / "matches.jsonl"
    where = [] if source == "drive" else ["--boxes", files / "drive" / "boxes"]
    code, shown, _ = robust(
        "match", files / source, *where, "--every", 2, *EVERYTHING, "--json", out,
        "--pictures", tmp_path / "pictures", "--video", tmp_path / "matches.mp4",
    )  # fmt: skip
    assert code == 0
    assert "2 frame pairs" in shown
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    suffix = "" if source.endswith("avi") else ".png"
    assert [(line["a"]["image"], line["b"]["image"]) for line in lines] == [
        (f"000000{suffix}", f"000002{suffix}"),
        (f"000002{suffix}", f"000004{suffix}"),
    ]
    for line in lines:
        assert len(line["matches"]) + len(line["unmatched_a"]) == 3
        assert line["min_probability"] == 0
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    assert cv2.VideoCapture(str(tmp_path / "matches.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 2


def test_each_frame_of_a_drive_is_embedded_once_and_matched_like_a_pair_of_files(
    files: Path, tmp_path: Path, robust: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    embed = OnnxMatcher.embed
    monkeypatch.setattr(OnnxMatcher, "embed", lambda self, frame: seen.append(frame.name) or embed(self, frame))
    robust("match", files / "drive", *EVERYTHING, "--json", tmp_path / "all.jsonl")
    assert seen == [f"{number:06d}.png" for number in range(FRAMES)]
    images, boxes = files / "drive" / "images", files / "drive" / "boxes"
    pair = ("--boxes-a", boxes / "000001.json", "--boxes-b", boxes / "000002.json")
    robust("match", images / "000001.png", images / "000002.png", *pair, *EVERYTHING, "--json", tmp_path / "two.json")
    assert json.loads((tmp_path / "all.jsonl").read_text().splitlines()[1]) == json.loads(
        (tmp_path / "two.json").read_text()
    )


def test_threshold_and_min_probability_leave_matches_out(files: Path, tmp_path: Path, robust: Any) -> None:
    def matches(*options: object) -> list[dict[str, Any]]:
        robust("match", files / "drive", "--every", 4, *MODEL, *options,
               "--json", tmp_path / "m.jsonl")  # fmt: skip
        return json.loads((tmp_path / "m.jsonl").read_text())["matches"]

    every = matches("--min-probability", 0)
    assert len(every) > 1
    middle = sorted(match["score"] for match in every)[1]
    assert matches("--min-probability", 0, "--threshold", middle) == [m for m in every if m["score"] >= middle]
    limit = sorted(match["probability"] for match in every)[1]
    assert matches("--min-probability", limit) == [m for m in every if m["probability"] >= limit]


def test_warnings_about_input_are_one_line_each(files: Path, tmp_path: Path, robust: Any) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"landmarks": [{"box": [80, 5, 180, 40], "category": "pole"}]}))
    image = files / "drive" / "images" / "000000.png"
    code, _, errors = robust("match", image, image, "--boxes-a", outside, "--boxes-b", outside, *MODEL)
    assert code == 0
    assert errors.count("mostly outside the image of 96x64") == 2
    assert "warnings.warn" not in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--picture", "m.txt"], "must end in .png"),
        (["--json", "{files}"], "it is a folder"),
        (["--json", "{files}/drive.avi/x.json"], "is not a folder"),
        (["--json", "/proc/nothing/m.json"], "cannot write"),
        (["--evidence", "pairs"], "did you mean 'pair'"),
        (["--device", "cuda:97"], "cuda"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--runtime", "tensorflow"], "unknown runtime"),
        (["--min-probability", "2"], "--min-probability"),
        (["--every", "3"], "--every is for a whole drive"),
        (["--video", "m.mp4"], "--video is for a whole drive"),
        (["--camera", "1,2"], "found 2 numbers"),
        (["--pictur", "m.png"], "--picture"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2_before_anything_is_computed(
    files: Path, robust: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    def computed(*_: object) -> None:
        raise AssertionError("computed before the options were checked")

    monkeypatch.setattr(OnnxMatcher, "embed", computed)
    images, boxes = files / "drive" / "images", files / "drive" / "boxes"
    pair = [images / "000000.png", images / "000001.png"]
    pair += ["--boxes-a", boxes / "000000.json", "--boxes-b", boxes / "000001.json"]
    code, _, errors = robust("match", *pair, *(word.format(files=files) for word in arguments))
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match"], "Missing argument 'A'"),
        (["match", "{files}/drive/images/000000.png"], "one image alone"),
        (["match", "{files}/drive/images", "--no-detector"], "no landmarks for"),
        (["match", "{files}/nowhere"], "not found"),
        (["match", "{files}/drive", "--picture", "m.png"], "--picture is for two images"),
        (["match", "{files}/drive", "--video", "m.gif"], "must end in .mp4 or .avi"),
        (["match", "{files}/drive", "--every", "9"], "fewer than two frames"),
        (["matsch"], "Did you mean 'match'"),
    ],
)
def test_what_cannot_be_matched_is_refused_in_one_line(
    files: Path, robust: Any, arguments: list[str], message: str
) -> None:
    code, _, errors = robust(*(word.format(files=files) for word in arguments))
    assert code == 2
    assert message in errors
    assert errors.splitlines()[-1].startswith("robustmat: ")
    assert "Traceback" not in errors


def test_a_missing_extra_is_one_line_wherever_it_is_missed(robust: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import robustmat.pipeline

    def lacking(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'torchode'", name="torchode")

    monkeypatch.setattr(robustmat.pipeline, "read_frame", lacking)
    code, _, errors = robust("match", "a.png", "b.png")
    assert (code, errors) == (2, "robustmat: this needs torchode: pip install 'robustmat[torch]'\n")
    need("json", "numpy")
    with pytest.raises(ConfigError, match=r"training needs nothing_like_it: pip install nothing_like_it"):
        need("json", "nothing_like_it", purpose="training")


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--out", "{place}"],
        ["simulate", "{place}"],
        ["perturb", "a.png", "--with", "paper:16", "--out", "{place}.png"],
        ["prepare", "kitti-odometry", "root", "--sequence", "00", "--out", "{place}"],
        ["inspect", "data", "--json", "{place}"],
        ["train", "street", "--data", "data", "--out", "{place}"],
        ["evaluate", "data", "--json", "{place}"],
        ["export", "onnx", "--out", "{place}"],
        ["bench", "scaling", "--json", "{place}"],
        ["reproduce", "main", "--data", "data", "--out", "{place}"],
    ],
)
def test_every_verb_refuses_an_unwritable_output_before_it_looks_at_anything_else(
    robust: Any, arguments: list[str]
) -> None:
    code, _, errors = robust(*(word.format(place="/proc/nothing/out") for word in arguments))
    assert code == 2
    assert errors.startswith("robustmat: cannot write /proc/nothing/out")
    assert errors.count("\n") == 1


def test_training_on_a_device_that_is_not_there_is_one_line(robust: Any) -> None:
    code, _, errors = robust("train", "street", "--data", "data", "--out", "run", "--device", "cuda:97")
    assert (code, errors.count("\n")) == (2, 1)
    assert "--device cuda:97" in errors


def test_an_unforeseen_full_disk_is_one_line_and_a_defect_of_ours_is_not_hidden(
    robust: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import robustmat.pipeline

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "m.json")

    monkeypatch.setattr(robustmat.pipeline, "read_frame", full)
    code, _, errors = robust("match", "a.png", "b.png")
    assert (code, errors) == (
        2,
        "robustmat: cannot write m.json: No space left on device; free some space and run the same command again\n",
    )

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(robustmat.pipeline, "read_frame", broken)
    monkeypatch.setattr(sys, "argv", ["robustmat", "match", "a.png", "b.png"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_devices_are_checked() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="choose cpu, cuda"):
        choose_device("cuda:first")


def test_outputs_are_checked_without_leaving_traces(tmp_path: Path) -> None:
    check_output(None)
    check_output(tmp_path / "new" / "deep" / "m.json")
    check_output(tmp_path / "new", folder=True)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is a file"):
        check_output(tmp_path / "file", folder=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        check_output(tmp_path / "m.json")
    tmp_path.chmod(0o700)


def test_help_shows_examples_and_groups() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "robustmat", "match", "--help"], capture_output=True, text=True, check=True
    )
    for word in ("Landmarks", "Which matches", "Output", "--every", "robustmat match a.png b.png"):
        assert word in done.stdout
