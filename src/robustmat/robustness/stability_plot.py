"""The paper's stability figures: densities and box plots of difference norms, and the proven bound over the points."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageDraw
from scipy.stats import gaussian_kde

from robustmat.robustness.panel import INK, LEVELS, PANEL, TALL, Color, Panel, large, round_steps, save
from robustmat.robustness.stability import EVOLVED, GRAPH, MAPS, VERTEX, Stability
from robustmat.types import Array

TITLES = {
    MAPS: "|| h_DS(x') - h_DS(x) ||",
    EVOLVED: "|| z(x', T_f) - z(x, T_f) ||",
    VERTEX: "|| f(x') - f(x) ||",
    GRAPH: "|| g(G') - g(G) ||",
}
GRID = 160  # points of a density
WHISKERS = 0.05, 0.95
MOST = 2.0  # of noise over signal, where an axis ends
BOXES = "Box: quartiles; line in it: median; whiskers: 5 % to 95 %"


def draw_norms(measured: Stability, path: Path | str) -> Path:
    """Densities left, boxes right, a row for each stage: the paper's three figures (h_DS, f and g) in one."""
    stages = [stage for stage in measured.stages if stage in TITLES] or list(measured.stages)
    picture = PillowImage.new("RGB", (2 * PANEL, 26 + TALL * len(stages)), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    pen.text((16, 6), f"{measured.model}: difference of perturbed and clean landmarks. {BOXES}", fill=INK, font=large())
    for row, stage in enumerate(stages):
        levels = {name: norms.absolute for (known, name), norms in measured.norms.items() if known == stage}
        title = TITLES.get(stage, f"|| {stage}(x') - {stage}(x) ||")
        _densities(pen, 0, 26 + row * TALL, levels, title)
        _boxes(pen, PANEL, 26 + row * TALL, levels, title)
    return save(picture, path)


def draw_noise_to_signal(measured: Sequence[Stability], path: Path | str) -> Path:
    """One panel a model: boxes of noise over the distance between different landmarks, by stage and level."""
    picture = PillowImage.new("RGB", (2 * PANEL, 26 + TALL * ((len(measured) + 1) // 2)), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    said = f"Noise over the distance between different landmarks. {BOXES}, cut at the top"
    pen.text((16, 6), said, fill=INK, font=large())
    seen = [norms.to_signal[np.isfinite(norms.to_signal)] for one in measured for norms in one.norms.values()]
    most = min(
        MOST, 1.05 * max((float(np.quantile(values, WHISKERS[1])) for values in seen if len(values)), default=1.0)
    )
    for number, one in enumerate(measured):
        levels = list(dict.fromkeys(name for _, name in one.norms))
        count = len(one.stages)
        panel = Panel(pen, number % 2 * PANEL, 26 + number // 2 * TALL, (-0.5, count - 0.5), (0, most), one.model)
        panel.ticks_up(round_steps(most))
        for place, stage in enumerate(one.stages):
            for level, name in enumerate(levels):
                shift = (level - (len(levels) - 1) / 2) * 0.24
                _box(panel, place + shift, 0.09, one.norms[stage, name].to_signal, LEVELS[level % len(LEVELS)])
            x, y = panel.at(place, 0)
            pen.text((x, y + 5), stage, fill=INK, font=panel.font, anchor="mt")
        panel.legend(_colors(levels))
    return save(picture, path)


def draw_bounds(measured: Stability, path: Path | str) -> Path:
    """Differences after a flow over differences before it, and the proven bound as a line: no point lies above it."""
    picture = PillowImage.new("RGB", (PANEL * max(2, len(measured.bounds)), 26 + TALL), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    said = f"{measured.model}: the difference that noise makes, after a flow (upwards) over before it (across)"
    pen.text((16, 6), said, fill=INK, font=large())
    for number, ((before, after), bound) in enumerate(measured.bounds.items()):
        levels = [name for known, name in measured.norms if known == before]
        starts = {name: measured.norms[before, name].absolute for name in levels}
        ends = {name: measured.norms[after, name].absolute for name in levels}
        most = float(max(values.max() for values in starts.values())) * 1.05
        title = f"from {before} to {after}"
        panel = Panel(pen, number * PANEL, 26, (0, most), (0, bound * most), title)
        panel.ticks_up(round_steps(bound * most))
        panel.ticks_across(round_steps(most), "difference before the flow")
        for level, name in enumerate(levels):
            for x, y in zip(starts[name], ends[name], strict=True):
                at = panel.at(x, y)
                dot = (at[0] - 1.5, at[1] - 1.5, at[0] + 1.5, at[1] + 1.5)
                pen.ellipse(dot, fill=LEVELS[level % len(LEVELS)])
        pen.line([panel.at(0, 0), panel.at(most, bound * most)], fill=INK, width=2)
        x, y = panel.at(0.05 * most, 0.9 * bound * most)
        pen.text((x, y), f"line: proven, at most {bound:.3f}", fill=INK, font=panel.font)
        panel.legend(_colors(levels))
    return save(picture, path)


def _densities(pen: ImageDraw.ImageDraw, left: float, top: float, levels: dict[str, Array], title: str) -> None:
    most = max(float(np.quantile(values, 0.995)) for values in levels.values())
    grid = np.linspace(0, most * 1.05, GRID)
    curves = {name: _density(values, grid) for name, values in levels.items()}
    high = max(float(curve.max()) for curve in curves.values())
    panel = Panel(pen, left, top, (0, most * 1.05), (0, high * 1.08), f"density of {title}")
    panel.ticks_across(round_steps(most), "norm")
    for number, curve in enumerate(curves.values()):
        points = [panel.at(x, y) for x, y in zip(grid, curve, strict=True)]
        pen.line(points, fill=LEVELS[number % len(LEVELS)], width=2)
    panel.legend(_colors(levels))


def _density(values: Array, grid: Array) -> Array:
    if len(values) < 3 or np.ptp(values) < 1e-9:
        return np.zeros_like(grid)
    return np.asarray(gaussian_kde(values)(grid))


def _boxes(pen: ImageDraw.ImageDraw, left: float, top: float, levels: dict[str, Array], title: str) -> None:
    most = max(float(values.max()) for values in levels.values()) * 1.05
    panel = Panel(pen, left, top, (-0.5, len(levels) - 0.5), (0, most), title)
    panel.ticks_up(round_steps(most))
    for number, (name, values) in enumerate(levels.items()):
        _box(panel, number, 0.2, values, LEVELS[number % len(LEVELS)])
        x, y = panel.at(number, 0)
        pen.text((x, y + 5), _level(name), fill=INK, font=panel.font, anchor="mt")


def _box(panel: Panel, place: float, half: float, values: Array, color: Color) -> None:
    """Quartiles as a box, the median as a line, 5 % to 95 % as whiskers."""
    known = values[~np.isnan(values)]
    if not len(known):
        return
    low, first, middle, third, high = (
        min(float(np.quantile(known, share, method="nearest")), panel.y[1])
        for share in (WHISKERS[0], 0.25, 0.5, 0.75, WHISKERS[1])
    )
    panel.pen.line([panel.at(place, low), panel.at(place, high)], fill=color, width=1)
    for end in (low, high):
        panel.pen.line([panel.at(place - half / 2, end), panel.at(place + half / 2, end)], fill=color, width=1)
    top, bottom = panel.at(place - half, third), panel.at(place + half, first)
    panel.pen.rectangle((*top, *bottom), outline=color, fill=(255, 255, 255), width=2)
    panel.pen.line([panel.at(place - half, middle), panel.at(place + half, middle)], fill=color, width=2)


def _colors(levels: Iterable[str]) -> list[tuple[str, Color]]:
    """The legend: each level in its colour."""
    return [(_level(name), LEVELS[number % len(LEVELS)]) for number, name in enumerate(levels)]


def _level(name: str) -> str:
    kind, _, level = name.partition(":")
    return f"{level} dB" if kind in ("paper", "awgn") else name
