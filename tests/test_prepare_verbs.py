"""`robustmat prepare` has a verb for every reader: what the reader takes is what the verb takes."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from robustmat.cli.prepare import app, read_docstring
from robustmat.dataset.store import open_dataset
from robustmat.sources import SOURCES
from robustmat.sources.boxes import read_boxes
from robustmat.sources.drive import Drive, image_loader
from robustmat.types import Frame


def open_pictures(root: Path | str, suffix: str, *, limit: int = 10, boxes: Path | str | None = None) -> Drive:
    """Pictures of one kind in a folder.

    Args:
        root: The folder.
        suffix: For example .png: what the names
            of the pictures end in.
        limit: At most so many.
        boxes: A box file that holds for all of them.
    """
    paths = sorted(Path(root).glob(f"*{suffix}"))[:limit]
    load_boxes = partial(read_boxes, Path(boxes), "a picture") if boxes else None
    frames = tuple(Frame(path.stem, image_loader(path, None), load_boxes=load_boxes) for path in paths)
    return Drive("pictures", "pictures", frames, tuple(paths))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(SOURCES, "pictures", open_pictures)
    for name in "abc":
        Image.fromarray(np.full((40, 60, 3), 90, np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "boxes.json").write_text('{"landmarks": [{"box": [5, 5, 20, 30], "category": "pole"}]}')
    return tmp_path


def test_a_reader_in_the_registry_is_a_verb_with_its_own_options(folder: Path) -> None:
    data = folder / "data"
    options = ["--suffix", ".png", "--limit", "2", "--boxes", str(folder / "boxes.json"), "--name", "mine"]
    result = CliRunner().invoke(app, ["pictures", str(folder), *options, "--out", str(data)], catch_exceptions=False)
    assert result.exit_code == 0
    dataset = open_dataset(data)
    assert (dataset.name, len(dataset.frames)) == ("mine", 2)
    assert dataset.frames[0].landmarks[0].category == "pole"


def test_a_drive_without_landmarks_is_said_to_be_one(folder: Path) -> None:
    (folder / "boxes.json").write_text('{"landmarks": []}')
    options = ["--suffix", ".png", "--boxes", str(folder / "boxes.json"), "--out", str(folder / "data")]
    told = CliRunner().invoke(app, ["pictures", str(folder), *options], catch_exceptions=False).output
    assert "0 landmarks" in told
    assert "label maps must hold Cityscapes train ids" in " ".join(told.split())
    assert "they need camera and poses" not in told  # not what is missing


def test_a_verbs_help_is_the_readers_docstring(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["pictures", "--help"], env={"COLUMNS": "200"}).output
    text = " ".join(shown.replace("│", " ").split())
    assert "Pictures of one kind in a folder." in text
    assert "what the names of the pictures end in" in text
    assert "Args" not in text
    assert "pictures" in CliRunner().invoke(app, ["--help"]).output


def test_a_missing_option_is_named(folder: Path) -> None:
    assert CliRunner().invoke(app, ["pictures", str(folder), "--out", "x"]).exit_code == 2
    refused = CliRunner().invoke(app, ["pictures", str(folder), "--suffix", ".png"])
    assert "--out" in str(refused.exception)


@pytest.mark.parametrize("name", SOURCES)
def test_every_reader_explains_all_that_it_takes(name: str) -> None:
    text, notes = read_docstring(inspect.getdoc(SOURCES[name]) or "")
    assert text
    assert notes.keys() == inspect.signature(SOURCES[name]).parameters.keys()
