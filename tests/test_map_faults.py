"""Maps under bad luck: killed writers, two writers, readers in between, a full disk, lost workers, object storage."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from map_world import IdentityMatcher, drive, street
from robustmat.errors import DataError
from robustmat.mapping.build import add_datasets, build_map, drive_stretches, make_batch
from robustmat.mapping.landmark_map import open_map
from robustmat.mapping.settings import MapSettings
from robustmat.mapping.store import DATA, MapStore, open_store

MATCHER = IdentityMatcher()
SETTINGS = MapSettings(stretch=4)
HERE = Path(__file__).parent


def content(place: Path | str, **options: Any) -> dict[str, list[str]]:
    """Every row that a reader sees, as sorted text without the attempt's name; twice there is twice here."""
    store = open_store(place, **options)
    snapshot = store.snapshot()
    return {
        name: sorted(
            str({key: value for key, value in row.items() if key not in ("attempt", "written")})
            for row in store.rows(name, snapshot)
        )
        for name in DATA
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    place = tmp_path_factory.mktemp("whole") / "map"
    build_map(place, [drive(street(), frames=24)], MATCHER, SETTINGS)
    return content(place)


@pytest.mark.parametrize("writes", range(13))
def test_a_build_interrupted_before_any_write_ends_in_the_same_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, list[str]], writes: int
) -> None:
    left, add = [writes], MapStore._add

    def fails_later(self: MapStore, name: str, rows: list[dict[str, Any]]) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        add(self, name, rows)

    monkeypatch.setattr(MapStore, "_add", fails_later)
    try:
        build_map(tmp_path / "map", [drive(street(), frames=24)], MATCHER, SETTINGS)
    except KeyboardInterrupt:
        acknowledged = len(open_store(tmp_path / "map").snapshot().batches)
        assert acknowledged == writes // 4  # three data tables, then the log
    monkeypatch.setattr(MapStore, "_add", add)
    build_map(tmp_path / "map", [drive(street(), frames=24)], MATCHER, SETTINGS)
    assert content(tmp_path / "map") == undisturbed


def test_two_writers_and_a_reader_do_not_disturb_each_other(tmp_path: Path) -> None:
    place = tmp_path / "map"
    build_map(place, [drive(street(), frames=8)], MATCHER, SETTINGS)
    drives = [drive(street(), name=name, frames=16) for name in ("tuesday", "wednesday")]
    seen = []

    def read() -> None:
        for _ in range(15):
            opened = open_map(place, matcher=MATCHER)
            names = [info.name for info in opened.keyframes()]
            assert len(names) == len(set(names)) == sum(row["keyframes"] for row in opened.snapshot.batches.values())
            seen.append(len(names))

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(add_datasets, place, [one], MATCHER) for one in drives]
        pool.submit(read).result()
        for writer in writers:
            writer.result()
    assert seen == sorted(seen)
    opened = open_map(place, matcher=MATCHER)
    assert len(opened.keyframes()) == 4 + 8 + 8


def test_many_attempts_at_one_batch_leave_it_there_once(tmp_path: Path) -> None:
    place = tmp_path / "map"
    build_map(place, [drive(street(), frames=8)], MATCHER, SETTINGS)
    stores = [open_store(place) for _ in range(6)]
    stretch = drive_stretches(drive(street(), name="tuesday", frames=8), stores[0].header)[0]
    batch = make_batch(stretch, MATCHER, SETTINGS)
    with ThreadPoolExecutor(6) as pool:
        wrote = list(pool.map(lambda store: store.append(batch), stores))
    assert sum(wrote) == 1
    assert len(open_map(place, matcher=MATCHER).keyframes()) == 4 + len(batch.keyframes)


FULL = """
import resource, sys
sys.path.insert(0, {here!r})
from pathlib import Path
from map_world import IdentityMatcher, drive, street
from robustmat.errors import DataError
from robustmat.mapping.build import add_datasets
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    add_datasets({place!r}, [drive(street(), name="tuesday", frames=60)], IdentityMatcher())
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
def test_a_full_disk_loses_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "map"
    build_map(place, [drive(street(), frames=24)], MATCHER, SETTINGS)
    before = content(place)
    script = FULL.format(here=str(HERE), place=str(place))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "the disk is full; free some space" in done.stdout, done.stderr
    assert content(place) == before
    assert add_datasets(place, [drive(street(), name="tuesday", frames=60)], MATCHER).written


def test_a_damaged_log_is_an_error_not_a_smaller_map(tmp_path: Path) -> None:
    place = tmp_path / "map"
    build_map(place, [drive(street(), frames=24)], MATCHER, SETTINGS)
    for path in (place / "log.lance" / "data").glob("*.lance"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read"):
        open_map(place, matcher=MATCHER)


BUILD = """
import sys, time
sys.path.insert(0, {here!r})
from map_world import IdentityMatcher, drive, street
from robustmat.mapping.build import build_map, add_datasets
from robustmat.mapping.settings import MapSettings
class Slow(IdentityMatcher):
    def embed(self, frame):
        time.sleep(0.002)
        return super().embed(frame)
