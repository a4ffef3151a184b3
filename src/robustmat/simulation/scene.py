"""What a town is made of once it is only geometry: flat textured panels and struts.

World metres: x east, y north, z up, the ground is z = 0. A panel is a parallelogram in space that carries a
picture; a strut is an upright thing (a pole, a cluster of leaves) drawn as a panel that turns to the viewer.
Camera and LiDAR both look at the same panels, so they agree about what hides what.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robustmat.types import Array, Image

Material = tuple[str | int | float, ...]  # names a picture; `materials.draw` paints it
Rgb = tuple[float, float, float]


@dataclass(frozen=True)
class Texture:
    """A picture on a panel. Row 0 is the panel's top.

    `alpha` cuts the panel's outline (None: all of it is solid). `codes` marks landmarks that are painted on the
    panel (windows): 0 is the panel itself, k > 0 its k-th landmark.
    """

    rgb: Image
    alpha: NDArray[np.uint8] | None = None
    codes: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Panel:
    """A parallelogram: top-left corner, the way along its columns, the way down its rows."""

    corner: Array  # [3]
    right: Array  # [3]
    down: Array  # [3]
    material: Material
    label: int
    identity: int = 0  # of the landmark it belongs to; 0: none. With codes, code k is identity + k
    lit: bool = False  # its picture already carries its light
    two_sided: bool = False
    glow: float = 0.0  # own light: lamps, tail lights
    reflectance: float = 0.3
    decal: bool = False  # lies on the ground as a stain or shadow: colours pixels, hides nothing


@dataclass(frozen=True)
class Strut:
    """A round or bushy thing along an axis, drawn as a panel turned to the viewer."""

    top: Array  # [3]
    bottom: Array  # [3]
    width: float
    material: Material
    label: int
    identity: int = 0
    glow: float = 0.0
    reflectance: float = 0.3
    bulge: float = 0.0  # how far its surface stands in front of its axis


Part = Panel | Strut


def turned_to(parts: Sequence[Part], eye: Array) -> list[Panel]:
    """The parts as panels, struts turned to an eye at `eye` [3]."""
    struts = [part for part in parts if isinstance(part, Strut)]
    if not struts:
        return [part for part in parts if isinstance(part, Panel)]
    top = np.array([strut.top for strut in struts])  # [N, 3]
    axis = np.array([strut.bottom for strut in struts]) - top
    view = top + 0.5 * axis - eye
    right = np.cross(axis, view)  # to the viewer's right, since the axis points down
    right /= np.maximum(np.linalg.norm(right, axis=1, keepdims=True), 1e-9)
    toward = np.cross(axis, right)
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-9)
    width = np.array([[strut.width] for strut in struts])
    corner = top - 0.5 * width * right + np.array([[strut.bulge] for strut in struts]) * toward
    turned = iter(
        Panel(
            corner=corner[i],
            right=width[i] * right[i],
            down=axis[i],
            material=strut.material,
            label=strut.label,
            identity=strut.identity,
            two_sided=True,
            glow=strut.glow,
            reflectance=strut.reflectance,
        )
        for i, strut in enumerate(struts)
    )
    return [next(turned) if isinstance(part, Strut) else part for part in parts]


def moved(part: Part, x: float, y: float, heading: float) -> Part:
    """A part built around the origin, turned by `heading` about z and set down at (x, y)."""
    cos, sin = float(np.cos(heading)), float(np.sin(heading))
    turn = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    shift = np.array([x, y, 0.0])
    if isinstance(part, Strut):
        return replace(part, top=turn @ part.top + shift, bottom=turn @ part.bottom + shift)
    return replace(part, corner=turn @ part.corner + shift, right=turn @ part.right, down=turn @ part.down)


@dataclass(frozen=True, eq=False)
class PartIndex:
    """Parts with their centres and radii, so that a frame looks only at what is near."""

    parts: tuple[Part, ...]
    centers: Array  # [N, 3]
    radii: Array  # [N]

    def near(self, eye: Array, forward: Array, reach: float, spread: float) -> list[Part]:
        """Parts within `reach` metres whose ball touches the cone of half-angle `spread` about `forward`."""
        if not self.parts:
            return []
        away = self.centers - eye  # [N, 3]
        distance = np.linalg.norm(away, axis=1)
        ahead = away @ forward
        aside = np.sqrt(np.maximum(distance**2 - ahead**2, 0.0))
        inside = aside * np.cos(spread) - ahead * np.sin(spread) < self.radii
        keep = inside & (distance - self.radii < reach) & (ahead > -self.radii)
        return [self.parts[i] for i in np.flatnonzero(keep)]


def index_parts(parts: Sequence[Part]) -> PartIndex:
    centers, radii = [], []
    for part in parts:
        if isinstance(part, Strut):
            centers.append(0.5 * (part.top + part.bottom))
            radii.append(0.5 * float(np.linalg.norm(part.top - part.bottom)) + 0.5 * part.width)
        else:
            centers.append(part.corner + 0.5 * (part.right + part.down))
            radii.append(0.5 * float(np.linalg.norm(part.right) + np.linalg.norm(part.down)))
    return PartIndex(tuple(parts), np.array(centers).reshape(-1, 3), np.array(radii))
