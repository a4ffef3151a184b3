"""From predictions to the files of a table: its page and CSV; index, bars and example pairs where asked for."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustmat import __version__
from robustmat.dataset.pairs import NEGATIVES
from robustmat.errors import InputError
from robustmat.evaluation.predictions import Predictions, read_predictions
from robustmat.tables.bars import draw_bars
from robustmat.tables.definitions import Row, Table, find_table
from robustmat.tables.examples import draw_examples
from robustmat.tables.labels import QUESTIONS, short_names
from robustmat.tables.packed import (
    Cell,
    Entry,
    PackedTable,
    join_packed,
    make_entry,
    make_judged,
    read_packed,
    write_packed,
)
from robustmat.tables.page import Commands, shown_condition, write_page
from robustmat.tables.plan import REFERENCES, EvaluationSplit, TrainingSplit, run_folder
from robustmat.tables.reproduce import Found, Workspace, evaluate_command, start_of, test_name, train_command
from robustmat.tables.values import HEADLINE, Section, make_section, mean_section, over_row
from robustmat.tables.write import write_csv, write_index

EXTRAS = ("index", "bars", "examples")


@dataclass(frozen=True)
class Written:
    """The files of a table; those that were not asked for are None."""

    page: Path
    csv: Path
    predictions: Path | None = None  # from which page and CSV are computed
    index: Path | None = None  # leads from each cell to its predictions and to the commands that make them
    bars: Path | None = None
    examples: Path | None = None

    @property
    def paths(self) -> list[Path]:
        files = (self.page, self.csv, self.predictions, self.index, self.bars, self.examples)
        return [path for path in files if path]


def write_table(
    name: str,
    table: Table,
    rows: Sequence[Row],
    tests: Sequence[EvaluationSplit],
    found: Found,
    workspace: Workspace,
    command: str,
    *,
    kind: str | None = None,
    extras: Collection[str] = (),
) -> Written:
    """Everything is computed from the prediction files alone.

    Args:
        name: of the files.
        kind: the table's own name, where `name` is another.
        extras: which of `EXTRAS` to make beside the page, the CSV and the packed predictions.
    """
    folder, kind = workspace.path / "tables", kind or name
    names = dict(zip(map(test_name, tests), short_names(tests), strict=True))
    cells: dict[Cell, tuple[Entry, ...]] = {}
    references: dict[str, None] = {}  # in their order
    for perturb in table.conditions:
        for test, short in names.items():
            for seed in workspace.settings.seeds:
                whole = read_cell(rows, test, perturb, seed, found, table.references)
                judged = make_judged(whole)
                cells[short, perturb, seed] = tuple(make_entry(row.name, seed, row, judged) for row in whole.rows)
                references |= dict.fromkeys(row.name for row in whole.rows)
    for row in rows:
        references.pop(row.label, None)
    amount = _amount(workspace, tests[0].side)
    write_packed(folder / f"{name}.npz", PackedTable(kind, command, amount, tuple(references), cells))
    written = write_again(folder / f"{name}.npz", folder, name)
    index = bars = examples = None
    shown = shown_condition(table.conditions)
    if "index" in extras:
        index = write_index(folder / f"{name}.json", command, _cells(rows, tests, table, found, workspace))
    if "bars" in extras:
        sections = make_sections(read_packed(folder / f"{name}.npz"))
        mine = [section for section in sections if (section.condition, section.negatives) == (shown, NEGATIVES[0])]
        bars = draw_bars(mine, HEADLINE, f"{name}: {table.title}", folder / f"{name}.png")
    if "examples" in extras:
        first = read_cell(rows, test_name(tests[0]), shown, workspace.settings.seeds[0], found, table.references)
        examples = draw_examples(first, tests[0].data, folder / f"{name}-examples.png")
    return replace(written, predictions=folder / f"{name}.npz", index=index, bars=bars, examples=examples)


def write_joined(
    parts: Sequence[Path],
    folder: Path,
    name: str | None,
    labels: Sequence[str] | None = None,
    conditions: Sequence[str] | None = None,
    against: str | None = None,
) -> Path:
    """The packed predictions of a table whose rows or seeds were made apart, in one file; or an excerpt of it."""
    joined = join_packed([read_packed(path) for path in parts], labels, conditions)
    out = folder / f"{name or joined.table}.npz"
    if out.resolve() in {path.resolve() for path in parts}:
        raise InputError(f"the joined table would replace {out}, one of its parts: give --name or another --out")
    if against:  # nothing is written where the page would be refused
        joined.excerpt([against], None)
    command = _again_command(parts, joined.table, name, labels, conditions)
    write_packed(out, replace(joined, command=f"{joined.command}\n{command}"))
    return out


def write_again(
    predictions: Path,
    folder: Path,
    name: str | None = None,
    kind: str | None = None,
    labels: Sequence[str] | None = None,
    conditions: Sequence[str] | None = None,
    against: str | None = None,
) -> Written:
    """The page and the CSV of a table from packed predictions.

    Args:
        name: of the files, where it is not `kind`.
        kind: which table; unless given, the one that the predictions were made for. Another one is an excerpt.
        labels: its rows, where they are not the table's own.
        conditions: likewise.
        against: the row that leads are over, where it is not each row's best rival.
    """
    packed = read_packed(predictions)
    kind = kind or packed.table
    table = find_table(kind)
    asked = labels, conditions
    if kind != packed.table:
        labels = labels or [row.label for row in table.rows]
        conditions = conditions or table.conditions
    sections = make_sections(packed.excerpt(labels, conditions))
    again = _again_command([predictions], kind, name, *asked)
    if against:
        sections = [over_row(section, against) for section in sections]
        again += f" --against {against}"
    commands = Commands(packed.command, again, packed.amount)
    page = folder / f"{name or kind}.md"
    return Written(
        write_page(page, kind, table.title, QUESTIONS[kind], sections, commands),
        write_csv(page.with_suffix(".csv"), sections),
    )


def _again_command(
    predictions: Sequence[Path],
    kind: str,
    name: str | None,
    labels: Sequence[str] | None,
    conditions: Sequence[str] | None,
) -> str:
    command = " ".join([f"robustmat reproduce {kind}", *(f"--from-predictions {path}" for path in predictions)])
    for option, value in (
        ("name", name if name != kind else None),
        ("methods", ",".join(labels or ())),
        ("perturb", ",".join(conditions or ())),
    ):
        command += f" --{option} {value}" if value else ""
    return command


def read_cell(rows: Sequence[Row], test: str, perturb: str, seed: int, found: Found, references: bool) -> Predictions:
    """The predictions of all rows and references for one test, condition and seed, under their labels."""
    keys = dict.fromkeys([*(row.key for row in rows), *([REFERENCES] if references else [])])
    read = {key: read_predictions(found[key, test, perturb, seed]) for key in keys}
    known = {(key, row.name): row for key, whole in read.items() for row in whole.rows}
    wanted = {row.label: known[row.key, row.evidence] for row in rows}
    if references:
        wanted |= {row.name: row for row in read[REFERENCES].rows}
    mine = tuple(replace(row, name=label) for label, row in wanted.items())
    return replace(next(iter(read.values())), rows=mine)


def make_sections(packed: PackedTable) -> list[Section]:
    """One for each condition, kind of negatives and test, behind their mean where there are several tests."""
    sections = []
    for condition in dict.fromkeys(condition for _, condition, _ in packed.cells):
        for number, negatives in enumerate(NEGATIVES):
            known = []
            for test in dict.fromkeys(test for test, _, _ in packed.cells):
                cells = [cell for where, cell in packed.cells.items() if where[:2] == (test, condition)]
                if (cells[0][0].judged.negatives == number).any():  # a street of poles only has one kind of negatives
                    entries = [entry for cell in cells for entry in cell]
                    known.append(make_section(test, condition, negatives, entries, packed.references))
            sections += [mean_section(known), *known] if len(known) > 1 else known
    return sections


def _cells(
    rows: Sequence[Row], tests: Sequence[EvaluationSplit], table: Table, found: Found, workspace: Workspace
) -> list[dict[str, Any]]:
    cells = []
    for test in tests:
        for perturb in table.conditions:
            for seed in workspace.settings.seeds:
                for row in rows:
                    run = run_folder(workspace.path, row.training, test.side, seed)
                    cell = {
                        "row": row.label,
                        "test": test_name(test),
                        "condition": perturb,
                        "seed": seed,
                        "predictions": found[row.key, test_name(test), perturb, seed].name,
                        "evaluate": evaluate_command(row, test, perturb, seed, run, workspace.settings),
                    }
                    if row.training.needed:
                        config = workspace.config(row.training, test.side, seed)
                        start = start_of(workspace, row.training, test.side)
                        train = train_command(row.training, test.side, config, run, start)
                        whole = json.loads(config.model_dump_json())  # as a file: `robustmat train FILE.json ...`
                        cell |= {"run": run.name, "steps": config.steps, "train": train, "config": whole}
                    cells.append(cell)
    return cells


def _amount(workspace: Workspace, side: TrainingSplit) -> str:
    """Seeds, the length of a training and the version, in a sentence or two."""
    settings = workspace.settings
    if settings.budget is not None:
        first = f", after {side.first.budget or settings.budget:g} on the data of --first" if side.first else ""
        length = f"{settings.budget:g} min of one core for each training{first}"
    else:
        length = f"{settings.steps} steps for each training" if settings.steps else "each configuration's own steps"
    return f"Seeds {', '.join(map(str, settings.seeds))}; {length}; robustmat {__version__}."
