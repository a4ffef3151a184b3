"""Sheets to judge the ground truth by eye: candidates, and the frames between their two frames.

A row of a sheet is one candidate: its first frame, frames between, its second frame, from left to right. Above is the
whole frame, below what stands around the place of the first landmark (red) and of the second (cyan). Thick boxes are
sightings of an identity, thin ones where its place must be seen. So the eye can follow an object from one end
to the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.dataset.drawing import Color
from robustmat.dataset.truth import FrameTruth, Truth, frame_pairs, label_candidates
from robustmat.errors import DataError
from robustmat.files import read_json, replacing
from robustmat.geometry.projection import NEAREST
from robustmat.geometry.transforms import invert, transform
from robustmat.types import AMBIGUOUS, CATEGORIES, MATCHED, UNMATCHED, Array, Image

BETWEEN = 3  # frames
TILE, CLOSE = 300, 150  # pixels: width of a tile, height of its close views
ROWS = 7  # candidates a sheet
FIRST, SECOND = (255, 60, 60), (0, 230, 255)
LABELS = {MATCHED: "matched", UNMATCHED: "unmatched", AMBIGUOUS: "ambiguous"}


@dataclass(frozen=True)
class Candidate:
    """Landmark `a` of frame `first` and landmark `b` of frame `second`, numbered as in a `Truth`."""

    first: int
    a: int
    second: int
    b: int


def draw_candidates(truth: Truth, label: int, count: int, seed: int = 0) -> list[Candidate]:
    """At most `count` candidates of one category with that label, drawn at random from all frame pairs."""
    found = [np.zeros((0, 4), dtype=np.int64)]
    for i, j in frame_pairs(truth).tolist():
        first, second = truth.frames[i], truth.frames[j]
        same = first.category[:, None] == second.category
        rows, columns = np.nonzero((label_candidates(first, second) == label) & same)
        found.append(np.stack([np.full_like(rows, i), rows, np.full_like(rows, j), columns], axis=1))
    table = np.concatenate(found)
    picked = np.random.default_rng(seed).choice(len(table), min(count, len(table)), replace=False)
    return [Candidate(*row) for row in table[np.sort(picked)].tolist()]


def read_candidates(path: Path, truth: Truth) -> list[Candidate]:
    """Candidates of a JSON file, [[frame name, landmark, frame name, landmark], ...]: a matcher's, for instance."""
    index = {truth.frame(number).name: number for number in range(len(truth.frames))}
    content = read_json(path, "candidates")
    try:
        found = [Candidate(index[str(a)], int(i), index[str(b)], int(j)) for a, i, b, j in content]
    except (KeyError, TypeError, ValueError) as problem:
        raise DataError(
            f"candidates file {path}: expected rows [frame name, landmark number, frame name, landmark number] of this "
            f"data set; found {problem}"
        ) from None
    for one in found:
        for frame, landmark in ((one.first, one.a), (one.second, one.b)):
            if not 0 <= landmark < len(truth.frames[frame].identity):
                raise DataError(f"candidates file {path}: frame {truth.frame(frame).name} has no landmark {landmark}")
    return found


def draw_judgement_sheets(truth: Truth, candidates: Sequence[Candidate], out: Path, name: str) -> list[Path]:
    """Write the candidates, numbered, on as many sheets `NAME-1.png`, ... as they need."""
    written = []
    for start in range(0, len(candidates), ROWS):
        page = candidates[start : start + ROWS]
        rows = [_row(truth, candidate, start + number + 1) for number, candidate in enumerate(page)]
        path = out / f"{name}-{start // ROWS + 1}.png"
        with replacing(path) as temporary:
            PIL.Image.fromarray(np.concatenate(rows)).save(temporary, compress_level=1)
        written.append(path)
    return written


def with_label(truth: Truth, candidates: Iterable[Candidate], label: int) -> list[Candidate]:
    """Those of the candidates that the ground truth labels so."""
    return [
        candidate
        for candidate in candidates
        if label_candidates(truth.frames[candidate.first], truth.frames[candidate.second])[candidate.a, candidate.b]
        == label
    ]


