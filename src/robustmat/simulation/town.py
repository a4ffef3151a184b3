"""A town from a seed: a closed round of road with everything beside it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from robustmat.simulation.buildings import line_side_streets, line_the_road
from robustmat.simulation.facades import Front
from robustmat.simulation.layout import (
    Crown,
    Draft,
    Footprint,
    Junction,
    Landmark3D,
    Stretch,
    choose_junctions,
    choose_stretches,
)
from robustmat.simulation.route import Route, make_route
from robustmat.simulation.scene import Part, PartIndex, index_parts
from robustmat.simulation.streetside import furnish
from robustmat.types import Array


@dataclass(frozen=True, eq=False)
class Town:
    """Everything that stays where it is, whatever the day looks like."""

    seed: int
    route: Route
    junctions: tuple[Junction, ...]
    stretches: dict[int, tuple[Stretch, ...]]
    parts: PartIndex
    fronts: tuple[Front, ...]
    front_places: tuple[tuple[Array, Array], ...]  # left and right foot of each front, [2] each
    footprints: tuple[Footprint, ...]
    crowns: tuple[Crown, ...]
    landmarks: dict[int, Landmark3D]  # by identity

    parts_of: dict[int, tuple[int, ...]]  # identity -> its parts' numbers; of a window: its front's

    def landmark_parts(self, identities: Iterable[int]) -> list[Part]:
        """The parts that make up some landmarks, each once."""
        numbers = sorted({number for identity in identities for number in self.parts_of[identity]})
        return [self.parts.parts[number] for number in numbers]

    @property
    def world(self) -> str:
        return f"street-{self.seed}"


def build_town(seed: int, size: float = 105.0) -> Town:
    """The town of a seed; `size` is about the radius of its round in metres (105: 600 to 800 m of road)."""
    rng = np.random.default_rng([seed, 20230])
    route = make_route(rng, size)
    junctions = choose_junctions(route, rng)
    stretches = choose_stretches(route, rng)
    draft = Draft(route)
    line_the_road(draft, junctions, stretches, rng)
    line_side_streets(draft, junctions, rng)
    furnish(draft, junctions, stretches, rng)
    return Town(
        seed=seed,
        route=route,
        junctions=junctions,
        stretches=stretches,
        parts=index_parts(draft.parts),
        fronts=tuple(draft.fronts),
        front_places=tuple(draft.front_places),
        footprints=tuple(draft.footprints),
        crowns=tuple(draft.crowns),
        landmarks={landmark.identity: landmark for landmark in draft.landmarks},
        parts_of=_parts_of(draft),
    )


def _parts_of(draft: Draft) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for number, part in enumerate(draft.parts):
        if part.material[0] == "front":
            windows = len(draft.fronts[int(part.material[1])].windows)
            for identity in range(part.identity + 1, part.identity + windows + 1):
                found.setdefault(identity, []).append(number)
        elif part.identity:
            found.setdefault(part.identity, []).append(number)
    return {identity: tuple(numbers) for identity, numbers in found.items()}
