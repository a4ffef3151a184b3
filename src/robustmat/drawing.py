"""Pictures of matches: two frames, their landmarks, and one line a match.

Read it like this: a match has its own colour, a number, and a line that fades with its probability. Doubtful matches
(below `DOUBTFUL`) are dashed. Matches that the ground truth contradicts are red and crossed out, those that it misses
are dotted in white. Landmarks without a match are outlined in faint grey.
"""

import colorsys
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Box, MatchResult, plural

Color = tuple[int, int, int]
Point = tuple[float, float]

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")

DOUBTFUL = 0.7  # matches less probable than that are dashed
FEW, MANY = 16, 60  # matches: up to FEW have full labels, from MANY on only wrong and doubtful ones have any
WANTED_ASPECT = 1.6  # of the whole picture
NARROWEST, WIDEST = 1200, 2400  # pixels; frames are scaled so that the picture fits in between
SMOOTH = 2  # lines are drawn so many times as large, then reduced: Pillow's own have steps

BACKGROUND: Color = (22, 24, 28)
TEXT: Color = (240, 240, 240)
FAINT: Color = (205, 208, 214)
WRONG: Color = (255, 48, 48)
SHORT_NAMES = {"traffic_sign": "sign", "traffic_light": "light"}


def distinct_color(index: int) -> Color:
    """Hues a golden ratio apart, so that neighbours in the list never look alike; red is left to wrong matches."""
    hue = 0.07 + 0.84 * ((index * 0.618034 + 0.35) % 1.0)
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.72, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_matches(result: MatchResult, path: Path | str, correct: Sequence[bool | None] | None = None) -> Path:
    """Write a picture of `result`; see `picture_of_matches`."""
    return write_picture(check_picture_path(path), picture_of_matches(result, correct))


def write_picture(path: Path, picture: PIL.Image.Image) -> Path:
    with replacing(path) as temporary:
        picture.save(temporary, quality=92)
    return path


def check_picture_path(path: Path | str) -> Path:
    """The path, or an error if pictures cannot be written under such a name."""
    path = Path(path)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise InputError(f"cannot write a picture as '{path.suffix}': use .png or .jpg: {path}")
    return path


def encode_png(picture: PIL.Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "png")
    return buffer.getvalue()


def picture_of_matches(
    result: MatchResult,
    correct: Sequence[bool | None] | None = None,
    width: int | None = None,
    missed: Sequence[tuple[int, int]] = (),
) -> PIL.Image.Image:
    """Both frames with their matches, wide frames one above the other, others side by side.

    Args:
        correct: what the ground truth says of each match; None where it says nothing.
        width: of the picture; chosen for a screen unless given.
        missed: pairs of landmarks that should have been matched.
    """
    if result.frame_a is None or result.frame_b is None:
        raise InputError("this result has no frames to draw: match frames, or embeddings that kept theirs")
    if correct is not None and len(correct) != len(result.matches):
        raise InputError(f"{len(correct)} verdicts for {len(result.matches)} matches: give one for each")
    verdicts = tuple(correct) if correct is not None else (None,) * len(result.matches)
    images = [PIL.Image.fromarray(frame.image) for frame in (result.frame_a, result.frame_b)]
    sheet = _lay_out(images, width)
    _draw_lines(sheet, result, verdicts, missed)
    _draw_labels(sheet, result, verdicts)
    _draw_caption(sheet, result, correct, len(missed))
    return sheet.canvas


@dataclass(frozen=True)
class _Sheet:
    """The picture, and where each frame stands on it."""

    canvas: PIL.Image.Image
    scale: float
    corners: tuple[Point, Point]  # upper left of frame A and of frame B
    sizes: tuple[Point, Point]
    stacked: bool
    unit: float  # 1 on a picture 1200 pixels wide: all thicknesses and letters are multiples

    def placed(self, box: Box, side: int) -> Box:
        x, y = self.corners[side]
        x0, y0, x1, y1 = (value * self.scale for value in box)
        return x + x0, y + y0, x + max(x1, x0 + 1), y + max(y1, y0 + 1)


