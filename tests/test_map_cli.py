"""`robustmat map` from data set to picture, and its JSON contracts."""

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from robustmat.cli import app
from robustmat.dataset.store import write_dataset
from robustmat.errors import InputError
from small_world import CAMERA, drive, make_boards

QUERY = {"image", "unknown", "keyframe", "position", "probability", "seconds"}


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map of a street of boards, and two frames of another lane with their boxes."""
    folder = tmp_path_factory.mktemp("town")
    boards = make_boards(14, seed=3)
    monday, tuesday = drive(boards, name="monday"), drive(boards, name="tuesday", side=0.4, frames=8)
    for dataset in (monday, tuesday):
        frames = [(frame, None) for frame in dataset.frames]
        write_dataset(folder / dataset.name, dataset.name, "town", frames, source={})
    (folder / "queries").mkdir()
    (folder / "boxes").mkdir()
    for frame in tuesday.frames[2:6:3]:
        Image.fromarray(frame.image).save(folder / "queries" / f"{frame.name}.png")
        marks = [{"box": mark.box, "category": mark.category} for mark in frame.landmarks]
        (folder / "boxes" / f"{frame.name}.json").write_text(json.dumps({"landmarks": marks}))
    run("map", "build", folder / "monday", "--out", folder / "map", "--checkpoint", "root-sift", "--spacing", 3)
    return folder


def test_a_map_is_built_once_and_grows(town: Path) -> None:
    said = run("map", "build", town / "monday", "--out", town / "map", "--checkpoint", "root-sift", "--spacing", 3)
    assert "0 stretches of road added" in said
    run("map", "info", town / "map", "--json", town / "info.json")
    before = json.loads((town / "info.json").read_text())
    assert before["drives"] == ["monday"]
    assert set(before["bytes_per_kilometre"]) == {"float32", "float16", "int8"}
    run("map", "add", town / "map", town / "tuesday")
    run("map", "info", town / "map", "--json", town / "info.json")
    assert json.loads((town / "info.json").read_text())["drives"] == ["monday", "tuesday"]
    run("map", "info", town / "map", "--at", before["version"], "--json", town / "old.json")
    assert json.loads((town / "old.json").read_text())["keyframes"] == before["keyframes"]
    assert "compacted" in run("map", "compact", town / "map")


def test_query_and_locate_keep_their_contracts(town: Path) -> None:
    images = sorted((town / "queries").glob("*.png"))
    shared = (town / "map", *images, "--boxes", town / "boxes", "--min-probability", 0)
    run("map", "query", *shared, "--json", town / "query.json")
    answers = json.loads((town / "query.json").read_text())
    assert [answer["image"] for answer in answers] == [path.name for path in images]
    assert all(set(answer) >= QUERY for answer in answers)
    camera = ",".join(str(CAMERA.matrix[row, column]) for row, column in ((0, 0), (1, 1), (0, 2), (1, 2)))
    run("map", "locate", *shared, "--camera", camera, "--json", town / "locate.json", "--sequence")
    for answer in json.loads((town / "locate.json").read_text()):
        assert set(answer) >= {*QUERY, "T_world_camera", "covariance"}
    for picture in ("map.png", "map.html"):
        run("map", "plot", town / "map", "--out", town / picture, "--answers", town / "locate.json")
        assert (town / picture).stat().st_size > 1000


def test_missing_boxes_are_named(town: Path) -> None:
    image = next((town / "queries").glob("*.png"))
    with pytest.raises(InputError, match=r"expected .*json"):
        run("map", "query", town / "map", image, "--boxes", town / "queries")
    with pytest.raises(InputError, match="KEY=VALUE"):
        run("map", "info", town / "map", "--storage-option", "endpoint")
