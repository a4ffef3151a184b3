"""What Oxford's sensors make of the simulated street: a mosaic behind a bending lens, and a Velodyne's raw readings."""

import math
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.transforms import rigid
from robustmat.simulation.drive import StreetDrive
from robustmat.simulation.lidar import Sweep
from robustmat.simulation.opencv import remapped
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.sources.oxford_velodyne import ANGLE_STEP, ELEVATIONS, FIRE_HEIGHT, RANGE_STEP
from robustmat.types import Array, Camera, Image

BEND = (-0.11, 0.018)  # the lens: a ray at tan(angle) r meets the sensor at r (1 + a r^2 + b r^4)
HDL_32E = Sweep(
    beams=32, highest=-math.degrees(ELEVATIONS[0]), lowest=-math.degrees(ELEVATIONS[-1]), half_width=47.0, step=0.2
)


def mosaic(image: Image, bayer: str) -> NDArray[np.uint8]:
    """[H, W]: of each pixel the one colour that `bayer`, row by row of two, lets through."""
    raw = np.empty(image.shape[:2], np.uint8)
    for place, colour in enumerate(bayer):
        part = slice(place // 2, None, 2), slice(place % 2, None, 2)
        raw[part] = image[part][..., "rgb".index(colour)]
    return raw


def through_lens(image: Image, camera: Camera) -> Image:
    """What the bending lens makes of an ideal picture; beyond its border the picture's edge goes on."""
    map_x, map_y = _straightened(camera.width, camera.height, *camera.matrix[[0, 1, 0, 1], [0, 1, 2, 2]])
    return remapped(image, map_x, map_y, cv2.INTER_CUBIC)


def distortion_table(camera: Camera) -> Array:
    """[2, H, W]: column and row in the raw image of each pixel of the ideal one."""
    (fx, _, cx), (_, fy, cy) = camera.matrix[:2]
    x, y = np.meshgrid((np.arange(camera.width) - cx) / fx, (np.arange(camera.height) - cy) / fy)
    square = x**2 + y**2
    bend = 1 + BEND[0] * square + BEND[1] * square**2
    return np.stack([fx * bend * x + cx, fy * bend * y + cy])


@lru_cache(maxsize=2)
def _straightened(width: int, height: int, fx: float, fy: float, cx: float, cy: float) -> tuple[Array, Array]:
    """Where in the ideal picture each pixel of the raw one is: the table's inverse, by fixed-point steps."""
    x, y = np.meshgrid((np.arange(width) - cx) / fx, (np.arange(height) - cy) / fy)
    bent = np.hypot(x, y)
    r = bent.copy()
    for _ in range(30):
        r = bent / (1 + BEND[0] * r**2 + BEND[1] * r**4)
    scale = np.divide(r, bent, out=np.ones_like(r), where=bent > 0)
    return fx * scale * x + cx, fy * scale * y + cy


def fired(drive: StreetDrive, i: int) -> NDArray[np.float32]:
    """Frame i by the Velodyne's 32 beams: points [N, 4] from where it fires, x ahead, y left, z up."""
    T_base_fire = rigid(np.eye(3), np.array([0.0, 0.0, FIRE_HEIGHT]))
    return drive.sweep(i, HDL_32E, T_CAMERA_LIDAR @ T_base_fire)


def raw_readings(points: NDArray[np.float32], time: int) -> NDArray[np.uint8]:
    """The rows of bytes [106, firings] of one scan: intensities, ranges, angle, time."""
    x, y, z, glint = points.T.astype(np.float64)
    beam = np.abs(np.arctan2(-z, np.hypot(x, y))[:, None] - ELEVATIONS).argmin(axis=1)
    angle = np.round(np.arctan2(x, y) / ANGLE_STEP).astype(int)  # Oxford's y is right: x = sin, y = -cos
    angles = np.unique(angle)
    firing = np.searchsorted(angles, angle)
    ranges, intensities = np.zeros((len(angles), 32), "<u2"), np.zeros((len(angles), 32), np.uint8)
    ranges[firing, beam] = np.round(np.sqrt(x**2 + y**2 + z**2) / RANGE_STEP)
    intensities[firing, beam] = np.round(255 * glint)
    parts = [
        intensities,
        ranges.view(np.uint8),
        angles.astype("<u2")[:, None].view(np.uint8),
        np.full((len(angles), 1), time, "<i8").view(np.uint8),
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1).T)
