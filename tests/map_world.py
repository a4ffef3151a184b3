"""Worlds and a matcher for tests of maps: what a landmark looks like is drawn from its identity, not from pixels."""

from pathlib import Path

import numpy as np

from robustmat.dataset.store import LandmarkDataset
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import CATEGORIES, Array, Camera, Frame, Landmark

CAMERA = Camera(np.array([[700.0, 0, 620], [0, 700.0, 180], [0, 0, 1.0]]), 1240, 370)
DIMENSION = 20  # not a multiple of eight


class IdentityMatcher(Matcher):
    """Sees what an object is, through noise: embeddings are unit vectors drawn by identity, scores their cosines."""

    name = "identity"
    evidence = "pair"
    decision = Decision(threshold=0.6, match_threshold=0.6, slope=20.0, intercept=-12.0)

    def __init__(self, noise: float = 0.05, fingerprint: str = "identity-1") -> None:
        self.noise, self.fingerprint = noise, fingerprint

    def embed(self, frame: Frame) -> EmbeddedFrame:
        seed = [ord(letter) for letter in frame.name]
        rng = np.random.default_rng(seed)
        rows = [self._look(mark.identity) + self.noise * rng.normal(size=DIMENSION) for mark in frame.landmarks]
        vectors = np.array(rows, np.float32).reshape(-1, DIMENSION)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        arrays = {"vertex": vectors, "keypoint_place": np.array([[1234.5678, 99.25]], np.float32)}
        return EmbeddedFrame(frame.landmarks, arrays, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        return np.asarray(a.arrays["vertex"] @ b.arrays["vertex"].T, np.float64)

    def _look(self, identity: int | None) -> Array:
        look = np.random.default_rng(0 if identity is None else identity + 1).normal(size=DIMENSION)
        return np.asarray(look / np.linalg.norm(look))


def street(length: float = 120.0, first: int = 0, seed: int = 0) -> dict[int, tuple[str, Array, float, float]]:
    """Things along a street: by identity, category, place (x right, y down, z ahead), width and height in metres."""
    rng = np.random.default_rng(seed)
    things = {}
    for number, along in enumerate(np.arange(6.0, length + 40, 2.5)):
        side = (-1) ** number * rng.uniform(3.5, 7.0)
        category = CATEGORIES[number % 4]
        height = 3.0 if category == "pole" else float(rng.uniform(0.6, 1.5))
        up = -height / 2 + 1.6 if category == "pole" else float(rng.uniform(-2.0, 0.0))
        wide = 0.2 if category == "pole" else height
        things[first + number] = category, np.array([side, up, along]), wide, height
    return things


def see(
    things: dict[int, tuple[str, Array, float, float]],
    pose: Array,
    name: str,
    *,
    jitter: float = 0.0,
    time: float | None = None,
) -> Frame:
    """A frame with boxes as the geometry gives them, each edge off by `jitter` pixels."""
    rng = np.random.default_rng([ord(letter) for letter in name])
    marks = []
    for identity, (category, place, wide, tall) in things.items():
        x, y, z = pose[:3, :3].T @ (place - pose[:3, 3])
        if not 4 < z < 40:
            continue
        center = CAMERA.matrix[:2, :2] @ np.array([x, y]) / z + CAMERA.matrix[:2, 2]
        half = 700.0 * np.array([wide, tall]) / z / 2
        box = np.concatenate([center - half, center + half]) + jitter * rng.normal(size=4)
        inside = box[0] > 3 and box[1] > 3 and box[2] < CAMERA.width - 3 and box[3] < CAMERA.height - 3
        if inside and box[2] - box[0] > 1 and box[3] - box[1] > 1:
            position = (float(place[0]), float(place[1]), float(place[2]))
            marks.append(Landmark(tuple(float(v) for v in box), category, identity, position))
    return Frame(name, _black, tuple(marks), CAMERA, pose, time=time)


def pose_at(ahead: float, right: float = 0.0, yaw: float = 0.0) -> Array:
    """A camera on the ground, turned to the right by `yaw` radians."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    pose = np.eye(4)
    pose[:3, :3] = [[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]
    pose[:3, 3] = right, 0.0, ahead
    return pose


def drive(
    things: dict[int, tuple[str, Array, float, float]],
    *,
    name: str = "monday",
    world: str = "town",
    frames: int = 60,
    spacing: float = 1.0,
    right: float = 0.0,
    start: float = 0.0,
    jitter: float = 0.0,
) -> LandmarkDataset:
    made = [
        see(things, pose_at(start + i * spacing, right), f"{name}-{i:04d}", jitter=jitter, time=float(i))
        for i in range(frames)
    ]
    return LandmarkDataset(Path(name), name, world, has_identities=True, frames=tuple(made))


def _black() -> np.ndarray:  # type: ignore[type-arg]
    return np.zeros((CAMERA.height, CAMERA.width, 3), np.uint8)
