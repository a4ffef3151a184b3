"""The simulator's own truth: which landmarks a frame shows, where, and how much of each."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from scipy.ndimage import find_objects

from robustmat.geometry.transforms import invert, transform
from robustmat.simulation.furniture import UP
from robustmat.simulation.raster import NEAR
from robustmat.simulation.render import View
from robustmat.simulation.scene import Panel, turned_to
from robustmat.simulation.town import Town
from robustmat.types import Array, Box, Camera


@dataclass(frozen=True)
class SeenLandmark:
    """A landmark as one frame shows it."""

    identity: int
    category: str
    box: Box  # tight around its visible pixels
    position: tuple[float, float, float]  # of its middle, in the town's metres
    pixels: int
    visible: float  # share of its outline that is neither hidden nor cut off by the picture's border

    def to_json(self) -> dict[str, Any]:
        return {
            "identity": self.identity,
            "category": self.category,
            "box": list(self.box),
            "position": [round(value, 4) for value in self.position],
            "pixels": self.pixels,
            "visible": round(self.visible, 3),
        }


def visible_landmarks(town: Town, view: View, T_world_camera: Array, camera: Camera) -> tuple[SeenLandmark, ...]:
    """All landmarks with at least one pixel, in the order of their identities."""
    present = np.unique(view.identities)
    present = present[present > 0]
    if present.size == 0:
        return ()
    # Ranks instead of identities keep the list of boxes as long as what is seen.
    ranks = np.searchsorted(present, view.identities) + 1
    ranks[view.identities == 0] = 0
    counts = np.bincount(ranks.ravel(), minlength=present.size + 1)[1:]
    whole = _outline_areas(town, set(present.tolist()), T_world_camera, camera)
    seen = []
    for identity, count, region in zip(present.tolist(), counts.tolist(), find_objects(ranks), strict=True):
        rows, columns = region
        landmark = town.landmarks[identity]
        box = (float(columns.start), float(rows.start), float(columns.stop), float(rows.stop))
        share = min(count / max(whole.get(identity, 0.0), 1.0), 1.0)
        seen.append(SeenLandmark(identity, landmark.category, box, landmark.position, count, share))
    return tuple(seen)


def _outline_areas(town: Town, wanted: set[int], T_world_camera: Array, camera: Camera) -> dict[int, float]:
    """Pixels that each landmark would cover if nothing hid it and the picture had no border."""
    eye = T_world_camera[:3, 3]
    T_camera_world = invert(T_world_camera)
    areas: dict[int, float] = {}

    def count(identity: int, quad: Array) -> None:
        pixels = transform(T_camera_world, quad) @ camera.matrix.T
        if pixels[:, 2].min() > NEAR:
            outline = (pixels[:, :2] / pixels[:, 2:]).astype(np.float32)
            areas[identity] = areas.get(identity, 0.0) + float(cv2.contourArea(outline))

    for panel in turned_to(town.landmark_parts(wanted), eye):
        if panel.material[0] == "front":
            front = town.fronts[int(panel.material[1])]
            for number, (x, y, wide, tall) in enumerate(front.windows, start=1):
                if panel.identity + number in wanted:
                    along = panel.right / front.width
                    top = panel.corner + x * along - y * UP
                    count(panel.identity + number, _quad(top, wide * along, -tall * UP))
        elif panel.two_sided or _shows_front(panel, eye):
            count(panel.identity, _quad(panel.corner, panel.right, panel.down))
    return areas


def _quad(corner: Array, right: Array, down: Array) -> Array:
    return np.stack([corner, corner + right, corner + right + down, corner + down])


def _shows_front(panel: Panel, eye: Array) -> bool:
    return float(np.cross(panel.right, panel.down) @ (panel.corner - eye)) > 0
