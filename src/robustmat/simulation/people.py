"""Passers-by: flat figures that turn to the viewer."""

import cv2
import numpy as np

from robustmat.simulation import labels
from robustmat.simulation.scene import Strut, Texture

KINDS = 10  # different clothes and strides
CLOTHES = ((40, 44, 60), (90, 30, 34), (60, 70, 52), (120, 112, 100), (30, 30, 32), (150, 150, 155), (52, 72, 110))


def person(x: float, y: float, kind: int) -> Strut:
    height = 1.58 + 0.03 * (kind % 10)
    top, bottom = np.array([x, y, height]), np.array([x, y, 0.0])
    return Strut(top, bottom, 0.42 * height, ("person", kind), labels.PERSON)


def draw_person(kind: int) -> Texture:
    rng = np.random.default_rng([kind, 31])
    height, width = 256, 108
    rgb = np.full((height, width, 3), 30, np.uint8)
    alpha = np.zeros((height, width), np.uint8)
    coat, legs = (CLOTHES[int(rng.integers(len(CLOTHES)))] for _ in range(2))
    middle, stride = width // 2, int(rng.integers(6, 22))

    def shape(points: list[tuple[int, int]], color: tuple[int, ...], thick: int) -> None:
        line = [np.array(points, np.int32)]
        cv2.polylines(rgb, line, False, color, thick, cv2.LINE_AA)
        cv2.polylines(alpha, line, False, 255, thick, cv2.LINE_AA)

    shape([(middle, 130), (middle - stride // 2, 190), (middle - stride, 248)], legs, 17)
    shape([(middle, 130), (middle + stride // 2, 190), (middle + stride, 248)], legs, 17)
    shape([(middle, 62), (middle, 132)], coat, 40)
    swing = int(rng.integers(4, 20))
    shape([(middle - 20, 60), (middle - 24 - swing // 2, 95), (middle - 20 - swing, 132)], coat, 13)
    shape([(middle + 20, 60), (middle + 24 + swing // 2, 95), (middle + 20 + swing, 132)], coat, 13)
    for canvas, color in ((rgb, (196, 152, 128)), (alpha, 255)):
        cv2.ellipse(canvas, (middle, 22), (14, 19), 0, 0, 360, color, -1, cv2.LINE_AA)
    cv2.ellipse(
        rgb, (middle, 14), (15, 13), 0, 180, 360, tuple(int(v) for v in rng.integers(20, 90, 3)), -1, cv2.LINE_AA
    )
    light = np.linspace(1.15, 0.8, width)[None, :, None] + 0.05 * rng.standard_normal((height, width, 1))
    return Texture(np.clip(rgb * light, 0, 255).astype(np.uint8), alpha)
