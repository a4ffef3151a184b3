"""The files of a table beside its page: CSV to compute with, and where every cell comes from."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustmat.files import write_json, write_text
from robustmat.tables.values import COLUMNS, Section


def write_csv(path: Path, sections: Sequence[Section]) -> Path:
    """One line for each test, condition, kind of negatives and method: every metric's mean, and its deviation over
    seeds where there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = any(len(line.values[COLUMNS[0]]) > 1 for section in sections for line in section.lines)
    metrics = [name for metric in COLUMNS for name in (metric, f"{metric}_deviation")[: 1 + several]]
    writer.writerow(["test", "condition", "negatives", "method", "seeds", *metrics])
    for section in sections:
        for line in section.lines:
            both = [(line.mean(metric), line.deviation(metric))[: 1 + several] for metric in COLUMNS]
            numbers = [value for values in both for value in values]
            where = [section.test, section.condition, section.negatives, line.label, len(line.values[COLUMNS[0]])]
            writer.writerow([*where, *(f"{value:.4f}" for value in numbers)])
    write_text(path, text.getvalue())
    return path


def write_index(path: Path, command: str, cells: list[dict[str, Any]]) -> Path:
    """Where every cell comes from: its predictions file, its run, and the commands that make both."""
    write_json(path, {"format": "robustmat-table-index", "command": command, "cells": cells})
    return path
