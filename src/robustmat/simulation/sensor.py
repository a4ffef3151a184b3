"""What a real camera adds: haze on the way, lens blur, glow around bright sky, dark corners, grain."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from robustmat.simulation.looks import Look
from robustmat.simulation.opencv import blended, blurred, looked_up, resized, shrunk, to_bytes
from robustmat.types import Image


def through_air(image: Image, near: NDArray[np.float32], look: Look) -> Image:
    """Haze by distance; sky (near = 0) keeps its own colour."""
    depth = 1.0 / np.maximum(near, 1e-3)
    clear = np.exp(depth * np.float32(-1.0 / look.haze_distance))
    clear[near <= 0] = 1.0
    veil = np.empty_like(image)
    veil[:] = np.round(255 * np.asarray(look.haze))
    return blended(image, veil, clear)


def expose(image: Image, look: Look, rng: np.random.Generator) -> Image:
    """The picture that the sensor gives of a scene: same generator, same grain."""
    height, width = image.shape[:2]
    exposure = rng.uniform(*look.exposures)
    white = 1 + rng.normal(0, 0.012, 3)
    levels = np.arange(256) / 255.0
    curve = 0.5 + (levels[:, None] * exposure * white - 0.5) * look.contrast
    curve = np.clip(curve, 0, None)
    curve = np.where(curve > 0.8, 0.8 + 0.2 * np.tanh((curve - 0.8) / 0.2 * 0.9) / np.tanh(0.95), curve)  # soft whites
    table = np.clip(np.round(curve * 255), 0, 255).astype(np.uint8)[:, None, :]
    image = looked_up(image, table)
    small = shrunk(image, (max(width // 8, 1), max(height // 8, 1)))
    bright = np.maximum(small.astype(np.float32) - 200, 0)
    glow = resized(blurred(bright, 3.0), (width, height))
    soft = blurred(image, look.blur * max(width / 1242, 0.6)).astype(np.float32)
    soft += 0.35 * glow
    if look.saturation != 1.0:
        grey = soft.mean(axis=2, keepdims=True)
        soft = grey + look.saturation * (soft - grey)
    # Photon noise grows with the root of the light.
    strength = np.sqrt(soft[:, :, 1] * np.float32(1 / 170) + np.float32(0.25)) * np.float32(look.noise)
    soft += _cut_grain(height, width, rng) * strength[..., None]
    soft *= _corners(height, width)
    return to_bytes(np.maximum(soft, 0))


def _cut_grain(height: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Fresh-looking noise at the price of a copy: a random cut of one large sheet."""
    y, x = (int(v) for v in rng.integers(0, 97, 2))
    return _sheet(height + 97, width + 97)[y : y + height, x : x + width]


@lru_cache(maxsize=4)
def _sheet(height: int, width: int) -> NDArray[np.float32]:
    return np.random.default_rng(5).standard_normal((height, width, 3), dtype=np.float32)


@lru_cache(maxsize=4)
def _corners(height: int, width: int) -> NDArray[np.float32]:
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    return (1 - 0.10 * (x**2 + 0.25 * y**2)).astype(np.float32)[..., None]
