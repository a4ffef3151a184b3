"""Sets buildings, gardens and parks beside the road."""

import numpy as np

from robustmat.simulation import labels
from robustmat.simulation.facades import STYLES, Front, plan_front
from robustmat.simulation.furniture import UP
from robustmat.simulation.layout import (
    ARM_LENGTH,
    ARM_WALK,
    WALK,
    Crown,
    Draft,
    Footprint,
    Junction,
    Stretch,
    gap,
    stretch_at,
)
from robustmat.simulation.patterns import varied
from robustmat.simulation.scene import Material, Panel, Strut
from robustmat.types import Array

ACCENTS = (
    (0.45, 0.10, 0.10),
    (0.10, 0.24, 0.40),
    (0.12, 0.32, 0.20),
    (0.75, 0.60, 0.15),
    (0.30, 0.22, 0.16),
    (0.85, 0.83, 0.78),
)
STYLES_OF = {
    "centre": ("plaster", "panel", "brick", "plaster"),
    "old": ("timber", "shutters", "plaster", "shutters"),
    "suburb": ("cottage", "brick", "shutters", "cottage"),
    "green": ("cottage", "panel"),
}


def line_the_road(
    draft: Draft,
    junctions: tuple[Junction, ...],
    stretches: dict[int, tuple[Stretch, ...]],
    rng: np.random.Generator,
) -> None:
    """Buildings and gardens along both sides of the round, leaving side streets open."""
    length = draft.route.length
    for side in (1, -1):
        arms = [j.s for j in junctions if side in j.sides]
        s = 0.0
        while s < length - 5:
            stretch = stretch_at(stretches, side, s)
            width = float(rng.uniform(9.5, 15.0))
            width = min(width, length - s)
            blocked = [a for a in arms if a - ARM_WALK - 0.8 < s + width and a + ARM_WALK + 0.8 > s]
            if blocked:
                start = min(blocked) - ARM_WALK - 0.8
                if start - s > 7.0:
                    width = start - s
                else:
                    s = max(max(blocked) + ARM_WALK + 0.8, s + 0.1)
                    continue
            at_corner = any(gap(length, s + e, a) < ARM_WALK + 2.5 for e in (0.0, width) for a in arms)
            _plot(draft, side, s, s + width, stretch, at_corner, rng)
            s += width + (0.0 if stretch.district in ("centre", "old") else float(rng.uniform(1.5, 4.0)))


def _plot(
    draft: Draft,
    side: int,
    start: float,
    end: float,
    stretch: Stretch,
    at_corner: bool,
    rng: np.random.Generator,
) -> None:
    park = {"centre": 0.05, "old": 0.05, "suburb": 0.22, "green": 0.72}[stretch.district]
    if rng.random() < park and not at_corner:
        _park(draft, side, start, end, rng)
        return
    garden = float(rng.uniform(2.5, 5.0)) if stretch.district in ("suburb", "green") else 0.0
    offset = side * (WALK + garden + (0.2 if garden == 0 else 0.0))
    foot_a, foot_b = draft.route.beside(start, offset), draft.route.beside(end, offset)
    left, right = (foot_a, foot_b) if side > 0 else (foot_b, foot_a)
    ground = str(rng.choice(["shop", "windows", "yard"], p=[0.5, 0.2, 0.3]))
    if stretch.district != "centre":
        ground = str(rng.choice(["windows", "yard"], p=[0.6, 0.4]))
    exposed = at_corner or garden > 0
    set_building(draft, left, right, str(rng.choice(STYLES_OF[stretch.district])), ground, exposed, rng)
    if garden:
        _garden_edge(draft, side, start, end, rng)


