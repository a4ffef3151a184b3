"""The frozen values that every stage speaks: frames, landmarks, matches."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # [H, W, 3], RGB
Array = NDArray[np.float64]
Box = tuple[float, float, float, float]  # x0, y0, x1, y1: tight, in pixels

CATEGORIES = ("traffic_sign", "traffic_light", "pole", "window")

UNMATCHED, MATCHED, AMBIGUOUS = 0, 1, 2  # what the ground truth says of two landmarks


@dataclass(frozen=True)
class Landmark:
    """One street object as one frame sees it.

    `identity` says which object of the world it is and `position` where that stands in world metres;
    both are known only where LiDAR or a map told.
    """

    box: Box
    category: str
    identity: int | None = None
    position: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Camera:
    """A rectified pinhole camera: `matrix` [3, 3] maps metres in front of it to pixels."""

    matrix: Array
    width: int
    height: int


@dataclass(frozen=True)
class Frame:
    """One moment of a drive: what the camera saw and, where known, from where and with which depths.

    Pixels, points and labels stay on disk until asked for and are read anew each time, so that a long
    drive fits in memory; keep what you use twice in a variable.
    """

    name: str
    load_image: Callable[[], Image]
    landmarks: tuple[Landmark, ...] = ()
    camera: Camera | None = None
    T_world_camera: Array | None = None  # [4, 4]
    T_camera_lidar: Array | None = None  # [4, 4]
    load_points: Callable[[], NDArray[np.float32]] | None = None  # [N, 4]: x, y, z, reflectance
    load_semantics: Callable[[], NDArray[np.uint8]] | None = None  # [H, W], Cityscapes train ids, 19 window
    time: float | None = None  # seconds
    load_boxes: Callable[[], tuple[Landmark, ...]] | None = None  # landmarks whose boxes somebody drew
    load_point_labels: Callable[[], NDArray[np.uint8]] | None = None  # [N], one train id for each of the points

    @property
    def image(self) -> Image:
        return self.load_image()

    @property
    def points_lidar(self) -> NDArray[np.float32] | None:
        return self.load_points() if self.load_points else None

    @property
    def semantics(self) -> NDArray[np.uint8] | None:
        return self.load_semantics() if self.load_semantics else None


@dataclass(frozen=True)
class Match:
    """Landmark `a` of the first frame is landmark `b` of the second."""

    a: int
    b: int
    score: float
    probability: float


@dataclass(frozen=True)
class MatchResult:
    """What matching two frames gives: one-to-one matches, who stayed alone, and every pair's score."""

    landmarks_a: tuple[Landmark, ...]
    landmarks_b: tuple[Landmark, ...]
    matches: tuple[Match, ...]
    score: Array  # [A, B]
    probability: Array  # [A, B]
    threshold: float
    frame_a: Frame | None = None
    frame_b: Frame | None = None

    @property
    def unmatched_a(self) -> tuple[int, ...]:
        taken = {match.a for match in self.matches}
        return tuple(i for i in range(len(self.landmarks_a)) if i not in taken)

    @property
    def unmatched_b(self) -> tuple[int, ...]:
        taken = {match.b for match in self.matches}
        return tuple(j for j in range(len(self.landmarks_b)) if j not in taken)

    def draw(self, path: Path | str) -> Path:
        """Write a picture of both frames with their matches (.png or .jpg)."""
        from robustmat.drawing import draw_matches  # Pillow is needed only here

        return draw_matches(self, path)

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract."""

        def listed(landmarks: tuple[Landmark, ...]) -> dict[str, Any]:
            return {"landmarks": [{"box": list(it.box), "category": it.category} for it in landmarks]}

        return {
            "a": listed(self.landmarks_a),
            "b": listed(self.landmarks_b),
            "matches": [
                {"a": it.a, "b": it.b, "score": it.score, "probability": it.probability} for it in self.matches
            ],
            "unmatched_a": list(self.unmatched_a),
            "unmatched_b": list(self.unmatched_b),
        }