print("begun", flush=True)
build_map({place!r}, [drive(street(), frames=24)], Slow(), MapSettings(stretch=4))
add_datasets({place!r}, [drive(street(), name="tuesday", frames=60)], Slow())
"""


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    place, whole = tmp_path / "map", tmp_path / "whole"
    subprocess.run([sys.executable, "-c", BUILD.format(here=str(HERE), place=str(whole))], check=True)
    expected = content(whole)
    script, luck, kills, acknowledged = BUILD.format(here=str(HERE), place=str(place)), random.Random(7), 0, 0
    while kills < 30:
        running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(luck.uniform(0.0, 0.6))
        ended = running.poll()
        os.kill(running.pid, signal.SIGKILL) if ended is None else None
        running.wait()
        kills += ended is None
        if (place / "log.lance").exists():
            now = len(open_store(place).snapshot().batches)
            assert now >= acknowledged
            acknowledged = now
        if ended == 0:  # it came to its end between two kills: once more from the beginning
            assert content(place) == expected
            place = tmp_path / f"map{kills}"
            script, acknowledged = BUILD.format(here=str(HERE), place=str(place)), 0
    subprocess.run([sys.executable, "-c", script], check=True)
    assert content(place) == expected


def small_town(folder: Path) -> Any:
    """A drive with pixels, for matchers that Dask's workers can load by name."""
    import small_world
    from robustmat.dataset.store import open_dataset, write_dataset

    made = small_world.drive(small_world.make_boards(14, seed=3), frames=24)
    write_dataset(folder / "drive", "drive", "town", [(frame, None) for frame in made.frames], source={})
    return open_dataset(folder / "drive")


@pytest.mark.slow
def test_a_killed_dask_worker_gives_the_same_map(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    from robustmat.checkpoints.load import load
    from robustmat.mapping.cluster import _append_with

    dataset, matcher, settings = small_town(tmp_path), load("root-sift"), MapSettings(stretch=2, keyframe_spacing=1.0)
    build_map(tmp_path / "alone", [dataset], matcher, settings)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        append = _append_with(client)

        def killing(items: Any, what: str) -> Any:
            victim = next(iter(cluster.workers.values()))
            os.kill(victim.pid, signal.SIGKILL)
            return items

        build_map(tmp_path / "cluster", [dataset], matcher, settings, progress=killing, append=append)
    assert content(tmp_path / "cluster") == content(tmp_path / "alone")


S3_WRITER = """
import sys
sys.path.insert(0, {here!r})
from map_world import IdentityMatcher, drive, street
from robustmat.mapping.build import add_datasets
tuesday = drive(street(), name=sys.argv[1], frames=16)
add_datasets("s3://maps/town", [tuesday], IdentityMatcher(), storage_options={options!r})
"""


@pytest.mark.slow
def test_object_storage_keeps_two_writers_apart() -> None:
    server = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    running = server.ThreadedMotoServer(port=0)
    running.start()
    try:
        host, port = running.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        key = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **key).create_bucket(Bucket="maps")
        options = {**key, "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
        build_map("s3://maps/town", [drive(street(), frames=8)], MATCHER, SETTINGS, storage_options=options)
        script = S3_WRITER.format(here=str(HERE), options=options)
        writers = [subprocess.Popen([sys.executable, "-c", script, day]) for day in ("tuesday", "wednesday")]
        assert [writer.wait() for writer in writers] == [0, 0]
        opened = open_map("s3://maps/town", matcher=MATCHER, storage_options=options)
        assert len(opened.keyframes()) == 4 + 8 + 8
        assert not opened.query(drive(street(), frames=8).frames[3]).unknown
    finally:
        running.stop()


def test_random_order_of_batches_gives_the_same_answers(tmp_path: Path) -> None:
    build_map(tmp_path / "map", [drive(street(), frames=4)], MATCHER, SETTINGS)
    build_map(tmp_path / "other", [drive(street(), frames=4)], MATCHER, SETTINGS)
    for name, order in (("map", 1), ("other", -1)):
        store = open_store(tmp_path / name)
        for stretch in drive_stretches(drive(street(), name="tuesday", frames=24), store.header)[::order]:
            store.append(make_batch(stretch, MATCHER, SETTINGS))
    query = drive(street(), name="query", frames=12).frames[-1]
    first, second = (open_map(tmp_path / name, matcher=MATCHER).locate(query) for name in ("map", "other"))
    assert first.place.probability == pytest.approx(second.place.probability)
    assert np.allclose(first.T_world_camera, second.T_world_camera)
