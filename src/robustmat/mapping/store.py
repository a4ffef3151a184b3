"""The tables of a map in LanceDB, and how batches get into them exactly once.

    log         one row a batch: the batch exists if, and only if, it has a row here
    keyframes   pose, time, camera, and everything that matching needs of the frame, as bytes
    objects     what a batch says about an object: place, category, how often and when seen, in which keyframes
    views       representative embeddings of the objects, one row each: what a query is searched in

Tables are only appended to. A batch is written under an attempt's name of its own, into all tables, its row of the log
last; rows of an attempt that the log does not know are not there for readers. If two attempts at one batch both finish,
the first row of the log counts. So a killed writer leaves nothing behind that is seen, trying again is always safe, and
a version of the map is a version of its log.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from robustmat.errors import ConfigError, DataError
from robustmat.files import parse_json
from robustmat.folders import locked
from robustmat.mapping.settings import FORMAT, VERSION, MapHeader
from robustmat.mapping.words import VECTOR

try:
    import lancedb
    import pyarrow as pa
    from lancedb.index import BTree, IvfFlat
except ModuleNotFoundError as missing:
    raise ConfigError(f"maps need '{missing.name}': pip install 'robustmat[map]'") from None

EXACT = 20_000  # vectors; a search below this many compares with all of them, above it asks an index
SAMPLES, ROUNDS = 64, 20  # vectors of a partition that its centre is learned from, and how often it is moved
PROBES = 20  # partitions of the index that a search looks into
HEADER = b"robustmat"
LINGER = timedelta(hours=1)  # that files of older versions stay for those who still read them
DATA = ("keyframes", "objects", "views")


@dataclass(frozen=True)
class Batch:
    """A stretch of a drive, ready to be written: rows of each data table, without `batch` and `attempt`."""

    name: str
    about: Mapping[str, Any]  # of its row of the log: data set, first and last frame, counts, length
    keyframes: Sequence[Mapping[str, Any]]
    objects: Sequence[Mapping[str, Any]]
    views: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Snapshot:
    """What exists at one version: rows of the log by batch, and the attempts whose rows count."""

    version: int
    latest: bool
    batches: Mapping[str, Mapping[str, Any]]

    @property
    def attempts(self) -> frozenset[str]:
        return frozenset(row["attempt"] for row in self.batches.values())


def schemas(header: MapHeader) -> dict[str, "pa.Schema"]:
    """The columns of every table; the map's header travels with the log."""
    number = pa.float32() if header.settings.precision == "float32" else pa.float16()
    place = [("x", pa.float64()), ("y", pa.float64()), ("z", pa.float64())]
    written = [("attempt", pa.string()), ("batch", pa.string())]
    log = [
        *written,
        ("dataset", pa.string()),
        ("first", pa.string()),
        ("last", pa.string()),
        ("keyframes", pa.int64()),
        ("objects", pa.int64()),
        ("landmarks", pa.int64()),
        ("views", pa.int64()),
        ("metres", pa.float64()),
        ("written", pa.float64()),
    ]
    keyframes = [
        *written,
        ("keyframe", pa.string()),
        ("dataset", pa.string()),
        ("frame", pa.string()),
        ("time", pa.float64()),
        ("travelled", pa.float64()),  # metres along its drive
        *place,
        ("pose", pa.list_(pa.float64(), 16)),  # T_world_camera, row by row
        ("camera", pa.list_(pa.float64(), 9)),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("landmarks", pa.int32()),
        ("embedded", pa.binary()),
    ]
    if header.settings.keypoints:
        keyframes.append(("vector", pa.list_(number, VECTOR)))  # what the whole frame looks like
    objects = [
        *written,
        ("object", pa.string()),
        ("category", pa.string()),
        *place,  # nan where it is not known
        ("sightings", pa.int32()),
        ("first_time", pa.float64()),
        ("last_time", pa.float64()),
        ("keyframes", pa.list_(pa.string())),
    ]
    views = [
        *written,
        ("object", pa.string()),
        ("category", pa.string()),
        *place,
        ("pixels", pa.float32()),  # the height of the box
        ("vector", pa.list_(number, header.dimension)),
    ]
    metadata = {HEADER: header.model_dump_json().encode()}
    return {
        "keyframes": pa.schema(keyframes),
        "objects": pa.schema(objects),
        "views": pa.schema(views),
        "log": pa.schema(log, metadata=metadata),  # made last: without it there is no map
    }


