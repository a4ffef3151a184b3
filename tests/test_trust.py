"""What somebody else wrote cannot lead us astray: weights, exports, names, options, files that changed meanwhile."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models_for_tests import small, untrained
from robustmat.checkpoints.store import WEIGHTS, load_checkpoint, save_checkpoint, shipped_checkpoints
from robustmat.cli.console import make_console
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset, read_points, write_dataset, write_points
from robustmat.dataset.unfinished import open_unfinished
from robustmat.errors import ConfigError, DataError, OutputError, RobustMatError, WeightsError
from robustmat.folders import locked
from robustmat.landmarks.config import LandmarkConfig
from robustmat.matching.manifest import read_manifest
from robustmat.matching.onnx import OnnxMatcher
from robustmat.sources import open_folder
from robustmat.tables.plan import short
from robustmat.training.loop import check_last
from robustmat.types import Frame, Landmark


@pytest.fixture
def robust(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Run the command line; gives the exit code and what stood on stderr."""
    from robustmat.cli import main

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["robustmat", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


# Weights


def changed(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """The checkpoint's weights, changed, with a header that vouches for them."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    header = json.loads((folder / "model.json").read_text())
    header["weights_sha256"] = ""
    (folder / "model.json").write_text(json.dumps(header))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    folder = save_checkpoint(tmp_path / "c", untrained())
    changed(folder, lambda tensors: next(iter(tensors.values())).view(-1)[:1].fill_(value))
    with pytest.raises(WeightsError, match="not finite"):
        load_checkpoint(folder)


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64, torch.float64])
def test_weights_of_another_kind_of_number_are_refused(tmp_path: Path, kind: torch.dtype) -> None:
    folder = save_checkpoint(tmp_path / "c", untrained())

    def change(tensors: dict[str, torch.Tensor]) -> None:
        name = next(iter(tensors))
        tensors[name] = tensors[name].to(kind)

    changed(folder, change)
    with pytest.raises(WeightsError, match="expected F32"):
        load_checkpoint(folder)


def test_a_small_file_cannot_ask_for_a_large_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_checkpoint(tmp_path / "c", untrained())
    header = json.loads((folder / "model.json").read_text())
    header["model"]["vertex"]["embedding_dim"] = 16384
    (folder / "model.json").write_text(json.dumps(header))
    made: list[str] = []
    monkeypatch.setattr("robustmat.checkpoints.store.load_tensors", lambda *_: made.append("loaded"))
    with pytest.raises(WeightsError, match="do not fit"):
        load_checkpoint(folder)
    assert not made


def test_weights_of_one_training_beside_the_header_of_another_are_refused(tmp_path: Path) -> None:
    one, other = (save_checkpoint(tmp_path / name, untrained()) for name in "ab")
    changed(other, lambda tensors: next(iter(tensors.values())).view(-1)[:1].add_(1))
    shutil.copy(other / WEIGHTS, one / WEIGHTS)
    with pytest.raises(WeightsError, match=r"is not what .* was written with"):
        load_checkpoint(one)


@pytest.mark.parametrize(
    "changes",
    [
        {"vertex": {"embedding_dim": 10**6}},
        {"vertex": {"end_time": 1e9}},
        {"vertex": {"solver": {"steps": 10_000}}},
        {"vertex": {"solver": {"max_evaluations": 10**9}}},
        {"vertex": {"contraction_rate": 1e300}},
        {"graph": {"num_neighbors": 10**6}},
        {"patch": {"size": 10**5}},
        {"similarity_hidden": [8] * 1000},
        {"joint": {"width": 10**6, "heads": 10**6}},
    ],
    ids=str,
)
def test_no_configuration_can_ask_for_unbounded_time_or_memory(changes: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, ValueError)):
        small(**changes)


# Exports


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped_checkpoints()["street"] / "onnx", tmp_path / "onnx"))


def test_a_mixture_of_two_exports_is_refused(export: Path) -> None:
    other = shipped_checkpoints()["street-contractive"] / "onnx"
    shutil.copy(other / "score_placement.onnx", export / "score_placement.onnx")
    with pytest.raises(WeightsError, match="belongs to another export"):
        OnnxMatcher(export)


def test_a_manifest_cannot_name_files_elsewhere_or_leave_parts_out(export: Path) -> None:
    whole = json.loads((export / "export.json").read_text())
    for change in (
        {"parts": {**whole["parts"], "vertex": {**whole["parts"]["vertex"], "file": "../vertex.onnx"}}},
        {"parts": {name: part for name, part in whole["parts"].items() if name != "vertex"}},
        {"decisions": {}},
        {"num_neighbors": 10**6},
        {"vertex_dim": 10**8},
    ):
        (export / "export.json").write_text(json.dumps(whole | change))
        with pytest.raises(RobustMatError):
            read_manifest(export)


def test_a_manifest_that_promises_other_sizes_than_the_files_give_is_refused(export: Path) -> None:
    whole = json.loads((export / "export.json").read_text())
    (export / "export.json").write_text(json.dumps(whole | {"vertex_dim": 7}))
    frame = Frame.from_array(np.zeros((40, 60, 3), np.uint8), [Landmark((5, 5, 20, 30), "pole")])
    with pytest.raises(WeightsError, match="7 finite numbers"):
        OnnxMatcher(export).embed(frame)


# Training


def test_a_broken_foreign_or_empty_last_checkpoint_is_named_with_what_to_do(tmp_path: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(size, 1)

    path, whole = tmp_path / "last.ckpt", {"callbacks": {}, "optimizer_states": [], "lr_schedulers": [], "loops": {}}
    torch.save({**whole, "global_step": 3, "state_dict": Module(2).state_dict()}, path)
    check_last(path, Module(2))
    good = path.read_bytes()
    foreign = tmp_path / "foreign.ckpt"
    torch.save({"weights": [1, 2]}, foreign)
    for content in (b"", good[:-100], good[: len(good) // 2], b"PK\x03\x04", foreign.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match="delete it"):
            check_last(path, Module(2))
    path.write_bytes(good)
    with pytest.raises(DataError, match="of another run"):
        check_last(path, Module(3))


# Names


@pytest.mark.parametrize(
    "name", ["../../etc", "/root", "a/b", "..", ".hidden", "\x1b[31m", "ü" * 100, "x" * 300, "[/x]"]
)
def test_a_data_sets_name_leads_nowhere_and_fits_a_file_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"hardnet--{short(name)}--s0"
    assert path.resolve().parent == tmp_path.resolve()
    assert len(os.fsencode(path.name)) < 255
    path.mkdir()
    assert short(name) != short(name + "x")


def test_plain_names_stay_as_they_are() -> None:
    for name in ("2011_09_26_drive_0013", "boreas-2020-11-26-13-58", "a+b"):
        assert short(name) == name


def test_markup_and_control_characters_are_printed_as_they_are_spelt(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    name = "[/x][red]d\x1b[31m\x07:smile:"
    console = make_console()
    console.print(f"{name}, clean", style="bold")
    table = Table("name", title=name)
    table.add_row(name)
    console.print(table)
    shown = capsys.readouterr().out
    assert shown.count("[/x][red]d\\x1b[31m\\x07:smile:") == 3
    assert "\x1b" not in shown


def test_a_data_set_of_any_name_can_be_inspected(tmp_path: Path, robust: Any) -> None:
    frame = Frame.from_array(np.zeros((40, 60, 3), np.uint8), [Landmark((5, 5, 20, 30), "pole")], name="one")
    write_dataset(tmp_path / "d", "[/x]\x1b[2J", "[bold", [(frame, None)], source={"identities": "[/y]"})
    code, errors = robust("inspect", str(tmp_path / "d"))
    assert (code, errors) == (0, "")


# Options


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400"])
def test_no_number_of_any_command_may_be_nan_or_infinite(robust: Any, tmp_path: Path, value: str) -> None:
    for words in (("simulate", str(tmp_path / "x"), "--spacing"), ("simulate", str(tmp_path / "x"), "--scale")):
        code, errors = robust(*words, value)
        assert (code, errors.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("--spacing", "-1"),
        ("--spacing", "1e300"),
        ("--start", "1e300"),
        ("--seed", "9" * 40),
        ("--frames", "9" * 12),
        ("--sequence", "../../x"),
        ("--layout", "[/x]"),
    ],
)
def test_numbers_and_names_beyond_any_use_are_refused_before_anything_is_written(
    robust: Any, tmp_path: Path, words: tuple[str, str]
) -> None:
    code, errors = robust("simulate", str(tmp_path / "x"), *words)
    assert (code, errors.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())


def test_threads_must_be_some(robust: Any) -> None:
    code, errors = robust("train", "street", "--data", "d", "--out", "o", "--threads", "-3")
    assert code == 2
    assert "--threads" in errors


# Data


def plain_folder(folder: Path) -> Path:
    import PIL.Image

    for name in ("a", "b"):
        for kind, pixels in (("images", np.zeros((40, 60, 3), np.uint8)), ("masks", np.full((40, 60), 255, np.uint8))):
            pixels[10:30, 20:40] = 7
            (folder / kind).mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(pixels).save(folder / kind / f"{name}.png")
    return folder


@pytest.mark.parametrize("keep_time", [False, True])
def test_unfinished_work_on_labels_that_changed_since_is_not_used(tmp_path: Path, keep_time: bool) -> None:
    drive, config = open_folder(plain_folder(tmp_path / "drive")), LandmarkConfig()
    work = open_unfinished(tmp_path / "out", drive, config)
    kept = work.folder / "kept"
    kept.write_text("")
    assert open_unfinished(tmp_path / "out", drive, config) == work
    assert kept.exists()
    path = tmp_path / "drive" / "masks" / "b.png"
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    open_unfinished(tmp_path / "out", drive, config)
    assert not kept.exists()


def test_verify_compares_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustmat.dataset.unfinished.SAMPLED_BYTES", 4)
    drive, config = open_folder(plain_folder(tmp_path / "drive")), LandmarkConfig()
    kept = open_unfinished(tmp_path / "out", drive, config, verify=True).folder / "kept"
    kept.write_text("")
    path = tmp_path / "drive" / "masks" / "b.png"
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    open_unfinished(tmp_path / "out", drive, config)  # by size, time and sample it is the same
    assert kept.exists()
    open_unfinished(tmp_path / "out", drive, config, verify=True)
    assert not kept.exists()


def test_kept_points_with_a_broken_header_are_named(tmp_path: Path) -> None:
    write_points(tmp_path, "one", np.ones((3, 3)))
    path = tmp_path / "lidar" / "one.npy"
    path.write_bytes(path.read_bytes().replace(b"}", b" "))
    with pytest.raises(DataError, match="delete the file"):
        read_points(tmp_path, "one")


def test_two_preparations_into_one_folder_are_kept_apart(tmp_path: Path) -> None:
    drive = open_folder(plain_folder(tmp_path / "drive"))
    with locked(tmp_path / "out"), pytest.raises(OutputError, match="is being written by process"):
        prepare(drive, tmp_path / "out")
    assert len(open_dataset(prepare(drive, tmp_path / "out")).frames) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drive", "out"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("T_world_camera", [[1, 0, 0, 0], [0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        ("T_world_camera", [[1, 0, 0, 1e308], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        ("name", "../../x"),
        ("image", "x" * 5000),
        ("name", "a\0b"),
        ("size", [10**30, 10]),
        ("landmarks", [{"box": [1, 1, 2, 2], "category": "pole", "identity": 10**30}]),
        ("landmarks", None),
    ],
)
def test_a_line_of_a_data_set_that_makes_no_sense_is_named(tmp_path: Path, key: str, value: Any) -> None:
    frame = Frame.from_array(np.zeros((40, 60, 3), np.uint8), [Landmark((5, 5, 20, 30), "pole")], name="one")
    path = write_dataset(tmp_path / "d", "n", "w", [(frame, None)], source={}) / "frames.jsonl"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}) + "\n")
    with pytest.raises(DataError, match="line 1"):
        open_dataset(tmp_path / "d")
