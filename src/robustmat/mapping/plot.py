"""A map from above: objects by category, keyframes, and where frames were taken, with the ellipse of their doubt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.errors import ConfigError, InputError
from robustmat.files import replacing, write_text
from robustmat.mapping.landmark_map import LandmarkMap
from robustmat.types import CATEGORIES, Array, plural

COLORS = {
    "traffic_sign": (230, 159, 0),
    "traffic_light": (213, 94, 0),
    "pole": (0, 114, 178),
    "window": (86, 180, 233),
}  # Okabe and Ito's, told apart by everyone
ROUTE, PALE, ANSWER, DOUBT = (130, 130, 130), (215, 215, 215), (0, 158, 115), (190, 232, 220)
UNDER_TO_UPPER = ("window", "pole", "traffic_light", "traffic_sign")  # signs and lights hang on poles
JUMP = 30.0  # metres between keyframes that are not joined by a line
FEW = 8  # answers that are all named
SHAPES = {"traffic_sign": "square-open", "traffic_light": "diamond-open", "pole": "circle", "window": "x-thin-open"}
SIZES = {"traffic_sign": 10, "traffic_light": 12, "pole": 6, "window": 7}
SURE = 2.448  # standard deviations of an ellipse that holds 95 % in two dimensions
WIDTH, HEIGHT, MARGIN = 1400, 1000, 70


@dataclass(frozen=True)
class Answer:
    """Where a frame was taken, on the ground, in metres; `ellipse` is a closed line around 95 % of the probability."""

    name: str
    place: Array  # [2]
    ellipse: Array | None  # [K, 2]
    ahead: Array | None  # [2], where the camera looked
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
    plane = along_the_route(plane, np.array([info.position for info in keyframes]))
    origin = keyframes[0].position
    things = [one for one in opened.objects() if one.position is not None]

    def flat(points: Any) -> Array:
        return np.asarray((np.array(points, float).reshape(-1, 3) - origin) @ plane.T)

    counts = f"{plural(len(things), 'object')}, {plural(len(keyframes), 'keyframe')}"
    return View(
        title=f"{opened.header.world}: {counts}{_told(answers)}",
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


def along_the_route(plane: Array, places: Array) -> Array:
    """The axes turned so that the way [N, 3] runs from left to right, as pictures are wider than high."""
    flat = (places - places.mean(axis=0)) @ plane.T
    _, _, axes = np.linalg.svd(flat, full_matrices=False)
    long = axes[0] if (flat[-1] - flat[0]) @ axes[0] >= 0 else -axes[0]
    return np.array([long, [-long[1], long[0]]]) @ plane


def _told(answers: Sequence[Mapping[str, Any]]) -> str:
    if not answers:
        return ""
    return f"; {sum(told.get('position') is not None for told in answers)} of {len(answers)} frames found"


def _answer(told: Mapping[str, Any], flat: Any, plane: Array) -> Answer:
    place = flat([told["position"]])[0]
    ellipse = ahead = None
    if told.get("covariance") is not None and told.get("T_world_camera") is not None:
        turn = plane @ np.array(told["T_world_camera"])[:3, :3]  # [2, 3], camera to ground
        ahead = turn[:, 2] / max(float(np.linalg.norm(turn[:, 2])), 1e-9)
        spread, axes = np.linalg.eigh(turn @ np.array(told["covariance"])[:3, :3] @ turn.T)
        angle = np.linspace(0, 2 * np.pi, 49)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        ellipse = place + SURE * ((axes * np.sqrt(np.maximum(spread, 0))) @ circle).T
    return Answer(str(told.get("image", "")), place, ellipse, ahead, float(told.get("probability", 0.0)))


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
        for before, after in pairwise(route):
            if np.linalg.norm(after - before) < JUMP:
                pen.line([place(before), place(after)], fill=PALE, width=2)
        for point in route:
            _dot(pen, place(point), 3, ROUTE)
    for kind in UNDER_TO_UPPER:
        for point in view.objects.get(kind, np.zeros((0, 2))):
            _mark(pen, place(point), kind)
    for one in view.answers:
        if one.ellipse is not None:
            pen.polygon([place(point) for point in one.ellipse], outline=ANSWER, fill=DOUBT)
    for one in view.answers:
        x, y = place(one.place)
        if one.ahead is not None:
            pen.line([(x, y), (x + 11 * float(one.ahead[0]), y - 11 * float(one.ahead[1]))], fill=ANSWER, width=2)
        _dot(pen, (x, y), 3.5, ANSWER)
    for number in _labelled(len(view.answers)):
        x, y = place(view.answers[number].place)
        pen.text((x + 8, y + 6), view.answers[number].name, fill=(0, 90, 66), font=small)
    pen.text((MARGIN, 16), view.title, fill=(20, 20, 20), font=font)
    _legend(pen, view, small)
    _ruler(pen, scale, small)
    return picture


def _labelled(count: int) -> list[int]:
    """Which answers are named: all of a few, of many the first and the last."""
    return list(range(count)) if count <= FEW else [0, count - 1]


def _legend(pen: ImageDraw.ImageDraw, view: View, font: Any) -> None:
    x = float(MARGIN)
    for kind, things in view.objects.items():
        if len(things):
            _mark(pen, (x + 6, 62), kind)
            label = f"{kind.replace('_', ' ')} ({len(things)})"
            pen.text((x + 18, 52), label, fill=(20, 20, 20), font=font)
            x += 40 + pen.textlength(label, font=font)
    rest = [("keyframe", ROUTE)] + ([("frame found, with 95 % ellipse", ANSWER)] if view.answers else [])
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
        pen.rectangle((x - size, y - size, x + size, y + size), outline=color, width=3)
    elif kind == "traffic_light":
        pen.polygon(
            [(x, y - size - 3), (x + size + 3, y), (x, y + size + 3), (x - size - 3, y)], outline=color, width=3
        )
    elif kind == "window":
        pen.line([(x - size, y - size), (x + size, y + size)], fill=color, width=2)
        pen.line([(x - size, y + size), (x + size, y - size)], fill=color, width=2)
    else:
        _dot(pen, at, 3, color)


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
    for kind in UNDER_TO_UPPER:
        things = view.objects.get(kind, np.zeros((0, 2)))
        if len(things):
            marker = {"color": _css(COLORS[kind]), "symbol": SHAPES[kind], "size": SIZES[kind], "line": {"width": 2}}
            label = f"{kind.replace('_', ' ')} ({len(things)})"
            figure.add_scatter(x=things[:, 0], y=things[:, 1], mode="markers", name=label, marker=marker)
    _add_answers(figure, view.answers)
    figure.update_layout(
        title=view.title,
        template="plotly_white",
        xaxis_title="metres",
        yaxis_title="metres",
        legend={"orientation": "h", "y": -0.12},
        margin={"l": 60, "r": 20, "t": 60, "b": 20},
    )
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    page = {"default_height": "95vh", "config": {"scrollZoom": True, "displaylogo": False}}
    return str(figure.to_html(include_plotlyjs=True, full_html=True, **page))


def _add_answers(figure: Any, answers: Sequence[Answer]) -> None:
    """All frames as one trace, all ellipses as another: a drive of thousands stays quick."""
    if not answers:
        return
    around = [np.vstack([one.ellipse, np.full((1, 2), np.nan)]) for one in answers if one.ellipse is not None]
    if around:
        x, y = np.concatenate(around).T
        line = {"color": _css(ANSWER), "width": 1}
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            fill="toself",
            fillcolor="rgba(0,158,115,0.25)",
            line=line,
            name="95 % ellipse",
            hoverinfo="skip",
        )
    places = np.array([one.place for one in answers])
    angle = [0.0 if one.ahead is None else float(np.degrees(np.arctan2(one.ahead[0], one.ahead[1]))) for one in answers]
    symbols = ["circle" if one.ahead is None else "arrow" for one in answers]
    figure.add_scatter(
        x=places[:, 0],
        y=places[:, 1],
        mode="markers",
        name="frame found",
        marker={"color": _css(ANSWER), "size": 9, "symbol": symbols, "angle": angle},
        text=[f"{one.name}: probability {one.probability:.2f}" for one in answers],
        hoverinfo="text",
    )


def _css(color: tuple[int, int, int]) -> str:
    return f"rgb{color}"
