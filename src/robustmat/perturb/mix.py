"""The paper's noise: weather and light together, then white noise to an exact PSNR."""

import numpy as np

from robustmat.perturb.light import brightness, saturation
from robustmat.perturb.noise import Pixels, add_noise, scale_change
from robustmat.perturb.weather import rain, spatter

WEATHER_DECIBELS = 22.0


def paper(pixels: Pixels, level: float, rng: np.random.Generator) -> Pixels:
    """Light, colour, rain and a spattered lens, scaled together to 22 dB, then white noise to `level` dB.

    How much each of the four has in the mix differs from frame to frame. On a frame where the four
    together cannot reach 22 dB, the white noise makes up for it, so the target holds on any frame.
    """
    changed = brightness(pixels, rng.uniform(0.5, 2.0), rng)
    changed = saturation(changed, rng.uniform(1.0, 3.0), rng)
    changed = rain(changed, rng.uniform(1.5, 4.0), rng)
    changed = spatter(changed, rng.uniform(1.0, 3.5), rng)
    return add_noise(pixels, scale_change(pixels, changed, WEATHER_DECIBELS, rng), level, rng)
