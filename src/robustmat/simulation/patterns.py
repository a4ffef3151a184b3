"""Noise and small drawing steps that all procedural pictures share. Pictures are float RGB in 0..1 until the end."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation.opencv import resized, to_bytes
from robustmat.simulation.scene import Rgb
from robustmat.types import Image

Plane = NDArray[np.float32]  # [H, W]
Picture = NDArray[np.float32]  # [H, W, 3], 0..1


def cloud_noise(shape: tuple[int, int], rng: np.random.Generator, cell: float, octaves: int = 3) -> Plane:
    """Smooth noise of mean 0 and a deviation of about 1; `cell` is the coarsest blob in pixels."""
    height, width = shape
    total = np.zeros(shape, np.float32)
    weight, energy = 1.0, 0.0
    for _ in range(octaves):
        rows, columns = max(int(np.ceil(height / cell)), 1) + 2, max(int(np.ceil(width / cell)), 1) + 2
        grid = rng.standard_normal((rows, columns)).astype(np.float32)
        size = (max(int(columns * cell), width), max(int(rows * cell), height))
        total += weight * resized(grid, size, cv2.INTER_CUBIC)[:height, :width]
        energy += weight**2
        weight *= 0.6
        cell = max(cell / 2.3, 1.0)
    return (total / np.float32(np.sqrt(energy) * 0.8)).astype(np.float32)


def grain(shape: tuple[int, int], rng: np.random.Generator) -> Plane:
    """White noise of deviation 1."""
    return rng.standard_normal(shape, dtype=np.float32)


def filled(shape: tuple[int, int], color: Rgb) -> Picture:
    return np.broadcast_to(np.asarray(color, np.float32), (*shape, 3)).copy()


def tinted(plane: Plane, color: Rgb) -> Picture:
    return plane[..., None] * np.asarray(color, np.float32)


def to_image(picture: Picture) -> Image:
    return to_bytes(np.maximum(picture, 0.0), 255.0)


def varied(color: Rgb, rng: np.random.Generator, amount: float) -> Rgb:
    """A colour near `color`: brightness moves more than hue."""
    shade = rng.normal(0.0, amount)
    hue = rng.normal(0.0, amount * 0.35, 3)
    red, green, blue = (float(np.clip(c * (1 + shade + h), 0.02, 0.98)) for c, h in zip(color, hue, strict=True))
    return red, green, blue


def box(picture: Picture, x0: float, y0: float, x1: float, y1: float, color: Rgb) -> None:
    """Fill the rectangle (pixels, clipped) with a colour, in place."""
    height, width = picture.shape[:2]
    left, right = max(round(x0), 0), min(round(x1), width)
    top, bottom = max(round(y0), 0), min(round(y1), height)
    if left < right and top < bottom:
        picture[top:bottom, left:right] = color


def shade_box(picture: Picture, x0: float, y0: float, x1: float, y1: float, gain: float) -> None:
    height, width = picture.shape[:2]
    left, right = max(round(x0), 0), min(round(x1), width)
    top, bottom = max(round(y0), 0), min(round(y1), height)
    if left < right and top < bottom:
        picture[top:bottom, left:right] *= gain


def letter(
    picture: Picture,
    text: str,
    place: tuple[int, int],
    size: float,
    color: Rgb,
    thick: int,
    font: int = cv2.FONT_HERSHEY_DUPLEX,
) -> None:
    """Write on a picture, in place; `place` is the lower left of the text. (OpenCV writes on bytes only.)"""
    ink = np.zeros(picture.shape[:2], np.uint8)
    cv2.putText(ink, text, place, font, size, 255, thick, cv2.LINE_AA)
    share = ink[..., None].astype(np.float32) / 255
    picture += share * (np.asarray(color, np.float32) - picture)
