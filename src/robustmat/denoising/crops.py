"""What a denoiser learns from: crops of frames, noisy and clean, drawn by seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError
from robustmat.perturb import Perturbation, parse, perturb_image
from robustmat.progress import Progress, silent
from robustmat.types import Frame, Image

Pixels = NDArray[np.float32]  # [B, 3, H, W], 0 to 255


@dataclass(frozen=True)
class NoisyFrames:
    """Clean frames, each with several perturbed copies."""

    clean: tuple[Image, ...]
    noisy: tuple[tuple[Image, ...], ...]  # per frame


def perturbed_copies(
    frames: Sequence[Frame],
    perturbations: Sequence[str],
    white_noise: tuple[float, float] | None,
    views: int,
    seed: int,
    progress: Progress = silent,
) -> NoisyFrames:
    """Perturb whole frames, since weather is larger than a crop.

    Args:
        perturbations: frames and copies take turns through them.
        white_noise: every second copy has white noise alone, of a random strength between these decibels; None for no
            such copies.
    """
    kinds = [parse(name) for name in perturbations]
    clean, noisy = [], []
    for number, frame in enumerate(progress(frames, "perturbing frames")):
        image = frame.image
        rng = np.random.default_rng([seed, number])
        copies = []
        for view in range(views):
            turn = number * views + view
            kind = kinds[turn % len(kinds)]
            if white_noise is not None:
                white = Perturbation("awgn", float(rng.uniform(*white_noise)))
                kind = white if turn % 2 else kinds[turn // 2 % len(kinds)]
            copies.append(perturb_image(image, kind, seed + view, f"{number}/{frame.name}"))
        clean.append(image)
        noisy.append(tuple(copies))
    return NoisyFrames(tuple(clean), tuple(noisy))


def draw_crops(
    frames: NoisyFrames, count: int, side: int, grey_share: float, rng: np.random.Generator
) -> tuple[Pixels, Pixels]:
    """`count` noisy crops and their clean ones, mirrored half of the time; the same `rng`, the same crops.

    A share of them is grey, with one channel's noise in all three, as a grey camera's frames have it.
    """
    noisy: list[Image] = []
    clean: list[Image] = []
    for _ in range(count):
        number = int(rng.integers(len(frames.clean)))
        image = frames.clean[number]
        copy = frames.noisy[number][int(rng.integers(len(frames.noisy[number])))]
        height, width = image.shape[:2]
        if min(height, width) < side:
            raise DataError(f"a frame of {width} x {height} pixels is smaller than the crops of {side} x {side}")
        top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
        step = int(rng.choice((-1, 1)))
        channels = np.full(3, rng.integers(3)) if rng.random() < grey_share else np.arange(3)
        for crops, source in ((noisy, copy), (clean, image)):
            crops.append(source[top : top + side, left : left + side][:, ::step, channels].transpose(2, 0, 1))
    shown, wanted = (np.ascontiguousarray(np.stack(crops)).astype(np.float32) for crops in (noisy, clean))
    return shown, wanted


def middle_crop(image: Image, height: int, width: int) -> Image:
    """The middle of an image, no larger than this."""
    top, left = max(0, image.shape[0] - height) // 2, max(0, image.shape[1] - width) // 2
    return np.ascontiguousarray(image[top : top + height, left : left + width])
