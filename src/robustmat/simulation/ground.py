"""The ground: asphalt, markings, kerbs, pavement and grass, painted tile by tile where the camera looks.

The whole town's ground is one large picture seen from above. Its memory is only claimed where a tile was painted, and a
tile depends on nothing but the town, the look and its own number.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import labels
from robustmat.simulation.layout import ARM_HALF, ARM_LENGTH, ARM_WALK, KERB, LANE, VERGE, WALK
from robustmat.simulation.looks import Look
from robustmat.simulation.opencv import looked_up, remapped, shrunk, to_bytes
from robustmat.simulation.patterns import Plane, cloud_noise, filled, grain, to_image
from robustmat.simulation.shadows import ground_sun, lamp_pools
from robustmat.simulation.town import Town
from robustmat.types import Array, Image

TEXEL = 0.06  # metres
TILE = 480  # texels
COARSE = 6  # texels per sample of the road's coordinates
LEVELS = 4
MARGIN = 75.0  # metres of ground beyond the road

Labels = NDArray[np.uint8]
Mask = NDArray[np.bool_]
FAR_GRASS = (0.30, 0.34, 0.16)
LAMP_LIGHT = (0.75, 0.60, 0.36)


class Ground:
    """Remembers the painted tiles of a town under a look."""

    def __init__(self, town: Town, look: Look) -> None:
        low, high = town.route.points.min(axis=0) - MARGIN, town.route.points.max(axis=0) + MARGIN
        self.origin = low
        tiles = np.ceil((high - low) / (TEXEL * TILE)).astype(int)
        self._town, self._look = town, look
        self._painted = np.zeros((tiles[1], tiles[0]), bool)
        height, width = int(tiles[1] * TILE), int(tiles[0] * TILE)
        self.pictures: list[Image] = [np.zeros((height >> k, width >> k, 3), np.uint8) for k in range(LEVELS)]
        self.labels: Labels = np.zeros((height, width), np.uint8)

    def paint_around(self, points: Array) -> None:
        """Make sure that the tiles under `points` [N, 2] exist."""
        places = np.floor((points - self.origin) / (TEXEL * TILE)).astype(int)
        rows, columns = self._painted.shape
        inside = (places >= 0).all(axis=1) & (places[:, 0] < columns) & (places[:, 1] < rows)
        for column, row in np.unique(places[inside], axis=0):
            if not self._painted[row, column]:
                self._paint(int(row), int(column))

    def _paint(self, row: int, column: int) -> None:
        picture, classes = paint_tile(self._town, self._look, self.origin, row, column)
        for level, canvas in enumerate(self.pictures):
            side = TILE >> level
            small = picture if level == 0 else shrunk(picture, (side, side))
            canvas[row * side : (row + 1) * side, column * side : (column + 1) * side] = small
        self.labels[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] = classes
        self._painted[row, column] = True


# What lies on the ground, and its colour at a tone of 1.
GRASS, ASPHALT, SLAB, PAINT, STONE, LITTER, SNOW = range(7)
SURFACE_COLORS = np.array(
    [
        (0.25, 0.29, 0.12),
        (0.385, 0.385, 0.38),
        (0.54, 0.53, 0.51),
        (0.80, 0.80, 0.80),
        (0.58, 0.57, 0.54),
        (0.50, 0.32, 0.10),
        (0.90, 0.91, 0.94),
    ],
    np.float32,
)


@dataclass(frozen=True, eq=False)
class Sheet:
    """A tile being painted: what lies where and how bright it is, changed in place."""

    s: Plane  # metres along the road
    offset: Plane  # metres to its left
    aside: Plane  # metres from its middle
    rough: Plane  # slow noise
    blotch: Plane  # quicker noise
    fine: Plane  # grain
    classes: Labels
    surface: Labels
    tone: Plane


def paint_tile(town: Town, look: Look, origin: Array, row: int, column: int) -> tuple[Image, Labels]:
    """One tile, lit, and its classes."""
    rng = np.random.default_rng([town.seed, row, column, 611])
    corner = origin + np.array([column, row]) * TEXEL * TILE
    distance, _ = town.route.tree.query(corner + TILE * TEXEL / 2)
    if distance > ARM_LENGTH + TILE * TEXEL:
        return _meadow(look, rng)
    sheet, mouth = _lay_out(town, corner, rng)
    _surfaces(sheet, rng)
    _kerbs(sheet, mouth)
    _markings(sheet, town, mouth)
    _season(sheet, look)
    sun = ground_sun(town, look, corner, TILE, TEXEL, rng)
    pools = lamp_pools(town, corner, TILE, TEXEL) if look.lamps > 0 else np.float32(0)
    picture = np.empty((TILE, TILE, 3), np.uint8)
    for channel in range(3):
        table = np.zeros(256, np.float32)
        table[: len(SURFACE_COLORS)] = 255 * SURFACE_COLORS[:, channel]
        light = sun * float(look.sun[channel] * look.toward_sun[2]) + float(look.ambient[channel])
        light = light + pools * float(look.lamps * LAMP_LIGHT[channel])
        picture[:, :, channel] = to_bytes(np.maximum(looked_up(sheet.surface, table) * (sheet.tone * light), 0))
    return picture, sheet.classes


def _lay_out(town: Town, corner: Array, rng: np.random.Generator) -> tuple[Sheet, Mask]:
    """Who owns which texel: road, pavement or green; and where side streets meet the road."""
    shape = (TILE, TILE)
    s, offset = _road_coordinates(town, corner)
    aside = np.abs(offset)
    verge, paved = np.zeros(shape, bool), np.zeros(shape, bool)
    for side in (1, -1):
        stretches = town.stretches[side]
        number = (s * np.float32(1 / 60)).astype(np.int32) % len(stretches)
        here = offset > 0 if side > 0 else offset <= 0
        verge |= here & np.array([stretche.verge for stretche in stretches])[number]
        paved |= here & np.array([stretche.district in ("centre", "old") for stretche in stretches])[number]
    verge &= (aside > KERB + 0.2) & (aside < VERGE)
    paved &= aside > WALK
    arm_road, arm_walk, mouth = _arms(town, corner)
    road = (aside < KERB) | arm_road
    classes = np.full(shape, labels.TERRAIN, np.uint8)
    classes[(aside < WALK) | paved | arm_walk] = labels.SIDEWALK
    classes[verge & ~arm_walk] = labels.TERRAIN
    classes[road] = labels.ROAD
    surface = np.choose(np.minimum(classes, 2), (ASPHALT, SLAB, GRASS)).astype(np.uint8)
    rough, blotch, fine = cloud_noise(shape, rng, 90), cloud_noise(shape, rng, 14, 2), grain(shape, rng)
    sheet = Sheet(s, offset, aside, rough, blotch, fine, classes, surface, np.ones(shape, np.float32))
    return sheet, arm_road | mouth


def _surfaces(sheet: Sheet, rng: np.random.Generator) -> None:
    """Grain, wear and joints of grass, asphalt and slabs."""
    rough, blotch, fine, aside = sheet.rough, sheet.blotch, sheet.fine, sheet.aside
    grass = 1 + 0.16 * rough + 0.22 * blotch + 0.16 * fine
    oil = np.exp((aside - 1.65) ** 2 * np.float32(-1 / 0.18))  # the dark middle of each lane
    asphalt = (1 + 0.045 * rough + 0.03 * blotch + 0.08 * fine - 0.08 * oil) * _marks(rng)
    joint = (np.mod(sheet.s, 0.6) < 0.05) | (np.mod(aside, 0.6) < 0.05)
    slab = (1 + 0.06 * rough + 0.06 * fine) * np.where(joint, np.float32(0.78), np.float32(1))
    sheet.tone[:] = np.choose(sheet.surface, (grass, asphalt, slab))


def _meadow(look: Look, rng: np.random.Generator) -> tuple[Image, Labels]:
    """A tile far from any road."""
    shape = (TILE, TILE)
    picture = filled(shape, FAR_GRASS if look.snow == 0 else (0.88, 0.89, 0.92))
    picture *= (1 + 0.2 * cloud_noise(shape, rng, 40))[..., None]
    light = np.asarray(look.ambient) + np.asarray(look.sun) * look.toward_sun[2]
    return to_image(picture * light.astype(np.float32)), np.full(shape, labels.TERRAIN, np.uint8)


def _road_coordinates(town: Town, corner: Array) -> tuple[Plane, Plane]:
    """Along and aside of the road for every texel of a tile, from a coarse grid."""
    count = TILE // COARSE + 1
    ticks = (np.arange(count) * COARSE + 0.5) * TEXEL
    x, y = np.meshgrid(corner[0] + ticks, corner[1] + ticks)
    s, offset = town.route.locate(np.stack([x.ravel(), y.ravel()], axis=1))
    # The round's seam must not run through a tile: count from the tile's own middle.
    length = town.route.length
    middle = s[s.size // 2]
    s = np.mod(s - middle + length / 2, length) - length / 2 + middle
    ticks_wanted = np.arange(TILE, dtype=np.float32) / COARSE
    map_x, map_y = np.meshgrid(ticks_wanted, ticks_wanted)

    def finer(values: Array) -> Plane:
        grid = values.reshape(count, count).astype(np.float32)
        return remapped(grid, map_x, map_y)

    return finer(s), finer(offset)


def _arms(town: Town, corner: Array) -> tuple[Mask, Mask, Mask]:
    """Where side streets, their pavements and their mouths are."""
    road, walk, mouth = (np.zeros((TILE, TILE), bool) for _ in range(3))
    ticks = ((np.arange(TILE) + 0.5) * TEXEL).astype(np.float32)
    center = corner + TILE * TEXEL / 2
    for junction in town.junctions:
        root, heading = town.route.at(junction.s)
        for side in junction.sides:
            out = side * np.array([-np.sin(heading), np.cos(heading)])
            nearest = root + np.clip(out @ (center - root), -KERB, ARM_LENGTH) * out
            if np.linalg.norm(nearest - center) > 0.75 * TILE * TEXEL + ARM_WALK + 3:
                continue
            # Plain floats keep the arrays in single precision.
            (out_x, out_y), (x0, y0) = out.tolist(), (corner - root).tolist()
            x, y = ticks[None, :] + x0, ticks[:, None] + y0
            along, across = x * out_x + y * out_y, np.abs(y * out_x - x * out_y)
            flare = 0.22 * np.maximum(3.0 - (along - KERB), 0) ** 2 * (along > KERB - 0.3)
            before_end = along < ARM_LENGTH
            road |= (along > KERB - 0.3) & before_end & (across < ARM_HALF + flare)
            walk |= (along > KERB) & before_end & (across < ARM_WALK + flare)
            mouth |= (along > -KERB) & (along < KERB + 1.0) & (across < ARM_HALF + 1.2)
    return road, walk, mouth


def _marks(rng: np.random.Generator) -> Plane:
    """Patches, cracks filled with tar and manhole covers, as gains on asphalt."""
    marks = np.ones((TILE, TILE), np.float32)
    for _ in range(int(rng.integers(1, 4))):
        center = tuple(float(v) for v in rng.uniform(0, TILE, 2))
        size = tuple(float(v) for v in rng.uniform(15, 75, 2))
        corners = cv2.boxPoints((center, size, float(rng.uniform(0, 90)))).astype(np.int32)
        cv2.fillPoly(marks, [corners], float(rng.uniform(0.78, 1.1)), cv2.LINE_AA)
    for _ in range(int(rng.integers(3, 8))):
        steps = np.cumsum(rng.normal(0, 6, (14, 2)) + rng.normal(0, 7, 2), axis=0)
        points = (rng.uniform(0, TILE, 2) + steps).astype(np.int32)
        cv2.polylines(marks, [points], False, 0.55, int(rng.integers(1, 3)), cv2.LINE_AA)
    for _ in range(int(rng.integers(0, 3))):
        center = (int(rng.integers(TILE)), int(rng.integers(TILE)))
        cv2.circle(marks, center, 6, 0.5, -1, cv2.LINE_AA)
        cv2.circle(marks, center, 4, 0.72, 1, cv2.LINE_AA)
    return marks


def _markings(sheet: Sheet, town: Town, mouth: Mask) -> None:
    s, offset, aside = sheet.s, sheet.offset, sheet.aside
    paint = (aside < 0.075) & (np.mod(s, 9.0) < 3.6) & ~mouth
    paint |= (np.abs(aside - LANE) < 0.06) & (np.mod(s, 2.0) < 1.0) & ~mouth
    length = town.route.length
    first, last = float(s.min()), float(s.max())
    reach = ARM_WALK + 1.4
    for junction in town.junctions:
        # The turn of the round on which the junction is nearest to this tile.
        place = junction.s + length * round(((first + last) / 2 - junction.s) / length)
        if place < first - reach - 4 or place > last + reach + 4:
            continue
        along = s - np.float32(place)
        paint &= (np.abs(along) >= reach + 3.4) | (aside > LANE + 0.2)
        if junction.lights:
            zebra = (np.abs(np.abs(along) - reach) < 1.5) & (np.mod(offset + 0.25, 1.0) < 0.5) & (aside < KERB - 0.2)
            stop = (np.abs(along + reach + 2.6) < 0.2) & (offset < -0.1) & (offset > -LANE)
            stop |= (np.abs(along - reach - 2.6) < 0.2) & (offset > 0.1) & (offset < LANE)
            paint |= zebra | stop
    paint &= aside < KERB
    sheet.surface[paint] = PAINT
    wear = sheet.rough[paint] + 0.8 * sheet.blotch[paint]
    sheet.tone[paint] = np.clip(1 - 0.2 * np.maximum(wear, 0), 0.4, 1.0)


def _kerbs(sheet: Sheet, mouth: Mask) -> None:
    aside = sheet.aside
    stone = (aside > KERB - 0.02) & (aside < KERB + 0.16) & ~mouth
    gutter = (aside > KERB - 0.16) & (aside <= KERB - 0.02) & ~mouth
    sheet.surface[stone] = STONE
    sheet.tone[stone] = np.where(np.mod(sheet.s[stone], 1.0) < 0.04, 0.65, 1.0)
    sheet.tone[gutter] *= 0.62


def _season(sheet: Sheet, look: Look) -> None:
    road, aside = sheet.classes == labels.ROAD, sheet.aside
    if look.wet > 0:
        sheet.tone[road] *= 1 - 0.55 * look.wet
    if look.leaves == "autumn":
        litter = (sheet.fine > 1.7 - 0.5 * (aside > KERB - 0.8)) & (sheet.blotch + sheet.rough > 0.3)
        sheet.surface[litter] = LITTER
        sheet.tone[litter] = 1.0
    if look.snow > 0:
        # Wheels keep two tracks of each lane bare; pavements are trodden, gardens are white.
        track = np.exp(((np.abs(aside - 1.65) - 0.75) ** 2) * np.float32(-1 / 0.12)) * (aside < LANE)
        cover = np.where(road, 0.25 - 1.6 * track + 0.25 * (aside > LANE), 0.75)
        cover[sheet.classes == labels.SIDEWALK] = 0.35
        amount = np.clip((cover + 0.33 * sheet.rough + 0.25 * sheet.blotch) * 1.4 * look.snow, 0, 0.95)
        # Thin snow is slush: it takes the tone of what lies under it.
        deep, thin = amount > 0.5, (amount > 0.2) & (amount <= 0.5)
        sheet.surface[deep | thin] = SNOW
        sheet.tone[deep] = (0.55 + 0.47 * amount + 0.02 * sheet.fine)[deep]
        sheet.tone[thin] = (0.35 + 0.9 * amount + 0.05 * sheet.fine)[thin]
