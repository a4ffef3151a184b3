"""Rain, snow, fog, and drops on the lens.

Each function takes float pixels [H, W, 3] in 0..255, a severity from 1 to 5 and a random generator. The
generator always draws the worst case and the severity decides how much of it is shown, so that a higher
severity is the same weather, stronger. Sizes follow the height of the frame.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.perturb.noise import Pixels

Layer = NDArray[np.float32]  # [H, W], opacity from 0 to 1

# Streaks and flakes fly at several depths: (share of all, size, opacity).
RAIN_DEPTHS = ((0.70, 0.6, 0.35), (0.22, 1.0, 0.55), (0.08, 1.8, 0.75))
SNOW_DEPTHS = ((0.72, 0.5, 0.65), (0.22, 0.9, 0.85), (0.06, 1.4, 0.95))


def rain(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Slanted bright streaks at several depths, under a sky that takes contrast away."""
    height, width = pixels.shape[:2]
    slant = rng.normal(0, 0.2)
    layer = np.zeros((height, width), dtype=np.float32)
    for share, size, opacity in RAIN_DEPTHS:
        long = max(3.0, size * height / 12)
        starts, jitter = _scatter(rng, share * _crowd(pixels, 900), (height, width))
        shown = _shown(len(starts), level)
        angle = slant + 0.04 * jitter[:shown, 0]
        steps = (long * (1 + 0.3 * jitter[:shown, 1:2])) * np.stack([np.sin(angle), np.cos(angle)], axis=1)
        thickness = max(1, round(size * height / 450))
        layer = np.maximum(layer, opacity * _lines(layer.shape, starts[:shown], steps, thickness))
    soft = np.asarray(cv2.GaussianBlur(layer, (3, 3), 0), dtype=np.float32)
    return _cover(_veil(pixels, 0.035 * level, 165), soft, (205, 210, 215))


def snow(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Soft white flakes at several depths in pale air."""
    height, width = pixels.shape[:2]
    slant = rng.normal(0.3, 0.5)
    layer = np.zeros((height, width), dtype=np.float32)
    for share, size, opacity in SNOW_DEPTHS:
        thickness = max(1, round(size * height / 90))
        starts, jitter = _scatter(rng, share * _crowd(pixels, 1500), (height, width))
        shown = _shown(len(starts), level)
        steps = 1.2 * thickness * np.stack([slant + 0.5 * jitter[:shown, 0], np.ones(shown)], axis=1)
        flakes = cv2.GaussianBlur(_lines(layer.shape, starts[:shown], steps, thickness), (0, 0), 0.3 + size)
        layer = np.maximum(layer, opacity * flakes)
    return _cover(_veil(pixels, 0.06 * level, 215), layer, (245, 247, 250))


def fog(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Pale air that swallows what is far: thickest at the horizon, thin on the road right ahead."""
    height, width = pixels.shape[:2]
    rows = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    distance = np.where(rows < 0.5, 1.0, 1.0 - 1.1 * (rows - 0.5))
    density = distance * (1 + 0.2 * _smooth_noise(rng, (height, width), height / 4))
    opacity = 1 - np.exp(-0.3 * level * np.clip(density, 0, None))
    return _cover(pixels, opacity.astype(np.float32), (208, 212, 216))


def spatter(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Water or mud on the lens: blurred drops with a lit upper edge, or brown opaque stains."""
    height, width = pixels.shape[:2]
    mud = rng.random() < 0.4
    field = 0.8 * _smooth_noise(rng, (height, width), height / 45)
    field += 0.6 * _smooth_noise(rng, (height, width), height / 14)
    edge = float(np.quantile(field[:: max(1, height // 100)], 1 - 0.035 * level))
    layer = np.clip((field - edge) / 0.25, 0, 1)
    if mud:
        return _cover(pixels, 0.9 * layer, (74, 58, 40))
    light = 55 * np.clip(cv2.Sobel(layer, cv2.CV_32F, 0, 1, ksize=3), -1, 1)
    small = cv2.resize(pixels, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    blurred = cv2.resize(cv2.GaussianBlur(small, (0, 0), max(0.5, height / 160)), (width, height))
    water = 0.6 * blurred + cv2.merge([light + 79, light + 82, light + 86])
    return _blend(pixels, water, 0.85 * layer)


def _crowd(pixels: Pixels, most: int) -> float:
    """How many drops fly at severity 5: by the frame's shape, since their sizes follow its height."""
    height, width = pixels.shape[:2]
    return float(most * width / height / 3)


def _shown(drawn: int, level: float) -> int:
    return max(1, round(drawn * level / 5))


def _scatter(
    rng: np.random.Generator, count: float, shape: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Random places (x, y) over the frame and a little above it, and two normal numbers for each."""
    number = max(5, round(count))
    places = rng.uniform((0, -0.1), (1, 1), (number, 2)) * (shape[1], shape[0])
    return places, np.clip(rng.standard_normal((number, 2)), -2, 2)


def _lines(shape: tuple[int, ...], starts: NDArray[np.float64], steps: NDArray[np.float64], thickness: int) -> Layer:
    """Smooth line pieces from `starts` by `steps`, as opacity."""
    canvas = np.zeros(shape, dtype=np.uint8)
    ends = np.stack([starts, starts + steps], axis=1)  # [N, 2, 2]
    cv2.polylines(canvas, list(np.rint(16 * ends).astype(np.int32)), False, 255, thickness, cv2.LINE_AA, 4)
    return canvas.astype(np.float32) / np.float32(255)


def _smooth_noise(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> Layer:
    """Random hills about `scale` pixels wide, of mean 0 and deviation 1."""
    step = max(1.0, scale / 2)
    rows, columns = (max(3, int(np.ceil(side / step)) + 1) for side in shape)
    coarse = cv2.GaussianBlur(rng.standard_normal((rows, columns), dtype=np.float32), (0, 0), 1.0)
    coarse = (coarse - coarse.mean()) / max(float(coarse.std()), 1e-6)
    wide = cv2.resize(coarse, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC)
    return np.asarray(wide, dtype=np.float32)


def _veil(pixels: Pixels, opacity: float, shade: float) -> Pixels:
    """Lay an even pale veil over the frame."""
    return pixels + np.float32(opacity) * (np.float32(shade) - pixels)


def _cover(pixels: Pixels, opacity: Layer, colour: tuple[float, float, float]) -> Pixels:
    return _blend(pixels, np.full_like(pixels, colour), opacity)


def _blend(pixels: Pixels, other: Pixels, opacity: Layer) -> Pixels:
    """`other` over `pixels`; OpenCV does it several times faster than broadcasting over three channels."""
    return np.asarray(cv2.blendLinear(pixels, other, 1 - opacity, opacity), dtype=np.float32)
