"""Other vehicles of a drive: parked along the kerb, coming towards, and driving ahead."""

from dataclasses import dataclass

import numpy as np

from robustmat.simulation.layout import ARM_HALF, KERB, LANE, WALK, gap
from robustmat.simulation.people import KINDS as KINDS_OF_PEOPLE
from robustmat.simulation.people import person
from robustmat.simulation.scene import Part
from robustmat.simulation.town import Town
from robustmat.simulation.vehicles import BODIES, PAINTS, Vehicle, vehicle_parts

PARKED_OFFSET = LANE + 1.05
KINDS = tuple(BODIES)
SHARES = (0.3, 0.25, 0.2, 0.1, 0.15)


@dataclass(frozen=True)
class Mover:
    """A vehicle under way: where it is on the round at time 0, how fast, in which lane."""

    kind: str
    paint: int
    s: float
    speed: float  # metres a second along the round; negative: the other way
    offset: float


@dataclass(frozen=True)
class Walker:
    """Somebody on the pavement."""

    kind: int
    s: float
    speed: float
    offset: float


@dataclass(frozen=True, eq=False)
class Traffic:
    """Everybody who is out on one day."""

    town: Town
    parked: tuple[Vehicle, ...]
    movers: tuple[Mover, ...]
    walkers: tuple[Walker, ...]

    def at(self, time: float, x: float, y: float, within: float = 100.0) -> list[Part]:
        """All that moves or may move near (x, y) at a time, except what would stand where the viewer is."""
        parts = [part for vehicle in self._vehicles(time, x, y, within) for part in vehicle_parts(vehicle)]
        for walker in self.walkers:
            place = self.town.route.beside(walker.s + walker.speed * time, walker.offset)
            if float(np.hypot(place[0] - x, place[1] - y)) < within:
                parts.append(person(float(place[0]), float(place[1]), walker.kind))
        return parts

    def _vehicles(self, time: float, x: float, y: float, within: float) -> list[Vehicle]:
        near = [v for v in self.parked if (v.x - x) ** 2 + (v.y - y) ** 2 < within**2]
        for mover in self.movers:
            s = mover.s + mover.speed * time
            place, heading = self.town.route.beside(s, mover.offset), float(self.town.route.at(s)[1])
            distance = float(np.hypot(place[0] - x, place[1] - y))
            if 7.5 < distance < within:
                turned = heading if mover.speed >= 0 else heading + np.pi
                near.append(Vehicle(mover.kind, mover.paint, float(place[0]), float(place[1]), turned))
        return near


def make_traffic(town: Town, seed: int, start: float, speed: float, offset: float) -> Traffic:
    """The vehicles of one drive. The viewer starts at `start` and goes at `speed` in the lane at `offset`."""
    rng = np.random.default_rng([town.seed, seed, 4711])
    length = town.route.length

    def body() -> tuple[str, int]:
        return str(rng.choice(KINDS, p=SHARES)), int(rng.integers(len(PAINTS)))

    parked = []
    for side in (1, -1):
        arms = [j.s for j in town.junctions]
        s = float(rng.uniform(0, 6))
        busy = rng.uniform(0.25, 0.6)
        while s < length - 3:
            clear = all(gap(length, s, arm) > ARM_HALF + 9.5 for arm in arms)
            if clear and rng.random() < busy:
                kind, paint = body()
                x, y = town.route.beside(s, side * (PARKED_OFFSET + rng.normal(0, 0.08)))
                turned = 0.0 if side < 0 else np.pi
                heading = float(town.route.at(s)[1]) + turned + float(rng.normal(0, 0.02))
                parked.append(Vehicle(kind, paint, float(x), float(y), heading))
            s += float(rng.uniform(5.8, 8.5))
    movers = []
    way = 1.0 if speed >= 0 else -1.0
    own_lane = -LANE / 2 * way
    if abs(offset + own_lane) > 2.5:  # nobody comes towards the viewer in the viewer's own lane
        for s in np.arange(start + 30.0, start + length, 1.0):
            if rng.random() < 1 / 55:
                kind, paint = body()
                movers.append(Mover(kind, paint, float(s), -way * float(rng.uniform(8, 12)), -own_lane))
    if rng.random() < 0.65:
        kind, paint = body()
        movers.append(
            Mover(
                kind,
                paint,
                start + way * float(rng.uniform(16, 32)),
                speed * float(rng.uniform(0.97, 1.1)),
                own_lane,
            )
        )
    walkers = [
        Walker(
            int(rng.integers(KINDS_OF_PEOPLE)),
            float(s),
            float(rng.choice([-1.0, 1.0])) * float(rng.uniform(0.8, 1.6)),
            float(rng.choice([-1.0, 1.0])) * float(rng.uniform(KERB + 1.2, WALK - 0.6)),
        )
        for s in rng.uniform(0, length, int(length / 28))
    ]
    return Traffic(town, tuple(parked), tuple(movers), tuple(walkers))
