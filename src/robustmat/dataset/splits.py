"""Hold data out for validation by place, never by pair."""

from dataclasses import replace

import numpy as np

from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError

GAP = 25.0  # metres: no frame pair may reach across the cut


def split_last_third(dataset: LandmarkDataset) -> tuple[LandmarkDataset, LandmarkDataset]:
    """The first two thirds of a drive's frames and, after a gap of 25 m, the last third without shared identities."""
    placed = [frame for frame in dataset.frames if frame.T_world_camera is not None]
    cut = len(placed) * 2 // 3
    first, rest = placed[:cut], placed[cut:]
    if not first or not rest:
        raise DataError(f"data set {dataset.name} has {len(placed)} frames with a pose: too few to hold a third out")
    centers = np.array([frame.T_world_camera[:3, 3] for frame in first])  # type: ignore[index]
    beyond = [
        frame
        for frame in rest
        if np.linalg.norm(centers - frame.T_world_camera[:3, 3], axis=1).min() >= GAP  # type: ignore[index]
    ]
    learned = {landmark.identity for frame in first for landmark in frame.landmarks}
    held = tuple(
        replace(
            frame,
            landmarks=tuple(mark for mark in frame.landmarks if mark.identity is None or mark.identity not in learned),
        )
        for frame in beyond
    )
    if not any(frame.landmarks for frame in held):
        raise DataError(
            f"data set {dataset.name} is too short to hold its last third out (no landmark is left {GAP:g} m beyond "
            "the cut): give another drive with --val"
        )
    return replace(dataset, frames=tuple(first)), replace(dataset, frames=held)
