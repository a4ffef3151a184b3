"""A report of a matched frame pair: one HTML file with its pictures inside, to keep or to send on."""

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from robustmat.drawing import WRONG, Color, distinct_color, encode_png, picture_of_matches
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.files import write_text
from robustmat.types import Image, Landmark, MatchResult, plural

THUMBNAIL = PatchConfig(size=96, margin=15)
VERDICTS = {True: "correct", False: "wrong", None: "unknown"}


@dataclass(frozen=True)
class Section:
    """Something to read after the matches, in plain text: the page takes care of the HTML."""

    title: str
    paragraphs: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    png: bytes | None = None  # a picture, shown below the paragraphs

    @property
    def picture(self) -> str | None:
        return None if self.png is None else _embedded(self.png)


def summarize(result: MatchResult, correct: Sequence[bool | None] | None = None) -> str:
    """The result in one sentence: `13 correct matches, 1 wrong; 12 + 12 landmarks left unmatched`."""
    first, second = result.left_alone
    unmatched = f"{len(first)} + {len(second)} landmarks left unmatched"
    doubtful = len(result.unmatched_a) - len(first), len(result.unmatched_b) - len(second)
    if any(doubtful):
        unmatched += f", and {doubtful[0]} + {doubtful[1]} doubtful detections"
    if correct is None:
        return f"{plural(len(result.matches), 'match', 'matches')}; {unmatched}"
    count = Counter(correct)
    unknown = f", {count[None]} that cannot be checked" if count[None] else ""
    return f"{plural(count[True], 'correct match', 'correct matches')}, {count[False]} wrong{unknown}; {unmatched}"


def write_match_report(
    result: MatchResult,
    path: Path | str,
    title: str,
    introduction: str,
    correct: Sequence[bool | None] | None = None,
    sections: Sequence[Section] = (),
) -> Path:
    """Write the report of one frame pair. All texts are plain: what looks like HTML in them is shown, not obeyed.

    Args:
        correct: what the ground truth says of each match (`result.correct` where identities are known).
        sections: shown after the matches.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("robustmat"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.get_template("match_report.html").render(
        title=title,
        summary=summarize(result, correct),
        introduction=introduction,
        picture=_embedded(encode_png(picture_of_matches(result, correct))),
        heading=plural(len(result.matches), "match", "matches"),
        judged=correct is not None,
        rows=_rows(result, correct),
        unmatched=[
            ("A", _named(result.landmarks_a, result.left_alone[0])),
            ("B", _named(result.landmarks_b, result.left_alone[1])),
        ],
        sections=sections,
    )
    write_text(path, page)
    return Path(path)


def _rows(result: MatchResult, correct: Sequence[bool | None] | None) -> list[dict[str, Any]]:
    crops_a, crops_b = _crops(result)
    verdicts = correct if correct is not None else [None] * len(result.matches)
    return [
        {
            "number": number + 1,
            "a": match.a,
            "b": match.b,
            "color": _css(WRONG if verdict is False else distinct_color(number)),
            "crop_a": crops_a[match.a],
            "crop_b": crops_b[match.b],
            "category": result.landmarks_a[match.a].category.replace("_", " "),
            "probability": f"{match.probability:.2f}",
            "verdict": VERDICTS[verdict],
        }
        for number, (match, verdict) in enumerate(zip(result.matches, verdicts, strict=True))
    ]


def _named(landmarks: Sequence[Landmark], indices: Sequence[int]) -> str:
    """How many of which kind: `3 poles, 1 traffic sign`. The pictures number matches, so indices would say nothing."""
    kinds = Counter(landmarks[index].category.replace("_", " ") for index in indices)
    return ", ".join(plural(count, kind) for kind, count in kinds.most_common())


def _crops(result: MatchResult) -> tuple[list[str], list[str]]:
    both = []
    for frame, landmarks in ((result.frame_a, result.landmarks_a), (result.frame_b, result.landmarks_b)):
        image = frame.image if frame else np.full((1, 1, 3), 128, np.uint8)
        boxes = [landmark.box for landmark in landmarks]
        both.append([_embedded(_png(patch)) for patch in cut_patches(image, boxes, THUMBNAIL)])
    return both[0], both[1]


def _css(color: Color) -> str:
    return "rgb({},{},{})".format(*color)


def _png(image: Image) -> bytes:
    return bytes(cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1])


def _embedded(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
