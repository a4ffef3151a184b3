"""Files and folders under bad luck: what cannot be written, two writers, killed ones, and texts that are traps."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustmat.config import read_toml
from robustmat.errors import ConfigError, DataError, InputError, OutputError, brief, visible
from robustmat.files import parse_json, read_json, read_text, replacing, write_json, write_text
from robustmat.folders import UNFINISHED, filling, locked, replacing_folder, sweep
from robustmat.sources.drive import refuse_unfinished

ROOT = os.geteuid() == 0


def test_a_folder_in_the_way_a_long_name_and_a_file_as_parent_are_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("")
    wrong = {"folder.json": "it is a folder", "n" * 300 + ".json": "shorter name", "file/a.json": "choose another"}
    for name, advice in wrong.items():
        with pytest.raises(OutputError, match=advice):
            write_json(tmp_path / name, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json"]


def test_a_name_as_long_as_names_can_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_json(path, {"a": 1})
    assert read_json(path, "file") == {"a": 1}


@pytest.mark.skipif(ROOT, reason="root writes everywhere")
def test_a_read_only_folder_is_the_users_to_mend(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="choose another place"):
        write_text(tmp_path / "a.txt", "")


WRITERS = {
    "text": "write_text(path, 'x' * 100_000)",
    "image": "write_image(path, np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8))",
    "opencv": "write_picture(path, np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8))",
    "array": "write_floats(path, np.zeros(100_000))",
    "tensors": "EmbeddedFrame((), {'a': np.zeros(100_000)}, 'x').save(path)",
    "predictions": "write_points(path.parent, 'a', np.random.default_rng(0).random((100_000, 3)) * 100)",
}
FULL = """
import resource, sys, signal
from pathlib import Path
import numpy as np
from robustmat.errors import OutputError
from robustmat.files import write_text
from robustmat.sources.images import write_image
from robustmat.simulation.write_files import write_picture, write_floats
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.dataset.store import write_points
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
for number, line in enumerate(sys.argv[2:]):
    path = folder / f"{number}.png"
    try:
        exec(line)
        print(number, "written")
    except OutputError as problem:
        print(number, problem)
"""


def test_a_full_disk_is_one_kind_of_error_whoever_writes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), *WRITERS.values()], capture_output=True, text=True, check=False
    )
    lines = found.stdout.splitlines()
    assert len(lines) == len(WRITERS), found.stderr
    for line in lines:
        assert "cannot write" in line, lines
        assert "free some space" in line, lines
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(OutputError, match="free some space"), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("old", 1)


HOLD = """
import sys
from robustmat.folders import locked
with locked(sys.argv[1], shared=len(sys.argv) > 2):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path, *options: str) -> "subprocess.Popen[str]":
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    holder = hold(tmp_path / "out")
    with pytest.raises(OutputError, match=rf"process {holder.pid} on .* for 0 minutes .*choose another place"):
        locked(tmp_path / "out").__enter__()
    holder.communicate("")
    with locked(tmp_path / "out"):
        assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]
    assert not list(tmp_path.iterdir())


def test_the_lock_of_a_killed_writer_is_taken_over_and_its_litter_swept_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    holder = hold(out)
    (out / "deep").mkdir(parents=True)
    (out / "deep" / ".a.part-x.png").write_text("half")
    (out / "deep" / "a.png").write_text("whole")
    (tmp_path / ".out.part-zz").mkdir()
    (tmp_path / ".other.part-zz").mkdir()
    holder.kill()
    holder.wait()
    with locked(out):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".other.part-zz", ".out.lock", "out"]
        assert [path.name for path in (out / "deep").iterdir()] == ["a.png"]


def test_shared_writers_keep_out_only_who_wants_the_folder_alone(tmp_path: Path) -> None:
    holder = hold(tmp_path / "map", "shared")
    with locked(tmp_path / "map", shared=True), pytest.raises(OutputError, match="is being written"):
        locked(tmp_path / "map").__enter__()
    holder.communicate("")
    with locked(tmp_path / "map"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_file_of_nonsense_hinders_nobody(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xfe", b"[" * 4000, b'{"pid": [1]}', b"7"):
        (tmp_path / ".out.lock").write_bytes(content)
        with locked(tmp_path / "out"):
            pass


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for turn in range(2):
        with replacing_folder(out) as new:
            (new / "a").write_text(str(turn))
            (new / f"only-{turn}").write_text("")
    assert sorted(path.name for path in out.iterdir()) == ["a", "only-1"]
    with pytest.raises(KeyboardInterrupt), replacing_folder(out) as new:  # noqa: PT012
        (new / "a").write_text("half")
        raise KeyboardInterrupt
    assert (out / "a").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_stepped_aside_when_the_process_was_killed_comes_back(tmp_path: Path) -> None:
    aside = tmp_path / ".out.part-old"
    aside.mkdir()
    (aside / "a").write_text("the old one")
    sweep(tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "the old one"


def test_files_of_an_interrupted_simulation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), filling(tmp_path / "drive"):  # noqa: PT012
        (tmp_path / "drive" / "image_02" / "data").mkdir(parents=True)
        raise KeyboardInterrupt
    with pytest.raises(DataError, match=r"not whole.*simulate it again"):
        refuse_unfinished(tmp_path / "drive" / "image_02" / "data")
    with filling(tmp_path / "drive"):
        assert (tmp_path / "drive" / UNFINISHED).is_file()
    refuse_unfinished(tmp_path / "drive" / "image_02" / "data")


DEEP = 100_000
BAD_JSON = {
    "nested": "[" * DEEP + "]" * DEEP,
    "nested objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "digits": "1" * 5000,
    "more digits": "[" + "9" * 400 + "]",
    "large": "1e400",
    "broken": '{"a": }',
    "surrogate bytes": "\udcff",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_texts_that_are_no_json_end_in_one_short_line(name: str) -> None:
    with pytest.raises(DataError, match="box file is wrong") as caught:
        parse_json(BAD_JSON[name], "box file is wrong")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["a = " + "[" * DEEP, "a = " + "1" * 5000, "a = \x00", "a = 'x", "[" * DEEP])
def test_texts_that_are_no_toml_end_in_one_short_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        read_toml(tmp_path / "a.toml")
    assert len(str(caught.value)) < 400


def test_devices_null_bytes_folders_and_foreign_letters_are_errors_not_hangs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("robustmat.files.LONGEST_TEXT", 10_000)
    (tmp_path / "latin").write_bytes(b"\xe9")
    for path in ("/dev/zero", tmp_path, tmp_path / "latin", "a\x00b", tmp_path / ("n" * 300)):
        with pytest.raises(InputError):
            read_text(path, "box file", InputError)


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda found: found.decode("latin-1")))
def test_no_message_carries_control_characters_or_a_second_line(text: str) -> None:
    shown = str(DataError(f"file {text}: wrong"))
    assert shown.isprintable()
    assert shown.encode("utf-8")  # lone surrogates would end in an error of their own


def test_long_messages_keep_their_beginning_and_their_advice() -> None:
    shown = str(DataError("file not found: " + "x" * 10**6 + "; copy it beside its model.json"))
    assert len(shown) < 2200
    assert shown.startswith("file not found: xxx")
    assert shown.endswith("copy it beside its model.json")
    assert visible("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"


def test_values_are_quoted_in_a_few_words() -> None:
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]
    for value in (
        deep,
        "x" * 10**6,
        10**5000,
        list(range(10**5)),
        {str(n): n for n in range(10**4)},
    ):
        assert len(brief(value)) <= 80
