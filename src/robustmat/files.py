"""Reading and writing files so that nothing is lost and every error names its file."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robustmat.errors import DataError, InputError, RobustMatError


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` only if the block succeeds.

    The suffix is kept, since image and array writers choose their format by it.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}; choose another place") from None
    os.close(handle)
    temporary = Path(name)
    umask = os.umask(0)
    os.umask(umask)
    try:
        yield temporary
        temporary.chmod(0o666 & ~umask)  # temporary files are private; what we write is for everyone
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_text(path: Path | str, what: str, error: type[RobustMatError] = DataError) -> str:
    """The text of a file, or an error that says which file was wanted for what."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error(f"{what} not found: {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{what} cannot be read: {path}: {problem}") from None


def read_json(path: Path | str, what: str, error: type[RobustMatError] = DataError) -> Any:
    try:
        return json.loads(read_text(path, what, error))
    except json.JSONDecodeError as problem:
        raise error(f"{what} is not valid JSON: {path}, line {problem.lineno}: {problem.msg}") from None
