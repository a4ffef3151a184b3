"""Packed predictions: a table is made again without training, to the last digit."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robustmat.cli import main
from robustmat.dataset.pairs import NEGATIVES
from robustmat.errors import DataError
from robustmat.evaluation.bootstrap import Difference
from robustmat.evaluation.metrics import measure
from robustmat.tables import values as tables_values
from robustmat.tables.definitions import TABLES
from robustmat.tables.make import write_again
from robustmat.tables.packed import THRESHOLD, Entry, Judged, PackedTable, levels, read_packed, write_packed
from robustmat.tables.values import COLUMNS, compare_entries

ROOT = Path(__file__).parent.parent
RESULTS, PREDICTIONS = ROOT / "results", ROOT / "predictions"
CONDITIONS = ("clean", "paper:19", "paper:16", "paper:13")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_values, "BOOTSTRAPS", 20)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["robustmat", "reproduce", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def judged(seed: int) -> Judged:
    rng = np.random.default_rng(seed)
    label = rng.random(80) < 0.75
    first = rng.integers(0, 9, 80)
    return Judged(np.repeat([0, 1], 40), label, first, np.where(label, first, first + 1), possible=20)


def packed(labels: list[str], seeds: int = 1) -> PackedTable:
    cells = {}
    for test in ("b+c -> a", "a+c -> b"):
        for condition in CONDITIONS:
            for seed in range(seeds):
                truth, rng = judged(seed), np.random.default_rng(len(cells))
                scores = {label: rng.integers(-300, 300, 80) + 200.0 * truth.label for label in [*labels, "root-sift"]}
                cells[test, condition, seed] = tuple(
                    Entry(label, seed, score, int(rng.integers(9)), 5, truth) for label, score in scores.items()
                )
    return PackedTable("main", "robustmat reproduce main --data A", "Seeds 0.", ("root-sift",), cells)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("threshold", [-9.0, 0.3, 1.0, 9.0])
def test_levels_give_every_number_of_a_table_exactly(ties: bool, threshold: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        label = rng.random(60) < 0.75
        score = rng.normal(label, 1.0)
        score = np.round(score) if ties else score
        level = levels(score, label, threshold)
        expected, found = measure(score, label, threshold), measure(level, label, THRESHOLD)
        for metric in COLUMNS:
            if metric != "match_f1":
                assert found[metric] == pytest.approx(expected[metric], nan_ok=True), metric
        truth = Judged(np.zeros(60, np.int64), label, *(rng.integers(0, 7, (2, 60))), possible=0)
        other = rng.normal(label, 2.0)

        def lead(mine: np.ndarray, truth: Judged = truth, other: np.ndarray = other) -> Difference:
            both = [([Entry("a", 0, mine, 0, 0, truth)], [Entry("b", 0, other, 0, 0, truth)])]
            return compare_entries(both, NEGATIVES[0])

        exact, again = lead(score), lead(level)
        assert (again.value, again.low, again.high) == pytest.approx((exact.value, exact.low, exact.high))


def test_levels_are_few_where_labels_are_told_apart() -> None:
    label = np.arange(1000) >= 300
    assert sorted(set(levels(np.arange(1000.0), label, 500.0))) == [-2, -1, 0]


def test_a_packed_table_comes_back_as_it_was_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = packed(["hardnet", "robustmat"], seeds=2)
    for name in ("a.npz", "b.npz"):
        write_packed(tmp_path / name, made)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = read_packed(tmp_path / "a.npz")
    assert (again.table, again.command, again.amount, again.references) == (
        made.table,
        made.command,
        made.amount,
        made.references,
    )
    assert list(again.cells) == list(made.cells)
    for cell, entries in made.cells.items():
        for ours, theirs in zip(entries, again.cells[cell], strict=True):
            assert (ours.label, ours.seed, ours.right, ours.wrong) == (
                theirs.label,
                theirs.seed,
                theirs.right,
                theirs.wrong,
            )
            assert (ours.score == theirs.score).all()
            for name in ("negatives", "label", "identity_a", "identity_b"):
                assert (getattr(ours.judged, name) == getattr(theirs.judged, name)).all()
            assert ours.judged.possible == theirs.judged.possible


def test_other_tables_are_excerpts_of_the_same_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [row.label for row in TABLES["main"].rows]
    write_packed(tmp_path / "main.npz", packed(labels))
    whole = write_again(tmp_path / "main.npz", tmp_path)
    known = {
        (line["test"], line["condition"], line["negatives"], line["method"]): line
        for line in csv.DictReader(whole.csv.open())
    }
    for kind in ("noise-levels", "neighborhood"):
        assert run(monkeypatch, kind, "--from-predictions", tmp_path / "main.npz", "--out", tmp_path / "x") == 0
        page = (tmp_path / "x" / "tables" / f"{kind}.md").read_text()
        again = f"robustmat reproduce {kind} --from-predictions {tmp_path / 'main.npz'}"
        assert again in " ".join(page.replace("\\\n", " ").split())
        assert "robustmat reproduce main --data A" in page
        lines = list(csv.DictReader((tmp_path / "x" / "tables" / f"{kind}.csv").open()))
        assert {line["method"] for line in lines} == {*(row.label for row in TABLES[kind].rows), "root-sift"}
        assert {line["condition"] for line in lines} == set(TABLES[kind].conditions)
        assert all(known[line["test"], line["condition"], line["negatives"], line["method"]] == line for line in lines)


def test_the_command_on_a_page_makes_that_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, conditions and the name of an excerpt are said, so that the command gives the very same files."""
    write_packed(tmp_path / "main.npz", packed(["hardnet", "robustmat"]))
    asked = ("--methods", "hardnet", "--perturb", "clean", "--name", "excerpt", "--out", tmp_path / "x")
    assert run(monkeypatch, "main", "--from-predictions", tmp_path / "main.npz", *asked) == 0
    page = tmp_path / "x" / "tables" / "excerpt.md"
    command = page.read_text().split("```sh\n")[2].split("```")[0].replace("\\\n", " ").split()
    assert command[:2] == ["robustmat", "reproduce"]
    assert run(monkeypatch, *command[2:], "--out", tmp_path / "y") == 0
    for file in ("excerpt.md", "excerpt.csv"):
        assert (tmp_path / "y" / "tables" / file).read_bytes() == (page.parent / file).read_bytes()


