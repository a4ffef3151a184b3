"""Probability maps to landmarks: connected pixels of one category, taken apart where several objects touch.

Signs, lights and windows that touch are told apart by their insides, which do not. Poles have no inside: a pole's
landmark is its shaft. Arms are cut off, gaps are closed where the network is not sure of the contrary, and poles that
join or cross are cut where their pixels stop being one upright bar.
"""

from collections.abc import Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustmat.config import Config
from robustmat.detection.labels import INSIDE
from robustmat.landmarks.config import DEFAULT, RegionConfig
from robustmat.landmarks.regions import Region, is_landmark
from robustmat.types import CATEGORIES, Box, Landmark

Mask = NDArray[np.bool_]
Probabilities = NDArray[np.float32]


class ExtractionConfig(Config):
    """How sure the network must be of a pixel, and of a landmark."""

    covered: dict[str, float] = dict.fromkeys(CATEGORIES, 0.4)  # probability of a pixel
    inside: float = 0.3
    confidence: dict[str, float] = dict.fromkeys(CATEGORIES, 0.5)  # of a landmark
    # Weights of `evidence_of`, see calibration.py; without them, confidence is the mean probability of the pixels.
    calibration: dict[str, tuple[float, float, float, float]] = Field(default_factory=dict)
    smallest_inside: int = 6  # pixels; fewer do not make an object of their own
    inside_share: float = 0.2  # of the largest inside beside it; objects that touch are about as large
    shortest_arm: int = 13  # pixels of height; what is less tall is cut off a pole
    shortest_pole: int = 18  # pixels of height, for a piece of a pole
    longest_gap: int = 13  # pixels between two pieces of one shaft
    gap: float = 0.15  # probability of a pixel in such a gap, at least
    # A pole's rim is blurred: a pixel belongs to it if it is likely beside the likeliest one of so many around it.
    beside: float = 0.6
    around: int = 13  # pixels of a row
    hidden: float = 0.5  # of the taller piece: what hides the middle of a pole is no longer than that
    regions: RegionConfig = DEFAULT.regions


def extract_landmarks(
    probabilities: Probabilities, config: ExtractionConfig | None = None, *, all_candidates: bool = False
) -> tuple[Landmark, ...]:
    """Landmarks of probabilities [CHANNELS, H, W], by category and confidence; also unsure ones, if asked for."""
    config = config or ExtractionConfig()
    least = dict.fromkeys(CATEGORIES, 0.0) if all_candidates else config.confidence
    categories = probabilities[:INSIDE]
    strongest = categories.max(axis=0)
    inside = probabilities[INSIDE] > config.inside
    found: list[Landmark] = []
    for number, category in enumerate(CATEGORIES):
        plane = categories[number]
        mask = (plane >= config.covered[category]) & (plane >= strongest)
        if category == "pole":
            mask &= plane >= config.beside * cv2.dilate(plane, np.ones((1, config.around), np.uint8))
            regions = shafts(mask, config, possible=plane >= config.gap)
        else:
            pieces = _objects(mask, inside & mask, config)
            regions = [Region(_box(window), category, piece) for window, piece in pieces]
        curve = config.calibration.get(category)
        rated = [
            (region, _confidence(plane, region, curve)) for region in regions if is_landmark(region, config.regions)
        ]
        landmarks = [
            Landmark(region.box, category, confidence=confidence)
            for region, confidence in rated
            if confidence >= least[category]
        ]
        found += sorted(landmarks, key=lambda landmark: (-(landmark.confidence or 0.0), landmark.box))
    return tuple(found)


Window = tuple[int, int, int, int]  # left, top, width, height


def _components(mask: Mask) -> Iterator[tuple[Window, Mask]]:
    """Connected pixels, each with its bounding window."""
    count, numbers, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    for number in range(1, count):
        left, top, width, height, area = (int(value) for value in stats[number])
        if area > 0:
            yield (left, top, width, height), numbers[top : top + height, left : left + width] == number


