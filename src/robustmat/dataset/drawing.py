"""Pictures of frames and landmark pairs for contact sheets."""

import colorsys
from collections.abc import Mapping, Sequence

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.geometry.projection import project
from robustmat.geometry.transforms import invert, transform
from robustmat.types import Array, Frame, Image, Landmark

Color = tuple[int, int, int]

FRAME_WIDTH = 900  # pixels of a frame on a sheet
PATCH_SIZE = 190  # pixels of a landmark on a sheet of pairs
NEAREST_POINT, FARTHEST_POINT = 3.0, 60.0  # metres; the colours of LiDAR points run from red to blue between them
UNKNOWN_COLOR: Color = (190, 190, 190)
INITIAL = {"traffic_sign": "S", "traffic_light": "L", "pole": "P", "window": "W"}


def identity_color(identity: int | None) -> Color:
    """A bright colour that stays with an identity; neighbours in number are far apart in hue."""
    if identity is None:
        return UNKNOWN_COLOR
    red, green, blue = colorsys.hsv_to_rgb((identity * 0.381966) % 1.0, 0.85, 1.0)
    return (int(255 * red), int(255 * green), int(255 * blue))


def draw_frame(frame: Frame, places: Mapping[int, Array], points: Array | None = None) -> Image:
    """A frame with its landmarks: coloured by identity, thin grey without one.

    A cross marks where the identity's place in the world falls in this frame: on its object, if all is well.
    `points` [N, 3] are the pixels and depths of LiDAR points, red near and blue far.
    """
    picture = PIL.Image.fromarray(frame.image)
    ratio = FRAME_WIDTH / picture.width
    picture = picture.resize((FRAME_WIDTH, max(1, round(picture.height * ratio))))
    pen = ImageDraw.Draw(picture)
    for x, y, depth in [] if points is None else points.tolist():
        pen.point((x * ratio, y * ratio), fill=depth_color(depth))
    font = ImageFont.load_default(size=13)
    for landmark in sorted(frame.landmarks, key=lambda one: one.identity is not None):
        color = identity_color(landmark.identity)
        x0, y0, x1, y1 = (edge * ratio for edge in landmark.box)
        known = landmark.identity is not None
        pen.rectangle((x0 - 2, y0 - 2, x1 + 1, y1 + 1), outline=color, width=2 if known else 1)
        if known:
            label = f"{INITIAL[landmark.category]}{landmark.identity}"
            at = (x0 - 2, y0 - 17 if y0 > 18 else y1 + 2)
            pen.text(at, label, fill=color, font=font, stroke_width=2, stroke_fill=(0, 0, 0))
            _cross(pen, frame, landmark, places, ratio)
    pen.text((6, 4), frame.name, fill=(255, 255, 255), font=font, stroke_width=2, stroke_fill=(0, 0, 0))
    return np.asarray(picture)


def _cross(
    pen: ImageDraw.ImageDraw, frame: Frame, landmark: Landmark, places: Mapping[int, Array], ratio: float
) -> None:
    place = None if landmark.identity is None else places.get(landmark.identity)
    if place is None or frame.camera is None or frame.T_world_camera is None:
        return
    point = transform(invert(frame.T_world_camera), place[None])
    pixels, _, _ = project(point, frame.camera)
    for x, y in (pixels * ratio).tolist():
        pen.line((x - 5, y, x + 5, y), fill=(255, 255, 255), width=1)
        pen.line((x, y - 5, x, y + 5), fill=(255, 255, 255), width=1)


def depth_color(depth: float) -> Color:
    """Red near, blue far, evenly by the logarithm of the distance."""
    share = np.log(np.clip(depth, NEAREST_POINT, FARTHEST_POINT) / NEAREST_POINT)
    hue = 0.66 * float(share) / float(np.log(FARTHEST_POINT / NEAREST_POINT))
    red, green, blue = colorsys.hsv_to_rgb(hue, 1.0, 1.0)
    return (int(255 * red), int(255 * green), int(255 * blue))


def draw_pair(frame_a: Frame, a: int, frame_b: Frame, b: int, number: int | None = None) -> Image:
    """Two landmarks side by side in their surroundings, with what they are said to be written underneath."""
    first, second = frame_a.landmarks[a], frame_b.landmarks[b]
    color = identity_color(first.identity)
    size, caption = PATCH_SIZE, 34
    picture = PIL.Image.new("RGB", (2 * size + 4, size + caption), (24, 24, 24))
    for column, (frame, landmark) in enumerate(((frame_a, first), (frame_b, second))):
        picture.paste(_surroundings(frame.image, landmark, color), (column * (size + 4), 0))
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=13)
    apart = ""
    if frame_a.T_world_camera is not None and frame_b.T_world_camera is not None:
        metres = np.linalg.norm(frame_a.T_world_camera[:3, 3] - frame_b.T_world_camera[:3, 3])
        apart = f", {metres:.1f} m apart"
    title = f"{first.category} {first.identity}{apart}"
    pen.text((3, size + 2), title if number is None else f"#{number}  {title}", fill=color, font=font)
    pen.text((3, size + 17), f"{frame_a.name} | {frame_b.name}", fill=(200, 200, 200), font=font)
    return np.asarray(picture)


def _surroundings(image: Image, landmark: Landmark, color: Color) -> PIL.Image.Image:
    """A square cut around the landmark, enlarged, its box drawn in: a person judges by what stands around it."""
    x0, y0, x1, y1 = landmark.box
    side = 1.35 * max(x1 - x0, y1 - y0) + 24
    left, top = (x0 + x1 - side) / 2, (y0 + y1 - side) / 2
    ratio = PATCH_SIZE / side
    cut = PIL.Image.fromarray(image).transform(
        (PATCH_SIZE, PATCH_SIZE),
        PIL.Image.Transform.AFFINE,
        (1 / ratio, 0, left, 0, 1 / ratio, top),
        resample=PIL.Image.Resampling.BICUBIC if ratio > 1 else PIL.Image.Resampling.BILINEAR,
        fillcolor=(24, 24, 24),
    )
    box = [(x0 - left) * ratio - 2, (y0 - top) * ratio - 2, (x1 - left) * ratio + 1, (y1 - top) * ratio + 1]
    ImageDraw.Draw(cut).rectangle(box, outline=color)
    return cut


def grid(pictures: Sequence[Image], columns: int, gap: int = 6) -> Image:
    """Pictures in rows, each cell as large as the largest picture."""
    height = max(picture.shape[0] for picture in pictures) + gap
    width = max(picture.shape[1] for picture in pictures) + gap
    rows = -(-len(pictures) // columns)
    sheet = np.zeros((rows * height + gap, min(columns, len(pictures)) * width + gap, 3), dtype=np.uint8)
    for number, picture in enumerate(pictures):
        y, x = gap + number // columns * height, gap + number % columns * width
        sheet[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    return sheet