def test_what_a_file_does_not_hold_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_packed(tmp_path / "main.npz", packed(["hardnet", "robustmat"]))
    with pytest.raises(DataError, match=r"no predictions of the row .*sosnet.*there are those of hardnet, robustmat"):
        write_again(tmp_path / "main.npz", tmp_path, kind="neighborhood")
    with pytest.raises(DataError, match="no predictions of the condition snow:3"):
        write_again(tmp_path / "main.npz", tmp_path, conditions=["snow:3"])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "main.npz").read_bytes()[:500])
    for table, name, expected in (
        ("main", "cut.npz", "not a prediction file of"),
        ("main", "none.npz", "not found"),
        ("stability", "main.npz", "no table of trained methods"),
        ("mian", "main.npz", "did you mean 'main'"),
    ):
        assert run(monkeypatch, table, "--from-predictions", tmp_path / name, "--out", tmp_path / "y") == 2
        assert expected in " ".join(capsys.readouterr().err.split())


def test_a_table_made_in_parts_is_the_table_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = packed(["hardnet", "robustmat"], seeds=3)

    def part(name: str, seeds: set[int], labels: set[str]) -> Path:
        cells = {
            cell: tuple(entry for entry in entries if entry.label in labels)
            for cell, entries in whole.cells.items()
            if cell[2] in seeds
        }
        amount = f"Seeds {', '.join(map(str, sorted(seeds)))}; 3 min of one core."
        write_packed(tmp_path / name, replace(whole, cells=cells, command=f"make {name}", amount=amount))
        return tmp_path / name

    write_packed(tmp_path / "whole.npz", whole)
    early = part("early.npz", {0, 1}, {"hardnet", "root-sift"})
    late = part("late.npz", {2}, {"hardnet", "root-sift"})
    other = part("other.npz", {0, 1, 2}, {"robustmat", "root-sift"})
    given = ("main", "--out", tmp_path / "x", "--methods", "hardnet,robustmat")
    files = [part for path in (early, other, late) for part in ("--from-predictions", path)]
    assert run(monkeypatch, *given, *files) == 0
    joined = tmp_path / "x" / "tables" / "main.npz"
    expected = write_again(tmp_path / "whole.npz", tmp_path, "main")
    assert joined.with_suffix(".csv").read_bytes() == expected.csv.read_bytes()
    again = read_packed(joined)
    assert {key: [entry.label for entry in cell] for key, cell in again.cells.items()} == {
        key: [entry.label for entry in cell] for key, cell in whole.cells.items()
    }
    page = joined.with_suffix(".md").read_text()
    assert all(f"\nmake {path.name}\n" in page for path in (early, late, other))
    assert "Seeds 0, 1, 2; 3 min of one core. Expect" in page

    moved = tmp_path / "z" / "tables" / "main.npz"
    moved.parent.mkdir(parents=True)
    moved.write_bytes(early.read_bytes())
    parts = ("--from-predictions", moved, "--from-predictions", late, "--methods", "hardnet")
    assert run(monkeypatch, "main", *parts, "--out", tmp_path / "z") == 2
    assert "would replace" in " ".join(capsys.readouterr().err.split())
    assert moved.read_bytes() == early.read_bytes()

    strange = replace(
        whole, cells={key: tuple(replace(one, judged=judged(7)) for one in cell) for key, cell in whole.cells.items()}
    )
    write_packed(tmp_path / "strange.npz", strange)
    write_packed(tmp_path / "weather.npz", replace(whole, table="weather"))
    for second, problem in (
        (other.name, "none of the files holds the row hardnet"),
        ("whole.npz", "two of the files hold the row hardnet"),
        ("strange.npz", "other pairs were drawn"),
        ("weather.npz", "cannot be joined with those of main"),
    ):
        pair = ("--from-predictions", early, "--from-predictions", tmp_path / second)
        assert run(monkeypatch, "main", *pair, "--out", tmp_path / "y") == 2
        assert problem in " ".join(capsys.readouterr().err.split())
        assert not (tmp_path / "y").exists()


