"""Pictures of matches: two frames one above the other, boxes, and a coloured line per match."""

import colorsys
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Box, Frame, MatchResult

Color = tuple[int, int, int]

ALONE: Color = (170, 170, 170)
SMALLEST_WIDTH = 900  # narrower frames are enlarged, so that labels do not cover them
GAP = 12
CAPTION = 26


def distinct_color(index: int) -> Color:
    """Hues a golden ratio apart: neighbours in the list never look alike."""
    red, green, blue = colorsys.hsv_to_rgb((index * 0.618034) % 1.0, 0.75, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_matches(result: MatchResult, path: Path | str) -> Path:
    """Write a picture of `result`: matches in colour with their probability, the unmatched in grey."""
    if result.frame_a is None or result.frame_b is None:
        raise InputError("this result has no frames to draw: match frames, or embeddings that kept theirs")
    path = Path(path)
    canvas, scale, offsets = _lay_out(result.frame_a, result.frame_b)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=15)
    _caption(draw, result, canvas.width)
    for index in result.unmatched_a:
        _box(draw, result.landmarks_a[index].box, scale, offsets[0], ALONE)
    for index in result.unmatched_b:
        _box(draw, result.landmarks_b[index].box, scale, offsets[1], ALONE)
    for number, match in enumerate(result.matches):
        color = distinct_color(number)
        corners_a = _box(draw, result.landmarks_a[match.a].box, scale, offsets[0], color, width=3)
        corners_b = _box(draw, result.landmarks_b[match.b].box, scale, offsets[1], color, width=3)
        draw.line([_center(corners_a), _center(corners_b)], fill=color, width=2)
        for corners in (corners_a, corners_b):
            _label(draw, f"{number + 1}  {match.probability:.2f}", corners, color, font, canvas.width)
    try:
        with replacing(path) as temporary:
            canvas.save(temporary)
    except ValueError:
        raise InputError(f"cannot write a picture as '{path.suffix}': use .png or .jpg: {path}") from None
    return path


def _lay_out(a: Frame, b: Frame) -> tuple["PillowImage.Image", float, tuple[int, int]]:
    images = [PillowImage.fromarray(np.ascontiguousarray(frame.image)) for frame in (a, b)]
    width = max(image.width for image in images)
    scale = max(1.0, SMALLEST_WIDTH / width)
    images = [it.resize((round(it.width * scale), round(it.height * scale))) for it in images]
    top = CAPTION
    below = top + images[0].height + GAP
    canvas = PillowImage.new("RGB", (max(it.width for it in images), below + images[1].height), (24, 24, 28))
    canvas.paste(images[0], (0, top))
    canvas.paste(images[1], (0, below))
    return canvas, scale, (top, below)


def _caption(draw: ImageDraw.ImageDraw, result: MatchResult, width: int) -> None:
    text = (
        f"{len(result.matches)} matches   "
        f"{len(result.unmatched_a)} + {len(result.unmatched_b)} landmarks without a partner (grey)   "
        "label: match number, probability"
    )
    draw.text((8, 4), text, fill=(235, 235, 235), font=ImageFont.load_default(size=15))


def _box(
    draw: ImageDraw.ImageDraw, box: Box, scale: float, top: int, color: Color, width: int = 1
) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = (value * scale for value in box)
    corners = (x0, y0 + top, max(x1, x0 + 1), max(y1, y0 + 1) + top)
    draw.rectangle(corners, outline=color, width=width)
    return corners


def _center(corners: tuple[float, float, float, float]) -> tuple[float, float]:
    return (corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2


def _label(
    draw: ImageDraw.ImageDraw,
    text: str,
    corners: tuple[float, float, float, float],
    color: Color,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    canvas_width: int,
) -> None:
    """Text on a dark plate above the box, inside the picture."""
    length = draw.textlength(text, font=font)
    x = min(max(corners[0], 2), canvas_width - length - 6)
    y = max(corners[1] - 19, CAPTION)
    draw.rectangle((x - 2, y, x + length + 3, y + 18), fill=(24, 24, 28))
    draw.text((x, y), text, fill=color, font=font)
