"""From predictions to the files of a table: its page and CSV; index, bars and example pairs where asked for."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from robustmat.dataset.pairs import NEGATIVES
from robustmat.evaluation.predictions import read_predictions
from robustmat.tables.bars import draw_bars
from robustmat.tables.definitions import Row, Table
from robustmat.tables.examples import draw_examples
from robustmat.tables.labels import QUESTIONS, short_names
from robustmat.tables.page import shown_condition, write_page
from robustmat.tables.plan import REFERENCES, EvaluationSplit, TrainingSplit, run_folder
from robustmat.tables.reproduce import Found, Workspace, evaluate_command, start_of, test_name, train_command
from robustmat.tables.values import HEADLINE, Entry, Section, make_section, mean_section
from robustmat.tables.write import write_csv, write_index

EXTRAS = ("index", "bars", "examples")


@dataclass(frozen=True)
class Written:
    """The files of a table; those that were not asked for are None."""

    page: Path
    csv: Path
    index: Path | None = None  # leads from each cell to its predictions and to the commands that make them
    bars: Path | None = None
    examples: Path | None = None

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.page, self.csv, self.index, self.bars, self.examples) if path]


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
        extras: which of `EXTRAS` to make beside the page and the CSV.
    """
    folder, kind = workspace.path / "tables", kind or name
    entries = {
        (test_name(test), perturb): _entries(rows, test_name(test), perturb, found, workspace, table.references)
        for test in tests
        for perturb in table.conditions
    }
    labels = {row.label for row in rows}
    sections = []
    for perturb in table.conditions:
        for negatives in NEGATIVES:
            same = [
                _section(test, short, perturb, negatives, entries, labels)
                for test, short in zip(tests, short_names(tests), strict=True)
            ]
            known = [section for section in same if section is not None]
            if len(known) > 1:
                sections.append(mean_section(known))
            sections += known
    amount, question = _amount(workspace, tests[0].side), QUESTIONS[kind]
    shown = shown_condition(table.conditions)
    index = bars = examples = None
    if "index" in extras:
        index = write_index(folder / f"{name}.json", command, _cells(rows, tests, table, found, workspace))
    if "bars" in extras:
        mine = [section for section in sections if (section.condition, section.negatives) == (shown, NEGATIVES[0])]
        bars = draw_bars(mine, HEADLINE, f"{name}: {table.title}", folder / f"{name}.png")
    if "examples" in extras:
        first = [entry for entry in entries[test_name(tests[0]), shown] if entry.seed == workspace.settings.seeds[0]]
        examples = draw_examples(first, tests[0].data, folder / f"{name}-examples.png")
    return Written(
        write_page(folder / f"{name}.md", kind, table.title, question, sections, command, amount),
        write_csv(folder / f"{name}.csv", sections),
        index,
        bars,
        examples,
    )


def _entries(
    rows: Sequence[Row], test: str, perturb: str, found: Found, workspace: Workspace, references: bool
) -> list[Entry]:
    entries = []
    for seed in workspace.settings.seeds:
        read = {}
        for key in {row.key for row in rows} | ({REFERENCES} if references else set()):
            path = found[key, test, perturb, seed]
            read[key] = path, read_predictions(path)
        for row in rows:
            path, whole = read[row.key]
            mine = next((known for known in whole.rows if known.name == row.evidence), None)
            if mine is not None:
                entries.append(Entry(row.label, seed, path, mine, replace(whole, rows=(mine,))))
        if references:
            path, whole = read[REFERENCES]
            entries += [Entry(known.name, seed, path, known, replace(whole, rows=(known,))) for known in whole.rows]
    return sorted(entries, key=lambda entry: entry.seed)


def _section(
    test: EvaluationSplit,
    name: str,
    perturb: str,
    negatives: str,
    entries: dict[tuple[str, str], list[Entry]],
    labels: set[str],
) -> Section | None:
    mine = entries[test_name(test), perturb]
    if not (mine[0].predictions.pairs.negatives == NEGATIVES.index(negatives)).any():
        return None  # a street of poles only has one kind of negatives
    return make_section(name, perturb, negatives, mine, {entry.label for entry in mine} - labels)


def _cells(
    rows: Sequence[Row], tests: Sequence[EvaluationSplit], table: Table, found: Found, workspace: Workspace
) -> list[dict[str, Any]]:
    cells = []
    for test in tests:
        for perturb in table.conditions:
            for seed in workspace.settings.seeds:
                for row in rows:
                    run = run_folder(workspace.path, row.training.key, test.side, seed)
                    cell = {
                        "row": row.label,
                        "test": test_name(test),
                        "condition": perturb,
                        "seed": seed,
                        "predictions": found[row.key, test_name(test), perturb, seed].name,
                        "evaluate": evaluate_command(row, test, perturb, seed, run),
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
    return f"Seeds {', '.join(map(str, settings.seeds))}; {length}; robustmat {version('robustmat')}."
