"""Traffic signs: a few shapes, colours, pictograms and texts, combined into the designs of the town."""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation.opencv import shrunk
from robustmat.simulation.patterns import Picture, cloud_noise, filled, letter, to_image
from robustmat.simulation.scene import Rgb, Texture

SIDE = 256  # drawing size of a square sign; twice what is kept, for smooth edges

WHITE, BLACK = (0.93, 0.93, 0.92), (0.07, 0.07, 0.08)
RED, BLUE, YELLOW, GREEN = (0.75, 0.08, 0.10), (0.06, 0.24, 0.60), (0.95, 0.76, 0.10), (0.05, 0.42, 0.26)
BROWN, ORANGE = (0.42, 0.24, 0.12), (0.92, 0.45, 0.08)


@dataclass(frozen=True)
class Design:
    """One kind of sign. Sizes in metres."""

    shape: str  # circle, triangle, yield, octagon, square, diamond, plate
    ground: Rgb
    rim: Rgb
    ink: Rgb
    picture: str = ""  # a name in PICTOGRAMS
    text: str = ""
    width: float = 0.62
    height: float = 0.62


DESIGNS: dict[str, Design] = {
    "limit-30": Design("circle", WHITE, RED, BLACK, text="30"),
    "limit-40": Design("circle", WHITE, RED, BLACK, text="40"),
    "limit-50": Design("circle", WHITE, RED, BLACK, text="50"),
    "limit-70": Design("circle", WHITE, RED, BLACK, text="70"),
    "no-entry": Design("circle", RED, RED, WHITE, picture="bar"),
    "no-stopping": Design("circle", BLUE, RED, RED, picture="cross"),
    "no-parking": Design("circle", BLUE, RED, RED, picture="stroke"),
    "no-vehicles": Design("circle", WHITE, RED, BLACK),
    "no-trucks": Design("circle", WHITE, RED, BLACK, picture="car"),
    "no-overtaking": Design("circle", WHITE, RED, BLACK, picture="two-cars"),
    "ahead-only": Design("circle", BLUE, BLUE, WHITE, picture="up"),
    "right-only": Design("circle", BLUE, BLUE, WHITE, picture="right"),
    "left-only": Design("circle", BLUE, BLUE, WHITE, picture="left"),
    "keep-right": Design("circle", BLUE, BLUE, WHITE, picture="slant"),
    "cycle-path": Design("circle", BLUE, BLUE, WHITE, picture="bicycle"),
    "foot-path": Design("circle", BLUE, BLUE, WHITE, picture="walker"),
    "give-way": Design("yield", WHITE, RED, BLACK, width=0.82, height=0.72),
    "stop": Design("octagon", RED, WHITE, WHITE, text="STOP", width=0.75, height=0.75),
    "danger": Design("triangle", WHITE, RED, BLACK, picture="exclamation", width=0.82, height=0.72),
    "crossroads": Design("triangle", WHITE, RED, BLACK, picture="plus", width=0.82, height=0.72),
    "children": Design("triangle", WHITE, RED, BLACK, picture="walker", width=0.82, height=0.72),
    "bend": Design("triangle", WHITE, RED, BLACK, picture="slant", width=0.82, height=0.72),
    "priority": Design("diamond", YELLOW, WHITE, BLACK),
    "parking": Design("square", BLUE, WHITE, WHITE, text="P"),
    "hospital": Design("square", BLUE, WHITE, WHITE, text="H"),
    "crossing": Design("square", BLUE, BLUE, WHITE, picture="crossing"),
    "one-way": Design("plate", BLUE, WHITE, WHITE, picture="right", width=0.95, height=0.36),
    "bus-stop": Design("circle", YELLOW, GREEN, GREEN, text="H"),
    "dead-end": Design("square", BLUE, WHITE, WHITE, picture="tee"),
    "to-centre": Design("plate", YELLOW, BLACK, BLACK, text="Centre", width=1.35, height=0.42),
    "to-station": Design("plate", WHITE, BLACK, BLACK, text="Station", width=1.3, height=0.4),
    "to-museum": Design("plate", BROWN, WHITE, WHITE, text="Museum", width=1.2, height=0.38),
    "detour": Design("plate", ORANGE, BLACK, BLACK, text="Detour", width=1.1, height=0.36),
    "route-12": Design("plate", GREEN, WHITE, WHITE, text="12 East", width=1.1, height=0.5),
    "recycling": Design("plate", GREEN, WHITE, WHITE, picture="two-cars", width=0.7, height=0.9),
    "panel-plan": Design("plate", WHITE, BLUE, BLUE, picture="tee", width=0.9, height=1.2),
}


