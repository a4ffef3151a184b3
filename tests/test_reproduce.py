"""Tables: trained, predicted, interrupted, resumed, and every number traceable."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from robustmat.checkpoints.store import load_checkpoint
from robustmat.cli import main
from robustmat.config import merged
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError, DataError
from robustmat.evaluation.metrics import measure
from robustmat.evaluation.predictions import read_predictions
from robustmat.methods import find_method, rivals
from robustmat.methods.matchnet import MatchNet
from robustmat.tables import reproduce as module
from robustmat.tables import values as tables_values
from robustmat.tables.budget import steps_within
from robustmat.tables.definitions import (
    ALL_METHODS,
    TABLES,
    Row,
    Training,
    choose_rows,
    choose_table,
    make_row,
    with_denoising,
)
from robustmat.tables.labels import row_label
from robustmat.tables.make import EXTRAS, write_table
from robustmat.tables.packed import Entry, make_judged
from robustmat.tables.paper import PAPER, paper_figures
from robustmat.tables.plan import (
    Cell,
    fingerprint,
    first_of,
    is_finished,
    learned_by,
    load_config,
    make_first,
    make_tests,
    run_folder,
)
from robustmat.tables.reproduce import Settings, Workspace, reproduce, train_command, train_missing
from robustmat.tables.values import COLUMNS, Line, Section, make_section, mean_section
from robustmat.training.config import load_training_config
from small_world import drive, make_boards

QUICK: dict[str, Any] = {
    "views": 1,
    "perturbations": ["clean"],
    "validation_perturbation": "clean",
    "frame_pairs_per_step": 2,
}
SMALL_MODEL = {
    "patch": {"size": 16},
    "vertex": {"stem_channels": 8, "channels": 8, "embedding_dim": 16, "pooling_grid": 2},
    "similarity_hidden": [16, 8],
}
HARDNET = Training("hardnet", "hardnet", QUICK | {"model": {"patch": {"size": 32, "margin": 2}}})
ROBUSTMAT = Training("robustmat", "street", QUICK | {"model": SMALL_MODEL | {"joint": None}})
ROWS = (
    Row("hardnet", HARDNET),
    Row("hardnet+neighbors", HARDNET, "neighbors"),
    Row("robustmat", ROBUSTMAT, "pair"),
)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(module, "STEPPED_REFERENCES", ("root-sift",))
    monkeypatch.setattr(tables_values, "BOOTSTRAPS", 20)


@pytest.fixture(scope="module")
def streets() -> list[LandmarkDataset]:
    return [drive(make_boards(8, seed), name=f"drive{seed}", world=f"town{seed}", frames=9) for seed in range(3)]


def make(path: Path, streets: list[LandmarkDataset], **settings: Any) -> tuple[Any, dict[tuple, Path]]:
    table = choose_table("main", ["clean", "awgn:20"])
    tests = make_tests(streets[:1], streets[1:2], streets[2:])
    workspace = Workspace(path, Settings(**{"seeds": (0,), "steps": 2, "most_frame_pairs": 20} | settings))
    found = reproduce(table, ROWS, tests, workspace)
    command = "robustmat reproduce main"
    return write_table("main", table, ROWS, tests, found, workspace, command, extras=EXTRAS), found


def test_an_interrupted_table_goes_on_and_ends_as_if_nothing_had_happened(
    streets: list[LandmarkDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, found = make(tmp_path / "whole", streets)
    seen = []
    evaluate = module.evaluate

    def deadly(*arguments: Any, **options: Any) -> Any:
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr(module, "evaluate", deadly)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "cut", streets)
    monkeypatch.setattr(module, "evaluate", evaluate)
    kept = {it: it.stat().st_mtime_ns for it in (tmp_path / "cut").rglob("*") if it.is_file()}
    assert any(it.suffix == ".npz" for it in kept)
    assert not (tmp_path / "cut" / "tables").exists()
    cut, again = make(tmp_path / "cut", streets)
    assert not [it for it, time in kept.items() if it.stat().st_mtime_ns != time]  # nothing is done twice
    assert {it.name: it.read_bytes() for it in found.values()} == {it.name: it.read_bytes() for it in again.values()}
    for name in ("csv", "predictions", "bars", "examples"):
        assert getattr(whole, name).read_bytes() == getattr(cut, name).read_bytes()
    pages = [written.page.read_text().replace(str(written.page.parent), "") for written in (whole, cut)]
    assert pages[0] == pages[1]

    # Every number of the CSV can be computed again from the file that the index names.
    index = json.loads(whole.index.read_text())
    files = {(cell["row"], cell["condition"]): cell["predictions"] for cell in index["cells"]}
    lines = list(csv.DictReader(whole.csv.open()))
    assert {it["method"] for it in lines} >= {"hardnet", "hardnet+neighbors", "robustmat", "root-sift", "box-geometry"}
    checked = 0
    for line in lines:
        if line["method"] != "hardnet+neighbors":
            continue
        predictions = read_predictions(tmp_path / "whole" / "predictions" / files[line["method"], line["condition"]])
        row = next(it for it in predictions.rows if it.name == "neighbors")
        kind = ("same-class", "random").index(line["negatives"])
        chosen = predictions.pairs.negatives == kind
        expected = measure(row.score[chosen], predictions.pairs.label[chosen], row.threshold)["roc_auc"]
        assert float(line["roc_auc"]) == pytest.approx(expected, abs=6e-5)
        checked += 1
    assert checked == 2 * 2  # conditions, negatives
    assert len(index["cells"]) == 2 * len(ROWS)
    for cell in index["cells"]:
        assert (tmp_path / "whole" / "predictions" / cell["predictions"]).is_file()
        assert (tmp_path / "whole" / "runs" / cell["run"] / "best" / "model.json").is_file()
        assert cell["evaluate"].startswith("robustmat evaluate drive")
        assert "--steps 2" in cell["train"]

    text = whole.page.read_text()
    assert "drive0 -> drive2; clean, awgn:20; same-class negatives" in text
    assert "lead over the best rival, awgn:20" in text
    assert "## Random negatives" in text
    for picture in (whole.bars, whole.examples):
        pixels = np.asarray(Image.open(picture))
        assert pixels.std() > 10  # something was drawn

    with pytest.raises(DataError, match="made with steps = 2, not 3"):
        make(tmp_path / "whole", streets, steps=3)


def line(label: str, *values: float) -> Line:
    return Line(label, dict.fromkeys(COLUMNS, values))


def test_the_mean_over_directions_is_taken_seed_by_seed() -> None:
    there = Section("a -> b", "paper:16", "random", (line("hardnet", 0.8, 0.6), line("robustmat", 0.9, 0.7)), {})
    back = Section("b -> a", "paper:16", "random", (line("hardnet", 0.6, 0.8), line("robustmat", 0.5, 0.9)), {})
    mean = mean_section([there, back])
    assert (mean.test, mean.mean_of) == ("mean", ("a -> b", "b -> a"))
    hardnet, robustmat = mean.lines
    assert hardnet.mean("f1") == pytest.approx(0.7)
    assert hardnet.deviation("f1") == pytest.approx(0.0)  # 0.7 with either seed
    assert robustmat.deviation("f1") == pytest.approx(np.std([0.7, 0.8], ddof=1))


def test_the_mean_over_directions_is_compared_by_the_objects_of_both(
    streets: list[LandmarkDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_values, "BOOTSTRAPS", 200)
    table = choose_table("main", ["clean"])
    tests = make_tests(streets[:1], streets[1:2], streets[2:], each_test=True)
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=1, most_frame_pairs=20))
    found = reproduce(table, ROWS[:1], tests, workspace)
    path = next(path for key, path in found.items() if key[0] == "hardnet")
    judged = make_judged(read_predictions(path))
    good, bad = (Entry(name, 0, sign * judged.label, 0, 0, judged) for name, sign in (("good", 1.0), ("bad", -1.0)))
    once = make_section("a", "clean", "same-class", [good, bad], ())
    swapped = make_section("b", "clean", "same-class", [replace(bad, label="good"), replace(good, label="bad")], ())
    assert once.differences["good"][1].ahead == 1
    assert once.differences["good"][1].value == pytest.approx(1)
    both = mean_section([once, once]).differences["good"][1]
    assert (both.value, both.ahead) == (pytest.approx(1), 1)
    evened = mean_section([once, swapped]).differences["good"][1]
    assert evened.value == pytest.approx(0)
    assert evened.low <= 0 <= evened.high


def test_a_changed_data_set_is_never_confused_with_the_old_one(streets: list[LandmarkDataset]) -> None:
    other = drive(make_boards(8, 0), name="drive0", world="town0", frames=8)
    assert fingerprint(streets[0]) == fingerprint(drive(make_boards(8, 0), name="drive0", world="town0", frames=9))
    assert fingerprint(streets[0]) != fingerprint(other)


def test_a_budget_becomes_steps_that_fit(streets: list[LandmarkDataset]) -> None:
    config = load_config(HARDNET, 0, None)
    short, long = (steps_within(config, streets[:1], minutes) for minutes in (0.001, 5.0))
    assert short == 20
    assert long > 100
    assert load_config(HARDNET, 0, 7).validate_every == 7  # one validation, at the end


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_every_table_can_be_configured(name: str) -> None:
    for row in TABLES[name].rows:
        if not row.training.needed:
            assert row.evidence in ("pair", *find_method(row.training.config).steps)
            continue
        config = load_config(row.training, 1, 10)
        assert config.steps == 10
        assert config.seed == 1
        assert row.evidence in (
            *find_method(config.method).learning.evidence,
            *find_method(config.method).learning.steps,
        )


def test_tables_have_the_papers_figures_beside_their_rows() -> None:
    for name, conditions in PAPER.items():
        labels = {row.label for row in TABLES[name].rows}
        for condition, rows in conditions.items():
            assert condition in TABLES[name].conditions
            assert all(label in labels or make_row(label).label == label for label in rows), name
    assert paper_figures("main", "paper:16", "robustmat")["f1"] == 0.9136
    assert paper_figures("weather", "clean", "hardnet", "train0 -> boreas-rainy-1")["recall"] == 0.8987
    assert paper_figures("weather", "rain:3", "hardnet", "noon -> overcast-3100")["recall"] == 0.8987
    assert paper_figures("weather", "clean", "hardnet", "noon -> overcast-3100")["recall"] == 0.8160
    assert paper_figures("weather", "clean", "hardnet", "snow -> train0") == {}
    assert paper_figures("weather", "paper:16", "hardnet", "noon -> winter") == {}
    assert paper_figures("main", "clean", "robustmat") == {}
    for figures in (it for conditions in PAPER.values() for rows in conditions.values() for it in rows.values()):
        precision, recall, f1, _ = figures
        assert 2 * precision * recall / (precision + recall) == pytest.approx(f1, abs=2e-3)  # no digit was lost


def test_rows_are_chosen_by_name_and_misspelt_ones_refused() -> None:
    rows = choose_rows("main", ["hardnet", "robustmat+frames", "sosnet+neighbors"])
    assert [it.label for it in rows] == ["hardnet", "robustmat+frames", "sosnet+neighbors"]
    assert rows[1].training.key == "robustmat"
    assert make_row("robustmat-gcn").training.changes["variant"] == "gcn"
    learned, beside = (load_config(make_row(it).training, 0, 5) for it in ("robustmat", "robustmat-handcrafted"))
    assert not learned.model.vertex.handcrafted  # type: ignore[attr-defined]
    assert beside.model.vertex.handcrafted  # type: ignore[attr-defined]
    context = load_config(make_row("hardnet-context+neighbors").training, 0, 5)
    assert context.model.patch.channels == 6  # type: ignore[attr-defined]
    crops = {name: load_config(make_row(name).training, 0, 5).model.patch.channels for name in ALL_METHODS}
    assert set(crops.values()) <= {1, 3}  # nobody sees more than the crop
    assert load_config(make_row("robustmat-context").training, 0, 5).model.patch.channels == 6
    fields = [load_config(make_row(it).training, 0, 5).model.vertex.field for it in ("robustmat", "robustmat-plain")]
    assert fields == ["contractive", "plain"]
    with pytest.raises(ConfigError, match="did you mean 'hardnet'"):
        choose_rows("main", ["hardnt"])
    with pytest.raises(ConfigError, match="did you mean 'main'"):
        choose_table("mian")
    with pytest.raises(ConfigError, match="paper"):
        choose_table("main", ["papr:16"])


def test_sides_and_tests_follow_the_table(streets: list[LandmarkDataset]) -> None:
    together = make_tests(streets[:1], [], streets[1:])
    assert [(it.side.name, it.name) for it in together] == [("drive0", "drive1+drive2")]
    apart = make_tests(streets[:1], [], streets[1:], each_test=True)
    assert [(it.side.name, it.name) for it in apart] == [("drive0", "drive1"), ("drive0", "drive2")]
    crossed = make_tests(streets[:2], [], [], each_side=True)
    assert [(it.side.name, it.name) for it in crossed] == [("drive0", "drive1"), ("drive1", "drive0")]
    with pytest.raises(DataError, match="--test"):
        make_tests(streets[:1], [], [])
    with pytest.raises(DataError, match="--data"):
        make_tests(streets[:1], [], [], each_side=True)
    left = make_tests(streets, [], [], leave_one_out=True)
    assert [(it.side.name, it.name) for it in left] == [
        ("drive1+drive2", "drive0"),
        ("drive0+drive2", "drive1"),
        ("drive0+drive1", "drive2"),
    ]
    for wrong in ((streets[:1], []), (streets[:2], streets[2:])):
        with pytest.raises(DataError, match="two or more, and no --test"):
            make_tests(wrong[0], [], wrong[1], leave_one_out=True)


@pytest.mark.slow  # ten trainings
def test_what_is_learned_first_is_learned_once_and_gone_on_from(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    held_out = [drive(make_boards(8, 3), name="drive3", world="town3", frames=9)]
    first = make_first(streets[:1], held_out, None)
    tests = make_tests(streets[1:], held_out, [], first=first, leave_one_out=True)
    plain = make_tests(streets[1:], held_out, [], leave_one_out=True)
    lines: list[str] = []
    settings = Settings(seeds=(0, 1), steps=2, most_frame_pairs=20)
    workspace = Workspace(tmp_path, settings, tell=lines.append)
    found = reproduce(choose_table("main", ["clean"]), (ROWS[0], ROWS[2]), tests, workspace)
    trained = [it for it in lines if it.startswith("training")]
    assert len([it for it in trained if f"on {first.name}" in it]) == 2  # two methods, whatever direction and seed
    assert len(trained) == 2 + 2 * 2 * 2
    assert len(set(found.values())) == len(found)
    shipped = {"hardnet": load_training_config("hardnet"), "robustmat": load_training_config("street")}
    side = next(test.side for test in tests if test.side.name == f"drive1-after-{first.name}")
    for method, config in shipped.items():
        folder = run_folder(tmp_path, make_row(method).training, side, 1)
        run = json.loads((folder / "run.json").read_text())
        assert run["config"]["learning_rate"] == pytest.approx(0.3 * config.learning_rate)
        header = json.loads((folder / "best" / "model.json").read_text())
        assert set(header["provenance"]["drives"]) == {"drive0", "drive1"}
        assert f"--start {tmp_path / 'runs' / method}--{first.name}--s0" in header["provenance"]["command"]
    cell = Cell("hardnet", tests[0], "clean", 0, "same")
    assert cell.path(tmp_path) != Cell("hardnet", plain[0], "clean", 0, "same").path(tmp_path)
    assert cell.path(tmp_path) != replace(cell, evidence=("pair",)).path(tmp_path)


def test_who_gains_nothing_by_towns_is_suited_to_them_and_learns_from_the_drives(
    streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    first = make_first(streets[:1], streets[2:], None)
    side = make_tests(streets[1:2], [], streets[2:], first=first, also=streets[:1])[0].side
    trainings = {name: make_row(name).training for name in (*rivals(), "robustmat", "street")}
    assert {name for name, it in trainings.items() if first_of(it, side) is None} == {"street"}
    alone = {name for name, it in trainings.items() if learned_by(it, side) == side.data}
    assert alone == {"matchnet", "solar", "delg", "cvnet", "robustmat", "street"}
    assert learned_by(trainings["hardnet"], side) == (*streets[1:2], *streets[:1])
    from_random = choose_rows("main", ["robustmat"], "paper")[0].training
    assert learned_by(from_random, side) == (*streets[1:2], *streets[:1])  # no warm start, nothing to spoil
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=3))
    hardnet, street = load_training_config("hardnet").learning_rate, load_training_config("street").learning_rate
    for name, steps, rate in (
        ("hardnet", 3, 0.3 * hardnet),
        ("matchnet", 0, load_training_config("matchnet").learning_rate),  # a distance on top of chance
        ("solar", 0, 3e-5),
        ("robustmat", 0, 0.3 * street),
    ):
        assert workspace.first_config(trainings[name], first).steps == steps
        assert workspace.config(trainings[name], side, 0).learning_rate == pytest.approx(rate)


@pytest.mark.parametrize("name", ["solar", "delg", "cvnet"])
@pytest.mark.parametrize(("steps", "short"), [(3, True), (99, True), (100, False), (None, False)])
def test_imagenet_features_take_their_whole_rate_when_there_is_time_for_it(
    name: str, steps: int | None, short: bool, streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    first = make_first(streets[:1], streets[2:], None)
    training = make_row(name).training
    whole = load_training_config(name).learning_rate
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=steps))
    for side in (make_tests(streets[1:2], [], streets[2:], first=it)[0].side for it in (None, first)):
        config = workspace.config(training, side, 0)
        assert config.learning_rate == (3e-5 if short else whole)
        note = train_command(training, side, config, tmp_path)
        assert ("learning_rate" in note) == short  # said where the preset alone would not do


def test_no_steps_suit_a_method_to_its_data(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    small = {"model": {"patch": {"size": 32, "margin": 2}, "hidden": 16}}
    training = Training("matchnet", "matchnet", QUICK | small)
    first = make_first(streets[:1], streets[2:], None)
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=3))
    config = workspace.first_config(training, first)
    run = train_missing(workspace, training, config, first, 0)
    assert is_finished(run, config)
    network = load_checkpoint(run).network
    assert isinstance(network, MatchNet)
    one, other = network.metric[0].weight.chunk(2, dim=1)  # type: ignore[union-attr, operator]
    assert torch.equal(one, -other)  # a distance still: nothing was learned


def test_rows_of_one_name_must_mean_one_training(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    other = Row("b", Training("hardnet", "hardnet", merged(QUICK, {"learning_rate": 1.0})))
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=1))
    with pytest.raises(DataError, match="two rows"):
        reproduce(choose_table("main"), [ROWS[0], other], make_tests(streets[:1], [], streets[2:]), workspace)


def test_a_checkpoint_that_was_trained_elsewhere_is_a_row(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    """It scores as it did where it was trained; only its threshold comes from the table's validation data."""
    (there,) = make_tests(streets[2:], streets[1:2], streets[:1])
    elsewhere = Workspace(tmp_path / "elsewhere", Settings(seeds=(0,), steps=2, most_frame_pairs=5))
    made = reproduce(choose_table("main", ["clean"]), ROWS[:2], [there], elsewhere)
    run = next((tmp_path / "elsewhere" / "runs").iterdir())
    rows = [make_row(str(run)), make_row(f"{run}+neighbors")]
    assert [row.label for row in rows] == [str(run), f"{run}+neighbors"]  # checkpoints of one name stay two rows
    (here,) = make_tests(streets[1:2], streets[2:], streets[:1])
    found = reproduce(choose_table("main", ["clean"]), rows, [here], replace(elsewhere, path=tmp_path / "here"))
    first, again = (
        {row.name: row for row in read_predictions(files[key, module.test_name(test), "clean", 0]).rows}
        for files, key, test in ((made, "hardnet", there), (found, rows[0].key, here))
    )
    assert set(first) == set(again) == {"pair", "neighbors"}
    assert np.array_equal(first["pair"].score, again["pair"].score)
    with pytest.raises(DataError, match="was trained on drive2"):
        reproduce(choose_table("main"), rows, make_tests(streets[1:2], [], streets[2:]), elsewhere)


