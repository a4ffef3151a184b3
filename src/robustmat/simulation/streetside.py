"""Sets lamps, posts, signs, traffic lights, bollards and trees along the road."""

import numpy as np

from robustmat.simulation import furniture, labels
from robustmat.simulation.buildings import tree
from robustmat.simulation.designs import DESIGNS
from robustmat.simulation.layout import (
    ARM_HALF,
    ARM_WALK,
    KERB,
    VERGE,
    WALK,
    Draft,
    Junction,
    Stretch,
    gap,
    stretch_at,
)
from robustmat.types import Array

EDGE = KERB + 0.45  # where furniture stands on the pavement


def furnish(
    draft: Draft,
    junctions: tuple[Junction, ...],
    stretches: dict[int, tuple[Stretch, ...]],
    rng: np.random.Generator,
) -> None:
    for junction in junctions:  # they come first: their lights and signs cannot stand anywhere else
        _junction(draft, junction, rng)
    for side in (1, -1):
        arms = [j.s for j in junctions if side in j.sides]
        _lamps(draft, side, arms, stretches, rng)
        _signs(draft, side, arms, rng)
        _trees(draft, side, arms, stretches, rng)
        _bollards(draft, side, arms, rng)
        _clutter(draft, side, arms, rng)


def _clear(draft: Draft, s: float, arms: list[float], margin: float) -> bool:
    return all(gap(draft.route.length, s, arm) > margin for arm in arms)


def _lamps(
    draft: Draft,
    side: int,
    arms: list[float],
    stretches: dict[int, tuple[Stretch, ...]],
    rng: np.random.Generator,
) -> None:
    step = float(rng.uniform(21, 27))
    wired: tuple[float, Array] | None = None  # the last wooden pole and where its wires hang
    for s in np.arange(side * 5.0 + 8, draft.route.length - 4, step):
        stretch = stretch_at(stretches, side, s)
        if not _clear(draft, s, arms, ARM_HALF + 1.5):
            continue
        x, y = (float(v) for v in draft.route.beside(s, side * (EDGE + rng.uniform(-0.1, 0.15))))
        if not draft.claim(x, y):
            continue
        heading = float(draft.route.at(s)[1])
        seed = int(rng.integers(40))
        if stretch.pole == "wooden":
            height = float(rng.uniform(7.0, 8.0))
            identity = draft.name_landmark("pole", "wooden", (x, y, height / 2))
            draft.add(furniture.wooden_pole(x, y, heading, height, seed, identity))
            head = np.array([x, y, height - 0.45])
            if wired is not None and s - wired[0] < step + 1:
                draft.add(furniture.wires(wired[1], head))
            wired = (float(s), head)
            continue
        height = {"long": 7.5, "short": 6.0, "lantern": 3.9}[stretch.pole]
        identity = draft.name_landmark("pole", f"lamp-{stretch.pole}-{stretch.pole_color}", (x, y, height / 2))
        toward = heading - side * np.pi / 2
        draft.add(furniture.lamp(x, y, toward, height, stretch.pole, stretch.pole_color, seed, identity))


def _signs(draft: Draft, side: int, arms: list[float], rng: np.random.Generator) -> None:
    """Signs in the middle of blocks; most face the traffic of their own side."""
    names = list(DESIGNS)
    # A town uses some designs again and again.
    favourites = [str(n) for n in rng.choice(names, 9, replace=False)]
    s = float(rng.uniform(4, 12))
    while s < draft.route.length - 4:
        if _clear(draft, s, arms, ARM_HALF + 2.0):
            design = str(rng.choice(favourites if rng.random() < 0.65 else names))
            against = rng.random() < (0.45 if side > 0 else 0.15)  # shown to the drivers of the other lane
            toward = np.pi if (side > 0) != against else 0.0
            sign_post(draft, s, side * (EDGE + float(rng.uniform(0.0, 0.5))), toward, design, rng)
        s += float(rng.uniform(10, 21))


def sign_post(draft: Draft, s: float, offset: float, toward: float, design: str, rng: np.random.Generator) -> None:
    """A thin pole with a sign, now and then with a second one below."""
    x, y = (float(v) for v in draft.route.beside(s, offset))
    if not draft.claim(x, y):
        return
    heading = float(draft.route.at(s)[1]) + toward + float(rng.normal(0, 0.12))
    plan = DESIGNS[design]
    z = float(rng.uniform(2.1, 2.6)) + plan.height / 2
    top = z + (0.1 if plan.shape == "plate" else 0.5 * plan.height)
    color = str(rng.choice(["steel", "steel", "dark", "white"]))
    pole = draft.name_landmark("pole", f"sign-post-{color}", (x, y, z / 2))
    draft.add([furniture.post(x, y, top, 0.085, color, int(rng.integers(40)), pole)])
    sign = draft.name_landmark("traffic_sign", design, (x, y, z))
    draft.add(furniture.sign_face(x, y, z, heading, design, int(rng.integers(12)), sign))


