"""The simplest rival: colour and shape thresholds for signs and lights, vertical edges for poles; nothing is learned.

Windows are left out: thresholds find every dark rectangle of a street.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.detection.runtime import check_image
from robustmat.features.scale import shrink
from robustmat.landmarks.regions import Region, is_landmark
from robustmat.types import Frame, Image, Landmark

SHADES = {  # hue from and to (0 to 180), least saturation, least value
    "red": ((170, 10), 110, 60),
    "blue": ((98, 125), 130, 50),
    "yellow": ((18, 32), 150, 110),
}
LIGHTS = {"red": ((172, 8), 150, 190), "green": ((65, 95), 90, 170)}
SHORTEST_POLE = 40  # pixels
WIDEST_POLE = 24
EDGE = 24.0  # grey levels a pixel

Plane = NDArray[Any]


class ClassicDetector:
    """Thresholds alone."""

    name = "classic"

    def detect(self, frame: Frame) -> tuple[Landmark, ...]:
        check_image(frame.image, frame.name)
        image, scale = shrink(frame.image)
        found = [*_blobs(image, SHADES, "traffic_sign"), *_lights(image), *_poles(image)]
        height, width = frame.image.shape[:2]
        kept = []
        for landmark in found:
            x0, y0, x1, y1 = (value / scale for value in landmark.box)
            box = (x0, y0, min(x1, float(width)), min(y1, float(height)))
            kept.append(Landmark(box, landmark.category, confidence=landmark.confidence))
        return tuple(kept)


def _blobs(image: Image, shades: dict[str, tuple[tuple[int, int], int, int]], category: str) -> list[Landmark]:
    """Connected pixels of one strong colour that are about as wide as high and fill their outline."""
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    found = []
    for (low, high), saturation, value in shades.values():
        hue = hsv[..., 0]
        of_hue = (hue >= low) | (hue <= high) if low > high else (hue >= low) & (hue <= high)
        mask = (of_hue & (hsv[..., 1] >= saturation) & (hsv[..., 2] >= value)).astype(np.uint8)
        closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
        contours, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        for contour in contours:
            x, y, width, height = cv2.boundingRect(contour)
            if not 0.5 <= width / height <= 2.0:
                continue
            filled = np.zeros((height, width), np.uint8)
            cv2.drawContours(filled, [contour], -1, 1, -1, offset=(-x, -y))
            box = (float(x), float(y), float(x + width), float(y + height))
            region = Region(box, category, filled > 0)
            if is_landmark(region):
                strength = float(hsv[y : y + height, x : x + width, 1][filled > 0].mean()) / 255
                found.append(Landmark(box, category, confidence=round(strength, 4)))
    return found


def _lights(image: Image) -> list[Landmark]:
    """Bright red and green spots, with the housing of three lamps around them."""
    found = []
    for spot in _blobs(image, LIGHTS, "traffic_sign"):
        x0, y0, x1, y1 = spot.box
        side = max(x1 - x0, y1 - y0)
        if side > 30:
            continue
        middle_x, top = (x0 + x1) / 2, y0 - 0.3 * side
        box = (max(middle_x - 0.8 * side, 0.0), max(top, 0.0), middle_x + 0.8 * side, top + 3.6 * side)
        found.append(Landmark(box, "traffic_light", confidence=spot.confidence))
    return found


def _poles(image: Image) -> list[Landmark]:
    """Two long vertical edges of opposite sign, a few pixels apart."""
    grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), 1.0).astype(np.float32)
    slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0, ksize=3) / 4
    tall = np.ones((SHORTEST_POLE, 1), np.uint8)
    found = []
    rising, falling = (
        cv2.morphologyEx(
            cv2.dilate((sign * slope > EDGE).astype(np.uint8), np.ones((1, 3), np.uint8)), cv2.MORPH_OPEN, tall
        )
        for sign in (1, -1)
    )
    for first, second in ((rising, falling), (falling, rising)):
        for x0, y0, x1, y1 in _bars_of(first):
            others = [bar for bar in _bars_of(second) if 2 <= bar[0] - x0 <= WIDEST_POLE]
            for a0, b0, a1, b1 in others:
                top, bottom = max(y0, b0), min(y1, b1)
                if bottom - top >= SHORTEST_POLE:
                    box = ((x0 + x1) / 2, float(top), (a0 + a1) / 2, float(bottom))
                    if box[2] - box[0] >= 3:
                        share = min((bottom - top) / len(image), 1.0)
                        found.append(Landmark(box, "pole", confidence=round(share, 4)))
                    break
    return found


def _bars_of(mask: Plane) -> list[tuple[int, int, int, int]]:
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    bars = [(int(x), int(y), int(x + w), int(y + h)) for x, y, w, h, _ in stats[1:count]]
    return sorted(bars)