def test_denoised_and_untrained_rows_stand_beside_trained_ones(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    """A denoised row shares its training; a method without training has its threshold from the same validation."""
    rows = (Row("hardnet", HARDNET), with_denoising(Row("hardnet", HARDNET)), make_row("root-sift+denoising"))
    table = replace(choose_table("denoising", ["awgn:16"]), rows=rows)
    workspace = Workspace(tmp_path, Settings((0,), steps=1, most_frame_pairs=5, denoiser="nlm"))
    tests = make_tests(streets[:1], streets[1:2], streets[2:])
    found = reproduce(table, rows, tests, workspace)
    assert {key for key, *_ in found} == {"hardnet", "hardnet+denoising", "root-sift+denoising"}
    assert [path.name.split("--")[0] for path in (tmp_path / "runs").iterdir()] == ["hardnet"]
    files = {key: read_predictions(path) for (key, *_), path in found.items()}
    assert {row.name for file in files.values() for row in file.rows} == {
        "pair"
    }  # steps that no row asks for cost time
    scores = {key: file.rows[0] for key, file in files.items()}
    assert not np.allclose(scores["hardnet"].score, scores["hardnet+denoising"].score)
    written = write_table("denoising", table, rows, tests, found, workspace, "robustmat ...", extras=["index"])
    page = written.page.read_text()
    assert "HardNet + denoising" in page
    assert "RootSIFT + denoising" in page
    cells = json.loads((tmp_path / "tables" / "denoising.json").read_text())["cells"]
    assert all("--frame-pairs 5" in cell["evaluate"] for cell in cells)
    assert [("train" in cell, "--denoise nlm" in cell["evaluate"]) for cell in cells] == [
        (True, False),
        (True, True),
        (False, True),
    ]


def test_the_keypoint_tables_hold_the_papers_rows_when_they_are_asked_for() -> None:
    rows = choose_rows("keypoints-neighborhood", ["loftr+neighbors+denoising", "street-shipped"])
    assert [(row.evidence, row.denoised, row.training.needed) for row in rows] == [
        ("neighbors", True, False),
        ("pair", False, True),
    ]
    assert paper_figures("keypoints-neighborhood", "paper:16", rows[0].label)["f1"] == 0.8925
    assert load_config(rows[1].training, 0, None).steps == 0
    assert row_label("loftr+neighbors+denoising") == "LoFTR + neighbors + denoising"


def test_rows_that_cannot_be_made_are_refused_before_anything_is(streets: list[LandmarkDataset]) -> None:
    with pytest.raises(ConfigError, match="sift looks at the crop alone"):
        make_row("sift-context")
    assert make_row("hardnet-context").training.changes
    with pytest.raises(DataError, match="leave out --leave-one-out"):
        make_tests(streets[:2], [], [], each_side=True, leave_one_out=True)


def test_a_row_for_the_start_takes_no_step_whatever_the_budget(streets: list[LandmarkDataset], tmp_path: Path) -> None:
    side = make_tests(streets[:1], [], streets[2:])[0].side
    for settings in (Settings(seeds=(0,), steps=7), Settings(seeds=(0,), budget=1.0)):
        workspace = Workspace(tmp_path / str(settings.steps), settings)
        for row in (make_row("robustmat-untrained"), choose_rows("ablation-modules", ["untrained"])[0]):
            config = workspace.config(row.training, side, 0)
            assert config.steps == 0
            assert config.warm_start
        assert workspace.config(make_row("robustmat-paper").training, side, 0).steps == 300  # its own, too


def test_the_papers_sizes_stand_beside_the_small_network() -> None:
    paper, small = (load_config(make_row(name).training, 0, 5).model for name in ("robustmat-paper", "robustmat"))
    assert (paper.patch.size, paper.vertex.channels) == (256, 128)  # type: ignore[attr-defined]
    assert (paper.vertex.solver.name, paper.graph.solver.name) == ("rk4", "rk4")  # type: ignore[attr-defined]
    assert small.patch.size == 64  # type: ignore[attr-defined]


def test_the_module_ablation_asks_the_papers_question_too() -> None:
    fields = {
        row.label: load_config(row.training, 0, None).model.vertex.field for row in TABLES["ablation-modules"].rows
    }  # type: ignore[attr-defined]
    assert fields["plain-field"] == "plain"
    assert fields["ode-pde"] == "contractive"


def test_a_runs_own_record_trains_it_again(tmp_path: Path) -> None:
    """A cell's configuration, written to a file, is all that its command needs."""
    config = load_config(choose_rows("ablation-modules", ["plain-field"])[0].training, 3, 11)
    whole = json.loads(config.model_dump_json())
    for name, content in (("run.json", {"config": whole, "drives": []}), ("cell.json", whole)):
        (tmp_path / name).write_text(json.dumps(content))
        assert load_training_config(tmp_path / name) == config


def test_nothing_is_tested_where_it_was_learned_or_chosen(streets: list[LandmarkDataset]) -> None:
    """By name or by place: another drive through the same street shows the same landmarks."""
    first, second, third = streets
    again = replace(first, name="first, in the rain")
    for test in (first, again):
        for options in (
            {"data": [first], "validation": [], "test": [test]},
            {"data": [second], "validation": [first], "test": [third, test]},
            {"data": [second], "validation": [third], "test": [test], "also": [first]},
            {"data": [second], "validation": [third], "test": [test], "first": make_first([first], [], None)},
            {"data": [first, second], "validation": [], "test": [test], "each_side": True},
        ):
            if options.get("each_side") and test is first:
                continue  # each side leaves its own drive out by name
            with pytest.raises(DataError, match=f"{test.name} cannot be tested on: .* test on another street"):
                make_tests(**options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="cannot be tested on"):
        make_tests([first, again, second], [], [], leave_one_out=True)


def test_a_run_of_another_configuration_or_of_other_data_is_not_taken_for_this_one(
    streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    side = make_tests(streets[:1], streets[1:2], streets[2:])[0].side
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=1))
    config = workspace.config(HARDNET, side, 0)
    run = train_missing(workspace, HARDNET, config, side, 0)
    assert run == run_folder(tmp_path, HARDNET, side, 0)
    assert is_finished(run, config)
    other = config.model_copy(update={"learning_rate": 9.0})
    assert not is_finished(run, other)
    with pytest.raises(DataError, match="another configuration"):
        train_missing(workspace, HARDNET, other, side, 0)
    shorter = drive(make_boards(8, 0), name=streets[0].name, world=streets[0].world, frames=8)
    changed = make_tests([shorter], streets[1:2], streets[2:])[0].side
    assert run_folder(tmp_path, HARDNET, changed, 0) != run
    begun = [replace(HARDNET, start=name) for name in ("street", "street-contractive")]
    assert len({run_folder(tmp_path, one, side, 0) for one in begun} | {run}) == 3