def _lay_out(images: list[PIL.Image.Image], wanted: int | None) -> _Sheet:
    widths, heights = [image.width for image in images], [image.height for image in images]
    beside, above = sum(widths) / max(heights), max(widths) / sum(heights)
    stacked = abs(math.log(above / WANTED_ASPECT)) < abs(math.log(beside / WANTED_ASPECT))
    whole = max(widths) if stacked else sum(widths)
    width = wanted or min(max(whole, NARROWEST), WIDEST)
    unit = max(width / NARROWEST, 0.6)
    gap, caption = round(8 * unit), round(30 * unit)
    scale = (width if stacked else width - gap) / whole
    images = [
        image.resize(
            (max(1, round(image.width * scale)), max(1, round(image.height * scale))), PIL.Image.Resampling.LANCZOS
        )
        for image in images
    ]
    first, second = images
    corner_b = (0, caption + first.height + gap) if stacked else (first.width + gap, caption)
    height = corner_b[1] + second.height if stacked else caption + max(first.height, second.height)
    canvas = PIL.Image.new("RGB", (width, height), BACKGROUND)
    canvas.paste(first, (0, caption))
    canvas.paste(second, corner_b)
    return _Sheet(canvas, scale, ((0, caption), corner_b), (first.size, second.size), stacked, unit)


