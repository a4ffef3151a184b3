"""A picture of benchmark runs: seconds and peak memory over the number of frames."""

import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.bench.runs import Report
from robustmat.files import replacing

Point = tuple[float, float]
Color = tuple[int, int, int]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 380, 76, 24, 56, 54  # of a panel, and its margins, in pixels
INK: Color = (30, 30, 30)
FAINT: Color = (222, 222, 222)


def draw_report(report: Report, path: Path | str) -> Path:
    """Two panels side by side; what is linear lies on the line, what is flat on a level one."""
    frames = [float(run.frames) for run in report.runs]
    picture = PillowImage.new("RGB", (2 * WIDTH, HEIGHT), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    slope = report.seconds_a_frame
    title = f"{report.benchmark}: seconds" + ("" if slope is None else f", {slope:.2f} for each frame")
    panel(pen, (0, 0), title, list(zip(frames, report.seconds, strict=True)), (31, 97, 168))
    memory = [run.peak_megabytes for run in report.runs]
    panel(pen, (WIDTH, 0), "peak memory in MB", list(zip(frames, memory, strict=True)), (178, 76, 24))
    path = Path(path)
    with replacing(path) as temporary:
        picture.save(temporary)
    return path


def panel(pen: ImageDraw.ImageDraw, corner: tuple[int, int], title: str, points: Sequence[Point], color: Color) -> None:
    """One diagram from zero, with a dot and its value at every point, joined by lines."""
    x_step, x_end = ticks(max(x for x, _ in points))
    y_step, y_end = ticks(max(y for _, y in points))
    small, large = ImageFont.load_default(size=13), ImageFont.load_default(size=16)

    def place(x: float, y: float) -> Point:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / x_end
        down = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / y_end
        return corner[0] + across, corner[1] + down

    pen.text((corner[0] + LEFT, corner[1] + 18), title, fill=INK, font=large)
    for number in range(round(y_end / y_step) + 1):
        at = place(0, number * y_step)
        pen.line([at, place(x_end, number * y_step)], fill=FAINT)
        pen.text((at[0] - 8, at[1]), f"{number * y_step:g}", fill=INK, font=small, anchor="rm")
    for number in range(round(x_end / x_step) + 1):
        at = place(number * x_step, 0)
        pen.text((at[0], at[1] + 8), f"{number * x_step:g}", fill=INK, font=small, anchor="mt")
    pen.text((place(x_end / 2, 0)[0], corner[1] + HEIGHT - 16), "frames", fill=INK, font=small, anchor="mb")
    pen.line([place(0, y_end), place(0, 0), place(x_end, 0)], fill=INK)
    ordered = [place(x, y) for x, y in sorted(points)]
    pen.line(ordered, fill=color, width=2)
    for (x, y), value in zip(ordered, (y for _, y in sorted(points)), strict=True):
        pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=color)
        pen.text((x, y - 9), f"{value:.3g}", fill=color, font=small, anchor="mb")


def ticks(highest: float) -> tuple[float, float]:
    """A round step between marks, and the last mark, above `highest`: at most seven steps."""
    room = max(highest, 1e-9) * 1.08  # for the topmost value's label
    power = 10.0 ** math.floor(math.log10(room / 7))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= room / 7)
    return step, step * math.ceil(room / step)
