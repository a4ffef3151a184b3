"""How maps grow: seconds to build and to search, bytes, and what an index misses, from 10^4 to 10^6 views.

Seconds are the processor's, of all threads: other work on the machine does not stretch them.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.files import write_text
from robustmat.mapping.objects import farthest_points
from robustmat.mapping.settings import MapHeader
from robustmat.mapping.store import Batch, MapStore, create_store
from robustmat.types import CATEGORIES

AT_ONCE = 20_000  # views of a batch
NEAREST = 10
SPREAD = 0.35  # length of what is added to a real embedding; views of one object are about that far apart


@dataclass(frozen=True)
class MapScaleRow:
    """One size of a map."""

    views: int
    build_seconds: float
    index_seconds: float
    megabytes: float
    exact_ms: float  # a landmark, median
    search_ms: float  # the same through the index, where there is one
    recall: float  # of the ten nearest

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def measure_scale(
    sizes: Sequence[int],
    real: NDArray[np.float32] | None = None,
    *,
    queries: int = 50,
    seed: int = 0,
    tell: Callable[[str], object] = lambda text: None,
) -> list[MapScaleRow]:
    """Grow one map from size to size.

    Args:
        real: embeddings [N, D] around which others are drawn; random directions, if there are none.
    """
    rng = np.random.default_rng(seed)
    around = _unit(rng.normal(size=(500, 304)).astype(np.float32)) if real is None else real
    folder = Path(tempfile.mkdtemp(prefix="robustmat-map-"))
    rows = []
    try:
        header = MapHeader(
            world="bench",
            checkpoint="bench",
            evidence="pair",
            fingerprint="bench",
            dimension=around.shape[1],
            arrays=("vertex",),
        )
        store = create_store(folder / "map", header)
        there, building = 0, 0.0
        for size in sorted(sizes):
            tell(f"growing to {size} views")
            start = time.process_time()
            while there < size:
                count = min(AT_ONCE, size - there)
                _append(store, drawn(around, count, rng), there)
                there += count
            building += time.process_time() - start
            start = time.process_time()
            store.compact()
            indexing = time.process_time() - start
            rows.append(_measure(store, around, size, building, indexing, queries, rng))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


COLUMNS = ("views", "build s", "index s", "MB", "exact ms", "search ms", "recall of 10")


def cells(row: MapScaleRow) -> list[str]:
    """A row of the table, as text."""
    return [
        f"{row.views:,}",
        f"{row.build_seconds:.1f}",
        f"{row.index_seconds:.1f}",
        f"{row.megabytes:.0f}",
        f"{row.exact_ms:.1f}",
        f"{row.search_ms:.1f}",
        f"{row.recall:.3f}",
    ]


def write_scale(rows: Sequence[MapScaleRow], folder: Path, command: str) -> Path:
    """Write map-scale.md and map-scale.csv."""
    names = list(MapScaleRow.__dataclass_fields__)
    lines = [",".join(names)] + [",".join(str(round(getattr(row, name), 4)) for name in names) for row in rows]
    write_text(folder / "map-scale.csv", "\n".join(lines) + "\n")
    text = [
        "# How maps grow",
        "",
        "Embeddings drawn around those of a map, in one table of LanceDB. A search is for the ten nearest of one "
        "landmark: through the index (none below 20,000 views), or exact.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(cells(row))} |" for row in rows),
        "",
        "`build` is the appending of all views, `index` the last compaction with its index. Searches are medians. All "
        "times are processor time of all threads.",
        "",
        "## Command",
        "",
        f"    {command}",
    ]
    write_text(folder / "map-scale.md", "\n".join(text) + "\n")
    return folder / "map-scale.md"


def drawn(around: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Unit vectors near some of `around`: [count, D]."""
    chosen = around[rng.integers(0, len(around), count)]
    noise = rng.normal(size=chosen.shape).astype(np.float32) / np.sqrt(chosen.shape[1])
    return _unit(chosen + SPREAD * noise)


def spread_out(vectors: NDArray[np.float32], most: int = 2000) -> NDArray[np.float32]:
    """Embeddings that stand for all: what others are drawn around."""
    return vectors[farthest_points(vectors, most)]


def _append(store: MapStore, vectors: NDArray[np.float32], first: int) -> None:
    views = [
        {
            "object": str(first + i),
            "category": CATEGORIES[i % len(CATEGORIES)],
            "x": 0.0,
            "y": 0.0,
            "z": float(first + i),
            "pixels": 50.0,
            "vector": vector,
        }
        for i, vector in enumerate(vectors.astype(np.float16))
    ]
    about = {
        "dataset": "bench",
        "keyframes": 0,
        "objects": 0,
        "landmarks": len(views),
        "views": len(views),
        "metres": 0.0,
    }
    store.append(Batch(f"views from {first}", about, [], [], views))


def _measure(
    store: MapStore,
    around: NDArray[np.float32],
    size: int,
    building: float,
    indexing: float,
    queries: int,
    rng: np.random.Generator,
) -> MapScaleRow:
    snapshot = store.snapshot()
    asked = drawn(around, queries, rng)
    times: dict[bool, list[float]] = {True: [], False: []}
    found: dict[bool, list[set[str]]] = {True: [], False: []}
    for vector in asked:
        for exact in (True, False):
            start = time.process_time()
            hits = store.search(vector[None], NEAREST, snapshot, exact=exact)[0]
            times[exact].append(1000 * (time.process_time() - start))
            found[exact].append({hit["object"] for hit in hits})
    recall = np.mean([len(a & b) / NEAREST for a, b in zip(found[True], found[False], strict=True)])
    return MapScaleRow(
        size,
        building,
        indexing,
        store.bytes() / 1e6,
        float(np.median(times[True])),
        float(np.median(times[False])),
        float(recall),
    )


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)
