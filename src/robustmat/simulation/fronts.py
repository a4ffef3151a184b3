"""How the fronts of houses look: walls, windows, doors and shops, with weather and light on them."""

import cv2
import numpy as np

from robustmat.simulation.facades import STYLES, Front, Style
from robustmat.simulation.looks import Look
from robustmat.simulation.opencv import resized
from robustmat.simulation.patterns import (
    Picture,
    Plane,
    box,
    cloud_noise,
    filled,
    grain,
    letter,
    shade_box,
    tinted,
    to_image,
    varied,
)
from robustmat.simulation.scene import Texture
from robustmat.types import Array

PIXELS_PER_METRE = 40


def draw_front(front: Front, look: Look, facing_sun: float, sun_share: Array) -> Texture:
    """The lit picture of a face. `sun_share` [rows, columns] in 0..1 says where the sun reaches it."""
    rng = np.random.default_rng(front.seed)
    scale = PIXELS_PER_METRE
    shape = (max(round(front.height * scale), 8), max(round(front.width * scale), 8))
    picture = _wall(front, shape, rng)
    codes = np.zeros(shape, np.uint8)
    glow = np.zeros(shape, np.float32)
    if front.shop:
        _shop(picture, glow, front, look, rng)
    for x, y, wide, tall in front.doors:
        draw = _garage if wide > 2.0 else _door
        draw(picture, x * scale, y * scale, wide * scale, tall * scale, front, rng)
    evening = np.random.default_rng([front.seed, sum(map(ord, look.name))])
    for number, (x, y, wide, tall) in enumerate(front.windows, start=1):
        lit = evening.random() < look.lit_windows
        area = _window(picture, x * scale, y * scale, wide * scale, tall * scale, front, look, rng, lit)
        if area is None:
            continue
        rows, columns = area
        codes[rows, columns] = number
        if lit:
            glow[rows, columns] = 1.0
    _weather(picture, front, look, rng)
    share = resized(sun_share.astype(np.float32), (shape[1], shape[0]))
    # Near the ground and under the eaves less of the sky is seen.
    height = np.linspace(front.height, 0, shape[0], dtype=np.float32)[:, None]
    open_sky = np.minimum(0.78 + 0.22 * np.minimum(height / 3.0, 1.0), 0.72 + (front.height - height) * 0.8)
    light = tinted(np.broadcast_to(open_sky, shape), look.ambient) + tinted(share * facing_sun, look.sun)
    light = np.where(glow[..., None] > 0, np.maximum(light, 0.95), light)
    return Texture(to_image(picture * light), None, codes)


