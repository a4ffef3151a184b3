"""The corruption report: a page in Markdown, a heat map, and the numbers as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.files import replacing, write_json, write_text
from robustmat.robustness.corruption_scores import CLEAN, Robustness, summarize
from robustmat.robustness.corruptions import ALL, Condition, Counts
from robustmat.types import CATEGORIES

Measured = Mapping[str, Mapping[Condition, Counts]]
Color = tuple[int, int, int]

CELL, TALL, LEFT, TOP, MARGIN = 46, 26, 150, 64, 14
INK, PAPER, EMPTY = (30, 30, 30), (255, 255, 255), (235, 235, 235)
LUMINANCE = (0.299, 0.587, 0.114)
STOPS: tuple[Color, ...] = ((150, 20, 40), (240, 150, 90), (250, 235, 190), (120, 180, 190), (20, 80, 140))  # 0 to 1


def scores_of(measured: Mapping[Condition, Counts], category: str = ALL) -> dict[str, dict[int, float]]:
    """F1 by corruption and severity."""
    found: dict[str, dict[int, float]] = {}
    for condition, counts in measured.items():
        found.setdefault(condition.corruption, {})[condition.severity] = counts[category].f1
    return found


def write_report(
    folder: Path | str, measured: Measured, reference: str, data: Sequence[str], settings: dict[str, Any], command: str
) -> Path:
    """`robustness.md`, `robustness.png` and `robustness.json` in the folder; gives back the page."""
    folder = Path(folder)
    page, picture = folder / "robustness.md", folder / "robustness.png"
    scores = {name: scores_of(cells) for name, cells in measured.items()}
    rows = {name: summarize(one, scores[reference]) for name, one in scores.items()}
    draw_heat_map(scores, picture)
    write_json(folder / "robustness.json", _numbers(measured, rows, reference, data, settings, command))
    categories = [name for name in CATEGORIES if any(cells[name].possible for cells in _cleans(measured))]
    parts = [
        "# robustness: every corruption at every severity",
        f"How much of a matcher's score is left under weather, noise, blur and light? {', '.join(data)}; "
        f"{settings['frame_pairs']} frame pairs, seed {settings['seed']}; both frames corrupted.",
        _summary(rows, reference),
        "F1 of one-to-one matches in whole frame pairs, clean and as the mean over all corruptions and severities. mRR "
        "is the mean share of its clean F1 that a method keeps (RoboDepth); mCE its error summed over severities, over "
        f"the reference's ({reference}), mean over corruptions (ImageNet-C): below 1 is better than the reference.",
        "## Command",
        f"```sh\n{command}\n```",
        "## Every severity",
        f"![F1 by corruption and severity]({picture.name})",
        "Severities 1 to 5; of `awgn` and `paper` they are 22, 19, 16, 13 and 10 dB.",
        "## By corruption",
        "The share of its clean F1 that each method keeps, mean over severities.",
        _by_corruption(rows),
        "## By category",
        "F1 clean / mean over all corruptions; in brackets the matches that can be found in the clean frame pairs.",
        _by_category(measured, categories),
    ]
    write_text(page, "\n\n".join(parts) + "\n")
    return page


def _cleans(measured: Measured) -> list[Counts]:
    return [cells[Condition(CLEAN, 0)] for cells in measured.values()]


def _summary(rows: Mapping[str, Robustness], reference: str) -> str:
    cells = [["method", "F1 clean", "F1 corrupted, mean", "mRR", "mCE"], ["---"] + ["---:"] * 4]
    for name, row in sorted(rows.items(), key=lambda item: -item[1].mean):
        label = f"{name} (reference)" if name == reference else name
        cells.append([label, *(_number(value) for value in (row.clean, row.mean, row.mrr, row.mce))])
    return _table(cells)


def _by_corruption(rows: Mapping[str, Robustness]) -> str:
    corruptions = list(next(iter(rows.values())).resilience)
    cells = [["corruption", *rows], ["---"] + ["---:"] * len(rows)]
    cells += [[name, *(_number(row.resilience[name]) for row in rows.values())] for name in corruptions]
    return _table(cells)


def _by_category(measured: Measured, categories: Sequence[str]) -> str:
    possible = _cleans(measured)[0]
    head = [f"{name.replace('_', ' ')} ({possible[name].possible})" for name in categories]
    cells = [["method", *head], ["---"] + ["---:"] * len(head)]
    for name, known in measured.items():
        row = [name]
        for category in categories:
            scores = scores_of(known, category)
            own = summarize(scores, scores)
            row.append(f"{_number(own.clean)} / {_number(own.mean)}")
        cells.append(row)
    return _table(cells)


def _numbers(
    measured: Measured,
    rows: Mapping[str, Robustness],
    reference: str,
    data: Sequence[str],
    settings: dict[str, Any],
    command: str,
) -> dict[str, Any]:
    methods = {
        name: {
            "clean": row.clean,
            "mean": row.mean,
            "mrr": _plain(row.mrr),
            "mce": _plain(row.mce),
            "resilience": {key: _plain(value) for key, value in row.resilience.items()},
            "corruption_error": {key: _plain(value) for key, value in row.corruption_error.items()},
            "counts": {
                f"{condition.corruption}:{condition.severity}": {
                    key: [count.right, count.wrong, count.possible] for key, count in counts.items() if count.possible
                }
                for condition, counts in measured[name].items()
            },
        }
        for name, row in rows.items()
    }
    return {"reference": reference, "data": list(data), **settings, "methods": methods, "command": command}


def draw_heat_map(scores: Mapping[str, Mapping[str, Mapping[int, float]]], path: Path) -> Path:
    """A block for each method: a row for each corruption, a column for each severity, F1 in every cell."""
    first = next(iter(scores.values()))
    corruptions = [name for name in first if name != CLEAN]
    severities = list(first[corruptions[0]])
    wide = (1 + len(severities)) * CELL + MARGIN
    size = LEFT + len(scores) * wide + MARGIN, TOP + len(corruptions) * TALL + MARGIN
    picture = PIL.Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=13)
    pen.text((MARGIN, 8), "F1 of whole-frame matches by corruption and severity", fill=INK, font=font)

    def put(x: int, y: int, value: float) -> None:
        fill = color_of(value)
        pen.rectangle((x, y, x + CELL - 2, y + TALL - 2), fill=fill)
        ink = INK if np.dot(fill, LUMINANCE) > 135 else PAPER
        pen.text((x + CELL / 2 - 1, y + TALL / 2 - 1), _number(value, 2), fill=ink, font=font, anchor="mm")

    for block, (method, known) in enumerate(scores.items()):
        left = LEFT + block * wide
        pen.text((left, 28), _short(method), fill=INK, font=ImageFont.load_default(size=14))
        heads = ["clean", *map(str, severities)]
        for column, head in enumerate(heads):
            pen.text((left + column * CELL + CELL / 2 - 1, TOP - 8), head, fill=INK, font=font, anchor="mm")
        for row, name in enumerate(corruptions):
            y = TOP + row * TALL
            if block == 0:
                pen.text((LEFT - 10, y + TALL / 2 - 1), name, fill=INK, font=font, anchor="rm")
            for column, value in enumerate([known[CLEAN][0], *(known[name][severity] for severity in severities)]):
                put(left + column * CELL, y, value)
    with replacing(path) as temporary:
        picture.save(temporary)
    return path


def color_of(value: float) -> Color:
    """From red (0) over pale (1/2) to blue (1); grey where there is no number. Told apart by colour-blind people."""
    if not np.isfinite(value):
        return EMPTY
    at = float(np.clip(value, 0, 1)) * (len(STOPS) - 1)
    low = min(int(at), len(STOPS) - 2)
    first, second = np.array(STOPS[low]), np.array(STOPS[low + 1])
    red, green, blue = np.rint(first + (at - low) * (second - first)).astype(int).tolist()
    return red, green, blue


def _short(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:27]}..."


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def _table(cells: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
