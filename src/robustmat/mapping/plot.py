"""A map from above: objects by category, keyframes, and where frames were taken, with the ellipse of their doubt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.errors import ConfigError, InputError
from robustmat.files import replacing, write_text
from robustmat.mapping.landmark_map import LandmarkMap
from robustmat.types import CATEGORIES, Array

COLORS = {
    "traffic_sign": (230, 159, 0),
    "traffic_light": (213, 94, 0),
    "pole": (0, 114, 178),
    "window": (86, 180, 233),
}  # Okabe and Ito's, told apart by everyone
ROUTE, ANSWER, UNKNOWN = (150, 150, 150), (0, 158, 115), (204, 121, 167)
SHAPES = {"traffic_sign": "square", "traffic_light": "diamond", "pole": "circle", "window": "x"}
SURE = 2.448  # standard deviations of an ellipse that holds 95 % in two dimensions
WIDTH, HEIGHT, MARGIN = 1400, 1000, 70


@dataclass(frozen=True)
class Answer:
    """Where a frame was taken, on the ground, in metres; `ellipse` is a closed line around 95 % of the probability."""

    name: str
    place: Array  # [2]
    ellipse: Array | None  # [K, 2]
    probability: float


@dataclass(frozen=True)
class View:
    """All that is drawn, in metres on the ground."""

    title: str
    objects: Mapping[str, Array]  # by category: [N, 2]
    routes: Mapping[str, Array]  # by drive: [K, 2]
    answers: tuple[Answer, ...]


def plot_map(opened: LandmarkMap, path: Path | str, answers: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Draw a map, and what `map query` or `map locate` answered (their JSON), as .png or as one .html file."""
    path = Path(path)
    seen = view_of(opened, answers)
    if path.suffix.lower() == ".html":
        write_text(path, _html(seen))
    elif path.suffix.lower() == ".png":
        with replacing(path) as temporary:
            _picture(seen).save(temporary)
    else:
        raise InputError(f"cannot draw a map as '{path.suffix}': use .png or .html: {path}")
    return path


def view_of(opened: LandmarkMap, answers: Sequence[Mapping[str, Any]] = ()) -> View:
    """A map, laid flat."""
    keyframes = opened.keyframes()
    if not keyframes:
        raise InputError(f"map {opened.store.place} is empty: there is nothing to draw; `robustmat map add` fills it")
    plane = ground_axes(np.array([info.T_world_camera for info in keyframes]))
    origin = keyframes[0].position
    things = [one for one in opened.objects() if one.position is not None]

    def flat(points: Any) -> Array:
        return np.asarray((np.array(points, float).reshape(-1, 3) - origin) @ plane.T)

    return View(
        title=f"{opened.header.world}: {len(things)} objects, {len(keyframes)} keyframes",
        objects={kind: flat([one.position for one in things if one.category == kind]) for kind in CATEGORIES},
        routes={
            drive: flat([info.position for info in keyframes if info.dataset == drive])
            for drive in sorted({info.dataset for info in keyframes})
        },
        answers=tuple(_answer(told, flat, plane) for told in answers if told.get("position") is not None),
    )


def ground_axes(T_world_camera: Array) -> Array:
    """Two axes of the ground as seen from above, [2, 3]: cameras [N, 4, 4] have their second axis downwards."""
    up = -T_world_camera[:, :3, 1].mean(axis=0)
    up /= np.linalg.norm(up)
    axes = np.eye(3)
    level = axes[int(np.abs(up).argmin())]
    first = level - (level @ up) * up
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(up, first)])


def _answer(told: Mapping[str, Any], flat: Any, plane: Array) -> Answer:
    place = flat([told["position"]])[0]
    ellipse = None
    if told.get("covariance") is not None and told.get("T_world_camera") is not None:
        turn = plane @ np.array(told["T_world_camera"])[:3, :3]  # [2, 3], camera to ground
        spread, axes = np.linalg.eigh(turn @ np.array(told["covariance"])[:3, :3] @ turn.T)
        angle = np.linspace(0, 2 * np.pi, 49)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        ellipse = place + SURE * ((axes * np.sqrt(np.maximum(spread, 0))) @ circle).T
    return Answer(str(told.get("image", "")), place, ellipse, float(told.get("probability", 0.0)))