def set_building(
    draft: Draft,
    left: Array,
    right: Array,
    style_name: str,
    ground: str,
    exposed: bool,
    rng: np.random.Generator,
) -> None:
    """A building whose front runs from `left` to `right` (feet, as seen from the street)."""
    style = STYLES[style_name]
    width = float(np.linalg.norm(right - left))
    along = (right - left) / width
    inward = np.array([-along[1], along[0]])
    depth = float(rng.uniform(9.0, 12.0))
    floors = int(rng.integers(style.floors[0], style.floors[1] + 1))
    wall = varied(style.walls[int(rng.integers(len(style.walls)))], rng, 0.06)
    accent = ACCENTS[int(rng.integers(len(ACCENTS)))]
    back_left, back_right = left + depth * inward, right + depth * inward
    faces = [(left, right, ground), (right, back_right, "blank" if exposed else "blind")]
    faces += [(back_left, left, "blank" if exposed else "blind"), (back_right, back_left, "blind")]
    height = 0.0
    for face_left, face_right, kind in faces:
        front = plan_front(style_name, wall, accent, float(np.linalg.norm(face_right - face_left)), floors, kind, rng)
        height = front.height
        index = len(draft.fronts)
        draft.fronts.append(front)
        draft.front_places.append((face_left, face_right))
        foot, run = np.append(face_left, 0.0), np.append(face_right - face_left, 0.0)
        base = draft.next_identity - 1  # window k of this front is identity base + k
        for x, y, wide, tall in front.windows:
            center = foot + run * (x + wide / 2) / front.width + (height - y - tall / 2) * UP
            draft.name_landmark("window", f"window-{style_name}", center)
        draft.parts.append(
            Panel(
                foot + height * UP,
                run,
                -height * UP,
                ("front", index),
                labels.WINDOW,
                base,
                lit=True,
                reflectance=0.35,
            )
        )
    if floors > 2 and style.bands and rng.random() < 0.4:
        _balconies(draft, left, along, inward, draft.fronts[-4], rng)
    corners = tuple((float(p[0]), float(p[1])) for p in (left, right, back_right, back_left))
    draft.footprints.append(Footprint(corners, height))
    _roof(draft, left, along, inward, width, depth, height, style.gable, rng)


def _balconies(draft: Draft, left: Array, along: Array, inward: Array, front: Front, rng: np.random.Generator) -> None:
    """Balconies before one or two columns of windows; they hide a part of them."""
    columns = sorted({round(x, 2) for x, *_ in front.windows})
    if not columns:
        return
    chosen = rng.choice(columns, min(int(rng.integers(1, 3)), len(columns)), replace=False).tolist()
    railing: Material = ("railing", int(rng.integers(6)))
    out, run = np.append(-1.0 * inward, 0.0), np.append(along, 0.0)
    for x, y, wide, tall in front.windows:
        if round(x, 2) not in chosen or front.height - y - tall < 2.5:
            continue
        width = wide + 0.9
        floor = front.height - y - tall - 0.35
        foot = np.append(left + (x - 0.45) * along, floor + 1.0)
        down = -1.1 * UP
        for corner, edge in ((foot + out, width * run), (foot, out), (foot + width * run + out, -out)):
            draft.parts.append(Panel(corner, edge, down, railing, labels.BUILDING, two_sided=True))
        slab = Panel(
            foot + out - 1.1 * UP, width * run, -out, ("plain", 0.5, 0.49, 0.47), labels.BUILDING, two_sided=True
        )
        draft.parts.append(slab)


def _roof(
    draft: Draft,
    left: Array,
    along: Array,
    inward: Array,
    width: float,
    depth: float,
    height: float,
    gable: bool,
    rng: np.random.Generator,
) -> None:
    tiles: Material = ("tiles", int(rng.integers(4)))
    if not gable:
        return
    eave, rise = 0.35, float(rng.uniform(2.6, 3.8))
    run = np.append((width + 2 * eave) * along, 0.0)
    slope = np.append((depth / 2 + eave) * inward, rise * (1 + 2 * eave / depth))
    low_front = np.append(left - eave * along - eave * inward, height - rise * 2 * eave / depth)
    draft.parts.append(Panel(low_front + slope, run, -slope, tiles, labels.BUILDING))
    back_slope = np.append(-(depth / 2 + eave) * inward, rise * (1 + 2 * eave / depth))
    low_back = np.append(left + width * along + eave * along + (depth + eave) * inward, low_front[2])
    draft.parts.append(Panel(low_back + back_slope, -run, -back_slope, tiles, labels.BUILDING))
    color = draft.fronts[-1].wall
    for foot, run_side in ((left + width * along, depth * inward), (left + depth * inward, -depth * inward)):
        corner = np.append(foot, height + rise)
        draft.parts.append(Panel(corner, np.append(run_side, 0.0), -rise * UP, ("gable", *color), labels.BUILDING))


def _garden_edge(draft: Draft, side: int, start: float, end: float, rng: np.random.Generator) -> None:
    """Hedge, fence or low wall between pavement and garden, and a bush or two behind it."""
    kind = str(rng.choice(["hedge", "fence", "wall", "none"], p=[0.4, 0.25, 0.2, 0.15]))
    _barrier(draft, side, start, end, kind, rng)
    for _ in range(int(rng.integers(0, 3))):
        x, y = draft.route.beside(rng.uniform(start, end), side * (WALK + 1.6))
        bush(draft, float(x), float(y), rng)


