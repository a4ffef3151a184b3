"""One sheet of all named perturbations at all severities, to look at."""

import cv2
import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.perturb.named import PERTURBATIONS, Perturbation, perturb_image
from robustmat.perturb.noise import psnr
from robustmat.types import Image

SEVERITIES = (1.0, 2.0, 3.0, 4.0, 5.0)
DECIBELS = (22.0, 19.0, 16.0, 13.0, 10.0)  # from faint to strong; 19, 16 and 13 are the paper's
CELL = 400  # pixels wide
WIDEST = 2.0  # the middle of a wider image is shown: small pictures hide noise
MARGIN, CAPTION = 8, 22
PAPER, INK, GREY = (250, 250, 250), (20, 20, 20), (110, 110, 110)
EXPLANATION = (
    "Every perturbation, from weak to strong, as robustmat perturb --with NAME:LEVEL makes it (seed {seed}).",
    "awgn and paper: the level is the PSNR against the clean image, in dB; the paper's noise is 19, 16 and 13.",
    "The others: severity 1 to 5; the grey number is the PSNR that comes of it.",
)


def levels(name: str) -> tuple[float, ...]:
    """The levels of a perturbation that the gallery shows, weakest first."""
    return SEVERITIES if PERTURBATIONS[name].unit == "severity" else DECIBELS


def draw_gallery(image: Image, seed: int = 0, key: str = "gallery") -> Image:
    """A row for each perturbation, weakest level on the left, with its name and PSNR; the clean image on top.

    The whole image is perturbed, as everywhere; of a wide one the middle is shown.
    """
    clean = thumbnail(image)
    height = clean.shape[0]
    step_x, step_y = CELL + MARGIN, height + CAPTION + MARGIN
    columns, rows = len(SEVERITIES), len(PERTURBATIONS) + 1
    sheet = PIL.Image.new("RGB", (MARGIN + columns * step_x, MARGIN + rows * step_y), PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=16)

    def put(row: int, column: int, picture: Image, title: str, note: str = "") -> None:
        x, y = MARGIN + column * step_x, MARGIN + row * step_y
        sheet.paste(PIL.Image.fromarray(picture), (x, y + CAPTION))
        pen.text((x, y), title, fill=INK, font=font)
        pen.text((x + CELL, y), note, fill=GREY, font=font, anchor="ra")

    put(0, 0, clean, "clean", f"{image.shape[1]} x {image.shape[0]} pixels")
    for line, text in enumerate(EXPLANATION):
        at = (MARGIN + step_x + 12, MARGIN + CAPTION + line * 26)
        pen.text(at, text.format(seed=seed), fill=INK, font=ImageFont.load_default(size=18))
    for row, name in enumerate(PERTURBATIONS, start=1):
        for column, level in enumerate(levels(name)):
            chosen = Perturbation(name, level)
            changed = perturb_image(image, chosen, seed, key)
            put(row, column, thumbnail(changed), str(chosen), f"{psnr(image, changed):.1f} dB")
    return np.asarray(sheet)


def thumbnail(image: Image) -> Image:
    """The middle of the image, at most twice as wide as high, CELL pixels wide."""
    height, width = image.shape[:2]
    kept = min(width, max(1, round(WIDEST * height)))
    left = (width - kept) // 2
    middle = np.ascontiguousarray(image[:, left : left + kept])
    size = (CELL, max(1, round(CELL * height / kept)))
    return np.asarray(cv2.resize(middle, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
