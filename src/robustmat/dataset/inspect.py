"""What a data set holds, in numbers and in pictures to look at."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from robustmat.dataset.drawing import draw_frame, draw_pair, grid
from robustmat.dataset.store import LandmarkDataset, read_points, sheet_frames
from robustmat.dataset.truth import Truth, frame_pairs, label_candidates, read_truth
from robustmat.files import replacing
from robustmat.types import MATCHED, Array, Frame, Image

SHEET_PAIRS = 40  # on one sheet

MatchedPairs = NDArray[np.int64]  # [N, 4]: frame and landmark of the first, frame and landmark of the second


def count(dataset: LandmarkDataset) -> dict[str, Any]:
    """Frames, landmarks, identities, and the pairs that evaluation and training can draw from."""
    landmarks = [landmark for frame in dataset.frames for landmark in frame.landmarks]
    per_frame = [len(frame.landmarks) for frame in dataset.frames]
    category = {mark.identity: mark.category for mark in landmarks if mark.identity is not None}
    known = [mark for mark in landmarks if mark.identity is not None]
    counts: dict[str, Any] = {
        "name": dataset.name,
        "world": dataset.world,
        "has_identities": dataset.has_identities,
        "frames": len(dataset.frames),
        "frames_without_landmarks": per_frame.count(0),
        "landmarks": len(landmarks),
        "landmarks_per_frame": _summary(np.array(per_frame, dtype=float)),
        "landmarks_by_category": dict(sorted(Counter(mark.category for mark in landmarks).items())),
        "observations": len(known),
        "observations_by_category": dict(sorted(Counter(one.category for one in known).items())),
        "identities": len(category),
        "identities_by_category": dict(sorted(Counter(category.values()).items())),
        "observations_per_identity": _summary(
            np.array(list(Counter(one.identity for one in known).values()), dtype=float)
        ),
        "distance_to_landmark": _summary(_distances(dataset)),
        "frame_pairs": 0,
        "matched_pairs": 0,
    }
    if dataset.has_identities:
        truth = read_truth([dataset])
        counts["frame_pairs"] = len(frame_pairs(truth))
        matched = matched_pairs(truth)
        counts["matched_pairs"] = len(matched)
        counts["matched_pairs_by_category"] = dict(
            sorted(Counter(truth.frame(i).landmarks[j].category for i, j, _, _ in matched.tolist()).items())
        )
    return counts


def matched_pairs(truth: Truth) -> MatchedPairs:
    """Every pair of landmarks of frames 2 to 25 m apart that is the same object beyond doubt."""
    found = [np.zeros((0, 4), dtype=np.int64)]
    for i, j in frame_pairs(truth).tolist():
        rows, columns = np.nonzero(label_candidates(truth.frames[i], truth.frames[j]) == MATCHED)
        found.append(np.stack([np.full_like(rows, i), rows, np.full_like(rows, j), columns], axis=1))
    return np.concatenate(found)


def draw_sheets(dataset: LandmarkDataset, out: Path | str, seed: int = 0, pairs: int = SHEET_PAIRS) -> list[Path]:
    """Write contact sheets into the folder `out`: frames with their boxes, and matched landmark pairs.

    `pairs` of all matched pairs are drawn at random, numbered, and put on as many sheets as they need.
    """
    out = Path(out)
    places = _places(dataset)
    frames = [dataset.frames[i] for i in sheet_frames(len(dataset.frames))]
    pictures = [draw_frame(frame, places, read_points(dataset.path, frame.name)) for frame in frames]
    written = [_save(out / "frames.png", pictures, columns=2)]
    if not dataset.has_identities:
        return written
    truth = read_truth([dataset])
    matched = matched_pairs(truth)
    picked = np.random.default_rng(seed).choice(len(matched), min(pairs, len(matched)), replace=False)
    chosen = matched[np.sort(picked)].tolist()
    for start in range(0, len(chosen), SHEET_PAIRS):
        page = "" if len(chosen) <= SHEET_PAIRS else f"-{start // SHEET_PAIRS + 1}"
        pictures = [
            draw_pair(truth.frame(i), a, truth.frame(j), b, number)
            for number, (i, a, j, b) in enumerate(chosen[start : start + SHEET_PAIRS], start=start + 1)
        ]
        written.append(_save(out / f"pairs{page}.png", pictures, columns=4))
    return written


def _save(path: Path, pictures: list[Image], columns: int) -> Path:
    with replacing(path) as temporary:
        PIL.Image.fromarray(grid(pictures, columns)).save(temporary, compress_level=1)  # to look at, not to keep
    return path


def _places(dataset: LandmarkDataset) -> dict[int, Array]:
    """Where each identity stands: the median of its observations' positions."""
    seen: dict[int, list[tuple[float, float, float]]] = {}
    for frame in dataset.frames:
        for mark in frame.landmarks:
            if mark.identity is not None and mark.position is not None:
                seen.setdefault(mark.identity, []).append(mark.position)
    return {identity: np.median(np.array(positions), axis=0) for identity, positions in seen.items()}


def _distances(dataset: LandmarkDataset) -> Array:
    """Metres from the camera to each landmark with an identity."""

    def of(frame: Frame) -> list[float]:
        if frame.T_world_camera is None:
            return []
        known = [mark.position for mark in frame.landmarks if mark.identity is not None and mark.position is not None]
        return [float(np.linalg.norm(np.array(one) - frame.T_world_camera[:3, 3])) for one in known]

    return np.array([distance for frame in dataset.frames for distance in of(frame)], dtype=float)


def _summary(values: Array) -> dict[str, float] | None:
    if not len(values):
        return None
    return {
        "least": float(values.min()),
        "median": float(np.median(values)),
        "mean": round(float(values.mean()), 3),
        "most": float(values.max()),
    }