def _barrier(draft: Draft, side: int, start: float, end: float, kind: str, rng: np.random.Generator) -> None:
    if kind == "none":
        return
    height = {"hedge": 1.3, "fence": 1.1, "wall": 0.9, "tall-wall": 2.2, "tall-hedge": 2.1}[kind]
    label = {"hedge": labels.VEGETATION, "tall-hedge": labels.VEGETATION, "fence": labels.FENCE}.get(kind, labels.WALL)
    material: Material = (kind.removeprefix("tall-"), int(rng.integers(5)))
    places = np.arange(start, end - 1.0, 4.0)
    for a in places:
        b = min(a + 4.0, end)
        foot_a, foot_b = (
            draft.route.beside(a, side * (WALK + 0.25)),
            draft.route.beside(b, side * (WALK + 0.25)),
        )
        left, right = (foot_a, foot_b) if side > 0 else (foot_b, foot_a)
        corner, run = np.append(left, height), np.append(right - left, 0.0)
        draft.parts.append(Panel(corner, run, -height * UP, material, label, two_sided=True))


def _park(draft: Draft, side: int, start: float, end: float, rng: np.random.Generator) -> None:
    """Trees and bushes on grass behind a hedge, a wall or nothing."""
    kind = str(rng.choice(["tall-hedge", "tall-wall", "fence", "none", "hedge"]))
    _barrier(draft, side, start, end, kind, rng)
    for _ in range(int(rng.integers(3, 6))):
        x, y = draft.route.beside(rng.uniform(start, end), side * rng.uniform(WALK + 2.5, WALK + 13))
        tree(draft, float(x), float(y), float(rng.uniform(6, 11)), rng)
    for _ in range(int(rng.integers(2, 5))):
        x, y = draft.route.beside(rng.uniform(start, end), side * rng.uniform(WALK + 1.5, WALK + 6))
        bush(draft, float(x), float(y), rng)


def line_side_streets(draft: Draft, junctions: tuple[Junction, ...], rng: np.random.Generator) -> None:
    """Buildings along each side street behind the corner houses, and one that closes it."""
    for junction in junctions:
        for side in junction.sides:
            root, heading = draft.route.at(junction.s)
            out = side * np.array([-np.sin(heading), np.cos(heading)])
            across = np.array([-out[1], out[0]])  # to the left when going out
            for hand in (1, -1):
                reach = WALK + 14.0
                while reach < ARM_LENGTH - 8:
                    width = float(rng.uniform(9, 14))
                    near = root + reach * out + hand * (ARM_WALK + 0.6) * across
                    far = near + width * out
                    left, right = (near, far) if hand > 0 else (far, near)
                    set_building(
                        draft,
                        left,
                        right,
                        str(rng.choice(["plaster", "brick", "cottage"])),
                        "blank",
                        True,
                        rng,
                    )
                    reach += width + float(rng.uniform(0, 3))
            end = root + ARM_LENGTH * out
            set_building(draft, end + 9 * across, end - 9 * across, "plaster", "windows", False, rng)


def tree(draft: Draft, x: float, y: float, height: float, rng: np.random.Generator) -> None:
    """A trunk and a crown of leaf clusters."""
    species, seed = int(rng.integers(4)), int(rng.integers(8))
    crown_low, radius = height * rng.uniform(0.28, 0.4), height * rng.uniform(0.24, 0.32)
    trunk = Strut(
        np.array([x, y, height * 0.7]),
        np.array([x, y, 0.0]),
        0.045 * height,
        ("trunk", seed),
        labels.VEGETATION,
    )
    draft.parts.append(trunk)
    middle = (crown_low + height) / 2
    for _ in range(8):
        size = radius * rng.uniform(0.9, 1.35)
        shift = rng.uniform(-0.75, 0.75, 3) * np.array([radius, radius, (height - crown_low) * 0.42])
        center = np.array([x, y, middle]) + shift
        leaves: Material = ("leaves", species, int(rng.integers(5)))
        top, bottom = center + size * UP * 0.9, center - size * UP * 0.9
        draft.parts.append(Strut(top, bottom, 2 * size, leaves, labels.VEGETATION))
    draft.crowns.append(Crown(x, y, middle, radius * 1.35))


def bush(draft: Draft, x: float, y: float, rng: np.random.Generator) -> None:
    size = float(rng.uniform(0.7, 1.4))
    leaves: Material = ("leaves", int(rng.integers(4)), int(rng.integers(5)))
    draft.parts.append(
        Strut(np.array([x, y, 1.7 * size]), np.array([x, y, -0.15]), 2.1 * size, leaves, labels.VEGETATION)
    )
