"""The one place that asks a landmark map where a frame was taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import robustmat
from robustmat.errors import ConfigError
from robustmat.types import Frame


class Places(Protocol):
    """A map as the page needs it."""

    name: str

    def overview(self) -> dict[str, Any]:
        """From above, in metres: `{"landmarks": [[x, y, category]], "keyframes": [[x, y, name]]}`."""
        ...

    def locate(self, frame: Frame) -> dict[str, Any]:
        """Where the frame was taken: the JSON of `robustmat map locate` for one image."""
        ...


def open_places(path: Path) -> Places:
    """A map on disk."""
    open_map: Callable[[Path], Any] | None = getattr(robustmat, "open_map", None)
    if open_map is None:
        raise ConfigError("--map: this version of robustmat has no maps yet; leave --map out")
    return MapPlaces(path.name, open_map(path))


class MapPlaces:
    """`robustmat.open_map` as `Places`."""

    def __init__(self, name: str, opened: Any) -> None:
        self.name, self.opened = name, opened

    def overview(self) -> dict[str, Any]:
        return dict(self.opened.overview())

    def locate(self, frame: Frame) -> dict[str, Any]:
        return dict(self.opened.locate(frame).to_json())
