"""Pictures of benchmark results: bars on a logarithmic scale, and lines over sizes on two of them."""

import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.bench.inference_contest import BenchReport, Section
from robustmat.bench.scaling import Growth, ScalingReport
from robustmat.files import replacing

Color = tuple[int, int, int]
Series = tuple[str, Color, list[tuple[float, float]]]

WIDTH, BAR, GAP, LABEL = 1000, 26, 14, 330
PANEL, TALL, MARGIN = 500, 380, 66
INK: Color = (30, 30, 30)
FAINT: Color = (225, 225, 225)
OURS: Color = (31, 97, 168)
PEER: Color = (178, 76, 24)


def draw_bars(report: BenchReport, path: Path | str) -> Path:
    """One group of bars a section; the first and what begins with its name, ours, are blue. Whiskers: 10 % to 90 %."""
    sections = [one_section for one_section in report.sections if one_section.rows]
    heights = [_height(one_section) for one_section in sections]
    picture = PillowImage.new("RGB", (WIDTH, sum(heights) + 16), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    top = 8
    for section, height in zip(sections, heights, strict=True):
        _bars(pen, top, section)
        top += height
    return _save(picture, path)


def _height(section: Section) -> int:
    return 44 + len(section.rows) * (BAR + GAP) + 24 * (len(section.figures) + len(_notes(section))) + 18


def _notes(section: Section) -> list[str]:
    return sorted({row.note for row in section.rows if row.scale != 1})


def _bars(pen: ImageDraw.ImageDraw, top: int, section: Section) -> None:
    small, large = _fonts()
    pen.text((16, top + 10), f"{section.title} (logarithmic scale)", fill=INK, font=large)
    smallest, largest = (
        min(one_row.seconds.low for one_row in section.rows),
        max(one_row.seconds.high for one_row in section.rows),
    )
    first = math.floor(math.log10(smallest) - 0.3)  # so that the shortest bar has a length
    span = max(0.5, math.log10(largest) - first)

    def place(seconds: float) -> float:
        return LABEL + (WIDTH - LABEL - 150) * (math.log10(seconds) - first) / span

    y = top + 44
    for row in section.rows:
        color = OURS if row.name.startswith(section.rows[0].name) else PEER
        end, middle = place(row.seconds.median), y + BAR / 2
        pen.text((LABEL - 10, middle), row.name, fill=INK, font=small, anchor="rm")
        pen.rectangle((LABEL, y, end, y + BAR), fill=color)
        pen.line((place(row.seconds.low), middle, place(row.seconds.high), middle), fill=INK, width=2)
        text = f"{duration(row.seconds.median)}{' *' if row.scale != 1 else ''}"
        pen.text((max(end, place(row.seconds.high)) + 10, middle), text, fill=color, font=small, anchor="lm")
        y += BAR + GAP
    for figure in section.figures:
        goal = "" if figure.goal is None else f", wanted {figure.goal:g}"
        pen.text((LABEL, y), f"{figure.said()}{goal}", fill=INK, font=small)
        y += 24
    for note in _notes(section):
        pen.text((LABEL, y), f"* {note}", fill=INK, font=small)
        y += 24


def draw_growth(report: ScalingReport, path: Path | str) -> Path:
    """Seconds left, memory right, one row for each thing that grows; both axes logarithmic."""
    picture = PillowImage.new("RGB", (2 * PANEL, TALL * len(report.growths)), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    for row, growth in enumerate(report.growths):
        sizes = [float(point.size) for point in growth.points]
        seconds = [
            (
                growth.fast,
                OURS,
                [(size, point.seconds.median) for size, point in zip(sizes, growth.points, strict=True)],
            ),
            (
                growth.peer,
                PEER,
                [(size, point.peer_seconds.median) for size, point in zip(sizes, growth.points, strict=True)],
            ),
        ]
        memory = [point.peak_megabytes - point.base_megabytes for point in growth.points]
        grown: list[Series] = [(growth.fast, OURS, list(zip(sizes, [max(one, 0.1) for one in memory], strict=True)))]
        _lines(pen, (0, row * TALL), growth, "seconds", seconds)
        _lines(pen, (PANEL, row * TALL), growth, "megabytes above the loaded model", grown)
    return _save(picture, path)


def _lines(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], growth: Growth, what: str, series: Sequence[Series]
) -> None:
    small, large = _fonts()
    points = [point for _, _, line in series for point in line]
    x_low, x_high = _decades([x for x, _ in points], snug=True)
    y_low, y_high = _decades([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + (PANEL - MARGIN - 30) * (math.log10(x) - x_low) / (x_high - x_low)
        down = TALL - 60 - (TALL - 150) * (math.log10(y) - y_low) / (y_high - y_low)
        return corner[0] + across, corner[1] + down

    pen.text((corner[0] + MARGIN, corner[1] + 14), _short(growth.title, 54), fill=INK, font=large)
    for number, (name, color, _) in enumerate(series):
        pen.text((corner[0] + MARGIN, corner[1] + 38 + 18 * number), _short(name, 62), fill=color, font=small)
    for exponent in range(math.ceil(y_low), math.floor(y_high) + 1):
        left, right = place(10**x_low, 10**exponent), place(10**x_high, 10**exponent)
        pen.line([left, right], fill=FAINT)
        pen.text((left[0] - 8, left[1]), f"{10**exponent:g}", fill=INK, font=small, anchor="rm")
    for x in sorted({x for x, _ in points}):
        at = place(x, 10**y_low)
        pen.text((at[0], at[1] + 8), f"{x:g}", fill=INK, font=small, anchor="mt")
    pen.line([place(10**x_low, 10**y_high), place(10**x_low, 10**y_low), place(10**x_high, 10**y_low)], fill=INK)
    foot = f"{growth.axis}; {what}"
    pen.text((corner[0] + PANEL / 2 + 20, corner[1] + TALL - 14), foot, fill=INK, font=small, anchor="mb")
    for _, color, line in series:
        pen.line([place(x, y) for x, y in line], fill=color, width=2)
        for number, (size, value) in enumerate(line):
            x, y = place(size, value)
            pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=color)
            # Of two lines that lie close, the lower one's labels stand below.
            below = any(other[number][1] > value for _, _, other in series)
            label_y, anchor = (y + 8, "mt") if below else (y - 9, "mb")
            text = f"{value:.0f}" if value >= 100 else f"{value:.2g}"
            pen.text((x, label_y), text, fill=color, font=small, anchor=anchor)


def _decades(values: Sequence[float], snug: bool = False) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    if snug:
        return low - 0.05, max(high, low + 0.1) + 0.05
    return math.floor(low), max(math.ceil(high + 0.1), math.floor(low) + 1)


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _fonts() -> tuple[ImageFont.FreeTypeFont | ImageFont.ImageFont, ImageFont.FreeTypeFont | ImageFont.ImageFont]:
    return ImageFont.load_default(size=13), ImageFont.load_default(size=16)


def _save(picture: PillowImage.Image, path: Path | str) -> Path:
    path = Path(path)
    with replacing(path) as temporary:
        picture.save(temporary)
    return path
