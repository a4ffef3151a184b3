"""Points into pixels, and which of them the camera really sees.

Calibrations put whole numbers at the *middle* of a pixel: pixel (0, 0) reaches from -0.5 to 0.5.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from robustmat.geometry.transforms import multiply
from robustmat.types import Array, Camera

NEAREST = 0.5  # metres; what is nearer belongs to the car itself or lies behind the camera


def project(points_camera: Array, camera: Camera) -> tuple[Array, Array, NDArray[np.intp]]:
    """Pixels [M, 2], depths [M] and indices [M] of the points that fall into the image.

    Points behind the camera are dropped before the division by depth: they would mirror into the image.
    """
    ahead = np.flatnonzero(points_camera[:, 2] > NEAREST)
    points = points_camera[ahead]
    depth = points[:, 2]
    pixels = multiply(camera.matrix[:2], points) / depth[:, None]
    inside = (pixels >= -0.5).all(1) & (pixels < np.array([camera.width, camera.height]) - 0.5).all(1)
    return pixels[inside], depth[inside], ahead[inside]


def pixel_index(pixels: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row [M] and column [M] of the pixel that each projected point falls into."""
    whole = np.floor(pixels + 0.5).astype(np.intp)
    return whole[:, 1], whole[:, 0]


def visible(pixels: Array, depth: Array, width: int, height: int, window: int = 5) -> NDArray[np.bool_]:
    """[M]: whether no other point lies clearly nearer within `window` x `window` pixels.

    Points are sparse, so a nearer surface hides more than the pixels its points hit: hence the window.
    The slack lets one slanted surface (a facade seen at a grazing angle) stay whole.
    """
    if not len(depth):
        return np.zeros(0, dtype=bool)
    row, column = pixel_index(pixels)
    nearest = np.full((height, width), np.inf)
    np.minimum.at(nearest, (row, column), depth)
    nearest = ndimage.minimum_filter(nearest, size=window, mode="constant", cval=np.inf)
    slack = 0.5 + 0.02 * depth
    return np.asarray(depth <= nearest[row, column] + slack)
