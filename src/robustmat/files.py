"""Reading and writing files so that nothing is lost and every error names its file.

All that is written goes through `replacing` (a file) or `writing` (anything else): a full disk, a read-only folder, a
folder in the way or a name that is too long is an `OutputError`. All JSON and TOML that is read goes through
`parse_json` and `parse_toml`.
"""

import errno
import hashlib
import json
import math
import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robustmat.errors import DataError, OutputError, RobustMatError

TEMPORARY = (
    ".part-"  # in the names of files that are being written; what a killed process left is swept up by `folders.locked`
)
LONGEST_TEXT = 2**30  # bytes of a file that is read as text
LONGEST_NUMBER = 20  # digits of a whole number: more than nanoseconds since 1970

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (
    *FULL,
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EEXIST),
)
# How libraries that hide the system's error name a full disk.
FULL_WORDS = ("No space left", "Disk quota", "File too large", "file write failed", "inline_container", "and 0 written")


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` only if the block succeeds.

    The suffix is kept, since image and array writers choose their format by it.
    """
    path = Path(path)
    with writing(path):
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder; choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The name may be as long as names can be; the temporary one must not be longer.
        handle, name = tempfile.mkstemp(f"{path.suffix[:20]}", f".{path.stem[:30]}{TEMPORARY}", path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            everyone(temporary, 0o666)  # temporary files are private; what we write is for everyone
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """What the system has against writing `path`, as one kind of error that says what to do."""
    try:
        yield
    except OSError as problem:
        raise OutputError(unwritable(problem, path)) from None
    except RobustMatError:
        raise
    except Exception as problem:  # safetensors, torch and numpy have words of their own for a full disk
        if any(words in str(problem) for words in FULL_WORDS):
            raise OutputError(f"cannot write {path}: {_advice(errno.ENOSPC)}") from None
        raise


def unwritable(problem: OSError, path: Path | str) -> str:
    """One line: what keeps us from writing, and what to do."""
    reason = problem.strerror or str(problem) or type(problem).__name__
    if "written" in reason and problem.errno is None:  # numpy counts what it could write
        return f"cannot write {path}: {_advice(errno.ENOSPC)}"
    return f"cannot write {path}: {_advice(problem.errno, reason)}"


def _advice(number: int | None, reason: str = "No space left on device") -> str:
    if number in FULL:
        return f"{reason}; free some space and run the same command again"
    if number == errno.ENAMETOOLONG:
        return f"{reason}; choose a shorter name"
    return f"{reason}; choose another place"


def everyone(path: Path, mode: int) -> None:
    """The mode that the user's umask leaves of `mode`."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def make_folder(path: Path | str) -> Path:
    """A folder that is there afterwards."""
    path = Path(path)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def write_text(path: Path | str, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def hash_of(path: Path | str) -> str:
    """The SHA-256 of a file's content."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path | str, what: str, error: type[RobustMatError] = DataError) -> str:
    """The text of a file, or an error that says which file was wanted for what."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_TEXT + 1)  # a device never ends
        if len(content) > LONGEST_TEXT:
            raise error(f"{what} has more than {LONGEST_TEXT // 2**20} MB, more than any that is meant: {path}")
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise error(f"{what} not found: {path}") from None
    except (OSError, ValueError) as problem:  # of these, text that is not UTF-8 and names with a null byte
        raise error(f"{what} cannot be read: {path}: {problem}") from None


def read_json(path: Path | str, what: str, error: type[RobustMatError] = DataError) -> Any:
    return parse_json(read_text(path, what, error), f"{what} is not valid JSON: {path}", error)


def parse_json(text: str | bytes, wrong: str, error: type[RobustMatError] = DataError) -> Any:
    """What a JSON text says, or an error that begins with `wrong`: somebody else wrote the text.

    Numbers that a float cannot hold are refused. NaN and Infinity, are left to who reads them.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_decimal)
    except json.JSONDecodeError as problem:
        raise error(f"{wrong}, line {problem.lineno}: {problem.msg}") from None
    except RecursionError:
        raise error(f"{wrong}: it is nested too deeply") from None
    except ValueError as problem:
        raise error(f"{wrong}: {problem}") from None


def parse_toml(text: str, wrong: str, error: type[RobustMatError] = DataError) -> dict[str, Any]:
    """What a TOML text says, or an error that begins with `wrong`."""
    try:
        return tomllib.loads(text, parse_float=float)
    except RecursionError:
        raise error(f"{wrong}: it is nested too deeply") from None
    except ValueError as problem:  # TOMLDecodeError is one; whole numbers of thousands of digits are another
        raise error(f"{wrong}: {problem}") from None


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a whole number has {len(digits)} digits")
    return int(digits)


def _decimal(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:LONGEST_NUMBER]} is too large")
    return value