def test_a_row_whose_scores_cannot_know_what_it_asks_for_is_refused_before_training(
    streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    (test,) = make_tests(streets[:1], streets[1:2], streets[2:])
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=1))
    row = replace(make_row("street-shipped"), label="street-shipped+scene", evidence="scene")
    with pytest.raises(ConfigError, match=r"street-shipped\+scene cannot be made: its scores know pair, frames"):
        reproduce(choose_table("main"), [row], [test], workspace)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("stability --data D --perturb clean", "--perturb has no effect on stability"),
        ("pruning --test D --seeds 3", "--seeds has no effect on pruning"),
        ("pruning --test D --steps 7", "--steps means nothing without --data"),
        ("leave-one-out --data D --methods hardnet", "--methods has no effect on leave-one-out"),
        ("main --data D --parts", "--parts has no effect on main"),
        ("main --data D --first-budget 2", "--first-budget means nothing without --first"),
        ("main --from-predictions F --bars", "--bars has no effect on --from-predictions"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["robustmat", "reproduce", *arguments.split(), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert problem in " ".join(capsys.readouterr().err.split())


def test_a_command_names_the_checkpoint_that_its_training_begins_with(
    streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    first = make_first(streets[:1], streets[2:], None)
    side = make_tests(streets[1:2], [], streets[2:], first=first)[0].side
    workspace = Workspace(tmp_path, Settings(seeds=(0,), steps=3))
    hardnet = make_row("hardnet").training
    start = module.start_of(workspace, hardnet, side)
    assert first.name in str(start)
    assert f"--start {start}" in train_command(hardnet, side, workspace.config(hardnet, side, 0), tmp_path, start)
    assert module.start_of(workspace, make_row("street").training, side) == "street"
