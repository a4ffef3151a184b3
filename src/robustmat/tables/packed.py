"""The predictions of a table in one small file: whoever has it makes the table again without training.

Scores are kept as levels, whole numbers from the lowest score up. Scores share a level where no metric tells them
apart: they are of pairs with one label, with no pair of the other label and no threshold in between. Level 0 is the
lowest that passes the threshold. So a file is small, and every number computed from it is exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.evaluation.predictions import MethodRow, Predictions, read_arrays, write_arrays
from robustmat.types import MATCHED, UNMATCHED, Array

FORMAT, VERSION = "robustmat-table-predictions", 1
THRESHOLD = 0.0  # of levels

Cell = tuple[str, str, int]  # test, condition, seed


@dataclass(frozen=True)
class Judged:
    """The drawn pairs of a cell, [N] each, and how many matches its frame pairs hold; all rows share them."""

    negatives: NDArray[np.int64]  # index into dataset.pairs.NEGATIVES
    label: NDArray[np.bool_]
    identity_a: NDArray[np.int64]
    identity_b: NDArray[np.int64]
    possible: int


@dataclass(frozen=True)
class Entry:
    """One row's predictions in a cell: levels of the drawn pairs [N], and the returned matches of whole frames."""

    label: str
    seed: int
    score: Array
    right: int
    wrong: int
    judged: Judged


@dataclass(frozen=True)
class PackedTable:
    """All cells of a table, each with an entry for every row, and what the page says about them."""

    table: str
    command: str  # a line for each part, where it was joined
    amount: str  # seeds and length of the trainings, in a sentence
    references: tuple[str, ...]  # rows that stand beside those of the table
    cells: dict[Cell, tuple[Entry, ...]]

    def excerpt(self, labels: Sequence[str] | None, conditions: Sequence[str] | None) -> "PackedTable":
        """The rows `labels` and all references under `conditions`, or everything where nothing is said."""
        _refuse_unknown("row", labels, {entry.label for entries in self.cells.values() for entry in entries})
        _refuse_unknown("condition", conditions, {condition for _, condition, _ in self.cells})
        order = None if labels is None else [*labels, *(one for one in self.references if one not in labels)]
        cells = {}
        for cell, entries in self.cells.items():
            if conditions is None or cell[1] in conditions:
                mine = {entry.label: entry for entry in entries}
                cells[cell] = entries if order is None else tuple(mine[one] for one in order if one in mine)
        return replace(self, cells=cells)


def join_packed(
    parts: Sequence[PackedTable], labels: Sequence[str] | None = None, conditions: Sequence[str] | None = None
) -> PackedTable:
    """One table of several that were made in turns or on several machines: other seeds, other rows, other conditions.

    Each row must be there for every test, condition and seed, and be in one part alone; references may be in all.
    With `labels` or `conditions` the table is an excerpt: what they leave out need not be complete.
    """
    first = parts[0]
    references = tuple(dict.fromkeys(name for part in parts for name in part.references))
    found: dict[Cell, dict[str, Entry]] = {}
    lengths: dict[str, str] = {}  # of the trainings of each row
    for part in parts:
        length = part.amount.partition("; ")[2].partition("; ")[0]
        if part.table != first.table:
            raise DataError(f"predictions of the table {part.table} cannot be joined with those of {first.table}")
        for cell, entries in part.cells.items():
            mine = found.setdefault(cell, {})
            known = next(iter(mine.values()), entries[0])
            if not _same_pairs(known.judged, entries[0].judged):
                raise DataError(
                    f"{_name(cell)}: other pairs were drawn than elsewhere; join tables of the same data sets"
                )
            for entry in entries:
                if entry.label not in references:
                    if entry.label in mine:
                        raise DataError(f"{_name(cell)}: two of the files hold the row {entry.label}")
                    if lengths.setdefault(entry.label, length) != length:
                        raise DataError(
                            f"the row {entry.label} cannot be joined: trained for {lengths[entry.label]} in one file, "
                            f"for {length} in another"
                        )
                mine.setdefault(entry.label, replace(entry, judged=known.judged))
    seen = dict.fromkeys(label for entries in found.values() for label in entries)
    tests, every = (dict.fromkeys(names) for names in list(zip(*found, strict=True))[:2])
    _refuse_unknown("row", labels, seen)
    _refuse_unknown("condition", conditions, every)
    rows = [label for label in seen if label not in references and (labels is None or label in labels)]
    rows += references
    cells = {}
    for where in product(tests, conditions or every, sorted({seed for _, _, seed in found})):
        lacking = [label for label in rows if label not in found.get(where, {})]
        if lacking:
            raise DataError(f"{_name(where)}: none of the files holds the row {', '.join(lacking)}")
        cells[where] = tuple(found[where][label] for label in rows)
    commands = "\n".join(dict.fromkeys(part.command for part in parts))
    return PackedTable(first.table, commands, _joined_amount([part.amount for part in parts], cells), references, cells)


