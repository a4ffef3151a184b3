"""Cars and vans: a side profile swept across the width, with painted windows, wheels and lamps."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import labels
from robustmat.simulation.opencv import to_bytes
from robustmat.simulation.patterns import filled, to_image
from robustmat.simulation.scene import Material, Panel, Part, Rgb, Texture, moved
from robustmat.types import Array, Image

PIXELS_PER_METRE = 64
GLASS, SHINE = (0.09, 0.11, 0.13), (0.24, 0.28, 0.32)


@dataclass(frozen=True)
class Body:
    """Side profile in metres: x from the rear bumper, z up; points run from the rear bumper over the roof."""

    width: float
    profile: tuple[tuple[float, float], ...]
    parts: tuple[str, ...]  # what each stretch of the profile is
    windows: tuple[tuple[tuple[float, float], ...], ...]  # glass on the sides
    wheels: tuple[float, float]
    wheel: float = 0.32
    belt: float = 0.95  # where the windows begin
    lean: float = 0.20  # how far the roof's edge stands in from the doors


BODIES: dict[str, Body] = {
    "hatch": Body(
        1.72,
        ((0.0, 0.28), (0.0, 0.92), (0.28, 1.40), (2.05, 1.46), (2.95, 0.96), (3.9, 0.80), (3.98, 0.28)),
        ("rear", "glass", "roof", "glass", "hood", "front"),
        (
            ((0.30, 0.98), (0.48, 1.32), (1.30, 1.38), (1.30, 0.95)),
            ((1.38, 0.95), (1.38, 1.38), (2.0, 1.37), (2.7, 0.95)),
        ),
        (0.72, 3.22),
    ),
    "sedan": Body(
        1.80,
        (
            (0.0, 0.30),
            (0.0, 0.96),
            (0.62, 1.02),
            (1.30, 1.42),
            (2.55, 1.42),
            (3.35, 0.98),
            (4.5, 0.78),
            (4.58, 0.30),
        ),
        ("rear", "hood", "glass", "roof", "glass", "hood", "front"),
        (
            ((0.85, 1.02), (1.36, 1.34), (1.95, 1.35), (1.95, 0.98)),
            ((2.03, 0.98), (2.03, 1.35), (2.5, 1.34), (3.1, 0.97)),
        ),
        (0.88, 3.62),
    ),
    "wagon": Body(
        1.80,
        ((0.0, 0.30), (0.0, 0.98), (0.32, 1.44), (2.65, 1.48), (3.45, 1.0), (4.52, 0.80), (4.6, 0.30)),
        ("rear", "glass", "roof", "glass", "hood", "front"),
        (
            ((0.25, 1.02), (0.45, 1.36), (1.15, 1.39), (1.15, 1.0)),
            ((1.23, 1.0), (1.23, 1.39), (1.95, 1.39), (1.95, 0.99)),
            ((2.03, 0.99), (2.03, 1.39), (2.6, 1.38), (3.2, 0.98)),
        ),
        (0.88, 3.64),
        0.33,
    ),
    "van": Body(
        1.98,
        ((0.0, 0.35), (0.0, 1.95), (0.12, 2.12), (3.55, 2.12), (4.30, 1.22), (4.95, 1.02), (5.05, 0.35)),
        ("van-rear", "roof", "roof", "glass", "hood", "front"),
        (((3.0, 1.20), (3.0, 1.85), (3.55, 1.85), (4.1, 1.18)),),
        (1.0, 4.15),
        0.36,
        1.15,
        0.07,
    ),
    "suv": Body(
        1.86,
        ((0.0, 0.38), (0.0, 1.05), (0.22, 1.62), (2.60, 1.68), (3.35, 1.12), (4.35, 0.98), (4.42, 0.38)),
        ("rear", "glass", "roof", "glass", "hood", "front"),
        (
            ((0.28, 1.12), (0.45, 1.52), (1.5, 1.57), (1.5, 1.1)),
            ((1.58, 1.1), (1.58, 1.57), (2.5, 1.56), (3.05, 1.09)),
        ),
        (0.85, 3.52),
        0.37,
        1.08,
    ),
}
PAINTS: tuple[Rgb, ...] = (
    (0.62, 0.63, 0.64),
    (0.06, 0.06, 0.07),
    (0.86, 0.86, 0.85),
    (0.10, 0.15, 0.32),
    (0.52, 0.06, 0.07),
    (0.28, 0.29, 0.30),
    (0.44, 0.42, 0.36),
    (0.08, 0.22, 0.16),
    (0.20, 0.32, 0.48),
)


@dataclass(frozen=True)
class Vehicle:
    """One vehicle at one moment: where its middle stands on the ground, and its heading."""

    kind: str
    paint: int
    x: float
    y: float
    heading: float


def vehicle_parts(vehicle: Vehicle) -> list[Part]:
    """The vehicle as panels: lower sides upright, windows leaning in, and what runs across from tail to nose."""
    body = BODIES[vehicle.kind]
    half, length = body.width / 2, body.profile[-1][0]
    top = max(z for _, z in body.profile)

    def material(part: str) -> Material:
        return ("car", vehicle.kind, vehicle.paint, part)

    def at(x: float, y: float, z: float) -> Array:
        return np.array([x - length / 2, y, z])

    parts: list[Part] = []
    for number, ((xa, za), (xb, zb)) in enumerate(zip(body.profile, body.profile[1:], strict=False)):
        edge = half - body.lean if min(za, zb) > body.belt + 0.25 else half
        corner, down = at(xb, edge, zb), np.array([xa - xb, 0.0, za - zb])
        across = np.array([0.0, -2 * edge, 0.0])
        parts.append(
            Panel(corner, across, down, material(f"{body.parts[number]}:{number}"), labels.CAR, reflectance=0.5)
        )
    along = np.array([length, 0.0, 0.0])
    for side, name in ((-1.0, "side"), (1.0, "other-side")):
        start = 0.0 if side < 0 else length
        run = along if side < 0 else -along
        doors = Panel(
            at(start, side * half, body.belt), run, np.array([0.0, 0.0, -body.belt]), material(name), labels.CAR
        )
        lean = np.array([0.0, side * body.lean, body.belt - top])
        glass = Panel(at(start, side * (half - body.lean), top), run, lean, material(f"{name}-glass"), labels.CAR)
        parts += [doors, glass]
    shadow = Panel(
        at(-0.35, half + 0.35, 0.015),
        np.array([0.0, -body.width - 0.7, 0.0]),
        np.array([length + 0.7, 0.0, 0.0]),
        ("car-shadow",),
        labels.ROAD,
        lit=True,
        two_sided=True,
        decal=True,
    )
    return [moved(part, vehicle.x, vehicle.y, vehicle.heading) for part in (shadow, *parts)]


def draw_car(kind: str, paint: int, part: str) -> Texture:
    body, color = BODIES[kind], PAINTS[paint]
    if part.startswith(("side", "other-side")):
        texture = _side(body, color, part.endswith("glass"))
        if part.startswith("side"):
            return texture
        assert texture.alpha is not None
        return Texture(texture.rgb[:, ::-1].copy(), texture.alpha[:, ::-1].copy())
    name, number = part.split(":")
    return _across(body, color, name, int(number))


def _ink(color: Rgb, gain: float = 1.0) -> tuple[int, int, int]:
    red, green, blue = (int(np.clip(255 * gain * c, 0, 255)) for c in color)
    return red, green, blue


def _side(body: Body, color: Rgb, glass: bool) -> Texture:
    """The doors below the belt line, or the windows above it."""
    scale = PIXELS_PER_METRE
    length, top = body.profile[-1][0], max(z for _, z in body.profile)
    shape = (round(top * scale), round(length * scale))

    def pixels(points: Sequence[tuple[float, float]]) -> list[NDArray[np.int32]]:
        return [np.array([[x * scale, (top - z) * scale] for x, z in points]).round().astype(np.int32)]

    heights = np.linspace(top, 0, shape[0])[:, None, None]
    light = np.interp(heights, [0.2, 0.45, 0.7, 0.8, 1.0], [0.45, 0.75, 0.95, 1.2, 1.0])
    picture = to_image((filled(shape, color) * light).astype(np.float32))
    alpha = np.zeros(shape, np.uint8)
    cv2.fillPoly(alpha, pixels(body.profile), 255, cv2.LINE_AA)
    for window in body.windows:
        cv2.fillPoly(picture, pixels(window), _ink(GLASS), cv2.LINE_AA)
        crest = max(z for _, z in window)
        cv2.fillPoly(picture, pixels([(x, 0.45 * z + 0.55 * crest) for x, z in window]), _ink(SHINE), cv2.LINE_AA)
    high, low, handle = (int((top - z) * scale) for z in (0.95, 0.35, 0.8))
    for seam in (int(0.36 * shape[1]), int(0.58 * shape[1])):
        cv2.line(picture, (seam, high), (seam, low), _ink(color, 0.5), 1, cv2.LINE_AA)
        cv2.line(picture, (seam + 6, handle), (seam + 14, handle), _ink(color, 0.55), 2)
    cv2.line(picture, (0, int((top - 0.42) * scale)), (shape[1], int((top - 0.42) * scale)), _ink(color, 0.45), 3)
    for x in body.wheels:
        center = (round(x * scale), round((top - body.wheel) * scale))
        cv2.circle(picture, center, round((body.wheel + 0.06) * scale), (8, 8, 8), -1, cv2.LINE_AA)
        cv2.circle(alpha, center, round(body.wheel * scale), 255, -1, cv2.LINE_AA)
        cv2.circle(picture, center, round(0.20 * scale), (122, 122, 126), -1, cv2.LINE_AA)
        for spoke in np.arange(5) * 2 * np.pi / 5:
            tip = (round(center[0] + 0.17 * scale * np.cos(spoke)), round(center[1] + 0.17 * scale * np.sin(spoke)))
            cv2.line(picture, center, tip, (60, 60, 62), 2, cv2.LINE_AA)
    belt = round((top - body.belt) * scale)
    rows = slice(0, belt) if glass else slice(belt, shape[0])
    return Texture(picture[rows].copy(), alpha[rows].copy())


def _across(body: Body, color: Rgb, name: str, number: int) -> Texture:
    """A panel that runs across the car. The front's picture is upside down: its panel hangs from the bumper."""
    height, width = 144, 224
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = _ink(color, 1.0)
    alpha = np.full((height, width), 255, np.uint8)
    if name == "glass":
        # Full width at the belt, narrow at the roof; which end is up depends on nose or tail.
        inset = round(body.lean / body.width * width)
        outline = np.array([[0, height], [width, height], [width - inset, 0], [inset, 0]], np.int32)
        pane = np.array(
            [[16, height - 14], [width - 16, height - 14], [width - inset - 14, 12], [inset + 14, 12]], np.int32
        )
        alpha[:] = 0
        cv2.fillPoly(alpha, [outline], 255, cv2.LINE_AA)
        cv2.fillPoly(picture, [pane], _ink(GLASS), cv2.LINE_AA)
        shine = (
            0.5 * pane + 0.5 * np.array([[16, 12], [width - 16, 12], [width - inset - 14, 12], [inset + 14, 12]])
        ).astype(np.int32)
        cv2.fillPoly(picture, [shine], _ink(SHINE), cv2.LINE_AA)
        if body.profile[number][1] > body.profile[number + 1][1]:  # the windscreen: its panel hangs from the hood
            picture, alpha = picture[::-1].copy(), alpha[::-1].copy()
    elif name in ("rear", "van-rear"):
        _draw_rear(picture, color, name == "van-rear")
    elif name == "front":
        cv2.rectangle(picture, (0, 96), (width, height), (34, 34, 36), -1)
        cv2.rectangle(picture, (66, 20), (158, 54), (20, 20, 20), -1)
        for x in (6, width - 52):
            cv2.ellipse(picture, (x + 22, 34), (24, 15), 0, 0, 360, (205, 210, 215), -1, cv2.LINE_AA)
            cv2.ellipse(picture, (x + 22, 34), (12, 10), 0, 0, 360, (150, 155, 160), -1, cv2.LINE_AA)
        cv2.rectangle(picture, (76, 70), (148, 88), (215, 215, 208), -1)
        picture = picture[::-1, ::-1].copy()
    else:
        picture = to_bytes(picture, 1.1)
    return Texture(picture, alpha if name == "glass" else None)


