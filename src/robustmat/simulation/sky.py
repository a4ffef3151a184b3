"""Sky, clouds and the far edge of the town, as one band around the horizon."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import labels
from robustmat.simulation.looks import Look
from robustmat.simulation.opencv import remapped, resized, warped
from robustmat.simulation.patterns import cloud_noise, to_image
from robustmat.types import Array, Camera, Image

WIDTH, HEIGHT = 2048, 288
COARSE = 8  # pixels between computed angles
LOW, HIGH = -4.0, 34.0  # degrees of elevation of the last and first row


def draw_sky(seed: int, look: Look) -> tuple[Image, NDArray[np.uint8]]:
    """The band [HEIGHT, WIDTH] over azimuth 0..360 degrees from east, and its classes."""
    rng = np.random.default_rng([seed, sum(map(ord, look.name)), 88])
    elevation = np.linspace(HIGH, LOW, HEIGHT, dtype=np.float32)
    share = np.clip(elevation / 26.0, 0, 1)[:, None, None] ** 0.55
    top, bottom = np.asarray(look.sky_top, np.float32), np.asarray(look.sky_bottom, np.float32)
    sky = share * top + (1 - share) * bottom
    sky = np.repeat(sky, WIDTH, axis=1)
    noise = cloud_noise((HEIGHT // 2, WIDTH // 4 + 64), rng, 90, 5)
    noise = resized(_seamless(noise, WIDTH // 4), (WIDTH, HEIGHT), cv2.INTER_CUBIC)
    cover = np.clip((noise + 2.4 * look.clouds - 1.35) * 0.9, 0, 0.95)[..., None]
    shade = 1 - 0.10 * np.clip(noise, 0, 2)[..., None] * (look.clouds > 0.5)
    sky = (1 - cover) * sky + cover * np.asarray(look.cloud, np.float32) * shade
    azimuth = np.arange(WIDTH) * 360 / WIDTH
    turn = np.radians(azimuth - look.sun_azimuth)
    glare = np.exp((np.cos(turn)[None] - 1) * 6 - ((elevation[:, None] - look.sun_elevation) / 22) ** 2)
    sky += 0.35 * (glare[..., None] * np.asarray(look.sun, np.float32))

    classes = np.full((HEIGHT, WIDTH), labels.SKY, np.uint8)
    light = float(np.mean(look.ambient)) + 0.35 * float(np.mean(look.sun))
    haze = np.asarray(look.haze, np.float32)
    hills = _ridge(rng, 1.1, 0.7, 400)
    woods = _ridge(rng, 1.5, 0.9, 28) * (cloud_noise((1, WIDTH), rng, 260)[0] > -0.5)
    roofs = np.repeat(np.maximum(rng.normal(1.4, 0.9, WIDTH // 16), 0), 16) * (
        cloud_noise((1, WIDTH), rng, 300)[0] > 0.1
    )
    leaf = (0.16, 0.20, 0.10) if look.leaves != "bare" else (0.24, 0.21, 0.19)
    layers = (
        (hills, leaf, 0.75, labels.VEGETATION),
        (roofs, (0.50, 0.42, 0.38), 0.5, labels.BUILDING),
        (woods, leaf, 0.4, labels.VEGETATION),
    )
    texture = 1 + 0.25 * cloud_noise((HEIGHT, WIDTH), rng, 8, 2)[..., None]
    for ridge, color, far, label in layers:
        below = elevation[:, None] < ridge[None, :]
        tone = (1 - far) * np.asarray(color, np.float32) * light * 1.6 * texture + far * haze
        sky = np.where(below[..., None], tone, sky)
        classes[below & (elevation[:, None] > -3)] = label
    return to_image(sky.astype(np.float32)), classes


def _seamless(noise: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Blend the overhang back into the start, so that north-by-east meets itself."""
    extra = noise.shape[1] - width
    ramp = np.linspace(0, 1, extra, dtype=np.float32)
    out = noise[:, :width].copy()
    out[:, :extra] = ramp * noise[:, :extra] + (1 - ramp) * noise[:, width:]
    return out


def _ridge(rng: np.random.Generator, mean: float, swing: float, cell: float) -> NDArray[np.float32]:
    noise = cloud_noise((1, WIDTH + 256), rng, cell, 3)
    return np.asarray(mean + swing * _seamless(noise, WIDTH)[0], np.float32)


def look_up(
    sky: Image, classes: NDArray[np.uint8], turn: Array, camera: Camera, rows: int
) -> tuple[Image, NDArray[np.uint8]]:
    """The first `rows` of a camera's picture of the sky; `turn` [3, 3] is the camera's rotation into the world."""
    # Angles change slowly over the picture: they are computed at every COARSE-th pixel and interpolated.
    columns, lines = np.arange(0, camera.width + COARSE, COARSE), np.arange(0, rows + COARSE, COARSE)
    x = ((columns - camera.matrix[0, 2]) / camera.matrix[0, 0])[None, :]
    y = ((lines - camera.matrix[1, 2]) / camera.matrix[1, 1])[:, None]
    east, north, up = (turn[i, 0] * x + turn[i, 1] * y + turn[i, 2] for i in range(3))
    ahead = np.arctan2(turn[1, 2], turn[0, 2])
    cos, sin = np.cos(ahead), np.sin(ahead)
    aside = np.degrees(np.arctan2(cos * north - sin * east, cos * east + sin * north))  # no jump inside the picture
    elevation = np.degrees(np.arctan2(up, np.hypot(east, north)))
    map_x = np.float32(WIDTH / 360) * (_finer(aside, camera.width, rows) + np.float32(np.degrees(ahead) + 360))
    map_x = np.mod(map_x, np.float32(WIDTH)).astype(np.float32)
    map_y = np.float32((HEIGHT - 1) / (HIGH - LOW)) * (np.float32(HIGH) - _finer(elevation, camera.width, rows))
    image = remapped(sky, map_x, map_y, border=cv2.BORDER_WRAP)
    named = remapped(classes, map_x, map_y, cv2.INTER_NEAREST)
    return image, named


def _finer(coarse: Array, width: int, height: int) -> NDArray[np.float32]:
    return warped(coarse.astype(np.float32), np.diag([1 / COARSE, 1 / COARSE, 1.0]), (width, height))
