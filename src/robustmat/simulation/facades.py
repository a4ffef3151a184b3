"""Fronts of houses: builders' styles, and where doors and windows go.

All windows of a front share one design and differ only in curtains, dirt and light, as in real streets.
"""

from dataclasses import dataclass

import numpy as np

from robustmat.simulation.scene import Rgb

Rect = tuple[float, float, float, float]  # x, y of the top-left corner from the front's top-left, width, height


@dataclass(frozen=True)
class Style:
    """What the fronts of one builder have in common."""

    pattern: str  # plaster, brick, panel, timber
    walls: tuple[Rgb, ...]
    window: tuple[float, float]  # metres
    spacing: float  # between window centres
    floor: float  # metres from floor to floor
    floors: tuple[int, int]
    panes: tuple[int, int]
    frame: Rgb
    shutters: bool = False
    bands: bool = False  # a ledge between floors
    gable: bool = False


STYLES: dict[str, Style] = {
    "plaster": Style(
        "plaster",
        ((0.87, 0.82, 0.68), (0.82, 0.74, 0.60), (0.88, 0.87, 0.82), (0.78, 0.66, 0.52), (0.72, 0.76, 0.72)),
        (1.15, 1.65),
        3.7,
        3.2,
        (2, 4),
        (2, 2),
        (0.93, 0.93, 0.91),
        bands=True,
    ),
    "brick": Style(
        "brick",
        ((0.56, 0.30, 0.23), (0.62, 0.38, 0.28), (0.48, 0.30, 0.25), (0.66, 0.50, 0.38)),
        (1.25, 1.6),
        4.0,
        3.0,
        (2, 3),
        (2, 1),
        (0.90, 0.90, 0.88),
    ),
    "panel": Style(
        "panel",
        ((0.70, 0.71, 0.70), (0.78, 0.76, 0.71), (0.62, 0.66, 0.70)),
        (1.9, 1.5),
        4.3,
        2.9,
        (3, 4),
        (2, 1),
        (0.80, 0.82, 0.83),
    ),
    "shutters": Style(
        "plaster",
        ((0.90, 0.86, 0.76), (0.86, 0.72, 0.56), (0.92, 0.90, 0.87), (0.80, 0.80, 0.68)),
        (1.0, 1.45),
        4.0,
        2.9,
        (2, 3),
        (2, 3),
        (0.95, 0.95, 0.93),
        shutters=True,
        gable=True,
    ),
    "cottage": Style(
        "plaster",
        ((0.93, 0.92, 0.88), (0.89, 0.84, 0.72), (0.80, 0.82, 0.84), (0.86, 0.78, 0.70)),
        (1.2, 1.3),
        4.4,
        2.8,
        (2, 2),
        (2, 1),
        (0.92, 0.92, 0.92),
        gable=True,
    ),
    "timber": Style(
        "timber",
        ((0.90, 0.87, 0.78), (0.86, 0.82, 0.74)),
        (0.95, 1.2),
        3.6,
        2.8,
        (2, 3),
        (2, 2),
        (0.36, 0.25, 0.17),
        gable=True,
    ),
}


@dataclass(frozen=True)
class Front:
    """One face of a building: its size in metres and what is on it."""

    style: str
    wall: Rgb
    accent: Rgb
    width: float
    height: float
    windows: tuple[Rect, ...]
    doors: tuple[Rect, ...]
    shop: bool
    seed: int


def plan_front(
    style_name: str, wall: Rgb, accent: Rgb, width: float, floors: int, ground: str, rng: np.random.Generator
) -> Front:
    """Lay out a face; `ground` is what its lowest floor shows: windows, shop, yard or blank. `blind`: a bare wall."""
    style = STYLES[style_name]
    height = floors * style.floor + 0.5
    columns = max(int((width - 0.8) // style.spacing), 1)
    wide, tall = style.window
    first = width / 2 - (columns - 1) * style.spacing / 2
    windows: list[Rect] = []
    doors: list[Rect] = []
    door_column = int(rng.integers(columns)) if ground != "blank" else -1
    garage = ground == "yard" and 0 <= door_column < columns - 2
    blind_columns = rng.random(columns) < 0.18
    for floor in range(floors):  # counted from the ground
        top = height - (floor + 1) * style.floor + (style.floor - tall) * 0.42
        for column in range(columns):
            x = first + column * style.spacing - wide / 2
            if ground == "blind" or (floor > 0 and blind_columns[column]):
                continue
            if floor == 0:
                if garage and column in (door_column + 1, door_column + 2):
                    if column == door_column + 1:
                        doors.append((x + wide / 2 - 0.6, height - 2.2, 2.5, 2.15))
                    continue
                if column == door_column:
                    doors.append((x + wide / 2 - 0.55, height - 2.25, 1.1, 2.2))
                    continue
                if ground not in ("windows", "yard"):
                    continue
            windows.append((x, top, wide, tall))
    return Front(
        style_name,
        wall,
        accent,
        width,
        height,
        tuple(windows),
        tuple(doors),
        ground == "shop",
        int(rng.integers(2**31)),
    )