def _joined_amount(amounts: Sequence[str], cells: Iterable[Cell]) -> str:
    """One sentence where the parts differ in nothing but their seeds."""
    lengths = {amount.partition("; ")[2] for amount in amounts}
    if len(lengths) > 1 or not all(amount.startswith("Seeds ") for amount in amounts):
        return " ".join(dict.fromkeys(amounts))
    seeds = ", ".join(map(str, sorted({seed for _, _, seed in cells})))
    return f"Seeds {seeds}; {lengths.pop()}"


def _refuse_unknown(what: str, wanted: Sequence[str] | None, known: Iterable[str]) -> None:
    missing = [one for one in wanted or () if one not in known]
    if missing:
        found = ", ".join(sorted(known))
        raise DataError(f"no predictions of the {what} {', '.join(missing)}: there are those of {found}")


def _name(cell: Cell) -> str:
    test, condition, seed = cell
    return f"{test}, {condition}, seed {seed}"


def _same_pairs(a: Judged, b: Judged) -> bool:
    names = ("negatives", "label", "identity_a", "identity_b")
    return a.possible == b.possible and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def make_judged(predictions: Predictions) -> Judged:
    pairs = predictions.pairs
    possible = len(predictions.frame_pairs.partner_identity)
    return Judged(pairs.negatives, pairs.label, pairs.identity_a, pairs.identity_b, possible)


def make_entry(label: str, seed: int, row: MethodRow, judged: Judged) -> Entry:
    found = row.returned.match_label
    right, wrong = (int(np.sum(found == kind)) for kind in (MATCHED, UNMATCHED))
    score = np.zeros(len(judged.label))
    for kind in np.unique(judged.negatives):
        chosen = judged.negatives == kind
        score[chosen] = levels(row.score[chosen], judged.label[chosen], row.threshold)
    return Entry(label, seed, score, right, wrong, judged)


def levels(score: Array, label: NDArray[np.bool_], threshold: float) -> NDArray[np.int64]:
    """The level of each score [N]; metrics of levels at `THRESHOLD` are those of scores at `threshold`."""
    values, place = np.unique(score, return_inverse=True)
    matched, unmatched = (np.bincount(place[chosen], minlength=len(values)) > 0 for chosen in (label, ~label))
    passes = values >= threshold
    facts = np.stack([matched, unmatched, passes])
    joins = (facts[:, 1:] == facts[:, :-1]).all(axis=0) & (matched != unmatched)[1:]
    level = np.concatenate([[0], np.cumsum(~joins)])
    lowest = level[passes][0] if passes.any() else level[-1] + 1
    return np.asarray(level[place] - lowest, np.int64)


def write_packed(path: Path | str, packed: PackedTable) -> None:
    cells: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for number, ((test, condition, seed), entries) in enumerate(packed.cells.items()):
        judged = entries[0].judged
        labels = [entry.label for entry in entries]
        facts = {"test": test, "condition": condition, "seed": seed, "possible": judged.possible, "rows": labels}
        cells.append(facts)
        score = np.stack([entry.score for entry in entries]).astype("<i4")  # [R, N]
        planes = np.moveaxis(score.view(np.uint8).reshape(*score.shape, 4), 2, 0)  # high bytes together: they are few
        arrays |= {
            f"{number}.negatives": judged.negatives.astype(np.uint8),
            f"{number}.label": judged.label,
            f"{number}.identity": np.stack([judged.identity_a, judged.identity_b]).astype(np.int32),
            f"{number}.score": planes,
            f"{number}.matches": np.array([(entry.right, entry.wrong) for entry in entries], np.int32),
        }
    head = {"format": FORMAT, "version": VERSION, "table": packed.table, "command": packed.command}
    head |= {"amount": packed.amount, "references": list(packed.references), "cells": cells}
    write_arrays(path, head, arrays)


def read_packed(path: Path | str) -> PackedTable:
    """Read what `write_packed` wrote; nothing in the file is executed."""
    head, arrays = read_arrays(path, "robustmat reproduce", FORMAT, VERSION)
    cells = {}
    try:
        for number, facts in enumerate(head["cells"]):
            planes = np.moveaxis(arrays[f"{number}.score"], 0, 2)  # [R, N, 4]
            score = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.float64)
            first, second = arrays[f"{number}.identity"].astype(np.int64)
            negatives = arrays[f"{number}.negatives"].astype(np.int64)
            judged = Judged(negatives, arrays[f"{number}.label"], first, second, facts["possible"])
            rows = zip(facts["rows"], score, arrays[f"{number}.matches"].tolist(), strict=True)
            cells[facts["test"], facts["condition"], facts["seed"]] = tuple(
                Entry(label, facts["seed"], mine, right, wrong, judged) for label, mine, (right, wrong) in rows
            )
        return PackedTable(head["table"], head["command"], head["amount"], tuple(head["references"]), cells)
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise DataError(f"prediction file lacks a part: {path}: {problem}; reproduce the table again") from None