def test_a_refused_join_leaves_the_table_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = replace(packed(["sift", "xfeat"], seeds=2), references=())
    halves = []
    for seed in (0, 1):
        part = replace(whole, cells={cell: entries for cell, entries in whole.cells.items() if cell[2] == seed})
        write_packed(tmp_path / f"{seed}.npz", replace(part, amount=f"Seeds {seed}; 1 min of one core; robustmat 1.0."))
        halves += ["--from-predictions", tmp_path / f"{seed}.npz"]
    longer = replace(part, amount="Seeds 1; 30 min of one core; robustmat 1.0.")
    write_packed(tmp_path / "longer.npz", longer)
    out = tmp_path / "out"
    assert run(monkeypatch, "main", *halves, "--out", out) == 0
    kept = (out / "tables" / "main.npz").read_bytes()
    for files, asked, problem in (
        (halves, ("--methods", "delg"), "no predictions of the row delg: there are those of"),
        (halves, ("--perturb", "snow:3"), "no predictions of the condition snow:3"),
        (halves, ("--against", "delg"), "no predictions of the row delg"),
        ([*halves[:3], tmp_path / "longer.npz"], (), "trained for 1 min of one core in one file, for 30 min of one"),
    ):
        assert run(monkeypatch, "main", *files, *asked, "--out", out) == 2
        assert problem in " ".join(capsys.readouterr().err.split())
        assert (out / "tables" / "main.npz").read_bytes() == kept