def _trees(
    draft: Draft,
    side: int,
    arms: list[float],
    stretches: dict[int, tuple[Stretch, ...]],
    rng: np.random.Generator,
) -> None:
    s = 6.0
    while s < draft.route.length - 5:
        if stretch_at(stretches, side, s).verge and _clear(draft, s, arms, ARM_WALK + 5):
            x, y = (float(v) for v in draft.route.beside(s, side * (0.5 * (KERB + VERGE) + 0.2)))
            if draft.claim(x, y, 1.5):
                tree(draft, x, y, float(rng.uniform(6.5, 9.0)), rng)
        s += float(rng.uniform(9, 15))


def _bollards(draft: Draft, side: int, arms: list[float], rng: np.random.Generator) -> None:
    """Rows of equal bollards on both sides of some side streets' mouths, and elsewhere."""
    for s in [
        *(a + hand * (ARM_HALF + 2.4) for a in arms for hand in (1, -1)),
        *rng.uniform(0, draft.route.length, 3),
    ]:
        if rng.random() < 0.45:
            continue
        color = str(rng.choice(["striped", "dark", "steel", "white"]))
        for k in range(int(rng.integers(3, 6))):
            place = float(s) + 2.4 * k
            if not _clear(draft, place, arms, ARM_HALF + 0.8):
                continue
            x, y = (float(v) for v in draft.route.beside(place, side * (KERB + 0.3)))
            if not draft.claim(x, y):
                continue
            identity = draft.name_landmark("pole", f"bollard-{color}", (x, y, 0.5))
            draft.add([furniture.post(x, y, 1.0, 0.13, color, int(rng.integers(6)), identity)])


def _clutter(draft: Draft, side: int, arms: list[float], rng: np.random.Generator) -> None:
    """Cabinets, bins and notice boards: things that stand about and hide others."""
    for s in rng.uniform(0, draft.route.length, int(draft.route.length / 30)):
        if not _clear(draft, float(s), arms, ARM_WALK):
            continue
        size = ((0.7, 0.4, 1.2), (0.5, 0.5, 1.05), (1.2, 0.5, 1.3), (1.3, 0.25, 2.3))[int(rng.integers(4))]
        color = ((0.45, 0.47, 0.44), (0.18, 0.30, 0.20), (0.60, 0.56, 0.20), (0.30, 0.30, 0.33))[int(rng.integers(4))]
        x, y = draft.route.beside(float(s), side * (WALK - 0.5))
        center = np.array([float(x), float(y), size[2] / 2])
        heading = float(draft.route.at(float(s))[1]) + float(rng.choice([0.0, np.pi / 2]))
        draft.add(furniture.box_panels(center, heading, size, (("plain", *color),) * 2, labels.UNKNOWN))


def _junction(draft: Draft, junction: Junction, rng: np.random.Generator) -> None:
    """Traffic lights, or the signs that say who gives way."""
    reach = ARM_WALK + 0.6
    for way in (0.0, np.pi):  # the two directions of the main road
        ahead = 1 if way == 0.0 else -1
        kerb_side = -ahead  # driving on the right: their own kerb
        # The far light stands clear of the other direction's near one, also when seen along the road.
        near, far = junction.s - ahead * reach, junction.s + ahead * (reach + 2.8)
        if junction.lights:
            backplate = bool(rng.random() < 0.5)
            _light_post(draft, near, kerb_side * (EDGE + 0.1), way, backplate, rng)
            _light_post(draft, far, -kerb_side * (WALK - 0.35), way, backplate, rng)
        else:
            design = str(rng.choice(["priority", "crossroads", "give-way", "stop"], p=[0.4, 0.2, 0.25, 0.15]))
            sign_post(draft, near - ahead * 1.0, kerb_side * (EDGE + 0.2), way, design, rng)
    for side in junction.sides:  # a street name and a turn sign at each mouth
        design = str(rng.choice(["one-way", "no-entry", "dead-end", "to-centre", "to-station", "keep-right"]))
        sign_post(draft, junction.s + reach + 0.8, side * (WALK - 0.4), 0.0, design, rng)


def _light_post(
    draft: Draft, s: float, offset: float, toward: float, backplate: bool, rng: np.random.Generator
) -> None:
    x, y = (float(v) for v in draft.route.beside(s, offset))
    if not draft.claim(x, y):
        return
    heading = float(draft.route.at(s)[1]) + toward + float(rng.normal(0, 0.06))
    forward, _right = furniture.axes(heading)
    color = str(rng.choice(["steel", "green", "dark"]))
    height = 3.4
    pole = draft.name_landmark("pole", f"light-post-{color}", (x, y, height / 2))
    draft.add([furniture.post(x, y, height, 0.14, color, int(rng.integers(40)), pole)])
    place = np.array([x, y, 0.0]) - 0.2 * forward
    z = 2.95
    light = draft.name_landmark("traffic_light", f"light-{int(backplate)}", (place[0], place[1], z))
    draft.add(furniture.light_head(float(place[0]), float(place[1]), z, heading, backplate, light))
