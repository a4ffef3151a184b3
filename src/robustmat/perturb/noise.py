"""White Gaussian noise of an exact strength, and the search that finds it.

Strength is the peak signal-to-noise ratio against the clean frame, measured on what is really stored: after
clipping to 0..255 and rounding. Clipping eats a part of the noise, so the power is searched, not computed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robustmat.types import Image

Pixels = NDArray[np.float32]  # [H, W, 3], 0 to 255, not rounded

# A search looks at no more values than these: the PSNR of a whole frame is then known to about 0.05 dB,
# and the search costs less than drawing the noise does.
SEARCH_VALUES = 60_000


def psnr(clean: Image, other: Image) -> float:
    """Peak signal-to-noise ratio in decibels; infinite for equal images."""
    error = mean_square(clean.astype(np.float32), other.astype(np.float32))
    return float("inf") if error == 0 else to_psnr(error)


def mean_square(clean: Pixels, other: Pixels) -> float:
    return float(np.mean(np.square(other - clean), dtype=np.float64))


def to_psnr(mean_square_error: float) -> float:
    return float(10 * np.log10(255.0**2 / mean_square_error))


def to_mean_square(decibels: float) -> float:
    return float(255.0**2 / 10 ** (decibels / 10))


def stored(pixels: Pixels) -> Pixels:
    """The values that an 8-bit image keeps of `pixels`."""
    return np.rint(np.clip(pixels, 0, 255))


def awgn(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Additive white Gaussian noise, independent in each channel, at `level` dB."""
    return add_noise(pixels, pixels, level, rng)


def add_noise(clean: Pixels, pixels: Pixels, decibels: float, rng: np.random.Generator) -> Pixels:
    """Add white noise to `pixels` until their PSNR against `clean` is the target.

    Every target down to 8 dB can be met on any frame: noise without limit turns each value into 0 or 255,
    which is 6 dB or worse whatever the frame shows. Pixels that are already further off stay as they are.
    """
    noise = rng.standard_normal(pixels.shape, dtype=np.float32)
    chosen = sample(pixels.size, rng)
    at = (clean.reshape(-1)[chosen], pixels.reshape(-1)[chosen], noise.reshape(-1)[chosen])
    sigma = find_strength(
        lambda strength: mean_square(at[0], stored(at[1] + np.float32(strength) * at[2])),
        to_mean_square(decibels),
        highest=4096.0,
    )
    noise *= np.float32(sigma)
    noise += pixels
    return noise


def scale_change(clean: Pixels, changed: Pixels, decibels: float, rng: np.random.Generator) -> Pixels:
    """Weaken or strengthen a change, as a whole, until its PSNR is the target.

    Where a change cannot reach it (light rain on a white wall leaves it white), it is made as strong as
    `highest` allows and the rest is left to the noise.
    """
    change = changed - clean
    chosen = sample(clean.size, rng)
    at = (clean.reshape(-1)[chosen], change.reshape(-1)[chosen])
    strength = find_strength(
        lambda factor: mean_square(at[0], stored(at[0] + np.float32(factor) * at[1])),
        to_mean_square(decibels),
        highest=3.0,
    )
    change *= np.float32(strength)
    change += clean
    return np.clip(change, 0, 255, out=change)


def sample(size: int, rng: np.random.Generator) -> NDArray[np.intp] | slice:
    """Which values a search looks at: all of a small image, a random subset of a large one."""
    return slice(None) if size <= SEARCH_VALUES else rng.integers(0, size, SEARCH_VALUES, dtype=np.intp)


def find_strength(error: Callable[[float], float], target: float, highest: float) -> float:
    """The strength in [0, highest] whose error is the target, by bisection on a rising function.

    0 if even no strength is above the target, `highest` if even that stays below it.
    """
    low, high = 0.0, highest
    if error(low) >= target:
        return low
    if error(high) <= target:
        return high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < target else (low, middle)
    return (low + high) / 2
