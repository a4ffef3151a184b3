"""A world of points and landmarks for tests of odometry: exact keypoints, no pixels, no network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from robustmat.errors import DataError
from robustmat.geometry.transforms import invert, rigid, transform
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.types import Array, Camera, Frame, InMemory, Landmark, Match

CAMERA = Camera(np.array([[500.0, 0, 320], [0, 500, 120], [0, 0, 1]]), 640, 240)


@dataclass
class World:
    """Keypoints [N, 3] with descriptors of their own, and signs of half a metre (x right, y down, z ahead)."""

    points: Array
    descriptors: Any
    signs: Array
    noise: float = 0.1  # pixels

    @staticmethod
    def street(length: float = 60.0, count: int = 450, signs: int = 14, seed: int = 0) -> "World":
        rng = np.random.default_rng(seed)
        side = rng.choice([-1, 1], count) * rng.uniform(4, 9, count)
        points = np.stack([side, rng.uniform(-4, 1.6, count), rng.uniform(-length, length, count)], axis=1)
        road = rng.random(count) < 0.3
        points[road, 0], points[road, 1] = rng.uniform(-3, 3, road.sum()), 1.65
        descriptors = rng.integers(0, 255, (count, 32)).astype(np.uint8)
        places = np.stack(
            [
                rng.choice([-1, 1], signs) * rng.uniform(3.5, 5, signs),
                rng.uniform(-2, 0, signs),
                np.linspace(-length, length, signs),
            ],
            axis=1,
        )
        return World(points, descriptors, places)

    def seen(self, T_world_camera: Array, name: str, shift: Array | None = None) -> EmbeddedFrame:
        """What a frame taken from there remembers; `shift` [S, 3] moves signs by themselves."""
        rng = np.random.default_rng(abs(hash(name)) % 2**32)
        T = invert(T_world_camera)
        place, inside, _ = _project(transform(T, self.points))
        place = place[inside] + rng.normal(0, self.noise, (int(inside.sum()), 2))
        arrays = {
            "view.camera": np.array([500.0, 500, 320.5, 120.5, 640, 240]),
            "view.keypoint_place": place.astype(np.float32),
            "view.keypoint_descriptor": self.descriptors[inside],
            "view.keypoint_noise": np.ones(1, np.float32),
        }
        signs = self.signs if shift is None else self.signs + shift
        middle, there, depth = _project(transform(T, signs))
        marks = []
        for number in np.flatnonzero(there):
            half = 0.25 * 500 / depth[number]
            x, y = middle[number]
            box = (max(x - half, 0), max(y - half, 0), min(x + half, 640), min(y + half, 240))
            if half > 2:
                marks.append(Landmark(box, "traffic_sign", int(number)))
        return EmbeddedFrame(tuple(marks), arrays, "world", name)


def _project(points: Array) -> tuple[Array, Any, Array]:
    depth = points[:, 2]
    safe = np.maximum(depth, 0.1)
    pixels = points[:, :2] / safe[:, None] * 500 + (320.5, 120.5)
    inside = (depth > 2) & (depth < 60) & (pixels > 0).all(axis=1) & (pixels < (640, 240)).all(axis=1)
    return pixels, inside, depth


def drive(count: int, step: float = 0.8, yaw: Callable[[int], float] = lambda _: 0.0) -> list[Array]:
    """T_world_camera of a car that goes `step` metres and turns right by `yaw` degrees before each frame."""
    poses = [np.eye(4)]
    for i in range(1, count):
        turn = Rotation.from_euler("y", yaw(i), degrees=True).as_matrix()
        poses.append(poses[-1] @ rigid(turn, np.array([0.0, 0.0, step])))
    return poses


class WorldMatcher:
    """Embeds by name; matches signs by what they are."""

    fingerprint = "world"

    def __init__(self, seen: Sequence[EmbeddedFrame], unreadable: Sequence[str] = ()) -> None:
        self.by_name, self.unreadable, self.embedded = {one.name: one for one in seen}, unreadable, 0

    def embed(self, frame: Frame) -> EmbeddedFrame:
        if frame.name in self.unreadable:
            raise DataError(f"image cannot be read: {frame.name}.png")
        self.embedded += 1
        return self.by_name[frame.name]

    def match(self, a: EmbeddedFrame, b: EmbeddedFrame, **_: Any) -> Any:
        pairs = [
            (i, j) for i, x in enumerate(a.landmarks) for j, y in enumerate(b.landmarks) if x.identity == y.identity
        ]
        return SimpleNamespace(matches=[Match(i, j, 1.0, 0.99) for i, j in pairs])


def frames_of(seen: Sequence[EmbeddedFrame], poses: Sequence[Array], camera: Camera = CAMERA) -> list[Frame]:
    pixels = np.full((240, 640, 3), 90, np.uint8)
    return [
        Frame(one.name, InMemory(pixels), one.landmarks, camera, T, time=0.1 * int(one.name))
        for one, T in zip(seen, poses, strict=True)
    ]
