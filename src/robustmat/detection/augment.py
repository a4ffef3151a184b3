"""Crops of labelled images as the network sees them in training: another size, another light, a worse camera."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.detection.labels import CHANNELS, UNKNOWN, LabelledImage
from robustmat.types import CATEGORIES

Floats = NDArray[np.float32]
SMALLEST_SHARE = 0.35  # of a crop, that an image must fill to stand in it alone


def draw_crop(
    labelled: LabelledImage, size: tuple[int, int], scale: float, focus: float, rng: np.random.Generator
) -> LabelledImage:
    """A piece of the image at `scale`, at most `size` (width, height) large, mirrored half of the time."""
    height, width = labelled.target.shape
    wide, tall = min(round(size[0] / scale), width), min(round(size[1] / scale), height)
    left, top = _corner(labelled, (wide, tall), focus, rng)
    window = slice(top, top + tall), slice(left, left + wide)
    shape = (min(round(wide * scale), size[0]), min(round(tall * scale), size[1]))
    shape = (max(shape[0], 8), max(shape[1], 8))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    image = cv2.resize(labelled.image[window], shape, interpolation=how)
    # Bits cannot be averaged: what is thin keeps to its nearest pixels, enlarged first where the image shrinks.
    planes = [
        image,
        *(
            cv2.resize(plane[window], shape, interpolation=cv2.INTER_NEAREST_EXACT)
            for plane in (labelled.target, labelled.known, labelled.semantics)
        ),
    ]
    step = -1 if rng.random() < 0.5 else 1
    return LabelledImage(*(np.ascontiguousarray(plane[:, ::step], np.uint8) for plane in planes))


def _corner(
    labelled: LabelledImage, window: tuple[int, int], focus: float, rng: np.random.Generator
) -> tuple[int, int]:
    height, width = labelled.target.shape
    most = width - window[0], height - window[1]
    left, top = int(rng.integers(most[0] + 1)), int(rng.integers(most[1] + 1))
    if rng.random() < focus:
        present = [c for c in range(len(CATEGORIES)) if (labelled.target & labelled.known & (1 << c)).any()]
        if present:
            channel = int(rng.choice(present))  # each category alike: signs and lights are rare
            covered = np.flatnonzero(labelled.target & labelled.known & (1 << channel))
            y, x = divmod(int(rng.choice(covered)), width)
            left = int(np.clip(x - rng.integers(window[0]), 0, most[0]))
            top = int(np.clip(y - rng.integers(window[1]), 0, most[1]))
    return left, top


def fill_canvas(pieces: list[LabelledImage], size: tuple[int, int], rng: np.random.Generator) -> LabelledImage:
    """The pieces side by side on a canvas of `size`; what stays empty is unknown."""
    width, height = size
    canvas = LabelledImage(
        rng.integers(0, 256, (1, 1, 3)).astype(np.uint8).repeat(height, 0).repeat(width, 1),
        np.zeros((height, width), np.uint8),
        np.zeros((height, width), np.uint8),
        np.full((height, width), UNKNOWN, np.uint8),
    )
    left = 0
    for piece in pieces:
        tall, wide = piece.target.shape
        wide = min(wide, width - left)
        if wide <= 0:
            break
        top = int(rng.integers(height - tall + 1))
        window = slice(top, top + tall), slice(left, left + wide)
        canvas.image[window] = piece.image[:, :wide]
        canvas.target[window] = piece.target[:, :wide]
        canvas.known[window] = piece.known[:, :wide]
        canvas.semantics[window] = piece.semantics[:, :wide]
        left += wide
    return canvas


def change_look(image: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Other light and colours, then what lenses, sensors and files do to an image."""
    pixels = image.astype(np.float32)
    if rng.random() < 0.9:
        pixels = _other_colors(pixels, rng)
    if rng.random() < 0.35:
        pixels = _blurred(pixels, rng)
    if rng.random() < 0.15:  # haze: farther up in the image, more of it
        veil = rng.uniform(0.1, 0.6) * np.linspace(1, rng.uniform(0, 1), len(pixels), dtype=np.float32)[:, None, None]
        pixels = pixels * (1 - veil) + veil * np.float32(rng.uniform(120, 240))
    if rng.random() < 0.5:
        sigma = rng.uniform(1, 10) if rng.random() < 0.7 else rng.uniform(10, 35)
        pixels = pixels + rng.normal(0, sigma, pixels.shape).astype(np.float32)
    changed = np.clip(pixels, 0, 255).astype(np.uint8)
    if rng.random() < 0.4:
        quality = int(rng.integers(25, 90))
        coded = cv2.imencode(".jpg", changed, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        changed = np.asarray(
            cv2.imdecode(coded, cv2.IMREAD_COLOR), np.uint8
        )  # the channels' order goes in and comes out the same
    return changed


def _other_colors(pixels: Floats, rng: np.random.Generator) -> Floats:
    pixels = 255 * np.power(np.clip(pixels / 255, 0, 1), np.float32(np.exp(rng.normal(0, 0.25))))
    pixels = pixels * np.float32(np.exp(rng.normal(0, 0.2))) * np.exp(rng.normal(0, 0.1, 3)).astype(np.float32)
    mean = pixels.mean(axis=(0, 1), keepdims=True)
    pixels = (pixels - mean) * np.float32(np.exp(rng.normal(0, 0.2))) + mean
    grey = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    colorful = 0.0 if rng.random() < 0.06 else np.exp(rng.normal(0, 0.35))
    pixels = grey[:, :, None] + np.float32(colorful) * (pixels - grey[:, :, None])
    if rng.random() < 0.15:
        pixels = pixels + rng.uniform(-20, 20, 3).astype(np.float32)
    return np.asarray(pixels, np.float32)


def _blurred(pixels: Floats, rng: np.random.Generator) -> Floats:
    if rng.random() < 0.6:
        return np.asarray(cv2.GaussianBlur(pixels, (0, 0), rng.uniform(0.4, 1.8)), np.float32)
    length = int(rng.integers(3, 9))
    kernel = np.zeros((length, length), np.float32)
    middle = (length - 1) / 2
    angle = rng.uniform(-0.4, 0.4)
    for step in np.linspace(-middle, middle, 2 * length):
        kernel[round(middle + step * np.sin(angle)), round(middle + step * np.cos(angle))] = 1
    return np.asarray(cv2.filter2D(pixels, -1, kernel / kernel.sum()), np.float32)


def halved(labelled: LabelledImage) -> tuple[Floats, Floats]:
    """Targets and weights [CHANNELS, H/2, W/2]: the share of each cell's known pixels that is covered, and known."""
    planes = []
    for channel in range(len(CHANNELS)):
        known = ((labelled.known >> channel) & 1).astype(np.float32)
        weight = _pooled(known)
        planes.append((_pooled(known * ((labelled.target >> channel) & 1)) / np.maximum(weight, 0.25), weight))
    return np.stack([target for target, _ in planes]), np.stack([weight for _, weight in planes])


def _pooled(plane: Floats) -> Floats:
    """Means of 2 x 2 pixels."""
    return 0.25 * (plane[::2, ::2] + plane[1::2, ::2] + plane[::2, 1::2] + plane[1::2, 1::2])