def test_the_page_of_a_joined_table_says_how_it_was_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, label in (("a", "sift"), ("b", "xfeat")):
        write_packed(f"{name}.npz", packed([label]))
    given = ("main", "--from-predictions", "a.npz", "--from-predictions", "b.npz", "--name", "both", "--methods")
    assert run(monkeypatch, *given, "sift,xfeat") == 0
    page = Path("reproduce/tables/both.md").read_text().replace(" \\\n    ", " ")
    command = (
        "robustmat reproduce main --from-predictions a.npz --from-predictions b.npz --name both --methods sift,xfeat"
    )
    assert f"\n{command}\n" in page


def test_what_a_joined_excerpt_leaves_out_need_not_be_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slow rows can be made under fewer conditions than quick ones, and each table takes what it needs."""
    whole = packed(["sift", "sift+denoising"])
    clean, noisy = whole.excerpt(["sift"], ["clean"]), whole.excerpt(None, ["paper:16"])
    write_packed(tmp_path / "clean.npz", clean)
    write_packed(tmp_path / "noisy.npz", noisy)
    files = ("--from-predictions", tmp_path / "clean.npz", "--from-predictions", tmp_path / "noisy.npz")
    assert run(monkeypatch, "main", *files, "--out", tmp_path / "x") == 2
    assert "none of the files holds the row sift+denoising" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "main", *files, "--out", tmp_path / "x", "--methods", "sift") == 0
    lines = (tmp_path / "x" / "tables" / "main.csv").read_text().splitlines()
    write_packed(tmp_path / "expected.npz", whole.excerpt(["sift"], ["clean", "paper:16"]))
    expected = write_again(tmp_path / "expected.npz", tmp_path, "main").csv.read_text().splitlines()
    assert sorted(lines) == sorted(expected)
    assert run(monkeypatch, "main", *files, "--out", tmp_path / "y", "--perturb", "paper:16") == 0
    assert {cell[1] for cell in read_packed(tmp_path / "y" / "tables" / "main.npz").cells} == {"paper:16"}
    assert run(monkeypatch, "main", *files, "--out", tmp_path / "z", "--methods", "delg") == 2
    assert "no predictions of the row delg" in " ".join(capsys.readouterr().err.split())


def test_leads_can_be_over_a_row_of_ones_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_packed(tmp_path / "main.npz", packed(["hardnet", "robustmat", "sosnet"]))
    given = ("main", "--from-predictions", tmp_path / "main.npz", "--out", tmp_path / "x")
    assert run(monkeypatch, *given, "--against", "hardnet") == 0
    page = (tmp_path / "x" / "tables" / "main.md").read_text()
    assert "lead over HardNet" in page
    assert "--against hardnet" in page
    rows = [line for line in page.splitlines() if line.startswith(("| HardNet |", "| SOSNet |", "| RobustMat (small"))][
        :3
    ]
    assert sum(row.endswith("(HardNet) |") for row in rows) == 2  # and HardNet over nobody
    assert run(monkeypatch, *given, "--against", "delg") == 2
    assert "no row 'delg' to compare with: the table has hardnet" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "main", "--against", "hardnet") == 2
    assert "--from-predictions" in capsys.readouterr().err


@pytest.mark.parametrize("file", sorted(PREDICTIONS.glob("*.npz")), ids=lambda path: path.stem)
def test_committed_tables_are_what_their_predictions_give(file: Path, tmp_path: Path) -> None:
    written = write_again(file, tmp_path, file.stem)
    assert written.csv.read_bytes() == (RESULTS / f"{file.stem}.csv").read_bytes()


def test_committed_predictions_take_a_few_megabytes() -> None:
    assert sum(path.stat().st_size for path in PREDICTIONS.iterdir()) < 8_000_000
