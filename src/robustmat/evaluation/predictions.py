"""What methods predicted, written once; every table is computed from it and from nothing else.

One file holds the drawn pairs, the ground truth that judges them, and one row per method (the evaluated one
first, then the references), so that methods can be compared on the very same pairs at any later time.
"""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.files import parse_json, replacing
from robustmat.types import Array

FORMAT, VERSION = "robustmat-predictions", 2

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class PairTruth:
    """The pair protocol's landmark pairs, [N] each. Frames are indices into `Predictions.frames`.

    Both kinds of negatives are here, each with its three matched pairs to one unmatched.
    """

    negatives: Indices  # index into dataset.pairs.NEGATIVES: for which of the two a pair was drawn
    label: NDArray[np.bool_]
    frame_a: Indices
    frame_b: Indices
    landmark_a: Indices
    landmark_b: Indices
    identity_a: Indices
    identity_b: Indices
    category_a: Indices  # index into types.CATEGORIES
    category_b: Indices
    box_a: Array  # [N, 4]
    box_b: Array


@dataclass(frozen=True)
class FrameTruths:
    """The frame protocol's frame pairs [F, 2] and the matches that can be found in them, [K] each."""

    pairs: Indices
    partner_pair: Indices  # index into `pairs`
    partner_identity: Indices
    distance: Array  # [F], metres between the two cameras


@dataclass(frozen=True)
class MethodRow:
    """One method's predictions: a score for each landmark pair, and the mutual best candidates of the frame pairs,
    [M] each, of which it returned some as matches."""

    name: str
    threshold: float
    score: Array  # [N]
    match_pair: Indices  # [M], index into FrameTruths.pairs
    match_a: Indices
    match_b: Indices
    match_score: Array
    match_probability: Array
    match_returned: NDArray[np.bool_]
    match_label: Indices  # truth.UNMATCHED, MATCHED or AMBIGUOUS
    match_identity_a: Indices
    match_identity_b: Indices
    unrelated_matches: Indices  # [U], returned for each pair of frames that share nothing

    @property
    def returned(self) -> "MethodRow":
        """The matches that were returned, alone."""
        columns = {
            column.name: getattr(self, column.name)[self.match_returned]
            for column in fields(self)
            if column.name.startswith("match_")
        }
        return replace(self, **columns)


@dataclass(frozen=True)
class Predictions:
    """Everything that tables are made of. `meta` says how it was obtained, in plain JSON values."""

    meta: dict[str, Any]
    frames: tuple[str, ...]  # "drive/frame"
    pairs: PairTruth
    frame_pairs: FrameTruths
    rows: tuple[MethodRow, ...]

    @property
    def method(self) -> MethodRow:
        return self.rows[0]

    @property
    def references(self) -> tuple[MethodRow, ...]:
        return self.rows[1:]


def write_predictions(path: Path | str, predictions: Predictions) -> None:
    """Write one .npz file; the same predictions give the same bytes."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "meta": predictions.meta,
        "frames": list(predictions.frames),
        "rows": [{"name": row.name, "threshold": row.threshold} for row in predictions.rows],
    }
    arrays = _columns("pairs", predictions.pairs) | _columns("frame_pairs", predictions.frame_pairs)
    for number, row in enumerate(predictions.rows):
        arrays |= _columns(f"row{number}", row)
    write_arrays(path, head, arrays)


def write_arrays(path: Path | str, head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """A file for `np.load`, compressed by LZMA: a quarter smaller than by `np.savez_compressed`."""
    named = {"head": np.array(json.dumps(head, sort_keys=True)), **arrays}
    with replacing(path) as temporary, ZipFile(temporary, "w") as archive:
        for name, array in named.items():
            entry = ZipInfo(f"{name}.npy")
            entry.compress_type = ZIP_LZMA
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def read_predictions(path: Path | str) -> Predictions:
    """Read what `write_predictions` wrote; nothing in the file is executed."""
    head, arrays = read_arrays(path, "robustmat evaluate", FORMAT, VERSION)
    try:
        return Predictions(
            meta=head["meta"],
            frames=tuple(head["frames"]),
            pairs=PairTruth(**_gather(arrays, "pairs")),
            frame_pairs=FrameTruths(**_gather(arrays, "frame_pairs")),
            rows=tuple(
                MethodRow(name=row["name"], threshold=row["threshold"], **_gather(arrays, f"row{number}"))
                for number, row in enumerate(head["rows"])
            ),
        )
    except (KeyError, TypeError) as problem:
        raise DataError(f"prediction file lacks a part: {path}: {problem}; evaluate again") from None


def read_arrays(
    path: Path | str, maker: str, expected: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The head and the arrays of a file that `maker` wrote in the `expected` format."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = parse_json(str(arrays["head"]), f"prediction file has a broken head: {path}")
    except FileNotFoundError:
        raise DataError(f"prediction file not found: {path}") from None
    except DataError:
        raise
    except Exception as problem:  # numpy, zipfile and zlib raise all sorts of things over broken files
        raise DataError(f"not a prediction file of `{maker}`: {path}: {problem}") from None
    if not isinstance(head, dict) or (head.get("format"), head.get("version")) != (expected, version):
        found = (head.get("format"), head.get("version")) if isinstance(head, dict) else type(head).__name__
        raise DataError(f"prediction file has format {found}, expected {(expected, version)}: {path}")
    return head, arrays


def _columns(prefix: str, value: Any) -> dict[str, NDArray[Any]]:
    """The array fields of a dataclass, under a common prefix."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {f"{prefix}.{name}": one_value for name, one_value in values.items() if isinstance(one_value, np.ndarray)}


def _gather(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
    start = prefix + "."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
