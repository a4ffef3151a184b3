"""What the poses of two passes disagree by: one rigid offset a revisit, and a check that needs no map.

Poses of a drive come from GPS and inertial sensors. They are smooth from frame to frame, but when the vehicle comes
back, they may say that the same road is higher or further left than before. A map can only be right in its own
coordinates, so errors are also given after one rigid transform a revisit is taken away. Half of the queries tell the
transform for the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from robustmat.bench.places_rows import Located
from robustmat.types import Array

FEWEST = 3  # poses that an offset is told by


@dataclass(frozen=True)
class Offset:
    """How a revisit's poses differ from the map's, as seen from the camera in the middle of it."""

    drive: str
    frames: int
    metres: Array  # [3]: right, down, ahead
    degrees: Array  # [3]: turns about them
    above: float  # metres that the given poses are above the map's track, median
    above_found: float  # the same of the poses that pictures tell


def rigid_offset(found: Sequence[Array], given: Sequence[Array]) -> Array:
    """T [4, 4] with T @ given = found, for most of the poses."""
    turns = Rotation.from_matrix(np.array([a[:3, :3] @ b[:3, :3].T for a, b in zip(found, given, strict=True)]))
    middle = turns.mean()
    for _ in range(5):  # those that agree count more
        away = (turns * middle.inv()).magnitude()
        middle = turns.mean(1 / (np.median(away) + away + 1e-6))
    T = np.eye(4)
    T[:3, :3] = middle.as_matrix()
    T[:3, 3] = np.median([a[:3, 3] - T[:3, :3] @ b[:3, 3] for a, b in zip(found, given, strict=True)], axis=0)
    return T


def without_offsets(poses: Sequence[Located], told_by: Sequence[Located]) -> list[Located]:
    """The same poses, held against given ones that were moved by the offset of their drive.

    Args:
        told_by: poses that tell the offsets; none of them tells that of its own half of the queries.
    """
    corrected = []
    for one in poses:
        same = [other for other in told_by if other.drive == one.drive]
        half = _halves(same).get(_key(one))
        others = [other for other in same if _halves(same)[_key(other)] != half]
        if len(others) >= FEWEST:
            T = rigid_offset([other.found for other in others], [other.truth for other in others])
            corrected.append(replace(one, truth=T @ one.truth))
    return corrected


def offset_of(drive: str, poses: Sequence[Located], track: Sequence[Array]) -> Offset | None:
    """The offset of one revisit; `track` are the map's poses."""
    same = [one for one in poses if one.drive == drive]
    if len(same) < FEWEST:
        return None
    T = rigid_offset([one.found for one in same], [one.truth for one in same])
    middle = same[len(same) // 2].truth
    local = np.linalg.inv(middle) @ T @ middle
    places = np.array([pose[:3, 3] for pose in track])

    def above(pose: Array) -> float:
        near = track[int(np.linalg.norm(places - pose[:3, 3], axis=1).argmin())]
        return float(-near[:3, 1] @ (pose[:3, 3] - near[:3, 3]))  # a camera's second axis points down

    return Offset(
        drive,
        len(same),
        local[:3, 3],
        np.degrees(Rotation.from_matrix(local[:3, :3]).as_rotvec()),
        float(np.median([above(one.truth) for one in same])),
        float(np.median([above(one.found) for one in same])),
    )


def _key(one: Located) -> tuple[float, ...]:
    return tuple(one.truth[:3, 3].tolist())


def _halves(poses: Sequence[Located]) -> dict[tuple[float, ...], int]:
    """Every second query of a drive is of the other half."""
    return {key: i % 2 for i, key in enumerate(dict.fromkeys(_key(one) for one in poses))}
