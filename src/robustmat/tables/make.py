"""From predictions to the files of a table: Markdown, CSV, index, bars and example pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustmat.dataset.pairs import NEGATIVES
from robustmat.evaluation.predictions import read_predictions
from robustmat.tables.bars import draw_bars
from robustmat.tables.definitions import Row, Table
from robustmat.tables.examples import draw_examples
from robustmat.tables.plan import REFERENCES, EvaluationSplit, TrainingSplit, run_folder
from robustmat.tables.reproduce import Found, Workspace, evaluate_command, test_name, train_command
from robustmat.tables.values import HEADLINE, Entry, Section, make_section, mean_section
from robustmat.tables.write import write_csv, write_index, write_markdown

INTRODUCTION = (
    "Mean and standard deviation over seeds. Best in **bold**, second <u>underlined</u>; reference rows in *italics*. "
    "Three matched pairs to one unmatched; thresholds from the training side's validation data; `match F1` is "
    "one-to-one matching of whole frame pairs. The last column is a paired bootstrap over objects (95 %)."
)


@dataclass(frozen=True)
class Written:
    """The files of a table."""

    markdown: Path
    csv: Path
    index: Path
    bars: Path
    examples: Path


def write_table(
    name: str,
    table: Table,
    rows: Sequence[Row],
    tests: Sequence[EvaluationSplit],
    found: Found,
    workspace: Workspace,
    command: str,
) -> Written:
    """Everything is computed from the prediction files alone."""
    folder = workspace.path / "tables"
    entries = {
        (test_name(test), perturb): _entries(rows, test_name(test), perturb, found, workspace, table.references)
        for test in tests
        for perturb in table.conditions
    }
    labels = {row.label for row in rows}
    sections = []
    for perturb in table.conditions:
        for kind in NEGATIVES:
            same = [_section(test, perturb, kind, entries, labels) for test in tests]
            known = [it for it in same if it is not None]
            if len(known) > 1:
                sections.append(mean_section(known))
            sections += known
    amount = _amount(workspace, tests[0].side)
    notes = [INTRODUCTION, f"`{command}`", f"{amount} Each cell's files and commands: `{name}.json`."]
    shown = table.conditions[-1] if "paper:16" not in table.conditions else "paper:16"
    bars = [it for it in sections if it.condition == shown and it.negatives == NEGATIVES[0]]
    first = entries[test_name(tests[0]), shown]
    seed = workspace.settings.seeds[0]
    return Written(
        write_markdown(folder / f"{name}.md", name, table.title, sections, notes),
        write_csv(folder / f"{name}.csv", name, sections),
        write_index(folder / f"{name}.json", command, _cells(rows, tests, table, found, workspace)),
        draw_bars(bars, HEADLINE, f"{name}: {table.title}", folder / f"{name}.png"),
        draw_examples([it for it in first if it.seed == seed], tests[0].data, folder / f"{name}-examples.png"),
    )


def _entries(
    rows: Sequence[Row], test: str, perturb: str, found: Found, workspace: Workspace, references: bool
) -> list[Entry]:
    entries = []
    for seed in workspace.settings.seeds:
        read = {}
        for key in {row.training.key for row in rows} | ({REFERENCES} if references else set()):
            path = found[key, test, perturb, seed]
            read[key] = path, read_predictions(path)
        for row in rows:
            path, whole = read[row.training.key]
            mine = next((it for it in whole.rows if it.name == row.evidence), None)
            if mine is not None:
                entries.append(Entry(row.label, seed, path, mine, replace(whole, rows=(mine,))))
        if references:
            path, whole = read[REFERENCES]
            entries += [Entry(it.name, seed, path, it, replace(whole, rows=(it,))) for it in whole.rows]
    return sorted(entries, key=lambda it: it.seed)


def _section(
    test: EvaluationSplit, perturb: str, kind: str, entries: dict[tuple[str, str], list[Entry]], labels: set[str]
) -> Section | None:
    mine = entries[test_name(test), perturb]
    if not (mine[0].predictions.pairs.negatives == NEGATIVES.index(kind)).any():
        return None  # a street of poles only has one kind of negatives
    return make_section(test_name(test), perturb, kind, mine, {it.label for it in mine} - labels)


def _cells(
    rows: Sequence[Row], tests: Sequence[EvaluationSplit], table: Table, found: Found, workspace: Workspace
) -> list[dict[str, Any]]:
    cells = []
    for test in tests:
        for perturb in table.conditions:
            for seed in workspace.settings.seeds:
                for row in rows:
                    config = workspace.config(row.training, test.side, seed)
                    run = run_folder(workspace.path, row.training.key, test.side, seed)
                    cells.append(
                        {
                            "row": row.label,
                            "test": test_name(test),
                            "condition": perturb,
                            "seed": seed,
                            "predictions": found[row.training.key, test_name(test), perturb, seed].name,
                            "run": run.name,
                            "steps": config.steps,
                            "train": train_command(row.training, test.side, config, run),
                            "evaluate": evaluate_command(row, test, perturb, seed, run),
                        }
                    )
    return cells


def _amount(workspace: Workspace, side: TrainingSplit) -> str:
    settings = workspace.settings
    seeds = f"Seeds {', '.join(map(str, settings.seeds))}."
    if settings.budget is not None:
        first = f" after {side.first.budget or settings.budget:g} on what is learned first" if side.first else ""
        return f"{seeds} {settings.budget:g} minutes of one core a training{first}."
    return (
        f"{seeds} {settings.steps} steps a training." if settings.steps else f"{seeds} Each configuration's own steps."
    )
