"""From a material's name to its picture, under a look."""

import cv2
import numpy as np

from robustmat.simulation.designs import draw_sign, draw_sign_back
from robustmat.simulation.fronts import draw_front
from robustmat.simulation.furniture import draw_light, draw_plain, draw_pole
from robustmat.simulation.looks import Look
from robustmat.simulation.patterns import cloud_noise, filled, grain, shade_box, to_image
from robustmat.simulation.people import draw_person
from robustmat.simulation.plants import draw_hedge, draw_leaves, draw_trunk
from robustmat.simulation.scene import Material, Texture
from robustmat.simulation.shadows import front_sun
from robustmat.simulation.town import Town
from robustmat.simulation.vehicles import draw_car, draw_car_shadow

ROOF_COLORS = ((0.48, 0.22, 0.15), (0.38, 0.20, 0.15), (0.30, 0.28, 0.28), (0.52, 0.32, 0.22))


def draw(material: Material, town: Town, look: Look) -> Texture:  # noqa: PLR0911, PLR0912
    """Paint a material. The names are those that parts carry."""
    match material:
        case ("front", int(index)):
            return draw_front(town.fronts[index], look, *front_sun(town, look, index))
        case ("pole", str(color), int(seed)):
            return draw_pole(color, seed)
        case ("sign", str(design), int(seed)):
            return draw_sign(design, seed)
        case ("sign-back", str(design)):
            return draw_sign_back(design)
        case ("light", int(backplate), int(identity)):
            return draw_light(bool(backplate), (identity + sum(map(ord, look.name))) % 3)
        case ("leaves", int(species), int(variant)):
            return draw_leaves(species, variant, look.leaves, look.snow)
        case ("trunk", int(seed)):
            return draw_trunk(seed)
        case ("hedge", int(seed)):
            return draw_hedge(look.leaves, look.snow, seed)
        case ("fence", int(seed)):
            return _fence(seed)
        case ("wall", int(seed)):
            return _stones(seed)
        case ("tiles", int(seed)):
            return _roof(seed, look)
        case ("gable", float(red), float(green), float(blue)):
            plain = draw_plain((red, green, blue), 1)
            alpha = np.zeros(plain.rgb.shape[:2], np.uint8)
            cv2.fillPoly(alpha, [np.array([[0, 64], [32, 0], [64, 64]], np.int32)], 255)
            return Texture(plain.rgb, alpha)
        case ("car", str(kind), int(paint), str(part)):
            return draw_car(kind, paint, part)
        case ("car-shadow",):
            return draw_car_shadow()
        case ("person", int(kind)):
            return draw_person(kind)
        case ("railing", int(seed)):
            return _railing(seed)
        case ("lantern",):
            return _lantern()
        case ("bulb",):
            return draw_plain((0.62, 0.63, 0.62))
        case ("plain", float(red), float(green), float(blue)):
            return draw_plain((red, green, blue))
    raise ValueError(f"no picture for material {material}")


def _fence(seed: int) -> Texture:
    shape = (64, 256)
    rgb = filled(shape, ((0.30, 0.30, 0.30), (0.42, 0.32, 0.22), (0.75, 0.75, 0.72))[seed % 3])
    rgb *= (1 + 0.08 * grain(shape, np.random.default_rng(seed)))[..., None]
    alpha = np.zeros(shape, np.uint8)
    step = (8, 12, 10)[seed % 3]
    thick = (2, 8, 5)[seed % 3]
    for x in range(0, 256, step):
        alpha[4:, x : x + thick] = 255
    alpha[8:12] = 255
    alpha[50:54] = 255
    return Texture(to_image(rgb), alpha)


def _railing(seed: int) -> Texture:
    """A balcony's front: bars, or a solid parapet."""
    shape = (44, 128)
    rng = np.random.default_rng([seed, 21])
    solid = seed % 3 == 0
    rgb = filled(shape, (0.74, 0.72, 0.68) if solid else (0.20, 0.20, 0.21))
    rgb *= (1 + 0.05 * cloud_noise(shape, rng, 20))[..., None]
    rgb[38:] = (0.62, 0.61, 0.58)  # the slab
    alpha = np.full(shape, 255, np.uint8)
    if not solid:
        alpha[3:38] = 0
        alpha[:, ::8] = 255
        alpha[:, 1::8] = 255
    return Texture(to_image(rgb), alpha)


def _stones(seed: int) -> Texture:
    rng = np.random.default_rng([seed, 15])
    shape = (72, 256)
    base = (
        (0.50, 0.47, 0.42),
        (0.48, 0.30, 0.25),
        (0.66, 0.62, 0.55),
        (0.40, 0.36, 0.33),
        (0.58, 0.55, 0.50),
    )[seed % 5]
    rgb = filled(shape, base)
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]]
    course = rows // 9
    stone = (columns + 11 * (course % 2)) // 22
    rgb *= (1 + rng.normal(0, 0.14, (9, 14))[course, stone] + 0.06 * cloud_noise(shape, rng, 8))[..., None]
    rgb[(rows % 9 == 0) | ((columns + 11 * (course % 2)) % 22 == 0)] *= 0.7
    shade_box(rgb, 0, 0, 256, 6, 1.2)
    return Texture(to_image(rgb.astype(np.float32)))


def _roof(seed: int, look: Look) -> Texture:
    rng = np.random.default_rng([seed, 16])
    shape = (128, 256)
    rgb = filled(shape, ROOF_COLORS[seed % len(ROOF_COLORS)])
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]]
    rgb *= (0.86 + 0.2 * ((rows % 8) / 8.0) + 0.07 * np.sin(columns * 0.9) + 0.10 * cloud_noise(shape, rng, 25))[
        ..., None
    ]
    if look.snow > 0:
        white = (cloud_noise(shape, rng, 60) > -0.9)[..., None]
        rgb = np.where(white, 0.15 * rgb + 0.85 * np.array([0.92, 0.93, 0.95]), rgb)
    return Texture(to_image(rgb.astype(np.float32)))


def _lantern() -> Texture:
    rgb = filled((64, 48), (0.14, 0.15, 0.15))
    rgb[14:54, 8:40] = (0.86, 0.84, 0.76)
    alpha = np.zeros((64, 48), np.uint8)
    cv2.fillPoly(alpha, [np.array([[24, 0], [47, 14], [38, 63], [10, 63], [0, 14]], np.int32)], 255)
    return Texture(to_image(rgb), alpha)
