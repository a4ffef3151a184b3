"""Write a table: Markdown to read, CSV to compute with, JSON to trace each cell to its predictions and commands."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustmat.files import write_json, write_text
from robustmat.tables.paper import SOURCES, paper_figures
from robustmat.tables.values import COLUMNS, Line, Section, ranking

NAMES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc_paper": "AUC (paper)",
    "roc_auc": "ROC AUC",
    "fpr95": "FPR at 95 %",
    "match_f1": "match F1",
}
BESIDE = ("f1", "auc_paper")  # metrics with the paper's own figure in a column beside ours


def write_markdown(path: Path, table: str, title: str, sections: Sequence[Section], notes: Sequence[str]) -> Path:
    """One table for each section, best in bold, second underlined, the paper's figures beside ours."""
    parts = [f"# {table}: {title}", *notes]
    for section in sections:
        parts.append(f"## {section.test}, {section.condition}, {section.negatives} negatives")
        parts.append(section_table(table, section))
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def section_table(table: str, section: Section) -> str:
    best = {metric: ranking(section.lines, metric) for metric in COLUMNS}
    figures = {it.label: paper_figures(table, section.condition, it.label, section.test) for it in section.lines}
    beside = [metric for metric in BESIDE if any(metric in it for it in figures.values())]
    head, rule = ["method"], ["---"]
    for metric in COLUMNS:
        head.append(NAMES[metric])
        if metric in beside:
            head.append(f"the paper's {NAMES[metric].removesuffix(' (paper)')} ({SOURCES[table]})")
    if section.differences:
        head.append("ROC AUC against the best rival")
    rule += ["---:"] * (len(head) - 1)
    lines = [_joined(head), _joined(rule)]
    for line in section.lines:
        cells = [f"*{line.label}*" if line.is_reference else line.label]
        for metric in COLUMNS:
            cells.append(_cell(line, metric, best[metric]))
            if metric in beside:
                cells.append(f"{figures[line.label][metric]:.4f}" if metric in figures[line.label] else "")
        if section.differences:
            cells.append(_against(section, line))
        lines.append(_joined(cells))
    return "\n".join(lines)


def write_csv(path: Path, table: str, sections: Sequence[Section]) -> Path:
    """One line for each number, with its seeds' values and files."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [
        "table",
        "test",
        "condition",
        "negatives",
        "method",
        "metric",
        "mean",
        "deviation",
        "values",
        "paper",
        "files",
    ]
    writer.writerow(head)
    for section in sections:
        for line in section.lines:
            figures = paper_figures(table, section.condition, line.label, section.test)
            for metric in COLUMNS:
                values = " ".join(f"{it:.6f}" for it in line.values[metric])
                numbers = [f"{line.mean(metric):.6f}", f"{line.deviation(metric):.6f}", values, figures.get(metric, "")]
                where = [table, section.test, section.condition, section.negatives, line.label, metric]
                writer.writerow([*where, *numbers, " ".join(line.files)])
    write_text(path, text.getvalue())
    return path


def write_index(path: Path, command: str, cells: list[dict[str, Any]]) -> Path:
    """Where every cell comes from: its predictions file, its run, and the commands that make both."""
    write_json(path, {"format": "robustmat-table-index", "command": command, "cells": cells})
    return path


def _cell(line: Line, metric: str, best: list[str]) -> str:
    text = f"{line.mean(metric):.3f}"
    if len(line.values[metric]) > 1:
        text += f" ± {line.deviation(metric):.3f}"
    if line.label in best[:1]:
        return f"**{text}**"
    return f"<u>{text}</u>" if line.label in best else text


def _against(section: Section, line: Line) -> str:
    if line.label not in section.differences:
        return ""
    rival, it = section.differences[line.label]
    clear = "" if it.is_clear else f", ahead in {it.ahead:.0%} of resamples"
    return f"{it.value:+.3f} [{it.low:+.3f}, {it.high:+.3f}] to {rival}{clear}"


def _joined(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