def _picture(view: View) -> PillowImage.Image:
    picture = PillowImage.new("RGB", (WIDTH, HEIGHT), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    font, small = ImageFont.load_default(size=22), ImageFont.load_default(size=16)
    parts = [*view.objects.values(), *view.routes.values(), *(one.place[None] for one in view.answers)]
    points = np.concatenate(parts)
    low, high = np.quantile(points, 0.005, axis=0) - 5, np.quantile(points, 0.995, axis=0) + 5
    scale = float(min((WIDTH - 2 * MARGIN) / (high[0] - low[0]), (HEIGHT - 2 * MARGIN - 60) / (high[1] - low[1])))
    middle = (low + high) / 2

    def place(point: Array) -> tuple[float, float]:
        x, y = (point - middle) * scale
        return WIDTH / 2 + float(x), HEIGHT / 2 + 30 - float(y)

    for route in view.routes.values():
        for point in route:
            _dot(pen, place(point), 3, ROUTE)
    for kind, things in view.objects.items():
        for point in things:
            _mark(pen, place(point), kind)
    for one in view.answers:
        if one.ellipse is not None:
            pen.line([place(point) for point in one.ellipse], fill=ANSWER, width=2)
        _dot(pen, place(one.place), 5, ANSWER)
    pen.text((MARGIN, 16), view.title, fill=(20, 20, 20), font=font)
    _legend(pen, view, small)
    _ruler(pen, scale, small)
    return picture


def _legend(pen: ImageDraw.ImageDraw, view: View, font: Any) -> None:
    x = float(MARGIN)
    for kind, things in view.objects.items():
        if len(things):
            _mark(pen, (x + 6, 62), kind)
            label = f"{kind.replace('_', ' ')} ({len(things)})"
            pen.text((x + 18, 52), label, fill=(20, 20, 20), font=font)
            x += 40 + pen.textlength(label, font=font)
    rest = [("keyframe", ROUTE)] + ([("answer, with 95 % ellipse", ANSWER)] if view.answers else [])
    for label, color in rest:
        _dot(pen, (x + 6, 62), 5, color)
        pen.text((x + 18, 52), label, fill=(20, 20, 20), font=font)
        x += 40 + pen.textlength(label, font=font)


def _ruler(pen: ImageDraw.ImageDraw, scale: float, font: Any) -> None:
    length = next(metres for metres in (500, 200, 100, 50, 20, 10, 5, 1) if metres * scale < WIDTH / 4 or metres == 1)
    y = HEIGHT - 30
    pen.line([(MARGIN, y), (MARGIN + length * scale, y)], fill=(20, 20, 20), width=3)
    pen.text((MARGIN + length * scale + 8, y - 10), f"{length} m", fill=(20, 20, 20), font=font)


def _dot(pen: ImageDraw.ImageDraw, at: tuple[float, float], radius: float, color: tuple[int, int, int]) -> None:
    x, y = at
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)


def _mark(pen: ImageDraw.ImageDraw, at: tuple[float, float], kind: str) -> None:
    """Each category has a shape, too."""
    x, y = at
    color, size = COLORS[kind], 5
    if kind == "traffic_sign":
        pen.rectangle((x - size, y - size, x + size, y + size), fill=color)
    elif kind == "traffic_light":
        pen.polygon([(x, y - size - 2), (x + size + 2, y), (x, y + size + 2), (x - size - 2, y)], fill=color)
    elif kind == "window":
        pen.line([(x - size, y - size), (x + size, y + size)], fill=color, width=2)
        pen.line([(x - size, y + size), (x + size, y - size)], fill=color, width=2)
    else:
        _dot(pen, at, size, color)


def _html(view: View) -> str:
    """One page that needs nothing else: plotly's script is inside."""
    try:
        from plotly import graph_objects as go
    except ModuleNotFoundError:
        raise ConfigError("maps as .html need plotly: pip install 'robustmat[map]', or draw a .png") from None

    figure = go.Figure()
    for drive, route in view.routes.items():
        figure.add_scatter(
            x=route[:, 0],
            y=route[:, 1],
            mode="markers",
            name=f"keyframes of {drive}",
            marker={"color": _css(ROUTE), "size": 5},
        )
    for kind, things in view.objects.items():
        if len(things):
            marker = {"color": _css(COLORS[kind]), "symbol": SHAPES[kind], "size": 8}
            figure.add_scatter(
                x=things[:, 0], y=things[:, 1], mode="markers", name=kind.replace("_", " "), marker=marker
            )
    for number, one in enumerate(view.answers):
        told = f"{one.name}: probability {one.probability:.2f}"
        shared = {"legendgroup": "answers", "line": {"color": _css(ANSWER)}, "hoverinfo": "text", "hovertext": told}
        if one.ellipse is not None:
            x, y = one.ellipse.T
            figure.add_scatter(x=x, y=y, mode="lines", fill="toself", showlegend=False, **shared)
        figure.add_scatter(
            x=[one.place[0]], y=[one.place[1]], mode="markers", name="answers", showlegend=number == 0, **shared
        )
    figure.update_layout(title=view.title, template="plotly_white", xaxis_title="metres", yaxis_title="metres")
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def _css(color: tuple[int, int, int]) -> str:
    return f"rgb{color}"
