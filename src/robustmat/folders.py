"""Folders that are made as a whole: one writer at a time, and under their name only when they are complete.

A lock is a file `.NAME.lock` beside the folder. The system holds it for its owner and lets go when that process ends,
however it ends, so the lock of a killed process is free at once and nobody has to guess whether its owner still lives.
What stands in the file is for people: who, where, since when, doing what. Where the disk knows no such locks (Windows,
some network disks) the file's content decides: an owner on this machine is looked up, one on another is believed.
"""

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from robustmat.errors import OutputError, brief
from robustmat.files import TEMPORARY, everyone, make_folder, write_text, writing

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".robustmat-unfinished"  # a folder that has this file was not written to its end


@contextmanager
def locked(folder: Path | str, *, shared: bool = False) -> Iterator[None]:
    """Be the only one who writes `folder`, or refuse; what a killed owner left half-written is swept up first.

    Args:
        shared: other shared owners may write as well; only one who wants the folder alone is kept out.
    """
    folder = Path(folder).absolute()
    make_folder(folder.parent)
    path = folder.parent / f".{folder.name[:200]}.lock"
    handle, left_behind = _take(path, folder, shared)
    try:
        if left_behind and not shared:
            sweep(folder)
        yield
    finally:
        if _flock(handle, shared=False):  # nobody shares it: while it is ours nobody can take what we remove
            with suppress(OSError):
                path.unlink(missing_ok=True)
        os.close(handle)


def _take(path: Path, folder: Path, shared: bool) -> tuple[int, bool]:
    """The open lock file, and whether somebody left it there."""
    while True:
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        owner = _read(handle)
        free = _flock(handle, shared)
        if free is None:
            free = not owner or shared or (owner.get("host") == socket.gethostname() and not _lives(owner.get("pid")))
        if not free:
            os.close(handle)
            raise OutputError(_refusal(folder, path, owner))
        try:
            current = os.stat(path).st_ino == os.fstat(handle).st_ino
        except FileNotFoundError:
            current = False
        if current:  # otherwise its owner removed it between our opening it and our taking it
            with writing(path):
                _write(handle)
            return handle, bool(owner)
        os.close(handle)


def _flock(handle: int, shared: bool) -> bool | None:
    """Whether the lock is ours now; None where the disk knows no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return True
    except OSError as problem:
        return False if problem.errno in (errno.EWOULDBLOCK, errno.EAGAIN) else None


def _lives(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (OSError, TypeError, ValueError, OverflowError) as problem:
        return isinstance(problem, PermissionError)  # somebody else's process is one that lives
    return True


def _read(handle: int) -> dict[str, Any]:
    """Who wrote the lock file; nothing, if it is new or not legible."""
    try:
        found = json.loads(os.read(handle, 4096))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(handle: int) -> None:
    command = " ".join(["robustmat", *sys.argv[1:]])[:300]
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": round(time.time()), "command": command}
    os.lseek(handle, 0, os.SEEK_SET)
    os.ftruncate(handle, 0)
    os.write(handle, json.dumps(owner).encode())


def _refusal(folder: Path, path: Path, owner: dict[str, Any]) -> str:
    if not owner:
        return f"another process is writing {folder}: wait for it, or choose another place"
    try:
        minutes = max(0.0, time.time() - float(owner["since"])) / 60
    except (KeyError, TypeError, ValueError):
        minutes = 0.0
    who = f"process {brief(owner.get('pid'))} on {brief(owner.get('host'))}"
    return (
        f"{folder} is being written by {who} for {minutes:.0f} minutes ({brief(owner.get('command'))}): wait for it, "
        f"end it, or choose another place; if there is no such process, delete {path}"
    )


@contextmanager
def filling(folder: Path | str) -> Iterator[None]:
    """Be the only one who fills `folder` file by file; until the end a mark in it says that it is not whole."""
    mark = Path(folder) / UNFINISHED
    with locked(folder):
        write_text(mark, "This folder is still being written, or its writing was interrupted: write it again.\n")
        yield
        with writing(mark):
            mark.unlink()


@contextmanager
def replacing_folder(path: Path | str) -> Iterator[Path]:
    """Give an empty folder beside `path`; put it at `path` only if the block succeeds, and did not remove it."""
    path = Path(path).absolute()
    make_folder(path.parent)
    with writing(path):
        new = Path(tempfile.mkdtemp(prefix=_temporary(path), dir=path.parent))
        try:
            yield new
            if new.is_dir():
                swap(new, path)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def swap(new: Path, path: Path) -> None:
    """Put the folder `new` at `path`. The old one steps aside first, so an interruption leaves one of them whole."""
    with writing(path):
        everyone(new, 0o777)  # temporary folders are private
        if not path.exists():
            new.replace(path)
            return
        aside = _aside(path)
        shutil.rmtree(aside, ignore_errors=True)
        path.replace(aside)
        try:
            new.replace(path)
        except OSError:
            aside.replace(path)
            raise
        aside.chmod(0o700)  # it may have been read-only
        shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what a killed process left half-written in and beside `folder`; put back what it had moved aside."""
    aside = _aside(folder)
    if aside.is_dir() and not folder.exists():
        aside.replace(folder)
    beside = [path for path in folder.parent.iterdir() if path.name.startswith(_temporary(folder))]
    for path in [*beside, *folder.rglob(f".*{TEMPORARY}*")]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> str:
    return f".{path.name[:60]}{TEMPORARY}"


def _aside(path: Path) -> Path:
    return path.parent / f"{_temporary(path)}old"
