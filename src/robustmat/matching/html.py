"""A report of matched frames: one HTML file with its pictures inside, to keep or to send on."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import cv2
import numpy as np

from robustmat.drawing import distinct_color
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.files import write_text
from robustmat.types import Image, MatchResult

THUMBNAIL = PatchConfig(size=96, margin=15)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1280px; margin: 2rem auto; padding: 0 1rem; color: #1c1e21 }
img.wide { width: 100%; border-radius: 6px }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .35rem .9rem; text-align: left; border-bottom: 1px solid #ddd; vertical-align: middle }
td img { height: 72px; border: 3px solid; border-radius: 4px; display: block }
.number { font-variant-numeric: tabular-nums; text-align: right }
.right { color: #14753a } .wrong { color: #b3261e; font-weight: 600 } .unknown { color: #777 }
code { background: #f2f3f5; padding: .1rem .3rem; border-radius: 3px }
"""


@dataclass(frozen=True)
class Section:
    """A heading and paragraphs of HTML."""

    title: str
    body: str


def write_match_report(
    result: MatchResult,
    picture: Path,
    path: Path | str,
    title: str,
    introduction: str,
    verdicts: Sequence[str] | None = None,
    sections: Sequence[Section] = (),
) -> Path:
    """Write the report of one frame pair.

    Args:
        picture: what `result.draw` wrote; embedded, so that the report is one file.
        verdicts: for each match what the ground truth says: right, wrong or unknown.
        sections: shown after the table.
    """
    parts = [
        f"<h1>{escape(title)}</h1><p>{introduction}</p>",
        f'<img class="wide" alt="matches" src="{_data(picture.read_bytes())}">',
        _table(result, verdicts),
        _alone(result),
        *(f"<h2>{escape(it.title)}</h2>{it.body}" for it in sections),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    write_text(path, f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n')
    return Path(path)


def _table(result: MatchResult, verdicts: Sequence[str] | None) -> str:
    columns = ["", "A", "B", "category", "score", "probability", *(["ground truth"] if verdicts else [])]
    rows = []
    crops_a, crops_b = _crops(result)
    for number, match in enumerate(result.matches):
        color = "rgb({},{},{})".format(*distinct_color(number))
        cells = [
            f"<td>{number + 1}</td>",
            *(
                f'<td><img alt="" style="border-color:{color}" src="{it}"></td>'
                for it in (crops_a[match.a], crops_b[match.b])
            ),
            f"<td>{escape(result.landmarks_a[match.a].category.replace('_', ' '))}</td>",
            f'<td class="number">{match.score:.2f}</td><td class="number">{match.probability:.2f}</td>',
        ]
        if verdicts:
            cells.append(f'<td class="{verdicts[number]}">{verdicts[number]}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    header = "".join(f"<th>{it}</th>" for it in columns)
    return f"<h2>{len(result.matches)} matches</h2><table><tr>{header}</tr>{''.join(rows)}</table>"


def _alone(result: MatchResult) -> str:
    lines = []
    for side, landmarks, alone in (
        ("A", result.landmarks_a, result.unmatched_a),
        ("B", result.landmarks_b, result.unmatched_b),
    ):
        names = ", ".join(f"{index} ({landmarks[index].category.replace('_', ' ')})" for index in alone)
        lines.append(f"<p>Frame {side}, without a partner: {names or 'none'}.</p>")
    return "".join(lines)


def _crops(result: MatchResult) -> tuple[list[str], list[str]]:
    both = []
    for frame, landmarks in ((result.frame_a, result.landmarks_a), (result.frame_b, result.landmarks_b)):
        image = frame.image if frame else np.full((1, 1, 3), 128, np.uint8)
        boxes = [landmark.box for landmark in landmarks]
        both.append([_data(_png(patch)) for patch in cut_patches(image, boxes, THUMBNAIL)])
    return both[0], both[1]


def _png(image: Image) -> bytes:
    return bytes(cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1])


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