def _draw_lines(
    sheet: _Sheet, result: MatchResult, verdicts: Sequence[bool | None], missed: Sequence[tuple[int, int]]
) -> None:
    """Boxes and lines, doubtful and wrong ones last: they are what one looks for."""
    size = (sheet.canvas.width * SMOOTH, sheet.canvas.height * SMOOTH)
    layer = PIL.Image.new("RGBA", size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    thin = max(1, round(1.3 * sheet.unit * SMOOTH))
    halo, dash = round(2 * sheet.unit * SMOOTH), 8 * sheet.unit * SMOOTH
    crowd = 1.0 if len(result.matches) <= FEW else 0.75
    for side, landmarks in enumerate((result.landmarks_a, result.landmarks_b)):
        for index in result.left_alone[side]:
            box = _enlarged(sheet.placed(landmarks[index].box, side), sheet.unit)
            draw.rectangle(_grown(box, thin), outline=(*BACKGROUND, 90), width=3 * thin)
            draw.rectangle(box, outline=(*FAINT, 200), width=thin)
    for a, b in missed:
        box_a, box_b = (
            _enlarged(sheet.placed(box, side), sheet.unit)
            for side, box in enumerate((result.landmarks_a[a].box, result.landmarks_b[b].box))
        )
        start, end = _ends(box_a, box_b, sheet.stacked)
        for paint, width in (((*BACKGROUND, 200), thin + halo), ((*TEXT, 255), thin)):
            _dashed(draw, start, end, paint, width, dash / 3)
            for box in (box_a, box_b):
                draw.rectangle(box, outline=paint, width=thin)
    order = sorted(range(len(result.matches)), key=lambda i: (verdicts[i] is False, -result.matches[i].probability))
    for number in order:
        match, wrong = result.matches[number], verdicts[number] is False
        color = WRONG if wrong else distinct_color(number)
        alpha = 255 if wrong else _alpha(match.probability)
        box_a = _enlarged(sheet.placed(result.landmarks_a[match.a].box, 0), 2.2 * sheet.unit)
        box_b = _enlarged(sheet.placed(result.landmarks_b[match.b].box, 1), 2.2 * sheet.unit)
        for box in (box_a, box_b):
            draw.rectangle(box, outline=(*color, max(alpha, 190)), width=round(2.2 * sheet.unit * SMOOTH))
        start, end = _ends(box_a, box_b, sheet.stacked)
        doubtful = match.probability < DOUBTFUL
        thickness = max(1, round((1.2 if doubtful else 2.0) * crowd * sheet.unit * SMOOTH))
        if doubtful:
            _dashed(draw, start, end, (*BACKGROUND, alpha), thickness + halo, dash)
            _dashed(draw, start, end, (*color, 255), thickness, dash)
        else:
            draw.line([start, end], fill=(*BACKGROUND, round(0.55 * alpha)), width=thickness + halo)
            draw.line([start, end], fill=(*color, alpha), width=thickness)
        if wrong:
            _cross(draw, _between(start, end), 9 * sheet.unit * SMOOTH, round(3.2 * sheet.unit * SMOOTH))
    layer = layer.resize(sheet.canvas.size, PIL.Image.Resampling.BOX)
    sheet.canvas.paste(layer, (0, 0), layer)


def _alpha(probability: float) -> int:
    """A sure match is opaque, one at 0.5 or below is faint."""
    return round(95 + 150 * min(max((probability - 0.5) / 0.5, 0.0), 1.0))


def _enlarged(box: Box, margin: float) -> Box:
    """The box on the large layer; its outline stands around the landmark, not on it."""
    x0, y0, x1, y1 = (value * SMOOTH for value in _grown(box, margin))
    return x0, y0, x1, y1


def _grown(box: Box, margin: float) -> Box:
    return box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin


def _ends(box_a: Box, box_b: Box, stacked: bool) -> tuple[Point, Point]:
    """A line joins the sides that face each other, so that it does not cover its landmarks."""
    if stacked:
        return ((box_a[0] + box_a[2]) / 2, box_a[3]), ((box_b[0] + box_b[2]) / 2, box_b[1])
    return (box_a[2], (box_a[1] + box_a[3]) / 2), (box_b[0], (box_b[1] + box_b[3]) / 2)


def _between(start: Point, end: Point) -> Point:
    return (start[0] + end[0]) / 2, (start[1] + end[1]) / 2


def _dashed(
    draw: ImageDraw.ImageDraw, start: Point, end: Point, color: tuple[int, int, int, int], width: int, dash: float
) -> None:
    length = math.dist(start, end)
    count = max(1, int(length / (2 * dash)))
    for index in range(count):
        along = [start_or_end / count for start_or_end in (index, index + 0.5)]
        points = [(start[0] + (end[0] - start[0]) * t, start[1] + (end[1] - start[1]) * t) for t in along]
        draw.line(points, fill=color, width=width)


def _cross(draw: ImageDraw.ImageDraw, center: Point, reach: float, width: int) -> None:
    x, y = center
    for color, thickness in (((*BACKGROUND, 255), width * 2), ((*WRONG, 255), width)):
        for slope in (1, -1):
            draw.line([(x - reach, y - slope * reach), (x + reach, y + slope * reach)], fill=color, width=thickness)


def _draw_labels(sheet: _Sheet, result: MatchResult, verdicts: Sequence[bool | None]) -> None:
    """Numbers on both frames; category and probability on the first, where there is room for them."""
    draw = ImageDraw.Draw(sheet.canvas)
    font = ImageFont.load_default(size=max(11, round(14 * sheet.unit)))
    taken: list[Box] = []
    count = len(result.matches)
    shown = [sheet.placed(result.landmarks_a[match.a].box, 0) for match in result.matches]
    shown += [sheet.placed(result.landmarks_b[match.b].box, 1) for match in result.matches]
    for number, match in enumerate(result.matches):
        wrong = verdicts[number] is False
        if count >= MANY and not wrong and match.probability >= DOUBTFUL:
            continue
        color = WRONG if wrong else distinct_color(number)
        category = result.landmarks_a[match.a].category
        long = f"{number + 1} {SHORT_NAMES.get(category, category)} {match.probability:.2f}"
        for side, box, texts in (
            (0, result.landmarks_a[match.a].box, (long, str(number + 1)) if count <= FEW else (str(number + 1),)),
            (1, result.landmarks_b[match.b].box, (str(number + 1),)),
        ):
            plate, text = _place_label(sheet, draw, sheet.placed(box, side), side, texts, font, taken, shown)
            taken.append(plate)
            draw.rounded_rectangle(
                plate, radius=3 * sheet.unit, fill=BACKGROUND, outline=color, width=max(1, round(sheet.unit))
            )
            middle = ((plate[0] + plate[2]) / 2, (plate[1] + plate[3]) / 2)
            draw.text(middle, text, fill=TEXT if not wrong else WRONG, font=font, anchor="mm")


def _place_label(
    sheet: _Sheet,
    draw: ImageDraw.ImageDraw,
    box: Box,
    side: int,
    texts: Sequence[str],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    taken: Sequence[Box],
    shown: Sequence[Box],
) -> tuple[Box, str]:
    """The plate beside the box that covers least of other plates (`taken`) and of landmarks (`shown`)."""
    (x, y), (width, height) = sheet.corners[side], sheet.sizes[side]
    high, pad = 19 * sheet.unit, 4 * sheet.unit
    gap = 4 * sheet.unit
    plates = []
    for shortness, text in enumerate(texts):
        wide = draw.textlength(text, font=font) + 2 * pad
        middle = (box[0] + box[2] - wide) / 2
        upright = (box[1] + box[3] - high) / 2
        places = (
            (middle, box[1] - high - gap),
            (box[2] + gap, box[1]),
            (box[0] - wide - gap, box[1]),
            (box[2] + gap, upright),
            (box[0] - wide - gap, upright),
            (middle, box[3] + gap),
            (box[2] + gap, box[1] - high - gap),
            (box[0] - wide - gap, box[1] - high - gap),
            (middle, box[1] - 2 * high - 2 * gap),
        )
        for order, (left, top) in enumerate(places):
            x0 = min(max(left, x + 1), x + width - wide - 1)
            y0 = min(max(top, y + 1), y + height - high - 1)
            plate = (x0, y0, x0 + wide, y0 + high)
            covered = 4 * sum(_shared(plate, other) for other in taken) + sum(_shared(plate, other) for other in shown)
            cost = covered / (wide * high) + 0.02 * order + 0.3 * shortness
            plates.append((cost, plate, text))
    _, plate, text = min(plates)
    return plate, text


def _shared(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _draw_caption(sheet: _Sheet, result: MatchResult, correct: Sequence[bool | None] | None, missed: int) -> None:
    parts = caption_parts(result, correct, missed)
    draw = ImageDraw.Draw(sheet.canvas)
    font = ImageFont.load_default(size=round(15 * sheet.unit))
    text = "   ·   ".join(parts)
    while len(parts) > 1 and draw.textlength(text, font=font) > sheet.canvas.width - 16:
        parts.pop()
        text = "   ·   ".join(parts)
    draw.text((10 * sheet.unit, 15 * sheet.unit), text, fill=TEXT, font=font, anchor="lm")


def caption_parts(result: MatchResult, correct: Sequence[bool | None] | None, missed: int) -> list[str]:
    """What stands above the picture, the important first: a narrow picture leaves out the last."""
    count = len(result.matches)
    parts = [plural(count, "match", "matches")]
    if correct is not None:
        right, wrong, unknown = (sum(verdict is kind for verdict in correct) for kind in (True, False, None))
        parts = [f"{right} correct, {wrong} wrong" + (f", {unknown} not known" if unknown else "")]
    if missed:
        parts.append(f"{missed} missed (white, dotted)")
    first, second = result.left_alone
    parts.append(f"{len(first)} + {len(second)} landmarks unmatched (grey)")
    if any(match.probability < DOUBTFUL for match in result.matches):
        parts.append(f"dashed: probability below {DOUBTFUL}")
    if count >= MANY:
        parts.append("numbered: wrong and doubtful matches alone")
    elif count > FEW:
        parts.append("numbers: rows of the list of matches")
    return parts
