"""A taken-apart image seen by a virtual camera: the layers put together again, and where its landmarks went."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.landmarks.config import DEFAULT, RegionConfig
from robustmat.landmarks.regions import Region
from robustmat.simulation.layers import BACKGROUND, Layers, region_pixels
from robustmat.simulation.views import View, moved
from robustmat.types import Array, Box, Camera, Image

Number = TypeVar("Number", bound=np.generic)

SMALLEST_VISIBLE = 0.6  # share of a landmark's pixels that a view must show


@dataclass(frozen=True)
class Seen:
    """What a view shows: its picture, and the box of each region of the photograph that it shows well enough."""

    image: Image
    boxes: dict[int, Box]


def see(layers: Layers, view: View, nearness: Array, config: RegionConfig = DEFAULT.regions) -> Seen:
    """The view of a taken-apart image in which thing i has `nearness[i]`; the background is 0 and has 1."""
    image = _warped(_softened(layers.background, view.scale()), view.warp(), (view.camera.width, view.camera.height))
    owner = np.full(image.shape[:2], BACKGROUND, np.int32)  # which thing each pixel shows
    for thing in (np.argsort(nearness[1:], kind="stable") + 1).tolist():  # nearer ones hide farther ones
        near = float(nearness[thing])
        window, colors, opacity = _cut_out(layers, thing, view.warp(near), view.scale(near), view.camera)
        if opacity.size:
            image[window] = cv2.blendLinear(colors, image[window].copy(), opacity, 1 - opacity)
            owner[window][opacity > 0.5] = thing
    boxes = {}
    for i, (region, thing) in enumerate(zip(layers.regions, layers.region_thing, strict=True)):
        box = _visible_box(region, view.warp(float(nearness[thing])), owner == thing, config)
        if box is not None:
            boxes[i] = box
    return Seen(image, boxes)


Window = tuple[slice, slice]  # rows and columns of a picture


def _cut_out(
    layers: Layers, thing: int, warp: Array, scale: float, camera: Camera
) -> tuple[Window, Image, NDArray[np.float32]]:
    """One thing in the view: the window that holds it, its colors there, and how much of each pixel is its."""
    left, top, width, height = cv2.boundingRect((layers.things == thing).astype(np.uint8))
    left, top, right, bottom = max(0, left - 4), max(0, top - 4), left + width + 4, top + height + 4  # soft edges
    mask = cv2.blur((layers.things[top:bottom, left:right] == thing).astype(np.float32), (3, 3))
    corners = moved(warp, np.array([[left, top], [right, top], [left, bottom], [right, bottom]], np.float64))
    x0, y0 = np.clip(np.floor(corners.min(axis=0)), 0, (camera.width, camera.height)).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(corners.max(axis=0)), 0, (camera.width, camera.height)).astype(int).tolist()
    window, size = np.s_[y0:y1, x0:x1], (x1 - x0, y1 - y0)
    if not min(size):
        return window, np.zeros((0, 0, 3), np.uint8), np.zeros((0, 0), np.float32)
    shift = np.array([[1, 0, -x0], [0, 1, -y0], [0, 0, 1]]) @ warp @ np.array([[1, 0, left], [0, 1, top], [0, 0, 1]])
    colors = _warped(_softened(layers.image[top:bottom, left:right], scale), shift, size)
    return window, colors, _warped(np.asarray(mask, np.float32), shift, size, cv2.BORDER_CONSTANT)


def _visible_box(region: Region, warp: Array, shown: NDArray[np.bool_], config: RegionConfig) -> Box | None:
    """The tight box of what a view shows of a region, None if that is too little of it or too small."""
    pixels = region_pixels(region)
    height, width = shown.shape
    x, y = moved(warp, pixels).round().astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    inside[inside] = shown[y[inside], x[inside]]
    if inside.mean() < SMALLEST_VISIBLE:
        return None
    corners = np.concatenate([pixels[inside] + (dx, dy) for dx in (-0.5, 0.5) for dy in (-0.5, 0.5)])
    places = moved(warp, corners) + 0.5  # boxes count from the edges of pixels, not from their middles
    x0, y0 = np.maximum(places.min(axis=0), 0).round(2).tolist()
    x1, y1 = np.minimum(places.max(axis=0), (width, height)).round(2).tolist()
    smallest_width, smallest_height, _ = config.smallest(region.category)
    return (x0, y0, x1, y1) if x1 - x0 >= smallest_width and y1 - y0 >= smallest_height else None


def _softened(image: Image, scale: float) -> Image:
    """Without the detail that would flicker when the image is drawn at a smaller scale."""
    if scale >= 1:
        return image
    return cast(Image, cv2.GaussianBlur(image, (0, 0), 0.5 * float(np.sqrt(1 / scale**2 - 1)) + 1e-3))


def _warped(
    picture: NDArray[Number], warp: Array, size: tuple[int, int], border: int = cv2.BORDER_REPLICATE
) -> NDArray[Number]:
    found = cv2.warpPerspective(cast(Any, picture), warp, size, flags=cv2.INTER_LINEAR, borderMode=border)
    return cast(NDArray[Number], found)
