"""The pages of tables: short enough to read, the mean first, and the same numbers in the CSV beside them."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from robustmat.evaluation.bootstrap import Difference
from robustmat.tables.definitions import TABLES
from robustmat.tables.labels import QUESTIONS, condition_label, row_label, short_names
from robustmat.tables.page import METRIC_LABELS, Commands, write_page
from robustmat.tables.plan import make_tests
from robustmat.tables.values import COLUMNS, Line, Section, mean_section
from robustmat.tables.write import write_csv
from small_world import drive, make_boards

RESULTS = Path(__file__).parent.parent / "results"
METRICS = {label: metric for metric, label in METRIC_LABELS.items()}


def line(name: str, *values: float, reference: bool = False) -> Line:
    return Line(name, dict.fromkeys(COLUMNS, values), reference)


def section(test: str, condition: str, negatives: str, gain: float = 0.0) -> Section:
    rows = (line("hardnet", 0.6 + gain, 0.8 + gain), line("robustmat", 0.7, 0.8), line("vgg", 0.5, 0.6, reference=True))
    return Section(test, condition, negatives, rows, {})


def sections(*conditions: str) -> list[Section]:
    found = []
    for condition in conditions:
        for negatives in ("same-class", "random"):
            both = [section("a -> b", condition, negatives), section("b -> a", condition, negatives, gain=0.1)]
            found += [mean_section(both), *both]
    return found


def write(folder: Path, known: list[Section], name: str = "main") -> str:
    return write_page(
        folder / f"{name}.md", "main", "Title", "Who wins?", known, Commands("robustmat x", "robustmat y", "Two seeds.")
    ).read_text()


def tables(text: str) -> list[list[list[str]]]:
    """All Markdown tables of a page, as cells."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split("|")] for row in block.splitlines()] for block in blocks]


def test_the_first_table_is_the_mean_over_directions_with_the_best_first_and_bold(tmp_path: Path) -> None:
    text = write(tmp_path, sections("clean", "paper:16"))
    assert text.index("Who wins?") < text.index("| method") < text.index("robustmat x")
    first = tables(text)[0]
    assert first[0][:3] == ["method", "ROC AUC, clean", "ROC AUC, 16 dB"]
    assert [row[0] for row in first[2:]] == ["HardNet", "RobustMat (small, contractive ODE)", "*VGG*"]
    assert first[2][1] == "**0.750 ± 0.141**"  # seeds 0.65 and 0.85: the mean of two directions, seed by seed
    assert first[4][1] == "0.550 ± 0.071"
    assert "## a -> b" in text
    assert "## Random negatives" in text


def test_one_condition_shows_its_tests_side_by_side(tmp_path: Path) -> None:
    head = tables(write(tmp_path, sections("paper:16")))[0][0]
    assert head[1:4] == ["ROC AUC, mean", "ROC AUC, a -> b", "ROC AUC, b -> a"]


def test_a_test_alone_needs_no_mean_and_ours_stand_beside_the_papers_figures(tmp_path: Path) -> None:
    text = write(tmp_path, [section("a -> b", "paper:16", "same-class")])
    assert tables(text)[0][0][1] == "ROC AUC"
    beside = tables(text)[-1]
    assert ["RobustMat (small, contractive ODE)", "0.750", "0.914", "0.750", "0.849"] in beside


def test_long_tables_are_split_by_what_scores_know(tmp_path: Path) -> None:
    rows = [line(f"{name}{step}", 0.5) for step in ("", "+competition", "+placement") for name in "abcdefghij"]
    extra = line("vgg+neighbors", 0.5, reference=True)
    found = tables(write(tmp_path, [Section("a -> b", "clean", "same-class", (*rows, extra), {})]))
    assert [len(table) - 2 for table in found] == [10, 10, 10, 1]


def test_single_tests_show_the_rows_of_the_first_table_and_the_csv_has_all(tmp_path: Path) -> None:
    rows = tuple(line(f"{name}{step}", 0.5) for step in ("", "+competition", "+placement") for name in "abcdefghij")
    both = [
        Section(test, kind, "same-class", rows, {}) for kind in ("clean", "paper:16") for test in ("a -> b", "c -> d")
    ]
    whole = [mean_section(both[:2]), *both[:2], mean_section(both[2:]), *both[2:]]
    found = tables(write(tmp_path, whole))
    assert [len(table) - 2 for table in found] == [10, 10, 10, 10, 10]  # three kinds of the mean, then two tests


def test_leads_are_of_the_shown_condition_with_their_intervals(tmp_path: Path) -> None:
    plain = [section("a -> b", condition, "same-class") for condition in ("clean", "paper:16")]
    leads = [{"robustmat": ("hardnet", Difference(gain, gain - 0.02, gain + 0.03))} for gain in (0.2, 0.05)]
    known = [replace(one, differences=lead) for one, lead in zip(plain, leads, strict=True)]
    text = write(tmp_path, known)
    assert "| lead over the best rival, 16 dB |" in text
    assert "| **+0.050 [+0.030, +0.080]** (HardNet) |" in text
    assert "lead" not in write(tmp_path, plain).lower().replace("leads to", "")


