"""What denoising is worth: PSNR before and after on clean frames that are perturbed here, and a sheet to look at."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.denoising.crops import middle_crop
from robustmat.denoising.protocol import Denoiser
from robustmat.perturb import Perturbation, perturb_image, psnr
from robustmat.progress import Progress, silent
from robustmat.types import Frame, Image

CELL = (240, 480)  # rows and columns of a frame that a sheet shows: the middle, pixel by pixel
MARGIN, CAPTION = 8, 22
PAPER, INK, GREY = (250, 250, 250), (20, 20, 20), (110, 110, 110)


@dataclass(frozen=True)
class Gain:
    """Mean PSNR over the frames, in dB, before and after denoising."""

    perturbation: str
    denoiser: str
    frames: int
    before: float
    after: float
    least_gain: float  # of a single frame

    @property
    def gain(self) -> float:
        return self.after - self.before

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "gain": self.gain}


def measure_denoisers(
    denoisers: Sequence[Denoiser],
    frames: Sequence[Frame],
    perturbations: Sequence[Perturbation],
    seed: int = 0,
    progress: Progress = silent,
) -> list[Gain]:
    """Every denoiser under every perturbation, on the same noisy frames."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for frame in progress(frames, "denoising frames"):
        clean = frame.image
        for kind in perturbations:
            noisy = perturb_image(clean, kind, seed, frame.name)
            for number, denoiser in enumerate(denoisers):
                pair = _psnr(clean, noisy), _psnr(clean, denoiser.denoise(noisy))
                found.setdefault((str(kind), number), []).append(pair)
    gains = []
    for (kind_name, number), pairs in found.items():
        before, after = np.array(pairs).T
        least = float((after - before).min())
        gains.append(
            Gain(kind_name, denoisers[number].name, len(pairs), float(before.mean()), float(after.mean()), least)
        )
    return gains


def draw_sheet(
    denoisers: Sequence[Denoiser],
    image: Image,
    perturbations: Sequence[Perturbation],
    seed: int = 0,
    key: str = "sheet",
) -> Image:
    """A row for each perturbation: clean, noisy, then each denoiser's; the middle of the frame, pixel by pixel."""
    clean = middle_crop(image, *CELL)
    height, width = clean.shape[:2]
    step_x, step_y = width + MARGIN, height + CAPTION + MARGIN
    size = MARGIN + (2 + len(denoisers)) * step_x, MARGIN + len(perturbations) * step_y
    sheet = PIL.Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=16)
    for row, kind in enumerate(perturbations):
        noisy = perturb_image(image, kind, seed, key)
        shown = [("clean", image), (str(kind), noisy), *((one.name, one.denoise(noisy)) for one in denoisers)]
        for column, (title, pixels) in enumerate(shown):
            x, y = MARGIN + column * step_x, MARGIN + row * step_y
            sheet.paste(PIL.Image.fromarray(middle_crop(pixels, *CELL)), (x, y + CAPTION))
            pen.text((x, y), title, fill=INK, font=font)
            if column:
                pen.text((x + width, y), f"{psnr(image, pixels):.1f} dB", fill=GREY, font=font, anchor="ra")
    return np.asarray(sheet)


def _psnr(clean: Image, other: Image) -> float:
    return min(psnr(clean, other), 99.0)  # equal images have none; a mean needs a number