def _row(truth: Truth, candidate: Candidate, number: int) -> Image:
    first, second = truth.frames[candidate.first], truth.frames[candidate.second]
    label = LABELS[int(label_candidates(first, second)[candidate.a, candidate.b])]
    apart = float(np.linalg.norm(first.centre - second.centre))
    identities = int(first.identity[candidate.a]), int(second.identity[candidate.b])
    category = CATEGORIES[first.category[candidate.a]]
    places = first.position[candidate.a], second.position[candidate.b]
    title = f"#{number} {label} {category} {identities[0]} and {identities[1]}, cameras {apart:.1f} m apart"
    shown = _between(truth, candidate)
    tiles = [_tile(truth, frame, candidate, identities, places) for frame in shown]
    tall = max(tile.height for tile in tiles)
    row = PIL.Image.new("RGB", ((TILE + 4) * (BETWEEN + 2), tall + 20), (24, 24, 24))
    for column, tile in enumerate(tiles):
        row.paste(tile, (column * (TILE + 4), 16))
    ImageDraw.Draw(row).text((3, 1), title, fill=(255, 255, 0), font=ImageFont.load_default(size=12))
    return np.asarray(row)


def _between(truth: Truth, candidate: Candidate) -> list[int]:
    """The first frame, some between it and the second if they are of one drive, and the second."""
    low, high = candidate.first, candidate.second
    if truth.frames[low].dataset != truth.frames[high].dataset:
        return [low, high]
    steps = np.linspace(low, high, BETWEEN + 2)
    return list(dict.fromkeys(round(step) for step in steps))


def _tile(
    truth: Truth, number: int, candidate: Candidate, identities: tuple[int, int], places: tuple[Array, Array]
) -> PIL.Image.Image:
    seen = truth.frames[number]
    image = truth.frame(number).image
    picture = PIL.Image.fromarray(image)
    spots = [_pixel(seen, place) for place in places]
    boxes: list[tuple[Array, Color, bool]] = []  # box, colour, whether it is a sighting
    ends = ((candidate.first, candidate.a), (candidate.second, candidate.b))
    middles: list[Array | None] = []
    for (frame, landmark), identity, spot, color in zip(ends, identities, spots, (FIRST, SECOND), strict=True):
        own = [landmark] if frame == number else np.flatnonzero((seen.identity == identity) & (identity >= 0)).tolist()
        boxes += [(seen.box[i], color, True) for i in own]
        if spot is not None:
            boxes.append((np.concatenate([spot - 5, spot + 5]), color, False))
        middles.append((seen.box[own[0], :2] + seen.box[own[0], 2:]) / 2 if own else spot)
    ratio = TILE / picture.width
    whole = picture.resize((TILE, max(1, round(picture.height * ratio))))
    _mark(whole, boxes, ratio, np.zeros(2))
    tile = PIL.Image.new("RGB", (TILE, whole.height + CLOSE + 2), (60, 60, 60))
    tile.paste(whole, (0, 0))
    for column, middle in enumerate(middles):
        if middle is not None:
            tile.paste(_close(picture, middle, boxes, column), (column * (TILE // 2 + 1), whole.height + 2))
    return tile


def _close(
    picture: PIL.Image.Image, middle: Array, boxes: list[tuple[Array, Color, bool]], column: int
) -> PIL.Image.Image:
    """What stands around a pixel, enlarged to half a tile; the side follows the box that is there."""
    color = (FIRST, SECOND)[column]
    sizes = [float((box[2:] - box[:2]).max()) for box, other, is_seen in boxes if is_seen and other == color]
    side = max(90.0, 1.25 * max(sizes, default=0.0))
    corner = middle - side / 2
    low, high = corner.astype(int), (corner + side).astype(int)
    close = picture.crop((int(low[0]), int(low[1]), int(high[0]), int(high[1]))).resize((TILE // 2 - 1, CLOSE))
    _mark(close, boxes, CLOSE / side, low.astype(float))
    return close


def _mark(picture: PIL.Image.Image, boxes: list[tuple[Array, Color, bool]], ratio: float, corner: Array) -> None:
    pen = ImageDraw.Draw(picture)
    for box, color, is_seen in boxes:
        x0, y0, x1, y1 = ((box.reshape(2, 2) - corner) * ratio).ravel().tolist()
        if is_seen:
            pen.rectangle((x0 - 2, y0 - 2, x1 + 1, y1 + 1), outline=color, width=2)
        else:
            x, y = (x0 + x1) / 2, (y0 + y1) / 2
            pen.line((x - 6, y, x + 6, y), fill=color)
            pen.line((x, y - 6, x, y + 6), fill=color)


def _pixel(seen: FrameTruth, place: Array) -> Array | None:
    """Where a place of the world is seen, or None."""
    if seen.camera is None or not np.isfinite(place).all():
        return None
    x, y, depth = transform(invert(seen.T_world_camera), place[None])[0]
    if depth <= NEAREST:
        return None
    pixel = (seen.camera.matrix[:2] @ np.array([x, y, depth])) / depth + 0.5
    inside = (pixel >= -50).all() and pixel[0] < seen.camera.width + 50 and pixel[1] < seen.camera.height + 50
    return np.asarray(pixel) if inside else None