class MapStore:
    """Reads and writes the tables; knows nothing of what the rows mean."""

    def __init__(self, place: str, database: Any, header: MapHeader, storage_options: Mapping[str, str]) -> None:
        self.place, self.header, self.storage_options = place, header, storage_options
        with explained(place, "read"):
            self._tables = {name: database.open_table(name) for name in ("log", *DATA)}

    def snapshot(self, at: int | None = None) -> Snapshot:
        """What exists now, or existed at version `at`; it stays as it is while others write."""
        log = self._tables["log"]
        with explained(self.place, "read"):
            log.checkout_latest()
            newest = int(log.version)
            if at is not None and not 1 <= at <= newest:
                raise DataError(f"map {self.place} has the versions 1 to {newest}, not {at}")
            if at is not None and at != newest:
                log.checkout(at)
            rows = log.to_arrow().to_pylist()
            log.checkout_latest()
            for name in DATA:
                self._tables[name].checkout_latest()
        batches: dict[str, Mapping[str, Any]] = {}
        for row in rows:  # in the order in which they were written
            batches.setdefault(row["batch"], row)
        return Snapshot(at or newest, at is None or at == newest, batches)

    def append(self, batch: Batch) -> bool:
        """Write a batch, unless it is there already; whether it was this call that wrote it."""
        import time

        if batch.name in self.snapshot().batches:
            return False
        attempt = uuid.uuid4().hex
        marks = {"attempt": attempt, "batch": batch.name}
        with explained(self.place, "written", batch.name):
            for name in DATA:
                self._add(name, [{**marks, **row} for row in getattr(batch, name)])
            self._add("log", [{**marks, **batch.about, "written": time.time()}])
        if self.snapshot().batches[batch.name]["attempt"] == attempt:
            return True
        for name in DATA:  # somebody was faster
            self._tables[name].delete(f"attempt = '{attempt}'")
        return False

    def rows(
        self, table: str, snapshot: Snapshot, where: str | None = None, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Rows of a table that exist in a snapshot, filtered by SQL."""
        wanted = None if columns is None else sorted({*columns, "attempt"})
        with explained(self.place, "read"):
            query = self._tables[table].search()
            query = query if where is None else query.where(where)
            query = query if wanted is None else query.select(wanted)
            found = query.limit(None).to_arrow().to_pylist()
        alive = snapshot.attempts
        return [row for row in found if row["attempt"] in alive]

    def search(
        self,
        vectors: Any,
        count: int,
        snapshot: Snapshot,
        where: str | None = None,
        table: str = "views",
        wanted: str = "object",
        exact: bool = False,
    ) -> list[list[Any]]:
        """The nearest rows of each vector [N, D], nearest first: the column `wanted` and `_distance` (squared).

        Args:
            exact: compare with all rows, even where there is an index.
        """
        alive = snapshot.attempts
        if not snapshot.latest:
            listed = ", ".join(f"'{attempt}'" for attempt in sorted(alive))
            old = f"attempt IN ({listed})" if alive else "false"
            where = old if where is None else f"({where}) AND {old}"
        with explained(self.place, "read"):
            query = self._tables[table].search(vectors, vector_column_name="vector").distance_type("l2")
            query = query.bypass_vector_index() if exact else query.nprobes(PROBES)
            query = query if where is None else query.where(where, prefilter=True)
            found = query.select(["attempt", wanted, "_distance"]).limit(count).to_arrow().to_pylist()
        hits: list[list[Any]] = [[] for _ in range(len(vectors))]
        for row in found:
            if row["attempt"] in alive:
                hits[row.get("query_index", 0)].append(row)
        return [sorted(rows, key=lambda row: row["_distance"]) for rows in hits]

    def bytes(self) -> int:
        """Of the current tables."""
        with explained(self.place, "read"):
            return sum(int(table.stats()["total_bytes"]) for table in self._tables.values())

    def compact(self) -> None:
        """Rewrite small files as large ones and bring the indexes up to date; not while others write to the map."""
        snapshot = self.snapshot()
        with held(self.place, alone=True), explained(self.place, "written"):
            listed = ", ".join(f"'{attempt}'" for attempt in sorted(snapshot.attempts))
            for name in DATA:
                table = self._tables[name]
                if listed:
                    table.delete(f"attempt NOT IN ({listed})")
                table.optimize(cleanup_older_than=LINGER)
            views = self._tables["views"]
            if views.count_rows() >= EXACT:
                self._index()

    def _index(self) -> None:
        views = self._tables["views"]
        parts = max(16, min(4096, round(views.count_rows() ** 0.5)))
        trained = IvfFlat(distance_type="l2", num_partitions=parts, max_iterations=ROUNDS, sample_rate=SAMPLES)
        views.create_index("vector", config=trained)
        self._tables["objects"].create_index("object", config=BTree())
        self._tables["keyframes"].create_index("keyframe", config=BTree())

    def _add(self, name: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            table = self._tables[name]
            table.add(pa.Table.from_pylist(rows, schema=table.schema))


def held(place: Path | str, alone: bool = False) -> AbstractContextManager[None]:
    """While a map is written: writers do not disturb each other, but whoever rewrites it must be `alone`.

    Locks belong to disks; on object storage it is the user's to see to it.
    """
    return nullcontext() if "://" in str(place) else locked(place, shared=not alone)


def create_store(place: Path | str, header: MapHeader, storage_options: Mapping[str, str] | None = None) -> MapStore:
    """A new, empty map; or the one that is there, if it was made with the same header."""
    database = _connect(place, storage_options)
    with explained(str(place), "written"):
        if "log" not in table_names(database):
            for name, schema in schemas(header).items():
                database.create_table(name, schema=schema, exist_ok=True)
    store = open_store(place, storage_options)
    if store.header != header:
        theirs, ours = store.header.model_dump(), header.model_dump()
        found = ", ".join(f"{key} {theirs[key]!r} instead of {ours[key]!r}" for key in ours if theirs[key] != ours[key])
        raise DataError(f"there is another map at {place}, with {found}: choose another place, or add to it")
    return store


def open_store(place: Path | str, storage_options: Mapping[str, str] | None = None) -> MapStore:
    """A map that is there."""
    if "://" not in str(place) and not Path(place).is_dir():
        raise DataError(f"map not found: expected the folder {place}; `robustmat map build` makes one")
    database = _connect(place, storage_options)
    try:
        metadata = database.open_table("log").schema.metadata or {}
    except (ValueError, FileNotFoundError):
        raise DataError(f"{place} is no map, or one whose making ended before it began: build it again") from None
    except (OSError, RuntimeError) as problem:
        raise DataError(f"map {place} cannot be read: {_first_line(problem)}") from None
    header = _read_header(metadata.get(HEADER, b"{}"), place)
    return MapStore(str(place), database, header, dict(storage_options or {}))


def _read_header(text: bytes, place: Path | str) -> MapHeader:
    told = parse_json(text, f"map {place} has a broken header: build it again")
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise DataError(f"{place} is a database, but no map: `robustmat map build` makes one")
    if told.get("version") != VERSION:
        raise DataError(
            f"map {place} has the format's version {told.get('version')}, this robustmat reads version {VERSION}: "
            "build it again from its data sets"
        )
    try:
        return MapHeader.model_validate(told)
    except ValidationError as problem:
        wrong = ", ".join(".".join(str(part) for part in one["loc"]) for one in problem.errors())
        raise DataError(
            f"map {place} has a header that this robustmat does not read ({wrong}): build it again"
        ) from None


def table_names(database: Any) -> set[str]:
    return set(database.list_tables().tables)


def _connect(place: Path | str, storage_options: Mapping[str, str] | None) -> Any:
    try:
        return lancedb.connect(str(place), storage_options=dict(storage_options or {}) or None)
    except (OSError, ValueError, RuntimeError) as problem:
        raise DataError(f"map {place} cannot be opened: {_first_line(problem)}; choose another place") from None


@contextmanager
def explained(place: str, done: str, batch: str | None = None) -> Iterator[None]:
    """Errors of the tables as ours: what is wrong, where, and what to do."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as problem:
        said = _first_line(problem)
        if any(words in str(problem) for words in ("No space left", "StorageFull", "Disk quota", "File too large")):
            advice = "free some space and run the same command again; what was added before is safe"
            raise DataError(f"map {place}: the disk is full; {advice}") from None
        if done == "read":
            advice = "restore its files from a copy, open an older version (--at), or build it again"
        else:
            advice = "nothing was added; run the same command again"
        named = f" (batch {batch})" if batch else ""
        raise DataError(f"map {place} cannot be {done}{named}: {said}; {advice}") from None


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:300]