def _wall(front: Front, shape: tuple[int, int], rng: np.random.Generator) -> Picture:
    style = STYLES[front.style]
    scale = PIXELS_PER_METRE
    picture = filled(shape, front.wall)
    if style.pattern == "brick":
        picture *= _bricks(shape, rng)[..., None]
    elif style.pattern == "panel":
        for y in np.arange(shape[0] - 0.3 * scale, 0, -style.floor * scale):
            shade_box(picture, 0, y - 1, shape[1], y + 1, 0.6)
        for x in np.arange(0, shape[1], style.spacing * scale):
            shade_box(picture, x - 1, 0, x + 1, shape[0], 0.65)
    elif style.pattern == "timber":
        _beams(picture, style, front)
    picture *= (1 + 0.05 * cloud_noise(shape, rng, 60) + 0.035 * grain(shape, rng))[..., None]
    if style.bands:
        for floor in range(1, int(front.height // style.floor) + 1):
            y = shape[0] - floor * style.floor * scale
            box(picture, 0, y - 0.12 * scale, shape[1], y, varied(front.wall, rng, 0.02))
            shade_box(picture, 0, y - 0.12 * scale, shape[1], y, 1.12)
            shade_box(picture, 0, y, shape[1], y + 0.07 * scale, 0.72)
    base = shape[0] - rng.uniform(0.4, 0.9) * scale
    shade_box(picture, 0, base, shape[1], shape[0], float(rng.uniform(0.55, 0.8)))
    if rng.random() < 0.7:  # a rain pipe at the seam to the next house
        x = 0.12 * scale if rng.random() < 0.5 else shape[1] - 0.22 * scale
        box(picture, x, 0, x + 0.1 * scale, shape[0], (0.45, 0.45, 0.44))
        shade_box(picture, x + 0.1 * scale, 0, x + 0.18 * scale, shape[0], 0.7)
    return picture


def _bricks(shape: tuple[int, int], rng: np.random.Generator) -> Plane:
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    course = rows // 4  # about 10 cm: two courses drawn as one, finer would be lost at this scale
    brick = (columns + 5 * (course % 2)) // 10
    tone = rng.normal(0, 0.09, (int(course.max()) + 2, int(brick.max()) + 2)).astype(np.float32)
    wall = 1 + tone[course.astype(int), brick.astype(int)]
    wall[(rows % 4) < 1] *= 1.13
    return np.asarray(wall, np.float32)


def _beams(picture: Picture, style: Style, front: Front) -> None:
    scale, wood = PIXELS_PER_METRE, (0.30, 0.20, 0.14)
    height, width = picture.shape[:2]
    for y in np.arange(height - style.floor * scale, -1, -style.floor * scale):
        box(picture, 0, y - 4, width, y + 4, wood)
    for x in np.arange(0, width + 1, style.spacing * scale / 2):
        box(picture, x - 3, 0, x + 3, height - style.floor * scale, wood)
    ground = int(height - style.floor * scale)
    for x in np.arange(0, width, style.spacing * scale):
        top = max(int(ground - style.floor * scale), 0)
        cv2.line(picture, (int(x), ground), (int(x + style.spacing * scale / 4), top), wood, 6)


def _window(
    picture: Picture,
    x: float,
    y: float,
    wide: float,
    tall: float,
    front: Front,
    look: Look,
    rng: np.random.Generator,
    lit: bool,
) -> tuple[slice, slice] | None:
    """Draw one window and return where it is; the same number of random draws every time."""
    style = STYLES[front.style]
    curtain, blind, tone, cloth = rng.random(), rng.random(), rng.normal(0, 0.05), rng.uniform(0.55, 0.85)
    x0, y0, x1, y1 = round(x), round(y), round(x + wide), round(y + tall)
    if x0 < 1 or y0 < 1 or x1 >= picture.shape[1] or y1 >= picture.shape[0]:
        return None
    if style.shutters:
        shutter = round(0.42 * wide)
        for left in (x0 - shutter - 2, x1 + 2):
            box(picture, left, y0, left + shutter, y1, front.accent)
            for line in range(y0 + 2, y1, 4):
                shade_box(picture, left, line, left + shutter, line + 1, 0.7)
    shade_box(picture, x0 - 3, y0 - 4, x1 + 3, y1 + 3, 1.08)  # the reveal
    box(picture, x0, y0, x1, y1, style.frame)
    rows, columns = style.panes
    bar = 3
    height, width = y1 - y0, x1 - x0
    glass = filled((height, width), (0.13, 0.16, 0.19))
    # Glass mirrors the sky above and the dark street below.
    mirror = np.linspace(0.55, 0.05, height, dtype=np.float32)[:, None] * (0.5 + tone * 3)
    glass += tinted(np.broadcast_to(np.maximum(mirror, 0), (height, width)), look.sky_bottom) * np.float32(0.6)
    if curtain < 0.55:
        side = max(int(width * (0.14 + 0.2 * blind)), 2)
        folds = (0.85 + 0.15 * np.sin(np.arange(side) * 1.1)).astype(np.float32)
        for part in (slice(0, side), slice(width - side, width)):
            glass[:, part] = (0.35 * glass[:, part] + 0.65 * cloth * folds[None, :, None]).astype(np.float32)
    if blind > 0.72:
        drop = int(height * (0.25 + 0.6 * curtain))
        slats = 0.68 + 0.1 * (np.arange(drop) % 4 < 2)
        glass[:drop] = (slats[:, None, None] * np.array([0.95, 0.94, 0.9])).astype(np.float32)
    if lit:
        glass = 0.35 * glass + np.array([1.0, 0.80, 0.46], np.float32) * (0.62 + 0.25 * cloth)
    picture[y0:y1, x0:x1] = glass
    for k in range(rows + 1):
        bar_x = x0 + k * (width - bar) / rows
        box(picture, bar_x, y0, bar_x + bar, y1, style.frame)
    for k in range(columns + 1):
        bar_y = y0 + k * (height - bar) / columns
        box(picture, x0, bar_y, x1, bar_y + bar, style.frame)
    shade_box(picture, x0, y0, x1, y0 + 4, 0.55)  # the lintel's shadow
    box(picture, x0 - 4, y1, x1 + 4, y1 + 3, (0.72, 0.71, 0.68))
    shade_box(picture, x0 - 4, y1 + 3, x1 + 4, y1 + 7, 0.7)
    return slice(y0, y1), slice(x0, x1)


def _door(
    picture: Picture, x: float, y: float, wide: float, tall: float, front: Front, rng: np.random.Generator
) -> None:
    color = varied(((0.30, 0.20, 0.13), (0.16, 0.26, 0.20), (0.55, 0.55, 0.53))[int(rng.integers(3))], rng, 0.15)
    shade_box(picture, x - 6, y - 6, x + wide + 6, y + tall, 1.15)
    box(picture, x, y, x + wide, y + tall, color)
    shade_box(picture, x, y, x + wide, y + 6, 0.5)
    for k in range(2):
        shade_box(picture, x + 5, y + 14 + k * tall / 2, x + wide - 5, y + tall / 2 - 6 + k * tall / 2, 0.8)


def _garage(
    picture: Picture, x: float, y: float, wide: float, tall: float, front: Front, rng: np.random.Generator
) -> None:
    color = varied(((0.62, 0.62, 0.60), (0.35, 0.28, 0.20), front.accent)[int(rng.integers(3))], rng, 0.1)
    box(picture, x, y, x + wide, y + tall, color)
    shade_box(picture, x, y, x + wide, y + 7, 0.5)
    for line in np.arange(y + 10, y + tall, 11):
        shade_box(picture, x, line, x + wide, line + 2, 0.72)


def _shop(picture: Picture, glow: Plane, front: Front, look: Look, rng: np.random.Generator) -> None:
    scale = PIXELS_PER_METRE
    height, width = picture.shape[:2]
    top, bottom = height - 2.6 * scale, height - 0.45 * scale
    box(picture, 0.3 * scale, top - 0.75 * scale, width - 0.3 * scale, top - 0.1 * scale, front.accent)
    name = "".join(rng.choice(list("ABDEGIKLMNORSTU"), int(rng.integers(4, 8))))
    ink = (0.95, 0.94, 0.88) if sum(front.accent) < 1.6 else (0.12, 0.12, 0.15)
    letter(picture, name, (int(0.6 * scale), int(top - 0.22 * scale)), 0.9, ink, 2)
    count = max(int(width // (2.4 * scale)), 1)
    for k in range(count):
        x0, x1 = (k + 0.08) * width / count, (k + 0.92) * width / count
        _display(picture, round(x0), round(top), round(x1), round(bottom), look, rng)
        shade_box(picture, x0, top, x1, top + 8, 0.5)
        if look.lit_windows > 0.2:
            glow[int(top) : int(bottom), int(x0) : int(x1)] = 1.0
            picture[int(top) : int(bottom), int(x0) : int(x1)] += np.array([0.5, 0.42, 0.28], np.float32)


def _display(picture: Picture, x0: int, y0: int, x1: int, y1: int, look: Look, rng: np.random.Generator) -> None:
    """A shop window: goods in the dark behind the mirrored street, and a poster now and then."""
    pane = picture[y0:y1, x0:x1]
    height, width = pane.shape[:2]
    goods = cloud_noise((height, width), rng, 16, 2)[..., None] * rng.uniform(0.3, 1.0, 3).astype(np.float32)
    pane[:] = np.clip(0.13 + 0.05 * goods, 0.03, 0.5)
    pane += tinted(np.linspace(0.28, 0.02, height, dtype=np.float32)[:, None], look.sky_bottom)
    if rng.random() < 0.5:
        left, wide = int(rng.integers(4, max(width - 30, 5))), int(rng.integers(14, 28))
        top = int(rng.integers(10, max(height // 2, 11)))
        box(pane, left, top, left + wide, top + 1.4 * wide, varied((0.75, 0.72, 0.66), rng, 0.2))
        box(pane, left + 3, top + 4, left + wide - 3, top + 0.6 * wide, varied((0.5, 0.25, 0.2), rng, 0.4))
    for edge in (0, width - 3):
        box(pane, edge, 0, edge + 3, height, (0.35, 0.35, 0.36))


def _weather(picture: Picture, front: Front, look: Look, rng: np.random.Generator) -> None:
    """Streaks and stains, and snow on ledges."""
    shape = picture.shape[:2]
    streaks = resized(
        rng.standard_normal((3, max(shape[1] // 7, 2))).astype(np.float32), (shape[1], shape[0]), cv2.INTER_CUBIC
    )
    picture *= 1 + 0.035 * streaks[..., None]
    splash = np.exp(-np.linspace(front.height, 0, shape[0], dtype=np.float32) / 0.5)[:, None]
    picture *= 1 - 0.25 * splash[..., None]
    if look.snow > 0:
        for x, y, wide, tall in front.windows:
            bottom = (y + tall) * PIXELS_PER_METRE
            box(
                picture,
                x * PIXELS_PER_METRE - 4,
                bottom - 2,
                (x + wide) * PIXELS_PER_METRE + 4,
                bottom + 3,
                (0.93, 0.94, 0.96),
            )
