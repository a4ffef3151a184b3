"""Give landmarks the identities of known objects that they cover: a simulator's truth, or hand-made boxes."""

from collections.abc import Sequence
from dataclasses import replace

from robustmat.types import Box, Landmark

SMALLEST_OVERLAP = 0.5  # intersection over union from which two boxes are of one object


def identify(landmarks: Sequence[Landmark], known: Sequence[tuple[Box, str, int]]) -> tuple[Landmark, ...]:
    """`landmarks` with the identity of the known (box, category, identity) that each covers best, if any."""
    identified = []
    for landmark in landmarks:
        overlaps = [
            (overlap(landmark.box, box), identity) for box, category, identity in known if category == landmark.category
        ]
        best, identity = max(overlaps, default=(0.0, -1))
        identified.append(replace(landmark, identity=identity if best >= SMALLEST_OVERLAP else None))
    return tuple(identified)


def overlap(a: Box, b: Box) -> float:
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (areas - width * height)
