"""A street of textured boards, held in memory: landmark data sets for tests that need no disk.

The camera drives along +z; x points right, y down. Every board has its own texture, so that pixels can tell
boards apart, and its boxes follow from the geometry alone.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustmat.dataset.store import LandmarkDataset
from robustmat.types import CATEGORIES, Camera, Frame, Image, Landmark

WIDTH, HEIGHT, FOCAL = 320, 120, 180.0
CAMERA = Camera(np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1.0]]), WIDTH, HEIGHT)


@dataclass(frozen=True)
class Board:
    position: tuple[float, float, float]
    category: str
    texture: Image


def make_boards(count: int, seed: int) -> list[Board]:
    """Boards left and right of the road, every 4 m, categories in turn."""
    rng = np.random.default_rng(seed)
    return [
        Board(
            (float(rng.uniform(3, 6) * (-1) ** i), float(rng.uniform(-1.5, 0.5)), 8.0 + 4.0 * i),
            CATEGORIES[(i // 2) % 3],
            rng.integers(0, 256, (6, 6, 3), dtype=np.uint8),
        )
        for i in range(count)
    ]


def drive(
    boards: list[Board],
    *,
    name: str = "drive",
    world: str = "town",
    frames: int = 16,
    spacing: float = 1.5,
    side: float = 0.0,
    first_identity: int = 0,
    strangers: bool = False,
) -> LandmarkDataset:
    """A data set of one drive; `side` metres to the right, identities counted from `first_identity`.

    `strangers` adds to each frame a landmark that nobody knows.
    """
    made = []
    for number in range(frames):
        T_world_camera = np.eye(4)
        T_world_camera[:3, 3] = side, 0, number * spacing
        landmarks, visible = [], []
        for index, board in enumerate(boards):
            x, y, z = np.array(board.position) - T_world_camera[:3, 3]
            if not 3 < z < 30:
                continue
            centre, half = np.array([x, y]) / z * FOCAL + (WIDTH / 2, HEIGHT / 2), 0.5 / z * FOCAL
            box = tuple(float(v) for v in (*(centre - half), *(centre + half)))
            if box[0] >= 0 and box[1] >= 0 and box[2] <= WIDTH and box[3] <= HEIGHT:
                identity = first_identity + index
                landmarks.append(Landmark(box, board.category, identity, board.position))
                visible.append((z, box, board))
        if strangers:
            landmarks.append(Landmark((1.0, 1.0, 9.0, 20.0), "pole"))
        made.append(
            Frame(
                name=f"{number:06d}",
                load_image=_Painter(tuple(visible)),
                landmarks=tuple(landmarks),
                camera=CAMERA,
                T_world_camera=T_world_camera,
            )
        )
    return LandmarkDataset(Path(name), name, world, has_identities=True, frames=tuple(made))


@dataclass(frozen=True)
class _Painter:
    """Paints the boards of a frame, farthest first, over a grey gradient."""

    visible: tuple[tuple[float, tuple[float, ...], Board], ...]

    def __call__(self) -> Image:
        image = np.repeat(np.linspace(160, 80, HEIGHT, dtype=np.uint8)[:, None, None], WIDTH, axis=1)
        image = np.repeat(image, 3, axis=2)
        for _, box, board in sorted(self.visible, key=lambda it: -it[0]):
            x0, y0, x1, y1 = (int(v) for v in box)
            rows = np.arange(y1 - y0 + 1) * len(board.texture) // (y1 - y0 + 1)
            columns = np.arange(x1 - x0 + 1) * len(board.texture) // (x1 - x0 + 1)
            patch = board.texture[rows][:, columns]
            target = image[y0 : y1 + 1, x0 : x1 + 1]
            target[:] = patch[: target.shape[0], : target.shape[1]]
        return image
