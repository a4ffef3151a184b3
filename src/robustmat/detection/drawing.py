"""Pictures of detections: the image with a box, its category's colour and the confidence of each landmark."""

from collections.abc import Sequence
from pathlib import Path

import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.errors import InputError
from robustmat.files import replacing
from robustmat.types import Image, Landmark

COLORS = {
    "traffic_sign": (255, 70, 70),
    "traffic_light": (255, 220, 0),
    "pole": (60, 230, 90),
    "window": (70, 160, 255),
}
LARGEST_SIDE = 2000  # pixels of the picture; a larger image is shown smaller


def draw_landmarks(image: Image, landmarks: Sequence[Landmark], path: Path | str) -> Path:
    """Write a picture of the image and its landmarks (.png or .jpg)."""
    path = Path(path)
    picture = PIL.Image.fromarray(image)
    ratio = min(1.0, LARGEST_SIDE / max(picture.size))
    if ratio < 1:
        picture = picture.resize((max(round(picture.width * ratio), 1), max(round(picture.height * ratio), 1)))
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=11)
    for landmark in landmarks:
        x0, y0, x1, y1 = (edge * ratio for edge in landmark.box)
        color = COLORS[landmark.category]
        pen.rectangle((x0 - 1, y0 - 1, max(x1, x0), max(y1, y0)), outline=color, width=2)
        if landmark.confidence is not None:
            at = (x0 - 1, y0 - 13 if y0 > 14 else y1 + 1)
            pen.text(at, f"{landmark.confidence:.2f}", fill=color, font=font, stroke_width=1, stroke_fill=(0, 0, 0))
    try:
        with replacing(path) as temporary:
            picture.save(temporary)
    except ValueError:
        raise InputError(f"cannot write a picture as '{path.suffix}': use .png or .jpg: {path}") from None
    return path
