"""Pictures of detections: the image with a box, its category's colour and the confidence of each landmark."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.drawing import BACKGROUND, TEXT
from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Box, Image, Landmark, plural

COLORS = {
    "traffic_sign": (255, 70, 70),
    "traffic_light": (255, 220, 0),
    "pole": (60, 230, 90),
    "window": (70, 160, 255),
}
LARGEST_SIDE = 2000  # pixels of the picture; a larger image is shown smaller
LEGEND, HIGH, WIDE = 28, 16, 32  # pixels: the line above the image, and the plate of a number
FONT = ImageFont.load_default


def draw_landmarks(image: Image, landmarks: Sequence[Landmark], path: Path | str) -> Path:
    """Write a picture of the image and its landmarks (.png or .jpg), with a legend that counts them."""
    path = Path(path)
    picture = PIL.Image.fromarray(image)
    ratio = min(1.0, LARGEST_SIDE / max(picture.size))
    if ratio < 1:
        picture = picture.resize((max(round(picture.width * ratio), 1), max(round(picture.height * ratio), 1)))
    boxes = [tuple(edge * ratio for edge in landmark.box) for landmark in landmarks]
    pen = ImageDraw.Draw(picture)
    for (x0, y0, x1, y1), landmark in zip(boxes, landmarks, strict=True):
        pen.rectangle((x0 - 1, y0 - 1, max(x1, x0), max(y1, y0)), outline=COLORS[landmark.category], width=2)
    taken: list[Box] = []
    for (x0, y0, _, y1), landmark in zip(boxes, landmarks, strict=True):
        if landmark.confidence is not None:
            text, color = f"{landmark.confidence:.2f}", COLORS[landmark.category]
            for top in (y0 - HIGH - 2, y1 + 2):  # a number that would hide another one is left out
                left = min(max(x0 - 1, 0.0), picture.width - WIDE)
                plate = (left, top, left + WIDE, top + HIGH)
                if top >= 0 and not any(_overlap(plate, other) for other in taken):
                    taken.append(plate)
                    pen.rectangle(plate, fill=BACKGROUND)
                    pen.text((left + WIDE / 2, top + HIGH / 2), text, fill=color, font=FONT(size=13), anchor="mm")
                    break
    try:
        with replacing(path) as temporary:
            _with_legend(picture, landmarks).save(temporary)
    except ValueError:
        raise InputError(f"cannot write a picture as '{path.suffix}': use .png or .jpg: {path}") from None
    return path


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _with_legend(picture: PIL.Image.Image, landmarks: Sequence[Landmark]) -> PIL.Image.Image:
    """The picture below a line that says which colour is what, and how many there are of each."""
    counts = Counter(landmark.category for landmark in landmarks)
    entries = [(plural(counts[name], name.replace("_", " ")), color) for name, color in COLORS.items() if counts[name]]
    sheet = PIL.Image.new("RGB", (picture.width, picture.height + LEGEND), BACKGROUND)
    sheet.paste(picture, (0, LEGEND))
    pen, font = ImageDraw.Draw(sheet), FONT(size=15)
    left = 10.0
    for words, color in entries or [("no landmark found", TEXT)]:
        pen.text((left, LEGEND / 2), words, fill=color, font=font, anchor="lm")
        left += pen.textlength(words, font=font) + 18
    return sheet
