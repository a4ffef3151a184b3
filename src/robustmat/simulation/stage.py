"""A town under one look, ready to be seen: its pictures, its ground, its sky and the light on its parts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import labels
from robustmat.simulation.bank import TextureBank
from robustmat.simulation.ground import TEXEL, TILE, Ground
from robustmat.simulation.looks import Look, find_look
from robustmat.simulation.materials import draw
from robustmat.simulation.scene import Panel, Part
from robustmat.simulation.shadows import sun_share
from robustmat.simulation.sky import draw_sky
from robustmat.simulation.town import Town
from robustmat.types import Array

MOST_TILES = 56  # of the ground; 1.2 MB each, and a frame sees about 20


class Stage:
    """Remembers what was drawn of a town under a look; everything it gives follows from those two alone."""

    def __init__(self, town: Town, look: Look) -> None:
        self.town, self.look = town, look
        self.bank = TextureBank(lambda material: draw(material, town, look))
        self.ground = Ground(town, look)
        self._tiles: set[tuple[int, int]] = set()  # of the ground, that were painted
        self.sky, self.sky_labels = draw_sky(town.seed, look)
        share = sun_share(town, look, town.parts.centers)
        self._sun = {id(part): float(value) for part, value in zip(town.parts.parts, share, strict=True)}

    def sun_on(self, part: Part) -> float:
        """Share of direct sun on a part of the town; moving things are taken to stand in the open."""
        return self._sun.get(id(part), 0.85)

    def paint_ground(self, tiles: NDArray[np.int64]) -> Ground:
        """The ground, painted at least on `tiles` [N, 2] (column, row).

        When many tiles have been painted all are forgotten, so that a long drive takes no more memory than a short
        one; those that are seen again come out the same.
        """
        size = np.array(self.ground.labels.shape[::-1]) // TILE
        tiles = tiles[((tiles >= 0) & (tiles < size)).all(axis=1)]
        wanted = {(column, row) for column, row in tiles.tolist()}
        if len(self._tiles | wanted) > MOST_TILES:
            self.ground = Ground(self.town, self.look)
            self._tiles = set()
        self._tiles |= wanted
        self.ground.paint_around((tiles + 0.5) * TEXEL * TILE + self.ground.origin)
        return self.ground

    def lights(self, panels: Sequence[Panel], suns: Sequence[float]) -> Array:
        """The gain [N, 3] of the light that falls on each panel; `suns` are their shares of direct sun."""
        look = self.look
        normal = np.cross(np.array([p.down for p in panels]), np.array([p.right for p in panels]))  # outward
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
        facing = normal @ look.toward_sun
        upness = np.clip(normal[:, 2], 0, 1)  # roofs see the whole sky
        kind = np.array([p.label for p in panels])
        facing = np.where([p.two_sided for p in panels], np.abs(facing), facing)
        # Round and bushy things always show the sun some side.
        facing = np.where((kind == labels.VEGETATION) | (kind == labels.POLE), 0.6, np.maximum(facing, 0.0))
        gain = (0.75 + 0.25 * upness)[:, None] * np.asarray(look.ambient)
        gain = gain + (facing * np.asarray(suns))[:, None] * np.asarray(look.sun)
        if look.lamps > 0:
            own = np.array([p.glow for p in panels])[:, None] * np.array([1.5, 1.3, 0.95]) * look.lamps
            gain = np.maximum(gain, own)
        gain[kind == labels.TRAFFIC_LIGHT] = np.maximum(gain[kind == labels.TRAFFIC_LIGHT], 0.85)
        gain[[p.lit for p in panels]] = 1.0
        return np.asarray(gain)


@lru_cache(maxsize=2)
def stage_of(town: Town, look_name: str) -> Stage:
    """The stage of a town under a look; the two used last are kept."""
    return Stage(town, find_look(look_name))
