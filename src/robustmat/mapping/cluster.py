"""Maps made by many processes: one Dask task a stretch of a drive.

A task embeds its stretch and appends it itself, so that no embeddings travel. Dask tries tasks again when workers die;
the store writes a batch once however often it is tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from robustmat.errors import ConfigError
from robustmat.mapping.build import Append, Stretch, make_batch
from robustmat.mapping.settings import refuse_other_matcher
from robustmat.mapping.store import MapStore, open_store
from robustmat.matching.matcher import Matcher
from robustmat.progress import Progress

RETRIES = 5


@contextmanager
def running_on(workers: int | None = None, cluster: str | None = None) -> Iterator[Append]:
    """How to append on `workers` processes of this machine, or on the cluster of a scheduler's address."""
    import distributed

    dask: Any = distributed  # its calls have no types

    try:
        if cluster is not None:
            with dask.Client(cluster, timeout="20s") as client:
                yield _append_with(client)
        else:
            with (
                dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
                dask.Client(local) as client,
            ):
                yield _append_with(client)
    except (OSError, TimeoutError) as problem:
        raise ConfigError(f"no Dask scheduler answers at {cluster}: {problem}; start one, or use --workers") from None


def _append_with(client: Any) -> Append:
    def append(store: MapStore, stretches: Sequence[Stretch], matcher: Matcher, progress: Progress) -> int:
        place, options, checkpoint = store.place, store.storage_options, store.header.checkpoint
        tasks = [
            client.submit(write_stretch, place, options, checkpoint, stretch, pure=False, retries=RETRIES)
            for stretch in stretches
        ]
        return sum(int(task.result()) for task in progress(tasks, "mapping"))

    return append


def write_stretch(place: str, options: Mapping[str, str], checkpoint: str, stretch: Stretch) -> bool:
    """What a worker does: embed a stretch and append it; whether it was this call that wrote it."""
    store = open_store(place, options)
    if stretch.name in store.snapshot().batches:
        return False
    matcher = _loaded(checkpoint, store.header.evidence)
    refuse_other_matcher(store.header, matcher, place)
    return store.append(make_batch(stretch, matcher, store.header.settings))


@lru_cache(maxsize=1)
def _loaded(checkpoint: str, evidence: str) -> Matcher:
    from robustmat.checkpoints.load import load

    return load(checkpoint, evidence=evidence)
