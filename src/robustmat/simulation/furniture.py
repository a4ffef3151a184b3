"""Street furniture as parts: lamps, posts, signs, traffic lights, bollards, and their pictures.

`heading` is the way a driver goes who is meant to see the thing; its front looks back at that driver.
"""

import itertools

import cv2
import numpy as np

from robustmat.simulation import labels
from robustmat.simulation.designs import DESIGNS
from robustmat.simulation.opencv import resized, shrunk
from robustmat.simulation.patterns import cloud_noise, filled, grain, to_image
from robustmat.simulation.scene import Material, Panel, Part, Rgb, Strut, Texture
from robustmat.types import Array

UP = np.array([0.0, 0.0, 1.0])

POLE_COLORS: dict[str, Rgb] = {
    "steel": (0.56, 0.57, 0.57),
    "green": (0.17, 0.25, 0.20),
    "dark": (0.20, 0.20, 0.21),
    "wood": (0.36, 0.28, 0.21),
    "concrete": (0.60, 0.58, 0.54),
    "striped": (0.80, 0.80, 0.78),
    "white": (0.82, 0.82, 0.80),
}


def axes(heading: float) -> tuple[Array, Array]:
    """Forward and right, as unit vectors, of somebody looking along `heading`."""
    cos, sin = np.cos(heading), np.sin(heading)
    return np.array([cos, sin, 0.0]), np.array([sin, -cos, 0.0])


def box_panels(
    center: Array,
    heading: float,
    size: tuple[float, float, float],
    faces: tuple[Material, Material],
    label: int,
    identity: int = 0,
) -> list[Panel]:
    """An upright box (width, depth, height): `faces` are its front and its other sides."""
    width, depth, height = size
    forward, right = axes(heading)
    down = -height * UP
    top = center + 0.5 * height * UP
    front, rest = faces
    corners = (
        (top - 0.5 * width * right - 0.5 * depth * forward, width * right, front),
        (top + 0.5 * width * right - 0.5 * depth * forward, depth * forward, rest),
        (top + 0.5 * width * right + 0.5 * depth * forward, -width * right, rest),
        (top - 0.5 * width * right + 0.5 * depth * forward, -depth * forward, rest),
    )
    return [Panel(corner, along, down, material, label, identity) for corner, along, material in corners]


def post(
    x: float, y: float, height: float, width: float, color: str, seed: int, identity: int, bottom: float = 0.0
) -> Strut:
    """An upright pole."""
    return Strut(
        np.array([x, y, height]),
        np.array([x, y, bottom]),
        width,
        ("pole", color, seed),
        labels.POLE,
        identity,
        bulge=0.4 * width,
    )


def lamp(
    x: float, y: float, toward: float, height: float, kind: str, color: str, seed: int, identity: int
) -> list[Part]:
    """A street lamp; `toward` is the heading of its arm, from the pavement over the road."""
    shaft = post(x, y, height, 0.15, color, seed, identity)
    foot = post(x, y, 1.0, 0.22, color, seed + 1, identity)
    head = np.array([x, y, height])
    if kind == "lantern":
        lantern = Strut(head + 0.55 * UP, head, 0.42, ("lantern",), labels.POLE, identity, glow=1.0)
        return [shaft, foot, lantern]
    reach = 1.1 if kind == "short" else 2.1
    out = reach * np.array([np.cos(toward), np.sin(toward), 0.0])
    end = head + out + 0.35 * UP
    arm = Strut(end, head, 0.09, ("pole", color, seed), labels.POLE, identity)
    tip = end + 0.6 * out / reach
    bulb = Strut(tip, end, 0.2, ("bulb",), labels.POLE, identity, glow=1.0)
    return [shaft, foot, arm, bulb]


def wooden_pole(x: float, y: float, along: float, height: float, seed: int, identity: int) -> list[Part]:
    """A utility pole with a cross-arm."""
    across = np.array([np.cos(along + np.pi / 2), np.sin(along + np.pi / 2), 0.0])
    head = np.array([x, y, height - 0.5])
    arm = Strut(head + 0.8 * across, head - 0.8 * across, 0.11, ("pole", "wood", seed), labels.POLE, identity)
    return [post(x, y, height, 0.26, "wood", seed, identity), arm]


