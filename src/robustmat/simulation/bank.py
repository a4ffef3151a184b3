"""Remembers drawn textures and their shrunken copies, so that far panels do not flicker."""

from collections import OrderedDict
from collections.abc import Callable

import cv2

from robustmat.simulation.opencv import resized, shrunk
from robustmat.simulation.scene import Material, Texture

Key = tuple[Material, int, int]


class TextureBank:
    """Draws a material when it is first seen and keeps what was used last, up to `capacity` bytes.

    Copies are halved in each direction separately: a facade seen along the street is squeezed in width only.
    """

    def __init__(self, draw: Callable[[Material], Texture], capacity: int = 96_000_000) -> None:
        self._draw = draw
        self._capacity = capacity
        self._kept: OrderedDict[Key, Texture] = OrderedDict()
        self._bytes = 0

    def get(self, material: Material, halve_x: int = 0, halve_y: int = 0) -> Texture:
        """The texture, halved `halve_x` times in width and `halve_y` times in height (as far as it goes)."""
        key = (material, halve_x, halve_y)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        texture = self._draw(material) if not (halve_x or halve_y) else self._halved(material, halve_x, halve_y)
        self._kept[key] = texture
        self._bytes += _size(texture)
        while self._bytes > self._capacity and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)
        return texture

    def _halved(self, material: Material, halve_x: int, halve_y: int) -> Texture:
        full = self.get(material)
        height, width = full.rgb.shape[:2]
        size = (max(width >> halve_x, 1), max(height >> halve_y, 1))
        rgb = shrunk(full.rgb, size)
        alpha = None if full.alpha is None else shrunk(full.alpha, size)
        # Codes are names, not amounts: they are picked, never averaged.
        codes = None if full.codes is None else resized(full.codes, size, cv2.INTER_NEAREST)
        return Texture(rgb, alpha, codes)


def _size(texture: Texture) -> int:
    return sum(plane.nbytes for plane in (texture.rgb, texture.alpha, texture.codes) if plane is not None)