def test_the_csv_holds_every_mean_and_deviation_once(tmp_path: Path) -> None:
    known = sections("clean", "paper:16")
    lines = list(csv.DictReader(write_csv(tmp_path / "main.csv", known).open()))
    assert len(lines) == 2 * 2 * 3 * 3  # conditions, negatives, tests and their mean, rows
    found = next(
        line for line in lines if (line["test"], line["condition"], line["method"]) == ("mean", "clean", "robustmat")
    )
    assert (found["roc_auc"], found["roc_auc_deviation"], found["seeds"]) == ("0.7500", "0.0707", "2")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_asks_a_question_and_its_rows_have_labels_of_their_own(name: str) -> None:
    assert QUESTIONS[name].endswith("?")
    labels = [row_label(row.label) for row in TABLES[name].rows]
    assert len(set(labels)) == len(labels)
    assert not [label for label, row in zip(labels, TABLES[name].rows, strict=True) if label == row.label]


def test_names_are_short_where_that_tells_tests_apart() -> None:
    kitti = [drive(make_boards(4, k), name=f"2011_09_26_drive_{k:04}", world=f"w{k}", frames=3) for k in (2, 13)]
    towns = [drive(make_boards(4, k), name=f"t{k}", world=f"t{k}", frames=3) for k in range(6)]
    assert short_names(make_tests(kitti, [], [], leave_one_out=True)) == ["0013 -> 0002", "0002 -> 0013"]
    assert short_names(make_tests(towns[:3], [], kitti)) == ["3 drives -> 0002+0013"]
    assert short_names(make_tests(towns[:4], [], [], leave_one_out=True))[0] == "3 drives -> t0"
    assert [condition_label(name) for name in ("paper:16", "rain:3", "clean")] == ["16 dB", "rain:3", "clean"]


def test_every_committed_result_belongs_to_a_page_with_its_command_and_all_are_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    assert {path.suffix for path in files} <= {".md", ".csv", ".jsonl", ".png"}
    pages = {path.stem: path.read_text() for path in files if path.suffix == ".md"}
    for path in files:
        assert any(path.stem == page or path.stem.startswith(f"{page}-") for page in pages), path.name
    for name, text in pages.items():
        assert "robustmat " in text, name


def columns(page: Path) -> list[str]:
    """Of the CSV beside a page; none where there is no such file."""
    beside = page.with_suffix(".csv")
    return beside.read_text().partition("\n")[0].split(",") if beside.is_file() else []


# The paper's tables, which all have one layout.
PAGES = [path for path in sorted(RESULTS.glob("*.md")) if {"test", "negatives", "method"} <= set(columns(path))]


def check_leads(page: list[list[list[str]]], column: int, condition: str) -> int:
    """A lead is the difference of two ROC AUCs on the page, inside its own interval; gives how many numbers it saw.

    The rival may stand in a later table of the page: of reference rows, say.
    """
    named = f"ROC AUC, {condition}"
    # A table of one condition does not repeat it, and shows its tests instead where there are several.
    heading = next(one for one in (named, "ROC AUC, mean", "ROC AUC") if one in page[0][0])
    shown: dict[str, float] = {}
    for head, _, *rows in page:
        for row in rows if heading in head else ():
            shown.setdefault(row[0].strip("*"), float(row[head.index(heading)].strip("*").split(" ± ")[0]))
    _, _, *rows = page[0]
    for row in rows:
        found = re.fullmatch(r"\**([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]\** \((.+)\)", row[column])
        assert found is not None, row[column]
        lead, low, high = (float(found[group]) for group in (1, 2, 3))
        assert low <= lead <= high
        assert lead == pytest.approx(shown[row[0].strip("*")] - shown[found[4]], abs=1.6e-3)
    return 3 * len(rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_committed_pages_fit_a_screen_and_say_what_their_csv_says(page: Path) -> None:
    text = page.read_text()
    known = {}
    for row in csv.DictReader(page.with_suffix(".csv").open()):
        known[row["test"], row["condition"], row["negatives"], row_label(row["method"])] = row
    conditions = list(dict.fromkeys(condition for _, condition, _, _ in known))
    tests = list(dict.fromkeys(test for test, _, _, _ in known))
    for table in tables(text):
        assert len(table) - 2 <= 25
        assert len(table[0]) <= 9
    checked = 0
    head, _, *rows = tables(text)[0]
    for column, heading in enumerate(head[1:], start=1):
        metric, _, rest = heading.partition(", ")
        where = [(tests[0], condition) for condition in conditions if condition_label(condition) == rest]
        where = (
            where
            or [(test, conditions[0]) for test in tests if rest and test.endswith(rest)]
            or [(tests[0], conditions[0])]
        )
        if metric.startswith("lead"):
            checked += check_leads(tables(text), column, rest)
            continue
        for row in rows:
            expected = known[*where[0], "same-class", row[0].strip("*")]
            shown = row[column].strip("*").split(" ± ")
            assert float(shown[0]) == pytest.approx(float(expected[METRICS[metric]]), abs=6e-4)
            checked += 1
    assert checked > 20
    assert "```sh\nrobustmat reproduce" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_tables_without_their_predictions_say_that_they_are_history(page: Path) -> None:
    """They are of the ground truth of version 0.1; a table that is made anew names the file of its predictions."""
    text = page.read_text()
    assert ("ground truth of version 0.1" in text.partition("|")[0]) != ("--from-predictions" in text)
