"""The one place that asks a landmark map where a frame was taken."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from robustmat.mapping.landmark_map import LandmarkMap, open_map
from robustmat.mapping.plot import ground_axes
from robustmat.types import Frame


class Places(Protocol):
    """A map as the page needs it."""

    name: str

    def overview(self) -> dict[str, Any]:
        """From above, in metres: `{"landmarks": [[x, y, category]], "keyframes": [[x, y, name]]}`."""
        ...

    def locate(self, frame: Frame) -> dict[str, Any]:
        """Where the frame was taken: the JSON of `robustmat map locate` for one image, and under `ground` its place
        from above (`position` [x, y], `covariance` [2, 2]), or None."""
        ...


def open_places(path: Path) -> Places:
    """A map on disk."""
    return MapPlaces(path.name, open_map(path))


class MapPlaces:
    """A landmark map, laid flat: the page draws it from above, whichever way its world's axes point."""

    def __init__(self, name: str, opened: LandmarkMap) -> None:
        self.name, self.opened = name, opened
        keyframes = opened.keyframes()
        self.plane = ground_axes(np.array([info.T_world_camera for info in keyframes])) if keyframes else np.eye(2, 3)
        self.origin = keyframes[0].position if keyframes else np.zeros(3)

    def overview(self) -> dict[str, Any]:
        objects = [thing for thing in self.opened.objects() if thing.position is not None]
        return {
            "landmarks": [[*self._flat(thing.position), thing.category] for thing in objects],
            "keyframes": [[*self._flat(info.position), info.name] for info in self.opened.keyframes()],
        }

    def locate(self, frame: Frame) -> dict[str, Any]:
        told = self.opened.locate(frame).to_json()
        if told.get("position") is None:
            return told | {"ground": None}
        ground: dict[str, Any] = {"position": self._flat(told["position"]), "covariance": None}
        if told.get("covariance") is not None:
            turn = self.plane @ np.array(told["T_world_camera"])[:3, :3]
            ground["covariance"] = (turn @ np.array(told["covariance"])[:3, :3] @ turn.T).tolist()
        return told | {"ground": ground}

    def _flat(self, point: Any) -> list[float]:
        flat: list[float] = (self.plane @ (np.asarray(point, np.float64) - self.origin)).tolist()
        return flat
