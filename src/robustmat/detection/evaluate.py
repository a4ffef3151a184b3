"""How well a detector finds landmarks: average precision, precision and recall, by category and by size."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustmat.detection.protocol import LandmarkDetector, TellsCandidates
from robustmat.detection.truth import Truth
from robustmat.types import CATEGORIES, Array, Box, Frame, Landmark

# Overlap from which a detection is right. A pole is a few pixels wide: one pixel beside it is half of it.
LEAST_OVERLAP = {"traffic_sign": 0.5, "traffic_light": 0.5, "pole": 0.3, "window": 0.5}
SIZES = ((0, 4), (4, 8), (8, 16), (16, 32), (32, 100_000))  # pixels of a box's shorter side: above, and up to


@dataclass(frozen=True)
class Judged:
    """One detection or one missed landmark: found and right, found and wrong, or there and missed."""

    category: str
    size: float  # of the shorter side: of the landmark if there is one, else of the detection
    found: Landmark | None  # None: missed
    right: bool
    returned: bool = True  # False: a candidate that the detector is not sure enough of

    @property
    def confidence(self) -> float | None:
        return None if self.found is None else _confidence(self.found)


def evaluate_detector(
    detector: LandmarkDetector,
    truths: Iterable[Truth],
    labelled: Sequence[str] = CATEGORIES,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The report of `robustmat detect evaluate`; only the `labelled` categories are judged."""
    judged: list[Judged] = []
    seconds = []
    for number, truth in enumerate(truths):
        start = time.perf_counter()
        found, returned = _detect(detector, truth.frame)
        seconds.append(time.perf_counter() - start)
        judged += judge(found, truth, labelled, returned)
        if progress is not None:
            progress(number + 1)
    return {
        "detector": detector.name,
        "frames": len(seconds),
        "classes": {category: summarize([one for one in judged if one.category == category]) for category in labelled},
        "wider_than_4": {
            category: summarize([one for one in judged if one.category == category and one.size > 4])
            for category in labelled
        },
        "sizes": {
            category: {
                f"{low}-{high}" if high < SIZES[-1][1] else f"{low}+": summarize(
                    [one for one in judged if one.category == category and low < one.size <= high]
                )
                for low, high in SIZES
            }
            for category in labelled
        },
        "seconds_per_frame": float(np.median(seconds)) if seconds else None,
    }


def _detect(detector: LandmarkDetector, frame: Frame) -> tuple[tuple[Landmark, ...], tuple[Landmark, ...]]:
    """What average precision ranks, all candidates of a detector that tells them, and what `detect` returns."""
    if isinstance(detector, TellsCandidates):
        found = detector.candidates(frame)
        return found, tuple(landmark for landmark in found if detector.is_sure(landmark))
    returned = detector.detect(frame)
    return returned, returned


def judge(
    found: Sequence[Landmark],
    truth: Truth,
    labelled: Sequence[str] = CATEGORIES,
    returned: Sequence[Landmark] | None = None,
) -> list[Judged]:
    """Match detections to landmarks of their category, the surest first, each landmark once.

    `returned` are those of `found` that count for precision and recall; all, unless given.
    """
    judged = []
    sure = set(found if returned is None else returned)
    for category in labelled:
        wanted = [mark for mark in truth.landmarks if mark.category == category]
        offered = sorted((one for one in found if one.category == category), key=_confidence, reverse=True)
        overlaps = box_overlaps([one.box for one in offered], [one.box for one in wanted])  # [offered, wanted]
        free = np.ones(len(wanted), bool)
        for row, landmark in zip(overlaps, offered, strict=True):
            best = int(np.argmax(np.where(free, row, -1.0))) if free.any() else -1
            if best >= 0 and row[best] >= LEAST_OVERLAP[category]:
                free[best] = False
                size = _short_side(wanted[best].box)
                judged.append(Judged(category, size, landmark, True, landmark in sure))
            elif not truth.is_doubtful(landmark.box, category):
                size = _short_side(landmark.box)
                judged.append(Judged(category, size, landmark, False, landmark in sure))
        judged += [Judged(category, _short_side(wanted[k].box), None, False) for k in np.flatnonzero(free)]
    return judged


def summarize(judged: Sequence[Judged]) -> dict[str, Any]:
    """Average precision, precision and recall of what was returned, and the number of landmarks."""
    offered = [one for one in judged if one.confidence is not None]
    returned = [one for one in offered if one.returned]
    right = sum(one.right for one in returned)
    count = sum(one.right for one in offered) + sum(one.confidence is None for one in judged)
    return {
        "ap": average_precision([(one.confidence or 0.0, one.right) for one in offered], count) if count else None,
        "precision": right / len(returned) if returned else None,
        "recall": right / count if count else None,
        "n": count,
        "detections": len(returned),
    }


def average_precision(offered: Sequence[tuple[float, bool]], count: int) -> float:
    """Area under the precision envelope over recall; `offered` are confidences and whether they are right."""
    if not offered:
        return 0.0
    ranked = sorted(offered, key=lambda one: -one[0])
    right: Array = np.cumsum([one[1] for one in ranked]).astype(float)
    precision = right / np.arange(1, len(ranked) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(np.concatenate([[0.0], right / count]))
    return float((steps * envelope).sum())


def box_overlaps(boxes: Sequence[Box], others: Sequence[Box]) -> Array:
    """[A, B] intersection over union."""
    a, b = np.asarray(boxes, float).reshape(-1, 4), np.asarray(others, float).reshape(-1, 4)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0, None), axis=2)
    area_a, area_b = (np.prod(some[:, 2:] - some[:, :2], axis=1) for some in (a, b))
    return np.asarray(both / np.maximum(area_a[:, None] + area_b[None] - both, 1e-9))


def _confidence(landmark: Landmark) -> float:
    return 1.0 if landmark.confidence is None else landmark.confidence


def _short_side(box: Box) -> float:
    return min(box[2] - box[0], box[3] - box[1])
