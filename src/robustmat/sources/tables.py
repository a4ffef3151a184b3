"""Numbers in text files: tables, columns of CSV files and transforms, with errors that name file and line."""

import csv
from collections.abc import Collection, Sequence
from io import StringIO
from pathlib import Path

import numpy as np

from robustmat.errors import DataError
from robustmat.files import read_text
from robustmat.geometry.transforms import is_rigid
from robustmat.types import Array


def read_table(path: Path, columns: Collection[int], what: str) -> Array:
    """[N, C] of whitespace-separated numbers, all lines with the same C out of `columns`; # starts a comment line."""
    rows: list[list[float]] = []
    for number, line in enumerate(read_text(path, what).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            row = [float(value) for value in line.split()]
        except ValueError:
            row = []
        if len(row) not in columns or (rows and len(row) != len(rows[0])):
            wanted = " or ".join(str(column) for column in sorted(columns)) if not rows else str(len(rows[0]))
            raise DataError(f"{what}: line {number} does not hold {wanted} numbers: {path}")
        rows.append(row)
    return np.array(rows, dtype=float).reshape(len(rows), -1 if rows else min(columns))


def read_columns(path: Path, names: Sequence[str], what: str) -> Array:
    """[N, len(names)] of the named columns of a CSV file with a head line; every value must be finite."""
    lines = csv.reader(StringIO(read_text(path, what)))
    head = [name.strip() for name in next(lines, [])]
    missing = [name for name in names if name not in head]
    if missing:
        found = ", ".join(head) or "nothing"
        raise DataError(f"{what} lacks the column '{missing[0]}': {path} (its first line has {found})")
    at = [head.index(name) for name in names]
    rows = []
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        try:
            row = [float(line[k]) for k in at]
        except (ValueError, IndexError):
            raise DataError(f"{what}: line {number} does not hold {len(head)} values like its head: {path}") from None
        if not np.isfinite(row).all():
            wrong = names[int(np.flatnonzero(~np.isfinite(row))[0])]
            raise DataError(f"{what}: '{wrong}' is not finite in line {number}: {path}; remove the line")
        rows.append(row)
    if not rows:
        raise DataError(f"{what} has no lines but its head: {path}")
    return np.array(rows)


def read_numbers(path: Path, counts: Collection[int], what: str) -> Array:
    """All numbers of a file, as many as one of `counts`, all finite."""
    text = read_text(path, what).split()
    try:
        values = np.array([float(value) for value in text])
    except ValueError as problem:
        raise DataError(f"{what} holds something that is no number: {path}: {problem}") from None
    if len(values) not in counts:
        wanted = " or ".join(str(count) for count in sorted(counts))
        raise DataError(f"{what} needs {wanted} numbers, found {len(values)}: {path}")
    if not np.isfinite(values).all():
        raise DataError(f"{what} is not finite: {path}")
    return values


def read_transform(path: Path, what: str) -> Array:
    """A rigid [4, 4] from a file with its 12 or 16 numbers, row by row."""
    values = read_numbers(path, (12, 16), what)
    T = np.vstack([values[:12].reshape(3, 4), values[12:].reshape(-1, 4) if len(values) == 16 else (0, 0, 0, 1)])
    if not is_rigid(T):
        raise DataError(f"{what} is no rigid transform: {path}; expected a rotation and a translation, row by row")
    return T
