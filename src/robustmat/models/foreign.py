"""Other projects' networks: parts of a package without the rest, and weights that only the user may fetch.

Weights whose terms or size keep them out of this package are looked for in one folder, `ROBUSTMAT_WEIGHTS` in the
environment or `~/.robustmat/weights`. Nothing is ever downloaded.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from robustmat.errors import ConfigError

VARIABLE = "ROBUSTMAT_WEIGHTS"


def weights_folder() -> Path:
    return Path(os.environ.get(VARIABLE) or Path.home() / ".robustmat" / "weights")


@dataclass(frozen=True)
class Foreign:
    """What a method needs of another project.

    Attributes:
        label: the method's.
        project: where it comes from.
        licence: what its makers allow.
        needs: files below the weights' folder.
        fetch: how the user gets them there, in a few words.
    """

    label: str
    project: str
    licence: str
    needs: tuple[str, ...]
    fetch: str

    def find(self) -> tuple[Path, ...]:
        """The files, or an error that says what to fetch, from whom, under which terms, and where to put it."""
        folder = weights_folder()
        paths = tuple(folder / name for name in self.needs)
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise ConfigError(
                f"{self.label} needs {missing[0]}, which does not come with robustmat: {self.fetch} "
                f"({self.project}; {self.licence}), or name another folder than {folder} in {VARIABLE}"
            )
        return paths

    @contextmanager
    def usable(self, *weights: Path) -> Iterator[None]:
        """Weights are read inside; a foreign file may be wrong in many ways, and all of them end in one line."""
        try:
            yield
        except Exception as problem:
            reason = (str(problem).splitlines() or [type(problem).__name__])[0]
            listed = ", ".join(map(str, weights))
            raise ConfigError(f"weights of {self.label} cannot be used: {listed}: {reason}; {self.fetch}") from None


@contextmanager
def without_init(package: str) -> Iterator[None]:
    """Import modules of an installed package though its `__init__` cannot be imported; others are not disturbed."""
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)
    before = sys.modules.get(package)
    stand_in: Any = ModuleType(package)
    stand_in.__path__, stand_in.__spec__ = list(spec.submodule_search_locations), spec
    sys.modules[package] = stand_in
    try:
        yield
    finally:
        if before is None:
            del sys.modules[package]
        else:
            sys.modules[package] = before


def import_from(folder: Path, *modules: str) -> list[ModuleType]:
    """Modules of a project that is a folder, not an installed package; its general names are given back afterwards."""
    names = {module.partition(".")[0] for module in modules}
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in names}
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as problem:
        raise ConfigError(f"{folder} cannot be used: {problem}; fetch the whole project again") from None
    finally:
        sys.path.remove(str(folder))
        for name in list(sys.modules):
            if name.partition(".")[0] in names:
                del sys.modules[name]
        sys.modules.update(hidden)