def _objects(mask: Mask, inside: Mask, config: ExtractionConfig) -> Iterator[tuple[Window, Mask]]:
    """Connected pixels, divided among the insides in them."""
    for window, piece in _components(mask):
        left, top, width, height = window
        cores = inside[top : top + height, left : left + width] & piece
        count, numbers, stats, _ = cv2.connectedComponentsWithStats(cores.astype(np.uint8), connectivity=8)
        areas = stats[1:count, cv2.CC_STAT_AREA]
        least = max(config.smallest_inside, config.inside_share * float(areas.max(initial=0)))
        large = [n for n in range(1, count) if areas[n - 1] >= least]
        if len(large) < 2:
            yield window, piece
            continue
        keep = np.isin(numbers, large)
        nearest = _nearest(np.where(keep, numbers, 0))
        for number in large:
            yield from _shifted(_components(piece & (nearest == number)), left, top)


def _nearest(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each pixel's nearest numbered pixel's number."""
    _, cells = cv2.distanceTransformWithLabels(
        (numbers == 0).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    names = np.zeros(int(cells.max()) + 1, np.int32)
    names[cells[numbers > 0]] = numbers[numbers > 0]
    return np.asarray(names[cells], np.int32)


def shafts(mask: Mask, config: ExtractionConfig | None = None, possible: Mask | None = None) -> list[Region]:
    """The upright bars of a mask of poles [H, W], without the arms of lamps and gantries.

    Short gaps between two pieces of a bar are closed where a pole is `possible`: the network is not sure of the
    contrary, or nobody labelled the pixel. Truth and detections go through the same rule.
    """
    config = config or ExtractionConfig()
    if possible is not None:
        mask = _without_gaps(mask, possible, config.longest_gap)
    upright = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, _column(config.shortest_arm)) > 0
    found: list[Region] = []
    whole: list[Region] = []
    for window, piece in _components(upright):
        region = Region(_box(window), "pole", piece)
        if is_landmark(region, config.regions):
            whole.append(region)
        elif window[3] >= config.shortest_pole:
            parts = _shifted(_split_bar(piece, config), window[0], window[1])
            found += [Region(_box(inner), "pole", bar) for inner, bar in parts]
    return _joined(whole + found, config)


def _joined(pieces: list[Region], config: ExtractionConfig) -> list[Region]:
    """Pieces that continue each other (below a sign, a branch) are one pole, but not where poles cross or part."""
    waiting = sorted(pieces, key=lambda piece: (piece.box[1], piece.box[0]))
    found: list[Region] = []
    while waiting:
        upper = waiting.pop(0)
        below = [piece for piece in waiting if _continues(upper, piece, config)]
        beside = [piece for piece in (*found, *waiting) if below and _continues(piece, below[0], config)]
        parted = any(_side_by_side(below[0], piece) for piece in below[1:])
        if not below or parted or any(_side_by_side(upper, piece) for piece in beside):
            found.append(upper)
        else:
            waiting = [_union(upper, below[0]), *(piece for piece in waiting if piece is not below[0])]
    return found


def _side_by_side(one: Region, other: Region) -> bool:
    """Whether some row shows both."""
    return one is not other and one.box[1] < other.box[3] and other.box[1] < one.box[3]


def _continues(upper: Region, lower: Region, config: ExtractionConfig) -> bool:
    gap = lower.box[1] - upper.box[3]
    tallest = max(len(upper.mask), len(lower.mask))
    if not 0 <= gap <= config.hidden * tallest:
        return False
    (left, right), (other_left, other_right) = _end(upper, -1), _end(lower, 0)
    widths = right - left, other_right - other_left
    beside = abs((left + right) - (other_left + other_right)) / 2
    return max(widths) <= 2 * min(widths) + 1 and beside <= 1 + 0.5 * min(widths) + 0.05 * gap


def _end(region: Region, row: int) -> tuple[float, float]:
    """Where the first or last row of a region begins and ends."""
    columns = np.flatnonzero(region.mask[row])
    return region.box[0] + float(columns[0]), region.box[0] + float(columns[-1]) + 1


def _union(upper: Region, lower: Region) -> Region:
    x0, y0 = min(upper.box[0], lower.box[0]), upper.box[1]
    x1, y1 = max(upper.box[2], lower.box[2]), lower.box[3]
    mask = np.zeros((round(y1 - y0), round(x1 - x0)), bool)
    for piece in (upper, lower):
        top, left = round(piece.box[1] - y0), round(piece.box[0] - x0)
        mask[top : top + piece.mask.shape[0], left : left + piece.mask.shape[1]] |= piece.mask
    return Region((x0, y0, x1, y1), upper.category, mask)


def _without_gaps(mask: Mask, possible: Mask, longest: int) -> Mask:
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, _column(longest)) > 0
    return np.asarray(mask | (closed & possible))


def _column(height: int) -> NDArray[np.uint8]:
    """A kernel of one column; of an odd height, for an even one moves what it opens by a pixel."""
    return np.ones((2 * (height // 2) + 1, 1), np.uint8)


def _split_bar(bar: Mask, config: ExtractionConfig) -> Iterator[tuple[Window, Mask]]:
    """Follow the runs of pixels from row to row; where runs join or part, a new piece begins."""
    pieces: list[Mask] = []
    open_pieces: list[tuple[Mask, int, int]] = []  # a piece and its run in the row before
    for y in range(len(bar)):
        edges = np.diff(np.concatenate([[0], bar[y].astype(np.int8), [0]]))
        runs = list(zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True))
        touching = [[k for k, (_, a, b) in enumerate(open_pieces) if a < end and start < b] for start, end in runs]
        shared = {k for ks in touching for k in ks if sum(k in other for other in touching) > 1}
        following: list[tuple[Mask, int, int]] = []
        for (start, end), ks in zip(runs, touching, strict=True):
            fits = len(ks) == 1 and ks[0] not in shared and _alike(open_pieces[ks[0]], int(start), int(end))
            if fits:
                piece = open_pieces[ks[0]][0]
            else:
                piece = np.zeros_like(bar)
                pieces.append(piece)
            piece[y, start:end] = True
            following.append((piece, int(start), int(end)))
        open_pieces = following
    for piece in pieces:
        for window, part in _components(piece):
            if window[3] >= config.shortest_pole:
                yield window, part


def _alike(piece: tuple[Mask, int, int], start: int, end: int) -> bool:
    """Whether a run is about as wide as the one above it."""
    _, before, after = piece
    return max(end - start, after - before) <= 2 * min(end - start, after - before) + 2


def _shifted(
    pieces: "Iterator[tuple[Window, Mask]] | list[tuple[Window, Mask]]", left: int, top: int
) -> Iterator[tuple[Window, Mask]]:
    for (x, y, width, height), piece in pieces:
        yield (x + left, y + top, width, height), piece


def _box(window: Window) -> tuple[float, float, float, float]:
    left, top, width, height = window
    return float(left), float(top), float(left + width), float(top + height)


def _confidence(plane: Probabilities, region: Region, weights: Sequence[float] | None) -> float:
    x0, y0, x1, y1 = (int(value) for value in region.box)
    mean = float(plane[y0:y1, x0:x1][region.mask].mean())
    return round(mean if weights is None else calibrated(mean, region.box, weights), 4)


def calibrated(mean: float, box: Box, weights: Sequence[float]) -> float:
    """The probability that a region is a landmark, by a logistic model of its evidence."""
    return float(1 / (1 + np.exp(-np.dot(weights, evidence_of(mean, box)))))


def evidence_of(mean: float, box: Box) -> tuple[float, float, float, float]:
    """Log odds of the mean probability of a region's pixels, logarithms of its sides (shorter, longer), and 1."""
    clipped = min(max(mean, 1e-6), 1 - 1e-6)
    shorter, longer = sorted((box[2] - box[0], box[3] - box[1]))
    return float(np.log(clipped / (1 - clipped))), float(np.log(shorter / 10)), float(np.log(longer / 30)), 1.0
