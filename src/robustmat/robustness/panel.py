"""Axes on a picture, with Pillow alone: what the figures of this package are drawn on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.files import replacing

Color = tuple[int, int, int]
Point = tuple[float, float]

INK: Color = (30, 30, 30)
FAINT: Color = (224, 224, 224)
LEVELS: tuple[Color, ...] = ((31, 97, 168), (196, 132, 20), (178, 50, 44))  # little noise to much
PANEL, TALL, MARGIN, FOOT = 430, 250, 52, 40


class Panel:
    """One set of axes on a picture; values are placed by their range."""

    def __init__(self, pen: ImageDraw.ImageDraw, left: float, top: float, x: Point, y: Point, title: str) -> None:
        self.pen, self.left, self.top, self.x, self.y = pen, left, top, x, y
        self.font = ImageFont.load_default(size=12)
        pen.text((left + MARGIN, top + 8), title, fill=INK, font=ImageFont.load_default(size=14))
        corners = [self.at(x[0], y[1]), self.at(x[0], y[0]), self.at(x[1], y[0])]
        pen.line(corners, fill=INK)

    def at(self, x: float, y: float) -> Point:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        wide, high = PANEL - MARGIN - 20, TALL - FOOT - 34
        return self.left + MARGIN + wide * across, self.top + TALL - FOOT - high * up

    def ticks_across(self, values: Sequence[float], name: str) -> None:
        for value in values:
            x, y = self.at(value, self.y[0])
            self.pen.text((x, y + 5), f"{value:g}", fill=INK, font=self.font, anchor="mt")
        x, y = self.at((self.x[0] + self.x[1]) / 2, self.y[0])
        self.pen.text((x, y + 21), name, fill=INK, font=self.font, anchor="mt")

    def ticks_up(self, values: Sequence[float]) -> None:
        for value in values:
            x, y = self.at(self.x[0], value)
            self.pen.line([(x, y), self.at(self.x[1], value)], fill=FAINT)
            self.pen.text((x - 6, y), f"{value:g}", fill=INK, font=self.font, anchor="rm")

    def legend(self, entries: Sequence[tuple[str, Color]]) -> None:
        """On the title's line, where no data can be."""
        right, y = self.left + PANEL - 20, self.top + 10
        for name, color in reversed(entries):
            self.pen.text((right, y), name, fill=color, font=self.font, anchor="rt")
            right -= self.pen.textlength(name, font=self.font) + 10


def round_steps(most: float) -> list[float]:
    """Four or so round numbers from 0 to `most`."""
    if most <= 0:
        return [0.0]
    raw = most / 4
    power = 10 ** np.floor(np.log10(raw))
    step = float(power * min((1, 2, 2.5, 5, 10), key=lambda one: abs(one * power - raw)))
    return [round(step * number, 10) for number in range(int(most / step) + 1)]


def large() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=15)


def save(picture: PillowImage.Image, path: Path | str) -> Path:
    path = Path(path)
    with replacing(path) as temporary:
        picture.quantize(64).save(temporary, optimize=True)
    return path