def wires(start: Array, end: Array) -> list[Part]:
    """Two sagging wires between the cross-arms of utility poles."""
    along = (end - start)[:2] / max(float(np.linalg.norm((end - start)[:2])), 1e-9)
    across = np.array([-along[1], along[0], 0.0])
    shares = np.linspace(0, 1, 5)
    parts: list[Part] = []
    for hand in (0.65, -0.65):
        points = [start + k * (end - start) + hand * across - 2.4 * k * (1 - k) * 0.35 * UP for k in shares]
        for a, b in itertools.pairwise(points):
            parts.append(Strut(a, b, 0.03, ("plain", 0.10, 0.10, 0.10), labels.UNKNOWN))
    return parts


def sign_face(x: float, y: float, z: float, heading: float, design: str, seed: int, identity: int) -> list[Part]:
    """A sign's plate, centred at height `z`, and its bare back."""
    plan = DESIGNS[design]
    forward, right = axes(heading)
    top = np.array([x, y, z + 0.5 * plan.height]) - 0.06 * forward
    wide, down = plan.width * right, -plan.height * UP
    front = Panel(top - 0.5 * wide, wide, down, ("sign", design, seed), labels.TRAFFIC_SIGN, identity, reflectance=0.95)
    back = Panel(top + 0.5 * wide + 0.02 * forward, -wide, down, ("sign-back", design), labels.UNKNOWN)
    return [front, back]


def light_head(x: float, y: float, z: float, heading: float, backplate: bool, identity: int) -> list[Part]:
    """A traffic light of three lamps, centred at height `z`; which lamp burns is a matter of the drive."""
    size = (0.5, 0.16, 1.15) if backplate else (0.32, 0.24, 0.92)
    front: Material = ("light", int(backplate), identity)
    return list(
        box_panels(
            np.array([x, y, z]),
            heading,
            size,
            (front, ("plain", 0.10, 0.11, 0.10)),
            labels.TRAFFIC_LIGHT,
            identity,
        )
    )


def draw_pole(color: str, seed: int) -> Texture:
    """A round pole: bright where the light falls, weathered, often with leftover stickers of its own."""
    rng = np.random.default_rng([seed, 77])
    shape = (256, 16)
    base = filled(shape, POLE_COLORS[color])
    if color == "striped":
        base[(np.arange(256) // 43) % 2 == 1] = (0.70, 0.10, 0.10)
    if color == "wood":
        base *= (1 + 0.18 * resized(grain((4, 16), rng), (16, 256)))[..., None]
    if rng.random() < 0.55:
        for _ in range(int(rng.integers(1, 4))):
            y, tall = int(rng.uniform(0.55, 0.9) * 256), int(rng.integers(3, 14))
            base[y : y + tall] = rng.uniform(0.15, 0.9, 3)
    light = 0.50 + 0.62 * np.sin(np.linspace(0.5, np.pi - 0.05, 16, dtype=np.float32))
    dirt = 1 + 0.08 * cloud_noise(shape, rng, 20) + 0.05 * grain(shape, rng)
    dirt -= 0.25 * np.exp(-np.linspace(6, 0, 256, dtype=np.float32) / 0.35)[:, None]
    return Texture(to_image((base * (light[None] * dirt)[..., None]).astype(np.float32)))


def draw_light(backplate: bool, burning: int) -> Texture:
    """The front of a traffic light; lamp `burning` (0 red, 1 amber, 2 green) is on."""
    height, width = (276, 120) if backplate else (220, 76)
    picture = filled((height, width), (0.09, 0.10, 0.09))
    if backplate:
        cv2.rectangle(picture, (3, 3), (width - 4, height - 4), (0.85, 0.85, 0.82), 4)
    colors = ((0.98, 0.13, 0.10), (1.0, 0.66, 0.08), (0.10, 0.92, 0.48))
    for k, color in enumerate(colors):
        center = (width // 2, round(height * (k + 0.5) / 3 * 0.9 + height * 0.05))
        on = k == burning
        shown = color if on else tuple(0.16 * c + 0.03 for c in color)
        cv2.circle(picture, center, 25 if backplate else 27, (0.03, 0.03, 0.03), -1, cv2.LINE_AA)
        cv2.circle(picture, center, 22 if backplate else 24, shown, -1, cv2.LINE_AA)
        if on:
            cv2.circle(picture, center, 11, tuple(min(c + 0.4, 1.0) for c in color), -1, cv2.LINE_AA)
    rgb = shrunk(to_image(picture), (width // 2, height // 2))
    return Texture(rgb)


def draw_plain(color: Rgb, seed: int = 0, roughness: float = 0.05) -> Texture:
    rng = np.random.default_rng([seed, 3])
    shape = (64, 64)
    noise = 1 + roughness * cloud_noise(shape, rng, 16) + 0.6 * roughness * grain(shape, rng)
    return Texture(to_image(filled(shape, color) * noise[..., None]))