def _draw_rear(picture: Image, color: Rgb, van: bool) -> None:
    height, width = picture.shape[:2]
    light = np.linspace(1.08, 0.72, height)[:, None, None]
    picture[:] = np.clip(picture * light, 0, 255).astype(np.uint8)
    lamp = 80 if van else 26
    for x in (4, width - 42):
        cv2.rectangle(picture, (x, lamp), (x + 37, lamp + 32), (150, 14, 16), -1, cv2.LINE_AA)
        cv2.rectangle(picture, (x + 8, lamp + 20), (x + 28, lamp + 28), (205, 130, 60), -1)
    cv2.rectangle(picture, (0, 108), (width, height), (36, 36, 38), -1)
    cv2.rectangle(picture, (72, 66), (152, 88), (218, 218, 210), -1)
    plate = f"KA {sum(_ink(color)) % 900 + 100}"
    cv2.putText(picture, plate, (77, 84), cv2.FONT_HERSHEY_PLAIN, 1.1, (25, 25, 25), 1, cv2.LINE_AA)
    if van:
        for x in (20, 120):
            cv2.rectangle(picture, (x, 10), (x + 84, 54), _ink(GLASS), -1)
        cv2.line(picture, (112, 0), (112, 108), _ink(color, 0.5), 2)


def draw_car_shadow() -> Texture:
    """A soft dark stain under a car."""
    size = 64
    rgb = np.full((size, size, 3), 12, np.uint8)
    ramp = np.clip(np.minimum(np.arange(size), np.arange(size)[::-1]) / 11.0, 0, 1)
    return Texture(rgb, (235 * np.minimum(ramp[:, None], ramp[None, :])).astype(np.uint8))
