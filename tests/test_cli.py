"""The command line: what a user types and what comes back."""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

import scene
from models_for_tests import untrained
from robustmat.checkpoints.store import Provenance, save_checkpoint, shipped_checkpoints
from robustmat.cli import app, main
from robustmat.cli.checks import BRINGS, EXTRA_OF, missing_package
from robustmat.matching.decision import Decision
from robustmat.methods import method_names
from robustmat.sources.video import video_writer

VERBS = ["demo", "match", "simulate", "prepare", "inspect", "perturb", "train", "evaluate", "models"]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, check: bool = True) -> Done:
    """The command in this process, as `robustmat` runs it: another process would import everything anew."""
    shown, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown), redirect_stderr(told):
        patch.setattr(sys, "argv", ["robustmat", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
    done = Done(int(stopped.value.code or 0), shown.getvalue(), told.getvalue())
    if check:
        assert done.returncode == 0, done.stderr
    return done


def run_apart(*arguments: object) -> Done:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "robustmat", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


HIDE = """
import sys

class Hiding:
    def __init__(self, finder, packages):
        self.finder, self.packages = finder, packages

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.packages else self.finder.find_spec(name, path, target)

def hide(packages):
    sys.meta_path[:] = [Hiding(finder, packages) for finder in sys.meta_path]

"""


def run_without(packages: tuple[str, ...], *arguments: object) -> Done:
    """The command in a process of its own, where some packages are not installed."""
    code = f"{HIDE}hide({packages})\nfrom robustmat.cli import main\nmain()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, two images with boxes, and a drive in KITTI's layout."""
    root = tmp_path_factory.mktemp("cli")
    decision = Decision(threshold=0.0, match_threshold=0.0, slope=2, intercept=-2)
    save_checkpoint(root / "model", untrained(decision=decision, provenance=Provenance(drives=("seen",))))
    for seed, name in enumerate("ab"):
        pixels = np.random.default_rng(seed).integers(0, 256, (60, 90, 3)).astype(np.uint8)
        cv2.imwrite(str(root / f"{name}.png"), pixels)
        boxes = [{"box": [10.0 * i, 5, 10 * i + 8, 40], "category": "pole"} for i in range(3 + seed)]
        (root / f"{name}.json").write_text(json.dumps({"landmarks": boxes}))
    scene.write_kitti_raw(root / "kitti", frames=8)
    return root


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    assert "Usage: robustmat" in run(verb, "--help").stdout


@pytest.mark.parametrize("group", [(), ("detect",), ("odometry",)])
def test_a_group_alone_shows_its_help_once(group: tuple[str, ...]) -> None:
    shown = run(*group, check=False)
    assert shown.returncode == 2
    assert shown.stdout.count("Usage: robustmat") == 1
    assert shown.stderr == ""


@pytest.mark.parametrize("group", ["detect", "odometry"])
def test_a_groups_help_teaches_the_verb_that_need_not_be_named(group: str) -> None:
    from typer.main import get_command

    verb = get_command(app).commands[group]
    options = [name for one in verb.commands[verb.default].params for name in one.opts if name.startswith("--")]
    shown = run(group, "--help").stdout
    assert {"--out", "--detector", "--every"} < set(options)
    assert all(option in shown for option in options)
    assert shown.count(f"robustmat {group} ") > 1  # examples below the usage line
    assert "No such option" in run(group, "--nonsense", check=False).stderr


def test_match_writes_the_json_contract_and_a_picture(files: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "m.json", tmp_path / "m.png"
    shown = run(
        "match",
        files / "a.png",
        files / "b.png",
        "--boxes-a",
        files / "a.json",
        "--boxes-b",
        files / "b.json",
        "--checkpoint",
        files / "model",
        "--json",
        out,
        "--picture",
        picture,
    ).stdout
    found = json.loads(out.read_text())
    assert set(found) == {
        "a", "b", "matches", "unmatched_a", "unmatched_b",
        "checkpoint", "evidence", "min_probability", "threshold", "version",
    }  # fmt: skip
    assert (found["a"]["image"], found["b"]["image"], found["checkpoint"]) == ("a.png", "b.png", "model")
    assert len(found["a"]["landmarks"]) == 3
    assert set(found["a"]["landmarks"][0]) == {"box", "category"}
    assert found["matches"]
    for match in found["matches"]:
        assert set(match) == {"a", "b", "score", "probability"}
        assert 0 <= match["probability"] <= 1
    assert len(found["matches"]) + len(found["unmatched_a"]) == 3
    assert len(found["matches"]) + len(found["unmatched_b"]) == 4
    assert f"{len(found['matches'])} matches" in shown
    assert cv2.imread(str(picture)) is not None


def test_prepare_inspect_evaluate_and_match_by_mask_in_a_row(files: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    place = ["--date", scene.DATE, "--drive", scene.DRIVE, "--name", "small street", "--world", "town"]
    run("prepare", "kitti-raw", files / "kitti", *place, "--out", data)
    assert json.loads((data / "dataset.json").read_text())["name"] == "small street"
    assert "identities" in run("inspect", data).stdout
    report_path = tmp_path / "e.json"
    table = run(
        "evaluate", data, "--checkpoint", files / "model", "--perturb", "paper:16", "--json", report_path
    ).stdout
    assert "cross" in table
    report = json.loads(report_path.read_text())
    required = {
        "precision", "recall", "f1", "auc_paper", "roc_auc", "average_precision", "fpr95", "threshold", "n_matched",
        "n_unmatched", "n_identities", "n_frame_pairs", "match_precision", "match_recall", "match_f1", "intervals",
        "references", "seconds", "method", "checkpoint", "perturb", "negatives", "seed",
    }  # fmt: skip
    assert required <= set(report)
    assert report["perturb"] == "paper:16"
    assert abs(report["n_matched"] - 3 * report["n_unmatched"]) <= 1  # unmatched pairs are a whole number
    drive = files / "kitti" / scene.DATE / f"{scene.DATE}_drive_{scene.DRIVE}_sync"
    image, mask = (sorted((drive / it / "data").iterdir())[3] for it in ("image_02", "semantics_02"))
    run("match", image, image, "--masks-a", mask, "--masks-b", mask, "--checkpoint", files / "model")


def test_what_prepare_says_can_be_matched_can_be_matched(files: Path, tmp_path: Path) -> None:
    for kind, suffix in (("images", ".png"), ("boxes", ".json")):
        (tmp_path / "my drive" / kind).mkdir(parents=True)
        for name in "ab":
            shutil.copy(files / f"{name}{suffix}", tmp_path / "my drive" / kind)
    for options in ((), ("--copy-images",)):
        data = tmp_path / f"data{len(options)}"
        told = run("prepare", "folder", tmp_path / "my drive", "--out", data, *options).stdout
        assert ": 2 frames, 7 landmarks, 0 identities" in told
        _, command = told.splitlines()[-1].split("robustmat ")
        run(*shlex.split(command), "--checkpoint", files / "model")
    refused = run("match", tmp_path / "data0", check=False)
    assert refused.returncode == 2
    assert shlex.split(refused.stderr)[-2:] == ["match", str(tmp_path / "my drive")]


def test_train_makes_a_checkpoint_refuses_to_start_over_and_resumes(files: Path, tmp_path: Path) -> None:
    data = []
    for seed in (0, 1):
        scene.write_kitti_raw(tmp_path / f"kitti{seed}", seed=seed, frames=8)
        place = ["--date", scene.DATE, "--drive", scene.DRIVE, "--name", f"street{seed}", "--world", f"town{seed}"]
        run("prepare", "kitti-raw", tmp_path / f"kitti{seed}", *place, "--out", tmp_path / f"data{seed}")
        data.append(tmp_path / f"data{seed}")
    config = tmp_path / "tiny.toml"
    config.write_text(
        "steps = 2\nvalidate_every = 1\nviews = 1\nframe_pairs_per_step = 1\n[model]\npatch = { size = 32 }\n"
        "vertex = { stem_channels = 8, channels = 8, pooling_grid = 2, embedding_dim = 16 }\n"
    )
    command = ["train", config, "--data", data[0], "--val", data[1], "--out", tmp_path / "run", "--threads", 1]
    assert "best checkpoint" in run(*command).stdout
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()
    again = run(*command, check=False)
    assert again.returncode == 2
    assert "--resume" in again.stderr.splitlines()[-1]
    assert "best checkpoint" in run(*command, "--resume").stdout
    run("evaluate", data[1], "--checkpoint", tmp_path / "run", "--allow-seen", "--json", tmp_path / "e.json")
    assert "box-geometry" in json.loads((tmp_path / "e.json").read_text())["references"]


def test_perturb_writes_another_image_of_the_same_size(files: Path, tmp_path: Path) -> None:
    run("perturb", files / "a.png", "--with", "paper:16", "--out", tmp_path / "noisy.png")
    clean, noisy = cv2.imread(str(files / "a.png")), cv2.imread(str(tmp_path / "noisy.png"))
    assert noisy.shape == clean.shape
    assert (noisy != clean).any()


def test_one_image_is_one_image(files: Path, tmp_path: Path) -> None:
    told = run("denoise", files / "a.png", "--denoiser", "nlm", "--out", tmp_path / "clean.png").stdout
    assert told.startswith("1 image denoised by nlm")


@pytest.mark.parametrize("verb", ["detect", "denoise"])
def test_a_broken_image_of_a_folder_is_named_with_a_way_around_it(verb: str, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    shutil.copy(files / "a.png", folder)
    (folder / "b.png").write_bytes((files / "b.png").read_bytes()[:1000])
    tool = ("--detector", "classic") if verb == "detect" else ("--denoiser", "nlm")
    out = tmp_path / ("boxes.json" if verb == "detect" else "clean")
    refused = run(verb, folder, *tool, "--out", out, check=False)
    assert refused.returncode == 2
    assert f"broken: {folder / 'b.png'}" in refused.stderr
    assert f"to do without it, move it out of {folder}" in refused.stderr
    (folder / "b.png").unlink()
    run(verb, folder, *tool, "--out", out)


def test_hints_to_install_name_the_extra_that_brings_a_package() -> None:
    with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    brought: dict[str, set[str]] = {}
    for extra in extras.keys() - {"docs", "dev"}:
        for requirement in extras[extra]:
            name, _, inner = requirement.partition("[")
            if name == "robustmat":
                brought.setdefault(extra, set()).update(inner.rstrip("]").split(","))
            else:
                package = re.match(r"[\w-]+", name)[0].replace("-", "_")
                assert EXTRA_OF[package] == extra

    def all_of(extra: str) -> set[str]:
        return {name for other in brought.get(extra, ()) for name in (other, *all_of(other))}

    assert {extra: all_of(extra) for extra in brought} == BRINGS
    assert set(EXTRA_OF.values()) == extras.keys() - {"docs", "dev"}
    told = missing_package(["torch", "lightning", "tensorboard"], "training")
    assert told == "training needs torch, lightning and tensorboard: pip install 'robustmat[train]'"


@pytest.mark.parametrize(
    ("packages", "arguments", "extra"),
    [
        (("torch", "onnx"), ["export", "onnx", "--out", "out"], "export"),
        (("torch", "torch_pruning"), ["prune", "street", "--out", "out"], "prune"),
        (("torch", "lightning"), ["reproduce", "main"], "train"),
        (("rosbags",), ["prepare", "rosbag", "{files}/x.bag", "--out", "out"], "ros"),
        (("torch", "torchdiffeq"), ["bench", "training"], "bench"),
        (("evo",), ["odometry", "{files}/frames.avi", "--out", "{files}/out"], "odometry"),
    ],
)
def test_a_verb_without_its_packages_says_how_to_install_them(
    packages: tuple[str, ...], arguments: list[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\n")
    with video_writer(tmp_path / "frames.avi", 5.0) as add:
        for _ in range(2):
            add(np.zeros((40, 60, 3), np.uint8))
    told = run_without(packages, *(word.format(files=tmp_path) for word in arguments))
    assert told.returncode == 2
    assert told.stderr.endswith(f": pip install 'robustmat[{extra}]'\n")
    assert told.stderr.count("\n") == 1


def test_models_prints_the_papers_shapes() -> None:
    shown = run("models", "paper").stdout
    assert "128 x 64 x 64" in shown


def test_models_names_what_can_be_loaded_where_there_is_no_torch() -> None:
    told = run_without(("torch",), "models")
    assert told.returncode == 0, told.stderr
    shown = " ".join(told.stdout.replace("-\n", "-").split())
    assert all(name in shown for name in (*shipped_checkpoints(), *method_names()))
    assert "(robustmat models paper) needs torch: pip install 'robustmat[torch]'" in shown
    refused = run_without(("torch",), "models", "paper")
    expected = "robustmat: robustmat models paper needs torch: pip install 'robustmat[torch]'\n"
    assert refused == Done(2, "", expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", "nowhere.png", "b.png"], "nowhere.png"),
        (["match", "{files}/a.png", "{files}/b.png", "--no-detector"], "no landmarks for"),
        (["match", "{files}/a.png", "{files}/b.png", "--boxes-a", "{files}/a.png"], "box file"),
        (
            ["match", "{files}/a.png", "{files}/b.png", "--boxes-a", "{files}/a.json", "--boxes-b", "{files}/b.json",
             "--checkpoint", "nothing"],
            "no checkpoint 'nothing'",
        ),
        (["prepare", "kitti-raw", "{files}", "--date", "x", "--drive", "0001", "--out", "{files}/none"], "x"),
        (["inspect", "{files}"], "dataset.json"),
        (["evaluate", "{files}/missing", "--checkpoint", "{files}/model"], "missing"),
        (["train", "strete", "--data", "{files}", "--out", "{files}/run"], "strete"),
        (["perturb", "{files}/a.png", "--with", "papr:16", "--out", "{files}/x.png"], "paper"),
        (["models", "papre"], "did you mean 'paper'"),
        (["perturb", "{files}/a.png", "--with", "paper:16", "--out", "{files}/a.png/x.png"], "cannot write"),
        (["perturb", "{files}/a.png", "--with", "snow"], "needs a level (severity, 1 to 5): write snow:3"),
        (["detect", "{files}", "--picture", "{files}/x.png"], "x.png names one picture, but several are written"),
        (["denoise", "{files}", "--out", "{files}/x.png"], "x.png names one picture, but several are written"),
        (["detect", "{files}/a.png", "--picture", "{files}/x.gif"], "must end in .png"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_line_and_exit_code_2(files: Path, arguments: list[str], message: str) -> None:
    done = run(*(it.format(files=files) for it in arguments), check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_process_of_its_own_ends_alike(files: Path) -> None:
    told = run_apart("match", files / "a.png", files / "b.png", "--boxes-a", files / "missing.json")
    assert told == run("match", files / "a.png", files / "b.png", "--boxes-a", files / "missing.json", check=False)
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1
    helped = run_apart("--help")
    assert helped.returncode == 0
    assert all(verb in helped.stdout for verb in VERBS)
