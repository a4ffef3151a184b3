"""Leaves, bare branches, hedges and grass, per season."""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation.patterns import Picture, cloud_noise, filled, grain, to_image
from robustmat.simulation.scene import Rgb, Texture

LEAF_SIDE = 256
LEAF_COLORS: dict[str, tuple[Rgb, ...]] = {
    "summer": ((0.20, 0.32, 0.09), (0.26, 0.36, 0.12), (0.15, 0.26, 0.09), (0.30, 0.38, 0.11)),
    "autumn": ((0.58, 0.34, 0.08), (0.52, 0.42, 0.12), (0.46, 0.20, 0.08), (0.36, 0.38, 0.13)),
}


def draw_leaves(species: int, variant: int, season: str, snow: float) -> Texture:
    """A loose ball of leaves: lighter above, dark below; bare branches in winter."""
    if season == "bare":
        return _branches(np.random.default_rng([species, variant, 41]), snow)
    tones, alpha = _leaf_tones(variant)
    return Texture(to_image(tones * np.asarray(LEAF_COLORS[season][species % 4], np.float32)), alpha)


@lru_cache(maxsize=8)
def _leaf_tones(variant: int) -> tuple[Picture, NDArray[np.uint8]]:
    """How bright each leaf is [S, S, 3], and where there are leaves; the same for all species and seasons."""
    rng = np.random.default_rng([variant, 40])
    side, count = LEAF_SIDE, 3200
    angle, radius = rng.uniform(0, 2 * np.pi, count), np.sqrt(rng.random(count))
    # A lumpy outline: the reach depends on the direction.
    lumps = 0.80 + 0.16 * np.interp(angle, np.linspace(0, 2 * np.pi, 12), rng.uniform(-1, 1, 12), period=2 * np.pi)
    x = np.clip(side / 2 * (1 + radius * lumps * np.cos(angle)), 0, side - 1)
    y = np.clip(side / 2 * (1 + radius * lumps * np.sin(angle)), 0, side - 1)
    clump = cloud_noise((side, side), rng, 30, 2)[y.astype(int), x.astype(int)]
    light = 0.30 + 0.85 * (1 - y / side) + 0.10 * (2 * x / side - 1) + 0.30 * clump
    light = np.maximum(light * rng.uniform(0.45, 1.55, count), 0.12)
    tones = np.concatenate([np.zeros((1, 3)), light[:, None] * rng.uniform(0.85, 1.15, (count, 3))])
    sizes, turns = rng.integers((2, 1), (5, 3), (count, 2)), rng.uniform(0, 180, count)
    leaf = np.zeros((side, side), np.int32)  # which leaf is on top, 0: none
    for i in np.argsort(rng.random(count) - 0.6 * radius).tolist():  # inner leaves in front, mostly
        size = (int(sizes[i, 0]), int(sizes[i, 1]))
        cv2.ellipse(leaf, (int(x[i]), int(y[i])), size, float(turns[i]), 0, 360, i + 1, -1)
    return tones[leaf].astype(np.float32), np.where(leaf > 0, 255, 0).astype(np.uint8)


def _branches(rng: np.random.Generator, snow: float) -> Texture:
    side = LEAF_SIDE
    rgb = np.full((side, side, 3), (0.20, 0.17, 0.15), np.float32)
    rgb += 0.03 * grain((side, side), rng)[..., None]
    alpha = np.zeros((side, side), np.uint8)

    def grow(x: float, y: float, angle: float, length: float, thick: float) -> None:
        if length < 7 or not (0 <= x < side and 0 <= y < side):
            return
        end_x, end_y = x + length * np.cos(angle), y - length * np.sin(angle)
        cv2.line(alpha, (int(x), int(y)), (int(end_x), int(end_y)), 255, max(int(thick), 1), cv2.LINE_AA)
        for _ in range(int(rng.integers(2, 4))):
            grow(end_x, end_y, angle + rng.normal(0, 0.5), length * rng.uniform(0.6, 0.85), thick * 0.7)

    for start in rng.uniform(0.3, 0.7, 3):
        grow(start * side, side - 1.0, np.pi / 2 + rng.normal(0, 0.45), side * 0.24, 4)
    if snow > 0:
        above = np.roll(alpha, 1, axis=0) < 40
        rgb[above & (alpha > 100)] = (0.85, 0.86, 0.89)
    return Texture(to_image(rgb), alpha)


def draw_hedge(season: str, snow: float, seed: int) -> Texture:
    """Four metres of hedge with a ragged top."""
    rng = np.random.default_rng([seed, 5])
    shape = (64, 256)
    base = np.array({"summer": (0.14, 0.24, 0.08), "autumn": (0.22, 0.23, 0.09), "bare": (0.20, 0.17, 0.13)}[season])
    light = np.linspace(1.25, 0.55, shape[0], dtype=np.float32)[:, None]
    noise = 1 + 0.30 * cloud_noise(shape, rng, 9, 2) + 0.25 * grain(shape, rng)
    rgb = base.astype(np.float32) * (light * np.maximum(noise, 0.2))[..., None]
    top = 6 + 4 * cloud_noise((1, shape[1]), rng, 10)[0]
    rows = np.arange(shape[0])[:, None]
    alpha = np.where(rows > top[None, :], 255, 0).astype(np.uint8)
    if snow > 0:
        rgb[(rows < top[None, :] + 7) & (rows > top[None, :])] = (0.88, 0.89, 0.92)
    return Texture(to_image(rgb), alpha)


def draw_trunk(seed: int) -> Texture:
    rng = np.random.default_rng([seed, 9])
    shape = (160, 24)
    round_light = 0.55 + 0.55 * np.sin(np.linspace(0.35, np.pi - 0.1, shape[1], dtype=np.float32))
    noise = 1 + 0.16 * cloud_noise(shape, rng, 12) + 0.1 * grain(shape, rng)
    rgb = filled(shape, (0.33, 0.27, 0.21)) * (round_light[None] * noise)[..., None]
    return Texture(to_image(rgb.astype(np.float32)))