def draw_sign(name: str, seed: int) -> Texture:
    """A sign's front, a little faded, scratched and dirty in its own way (`seed`)."""
    design = DESIGNS[name]
    width, height = _size(design)
    face = filled((height, width), design.rim)
    inner = _outline(
        design.shape, width, height, inset=0.13 if design.shape in ("circle", "triangle", "yield") else 0.05
    )
    cv2.fillPoly(face, [inner], design.ground, cv2.LINE_AA)
    if design.picture:
        PICTOGRAMS[design.picture](face, design.ink, width, height)
    if design.text:
        _write(face, design.text, design.ink, width, height)
    rng = np.random.default_rng(seed)
    fade = rng.uniform(0.0, 0.22)
    grey = face.mean(axis=2, keepdims=True)
    face = (1 - fade) * face + fade * (0.5 * grey + 0.38)
    face *= (1 + 0.05 * cloud_noise((height, width), rng, 60))[..., None]
    for _ in range(int(rng.integers(0, 3))):  # stickers and scratches
        x, y = rng.integers(0, width), rng.integers(0, height)
        size = rng.integers(6, 26, 2)
        tone = tuple(float(v) for v in rng.uniform(0.1, 0.9, 3))
        cv2.rectangle(face, (int(x), int(y)), (int(x + size[0]), int(y + size[1])), tone, -1)
    rgb = shrunk(to_image(face.astype(np.float32)), (width // 2, height // 2))
    return Texture(rgb, _cut(design))


def draw_sign_back(name: str) -> Texture:
    """Bare metal in the sign's outline, mirrored left to right."""
    alpha = _cut(DESIGNS[name])[:, ::-1].copy()
    grey = 0.48 + 0.04 * cloud_noise(alpha.shape, np.random.default_rng(7), 40)
    return Texture(to_image(np.repeat(grey[..., None], 3, axis=2)), alpha)


def _size(design: Design) -> tuple[int, int]:
    """Width and height in drawing pixels."""
    longest = design.width / design.height
    if longest >= 1:
        return round(SIDE * min(longest, 3.4)), SIDE
    return SIDE, round(SIDE / longest)


def _cut(design: Design) -> NDArray[np.uint8]:
    """The outline of a sign at its kept size."""
    width, height = _size(design)
    alpha = np.zeros((height, width), np.uint8)
    cv2.fillPoly(alpha, [_outline(design.shape, width, height, inset=0.0)], 255, cv2.LINE_AA)
    return shrunk(alpha, (width // 2, height // 2))


def _outline(shape: str, width: int, height: int, inset: float) -> NDArray[np.int32]:
    """The polygon of a shape, drawn in by a share of its size."""
    if shape == "circle":
        angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        points = np.stack([0.5 + 0.5 * np.cos(angles), 0.5 + 0.5 * np.sin(angles)], axis=1)
    elif shape == "octagon":
        angles = np.pi / 8 + np.arange(8) * np.pi / 4
        points = 0.5 + 0.54 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        points = np.array(
            {
                "triangle": [(0.5, 0.0), (1.0, 1.0), (0.0, 1.0)],
                "yield": [(0.0, 0.0), (1.0, 0.0), (0.5, 1.0)],
                "diamond": [(0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5)],
            }.get(shape, [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
        )
    size = np.array([width, height], float)
    center = points.mean(axis=0) * size
    even = np.full(2, min(width, height)) if shape in ("square", "plate") else size  # an even rim on long plates
    shrink = 1 - 2 * inset * even / size
    return np.asarray(np.round(center + shrink * (points * size - center)), np.int32)


def _write(face: Picture, text: str, ink: Rgb, width: int, height: int) -> None:
    font, thick = cv2.FONT_HERSHEY_DUPLEX, 14 if len(text) <= 2 else 7
    (wide, tall), _ = cv2.getTextSize(text, font, 1.0, 1)
    room = 0.78 if width > 1.4 * height else 0.58
    scale = min(room * width / wide, 0.55 * height / tall)
    place = (round((width - wide * scale) / 2), round((height + tall * scale) / 2))
    letter(face, text, place, scale, ink, thick, font)


def _lines(*strokes: list[tuple[float, float]], thick: float = 0.09) -> Callable[[Picture, Rgb, int, int], None]:
    """A pictogram of strokes; coordinates are shares of the sign's smaller side about its centre."""

    def draw(face: Picture, ink: Rgb, width: int, height: int) -> None:
        side = min(width, height)
        for stroke in strokes:
            points = np.array([[width / 2 + x * side, height / 2 + y * side] for x, y in stroke])
            pixels = [np.round(points).astype(np.int32)]
            cv2.polylines(face, pixels, False, ink, max(round(thick * side), 1), cv2.LINE_AA)

    return draw


PICTOGRAMS: dict[str, Callable[[Picture, Rgb, int, int], None]] = {
    "bar": _lines([(-0.32, 0), (0.32, 0)], thick=0.17),
    "cross": _lines([(-0.3, -0.3), (0.3, 0.3)], [(-0.3, 0.3), (0.3, -0.3)]),
    "stroke": _lines([(-0.3, -0.3), (0.3, 0.3)]),
    "up": _lines([(0, 0.32), (0, -0.28)], [(-0.18, -0.1), (0, -0.3), (0.18, -0.1)], thick=0.1),
    "right": _lines([(-0.3, 0), (0.28, 0)], [(0.1, -0.18), (0.3, 0), (0.1, 0.18)], thick=0.1),
    "left": _lines([(0.3, 0), (-0.28, 0)], [(-0.1, -0.18), (-0.3, 0), (-0.1, 0.18)], thick=0.1),
    "slant": _lines([(-0.22, -0.22), (0.18, 0.18)], [(-0.08, 0.22), (0.2, 0.2), (0.22, -0.08)], thick=0.1),
    "exclamation": _lines([(0, -0.12), (0, 0.14)], [(0, 0.29), (0, 0.3)], thick=0.1),
    "plus": _lines([(0, -0.12), (0, 0.32)], [(-0.17, 0.12), (0.17, 0.12)], thick=0.07),
    "tee": _lines([(0, 0.32), (0, -0.12)], [(-0.25, -0.18), (0.25, -0.18)], thick=0.11),
    "car": _lines([(-0.26, 0.12), (-0.26, -0.02), (-0.14, -0.14), (0.14, -0.14), (0.26, -0.02), (0.26, 0.12)]),
    "two-cars": _lines(
        [(-0.3, 0.1), (-0.3, -0.06), (-0.06, -0.06), (-0.06, 0.1)],
        [(0.06, 0.1), (0.06, -0.06), (0.3, -0.06), (0.3, 0.1)],
    ),
    "bicycle": _lines(
        [(-0.3, 0.12), (-0.2, 0.02), (-0.1, 0.12), (-0.2, 0.22), (-0.3, 0.12)],
        [(0.1, 0.12), (0.2, 0.02), (0.3, 0.12), (0.2, 0.22), (0.1, 0.12)],
        [(-0.2, 0.12), (-0.08, -0.12), (0.12, -0.12), (0.2, 0.12)],
        thick=0.045,
    ),
    "walker": _lines(
        [(0.0, -0.24), (0.01, -0.23)],
        [(0, -0.1), (0, 0.08), (-0.12, 0.3)],
        [(0, 0.08), (0.13, 0.28)],
        [(-0.14, 0.02), (0, -0.08), (0.14, 0.04)],
    ),
    "crossing": _lines(
        [(0, -0.36), (0.36, 0.34), (-0.36, 0.34), (0, -0.36)],
        [(0, -0.08), (0, 0.16)],
        [(-0.2, 0.26), (0.2, 0.26)],
        thick=0.07,
    ),
}
