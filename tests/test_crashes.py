"""kill -9 at random moments, then the same command again: the same bytes as if nothing had happened.

Also two processes on one output, and disks that are full or read-only. Minutes; run by `make test-slow`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")]
KILLS = int(os.environ.get("ROBUSTMAT_KILLS", "10"))  # of each verb
ROBUSTMAT = [sys.executable, "-m", "robustmat"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
MAY_DIFFER = ("events.out", ".lock", "last.ckpt")  # TensorBoard's curves carry times, lightning's state its version

TINY = """
method = "robustmat"
preset = "street"
steps = 6
validate_every = 2
frame_pairs_per_step = 2
views = 1
perturbations = ["clean"]
[model.patch]
size = 16
[model.vertex]
stem_channels = 8
channels = 8
embedding_dim = 16
pooling_grid = 2
[model.joint]
width = 16
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three drives, their data sets, a configuration: what the verbs below begin with."""
    folder = tmp_path_factory.mktemp("world")
    for seed in "345":
        simulated = ["simulate", folder / f"drive{seed}", "--frames", "8", "--seed", seed, "--scale", "0.3"]
        run([*simulated, "--layout", "folder", "--spacing", "2"])
        named = ["--name", f"town{seed}", "--world", f"town{seed}"]
        run(["prepare", "folder", folder / f"drive{seed}", "--out", folder / f"data{seed}", *named])
    (folder / "tiny.toml").write_text(TINY)
    return folder


def run(words: list[object]) -> None:
    done = subprocess.run([*ROBUSTMAT, *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): plain(path)
        for path in files
        if not any(words in path.name for words in MAY_DIFFER)
    }


def plain(path: Path) -> bytes:
    """A file's bytes; of packed arrays what is in them, since they may hold the command and so the folder's name."""
    if path.suffix != ".npz":
        return path.read_bytes()
    with np.load(path, allow_pickle=False) as packed:
        arrays = [packed[name] for name in packed.files]
    return b"".join(str(one.tolist()).encode() if one.dtype.kind == "U" else one.tobytes() for one in arrays)


def litter(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if ".part-" in path.name or path.name.endswith("-unfinished")]


COMMANDS: dict[str, list[str]] = {
    "simulate": ["simulate", "{out}", "--frames", "6", "--seed", "3", "--scale", "0.3"],
    "prepare": ["prepare", "folder", "{world}/drive3", "--copy-images", "--out", "{out}"],
    "train": ["train", "{world}/tiny.toml", "--data", "{world}/data3", "--val", "{world}/data4", "--out", "{out}"],
    "reproduce": [
        *("reproduce", "main", "--data", "{world}/data3", "--val", "{world}/data5", "--test", "{world}/data4"),
        *(
            "--steps",
            "2",
            "--seeds",
            "1",
            "--methods",
            "hardnet",
            "--perturb",
            "clean",
            "--frame-pairs",
            "4",
            "--threads",
            "1",
            "--out",
            "{out}",
        ),
    ],
    "export": ["export", "onnx", "--frames", "1", "--out", "{out}"],
}


def words_of(verb: str, world: Path, out: Path, again: bool = False) -> list[str]:
    more = (
        ["--resume", "--threads", "1"] if verb == "train" and again else ["--threads", "1"] if verb == "train" else []
    )
    return [word.format(world=world, out=out) for word in COMMANDS[verb]] + more


@pytest.mark.parametrize("verb", COMMANDS)
def test_killed_at_any_moment_and_called_again_it_writes_the_same_bytes(verb: str, world: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    run(words_of(verb, world, tmp_path / "whole" / "out"))
    lasts, luck, out = time.monotonic() - began, random.Random(verb), tmp_path / "killed" / "out"
    for _ in range(KILLS):
        again = verb == "train" and (out / "run.json").exists()
        command = [*ROBUSTMAT, *words_of(verb, world, out, again)]
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(luck.uniform(0.2, 1.0) * lasts)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    run(words_of(verb, world, out, verb == "train" and (out / "run.json").exists()))
    expected, found = content(tmp_path / "whole" / "out"), content(out)
    places = str(tmp_path / "whole").encode(), str(tmp_path / "killed").encode()
    told = {name: bytes_.replace(*places) for name, bytes_ in expected.items()}  # commands are kept with the weights
    assert found.keys() == told.keys()
    changed = [name for name in told if without_resume(found[name]) != without_resume(told[name])]
    assert not changed or verb == "export", changed
    assert not litter(tmp_path / "killed")


def without_resume(text: bytes) -> bytes:
    return text.replace(b" --resume", b"")


def test_two_processes_on_one_output_do_not_meet(world: Path, tmp_path: Path) -> None:
    command = [*ROBUSTMAT, *words_of("prepare", world, tmp_path / "out")]
    both = [subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 2], [0, 0])  # the second may have come after the first was done
    if codes == [0, 2]:
        assert any("is being written by process" in text for text in told)
    run(["inspect", tmp_path / "out"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of a quarter of a megabyte; skipped where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode or shutil.which("umount") is None:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=False)


def run_into(disk: Path, verb: str, world: Path) -> subprocess.CompletedProcess[str]:
    command = [*ROBUSTMAT, *words_of(verb, world, disk / "out")]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("verb", ["simulate", "prepare", "train", "export"])
def test_a_full_disk_is_one_line_and_exit_code_2(verb: str, world: Path, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 200_000)
    done = run_into(small_disk, verb, world)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_read_only_disk_is_one_line_and_exit_code_2(verb: str, world: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = run_into(small_disk, verb, world)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr[-2000:]
    assert "Read-only file system" in done.stderr
