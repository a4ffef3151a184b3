"""Changes of light, colour and sharpness over the whole frame.

Each function takes float pixels [H, W, 3] in 0..255, a severity from 1 to 5 and a random generator. What
the generator decides (brighter or darker, direction of the blur) does not depend on the severity, so that
a higher severity is the same change, stronger.
"""

import cv2
import numpy as np

from robustmat.perturb.noise import Pixels

GREY = (0.299, 0.587, 0.114)  # how much each of red, green, blue counts in what the eye calls bright


def brightness(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Brighter or darker by up to two thirds of the room there is."""
    keep = np.float32(1 - 0.13 * level)
    if rng.random() < 0.5:
        return pixels * keep
    return 255 - (255 - pixels) * keep


def saturation(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Paler or more garish; a grey frame stays what it is."""
    factor = 1 - 0.19 * level if rng.random() < 0.5 else 1 + 0.35 * level
    matrix = factor * np.eye(3) + (1 - factor) * np.tile(GREY, (3, 1))
    changed = np.asarray(cv2.transform(pixels, matrix), dtype=np.float32)
    return np.clip(changed, 0, 255, out=changed)


def dusk(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Late evening: dark, bluish, darker towards the corners, with the sensor's noise."""
    height, width = pixels.shape[:2]
    down, across = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)[None]
    vignette = (1 - 0.06 * level * (down**2 + across**2) / 2)[..., None].astype(np.float32)
    tint = np.array([1 - 0.05 * level, 1 - 0.03 * level, 1.0], dtype=np.float32)
    gain, gamma = np.float32(1 - 0.12 * level), np.float32(1 + 0.12 * level)
    dark = 255 * gain * np.power(pixels / 255, gamma) * tint * vignette
    return dark + np.float32(1.5 * level) * rng.standard_normal(pixels.shape, dtype=np.float32)


def motion_blur(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """The camera moves while the shutter is open, mostly sideways."""
    angle = rng.normal(0, 0.2)
    length = 0.4 * level + level * max(pixels.shape[:2]) / 270
    blurred = cv2.filter2D(pixels, -1, line_kernel(length, angle), borderType=cv2.BORDER_REFLECT_101)
    return np.asarray(blurred, dtype=np.float32)


def line_kernel(length: float, angle: float) -> Pixels:
    """A blur kernel [S, S] along a line of `length` pixels, which need not be whole, of sum one."""
    half = int(np.ceil(length / 2)) + 1
    kernel = np.zeros((2 * half + 1, 2 * half + 1), dtype=np.float32)
    steps = np.linspace(-length / 2, length / 2, 16 * half + 1)
    x, y = half + steps * np.cos(angle), half + steps * np.sin(angle)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):  # each point is shared by the four pixels around it
        share = (1 - np.abs(x - left - column)) * (1 - np.abs(y - top - row))
        np.add.at(kernel, (top + row, left + column), share)
    kernel /= kernel.sum()
    return kernel
