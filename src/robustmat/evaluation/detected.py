"""What is left of the matches when landmarks are detected instead of given.

Identities are known for given landmarks only, so each detection is linked to the given landmark that it shows. A match
of two detections is right if they show landmarks that match, wrong if the truth says so, and unjudged otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robustmat.dataset.pairs import draw_frame_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import FrameTruth, label_candidates, read_truth
from robustmat.detection.evaluate import LEAST_OVERLAP, box_overlaps
from robustmat.detection.protocol import LandmarkDetector, detect_for_matching
from robustmat.evaluation.scoring import hide_truth
from robustmat.matching.matcher import Matcher
from robustmat.progress import Progress, silent
from robustmat.types import MATCHED, UNMATCHED, Box, Landmark, Match

WITHIN, COVERED_HEIGHT = 0.7, 0.5  # of a detected shaft inside a pole's box (which may hold an arm), and of the box


@dataclass(frozen=True)
class Counts:
    """Over all frame pairs."""

    possible: int = 0  # matches between given landmarks that the truth knows
    detected: int = 0  # of these, whose both landmarks are detected
    survived: int = 0  # of these, that are matched
    right_given: int = 0  # matches of the given landmarks
    wrong_given: int = 0
    right: int = 0  # matches of the detected landmarks
    wrong: int = 0
    unjudged: int = 0

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def to_json(self) -> dict[str, Any]:
        def share(part: int, whole: int) -> float | None:
            return part / whole if whole else None

        return vars(self) | {
            "recall_given": share(self.right_given, self.possible),
            "precision_given": share(self.right_given, self.right_given + self.wrong_given),
            "detected_share": share(self.detected, self.possible),
            "recall": share(self.survived, self.possible),
            "precision": share(self.right, self.right + self.wrong),
        }


def evaluate_detected(
    dataset: LandmarkDataset,
    detector: LandmarkDetector,
    matcher: Matcher,
    *,
    most_pairs: int = 150,
    seed: int = 0,
    progress: Progress = silent,
) -> Counts:
    """Match the same frame pairs by their given and by detected landmarks."""
    truth = read_truth([dataset])
    pairs = [(int(a), int(b)) for a, b in draw_frame_pairs(truth, most_pairs, seed)]
    given, found, links = {}, {}, {}
    for index in progress(sorted({index for pair in pairs for index in pair}), "detecting"):
        frame = hide_truth(truth.frame(index), truth.frame(index).load_image)
        detected = replace(frame, landmarks=detect_for_matching(detector, frame))
        given[index], found[index] = matcher.embed(frame), matcher.embed(detected)
        links[index] = link(detected.landmarks, frame.landmarks)
    total = Counts()
    for a, b in progress(pairs, "matching"):
        label = label_candidates(truth.frames[a], truth.frames[b])
        matches = matcher.match(given[a], given[b]).matches
        total = total.plus(
            Counts(
                right_given=int(sum(label[it.a, it.b] == MATCHED for it in matches)),
                wrong_given=int(sum(label[it.a, it.b] == UNMATCHED for it in matches)),
            )
        )
        other = matcher.match(found[a], found[b]).matches
        total = total.plus(_judge(other, label, links[a], links[b], truth.frames[a], truth.frames[b]))
    return total


def link(found: Sequence[Landmark], given: Sequence[Landmark]) -> dict[int, int]:
    """Which given landmark each detection shows: {detection: landmark}, each once, the largest overlap first."""
    overlaps = box_overlaps([it.box for it in found], [it.box for it in given])
    for i, detection in enumerate(found):
        for j, landmark in enumerate(given):
            if detection.category != landmark.category:
                overlaps[i, j] = 0.0
            elif overlaps[i, j] < LEAST_OVERLAP[landmark.category]:
                shaft = landmark.category == "pole" and _is_shaft_of(detection.box, landmark.box)
                overlaps[i, j] = LEAST_OVERLAP["pole"] if shaft else 0.0
    links: dict[int, int] = {}
    while overlaps.size and overlaps.max() > 0:
        first, second = divmod(int(overlaps.argmax()), overlaps.shape[1])
        links[first] = second
        overlaps[first, :] = overlaps[:, second] = 0.0
    return links


def _is_shaft_of(shaft: Box, pole: Box) -> bool:
    width = min(shaft[2], pole[2]) - max(shaft[0], pole[0])
    height = min(shaft[3], pole[3]) - max(shaft[1], pole[1])
    if width <= 0 or height <= 0:
        return False
    area = (shaft[2] - shaft[0]) * (shaft[3] - shaft[1])
    return width * height >= WITHIN * area and height >= COVERED_HEIGHT * (pole[3] - pole[1])


def _judge(
    matches: Sequence[Match],
    label: np.typing.NDArray[np.int8],
    links_a: Mapping[int, int],
    links_b: Mapping[int, int],
    a: FrameTruth,
    b: FrameTruth,
) -> Counts:
    rows, columns = np.nonzero(label == MATCHED)
    there_a, there_b = set(links_a.values()), set(links_b.values())
    detected = sum(int(i) in there_a and int(j) in there_b for i, j in zip(rows, columns, strict=True))
    right = wrong = unjudged = 0
    partner_a = {int(i): int(j) for i, j in zip(rows, columns, strict=True)}
    partner_b = {int(j): int(i) for i, j in zip(rows, columns, strict=True)}
    for match in matches:
        i, j = links_a.get(match.a), links_b.get(match.b)
        if i is not None and j is not None:
            right += label[i, j] == MATCHED
            wrong += label[i, j] == UNMATCHED
            unjudged += label[i, j] not in (MATCHED, UNMATCHED)
        elif (i in partner_a and partner_a[i] in there_b) or (j in partner_b and partner_b[j] in there_a):
            wrong += 1  # its true partner was detected, and is not this one
        else:
            unjudged += 1
    return Counts(
        possible=len(rows),
        detected=detected,
        survived=int(right),
        right=int(right),
        wrong=int(wrong),
        unjudged=int(unjudged),
    )
