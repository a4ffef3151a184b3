"""A bar for every method, with its spread over seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.files import replacing
from robustmat.tables.labels import row_label
from robustmat.tables.page import METRIC_LABELS
from robustmat.tables.values import Line, Section

Color = tuple[int, int, int]

INK: Color = (30, 30, 30)
FAINT: Color = (224, 224, 224)
OURS: Color = (31, 97, 168)
RIVAL: Color = (150, 160, 172)
REFERENCE: Color = (206, 190, 160)
BAR, GAP, LEFT, TOP, RIGHT, FOOT, LABEL = 18, 8, 16, 64, 60, 44, 210  # pixels
SPAN = 460  # pixels from the lowest to the highest value


def draw_bars(sections: Sequence[Section], metric: str, title: str, path: Path) -> Path:
    """One panel a section, side by side; horizontal bars, so that names can be read, best on top."""
    panels = [sorted(section.lines, key=lambda line: -line.mean(metric)) for section in sections]
    height = TOP + max(len(panel) for panel in panels) * (BAR + GAP) + FOOT
    width = LEFT + LABEL + SPAN + RIGHT
    picture = PillowImage.new("RGB", (width * len(panels), height), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    pen.text((LEFT, 10), title, fill=INK, font=ImageFont.load_default(size=17))
    low = _floor(min(line.mean(metric) - line.deviation(metric) for panel in panels for line in panel))
    for number, (section, lines) in enumerate(zip(sections, panels, strict=True)):
        heading = f"{METRIC_LABELS[metric]}: {section.test}, {section.condition}, {section.negatives}"
        _panel(pen, number * width, heading, lines, metric, low)
    with replacing(path) as temporary:
        picture.save(temporary)
    return path


def fitting(pen: ImageDraw.ImageDraw, text: str, font: ImageFont.ImageFont | Any, width: float) -> str:
    """The text, or its beginning and its end where it is wider than `width`."""
    kept = len(text)
    short = text
    while pen.textlength(short, font=font) > width:
        kept -= 2
        short = f"{text[: kept // 2]} ... {text[-kept // 2 :]}"
    return short


def _panel(pen: ImageDraw.ImageDraw, x: int, heading: str, lines: Sequence[Line], metric: str, low: float) -> None:
    small = ImageFont.load_default(size=13)
    start = x + LEFT + LABEL
    bottom = TOP + len(lines) * (BAR + GAP)

    def place(value: float) -> float:
        return start + SPAN * (min(max(value, low), 1.0) - low) / (1.0 - low)

    pen.text((x + LEFT, TOP - 26), fitting(pen, heading, small, LABEL + SPAN), fill=INK, font=small)
    for tenth in range(round(low * 10), 11):
        at = place(tenth / 10)
        pen.line([(at, TOP - 4), (at, bottom)], fill=FAINT)
        pen.text((at, bottom + 6), f"{tenth / 10:.1f}", fill=INK, font=small, anchor="mt")
    for number, line in enumerate(lines):
        top = TOP + number * (BAR + GAP)
        mean, spread = line.mean(metric), line.deviation(metric)
        color = OURS if line.label.startswith(("robustmat", "street")) else REFERENCE if line.is_reference else RIVAL
        pen.text((start - 8, top + BAR / 2), row_label(line.label), fill=INK, font=small, anchor="rm")
        pen.rectangle((start, top, place(mean), top + BAR), fill=color)
        if spread:
            middle = top + BAR / 2
            pen.line([(place(mean - spread), middle), (place(mean + spread), middle)], fill=INK, width=2)
            for end in (mean - spread, mean + spread):
                pen.line([(place(end), middle - 5), (place(end), middle + 5)], fill=INK, width=2)
        pen.text((place(min(mean + spread, 1.0)) + 6, top + BAR / 2), f"{mean:.3f}", fill=INK, font=small, anchor="lm")


def _floor(value: float) -> float:
    """The tenth below, so that differences can be seen; bars are read against the axis."""
    return max(0.0, min(0.9, int(value * 10) / 10))
