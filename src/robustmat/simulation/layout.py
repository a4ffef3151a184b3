"""What a town is laid out from: the road's cross-section, junctions, footprints, and the list of landmarks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from robustmat.simulation.facades import Front
from robustmat.simulation.route import Route
from robustmat.simulation.scene import Part
from robustmat.types import Array

# Half of the road's cross-section, metres from the centreline.
LANE = 3.3
KERB = 5.4  # lane and parking strip
VERGE = 6.7  # a strip of grass where there is one, else pavement
WALK = 8.6  # end of the pavement: facades begin here
ARM_HALF = 3.4  # half width of a side street
ARM_WALK = 5.6
ARM_LENGTH = 62.0


@dataclass(frozen=True)
class Junction:
    """Where a side street leaves the road at `s`, to the left (+1) or right (-1) or both."""

    s: float
    sides: tuple[int, ...]
    lights: bool


@dataclass(frozen=True)
class Footprint:
    """A building as a shadow caster: its ground polygon [4, 2] and height."""

    corners: tuple[tuple[float, float], ...]
    height: float


@dataclass(frozen=True)
class Crown:
    """A tree's crown as a shadow caster."""

    x: float
    y: float
    z: float
    radius: float


@dataclass(frozen=True)
class Landmark3D:
    """One landmark of the town: who it is and where."""

    identity: int
    category: str
    kind: str  # its design: two landmarks of one kind look alike
    position: tuple[float, float, float]


@dataclass(frozen=True)
class Stretch:
    """The character of a stretch of one side of the road."""

    verge: bool  # grass and trees between kerb and pavement
    district: str  # centre, old, suburb, green
    pole: str  # what carries the lamps here
    pole_color: str


@dataclass(eq=False)
class Draft:
    """A town under construction; it is frozen when it is done."""

    route: Route
    parts: list[Part] = field(default_factory=list)
    fronts: list[Front] = field(default_factory=list)
    front_places: list[tuple[Array, Array]] = field(default_factory=list)  # left and right foot of each front
    footprints: list[Footprint] = field(default_factory=list)
    crowns: list[Crown] = field(default_factory=list)
    landmarks: list[Landmark3D] = field(default_factory=list)
    next_identity: int = 1
    standing: list[tuple[float, float]] = field(default_factory=list)

    def claim(self, x: float, y: float, room: float = 2.2) -> bool:
        """Take a place for something upright, unless something else stands nearer than `room` metres."""
        if any((x - a) ** 2 + (y - b) ** 2 < room**2 for a, b in self.standing):
            return False
        self.standing.append((x, y))
        return True

    def name_landmark(self, category: str, kind: str, position: Array | tuple[float, float, float]) -> int:
        """Enter a landmark and get its identity."""
        identity = self.next_identity
        self.next_identity += 1
        x, y, z = (float(v) for v in position)
        self.landmarks.append(Landmark3D(identity, category, kind, (x, y, z)))
        return identity

    def add(self, parts: Iterable[Part]) -> None:
        self.parts.extend(parts)


def gap(length: float, a: float, b: float) -> float:
    """Distance between two places on a round of `length` metres."""
    around = abs(a - b) % length
    return min(around, length - around)


def choose_junctions(route: Route, rng: np.random.Generator) -> tuple[Junction, ...]:
    """Junctions on the straighter stretches, with side streets that do not run into the rest of the round."""
    junctions: list[Junction] = []
    ends: list[Array] = []
    s = rng.uniform(25, 50)
    while s < route.length - 35:
        before, after = route.at(s - 14)[1], route.at(s + 14)[1]
        bend = abs(float(np.angle(np.exp(1j * (after - before)))))
        sides = []
        for side in (1, -1):
            reach = np.arange(25.0, ARM_LENGTH + 20.0, 6.0)
            points = route.beside(np.full_like(reach, s), side * reach)
            distance, _ = route.tree.query(points)
            free = bool((distance > np.minimum(reach - 3, 34)).all())
            end = points[-1]
            apart = all(float(np.linalg.norm(end - other)) > 42 for other in ends)
            if bend < 0.35 and free and apart and rng.random() < 0.7:
                sides.append(side)
                ends.append(end)
        if sides:
            junctions.append(Junction(float(s), tuple(sides), bool(rng.random() < 0.6)))
            s += rng.uniform(60, 95)
        else:
            s += 12.0
    return tuple(junctions)


def choose_stretches(route: Route, rng: np.random.Generator) -> dict[int, tuple[Stretch, ...]]:
    """Per side (+1 left, -1 right) the character of each 60 m of road."""
    count = int(np.ceil(route.length / 60))
    chosen: dict[int, tuple[Stretch, ...]] = {}
    for side in (1, -1):
        stretches = []
        for _ in range(count):
            district = str(rng.choice(["centre", "old", "suburb", "green"], p=[0.32, 0.2, 0.3, 0.18]))
            pole = str(rng.choice(["long", "short", "lantern", "wooden"], p=[0.35, 0.25, 0.15, 0.25]))
            color = str(rng.choice(["steel", "green", "dark", "concrete"]))
            stretches.append(Stretch(bool(rng.random() < 0.45), district, pole, color))
        chosen[side] = tuple(stretches)
    return chosen


def stretch_at(stretches: dict[int, tuple[Stretch, ...]], side: int, s: float) -> Stretch:
    row = stretches[side]
    return row[int(s // 60) % len(row)]
