"""LiDAR ground truth against the simulator's own identities, at full size, through every layout."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layouts_for_tests import LAYOUTS
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import LandmarkDataset, open_dataset
from robustmat.dataset.truth import frame_pairs, label_candidates, read_truth
from robustmat.landmarks.config import DEFAULT
from robustmat.landmarks.known import identify
from robustmat.simulation import build_town, drive_town
from robustmat.types import UNMATCHED

pytestmark = pytest.mark.slow

DRIVES = [("kitti-odometry", 22, "overcast", "left"), *((name, 21, "noon", "right") for name in LAYOUTS)]


@pytest.mark.parametrize(("layout", "seed", "look", "lane"), DRIVES)
def test_prepare_recovers_the_simulators_identities(
    tmp_path: Path, layout: str, seed: int, look: str, lane: str
) -> None:
    chosen = LAYOUTS[layout]
    folder = chosen.write(drive_town(build_town(seed), 60, look=look, lane=lane), tmp_path / "layout")
    data = open_dataset(prepare(chosen.open(folder), tmp_path / "data"))
    truth = json.loads((folder / "identities.json").read_text())["frames"]
    right, wrong, missed = count_pairs(data, truth)
    assert right > 5000
    assert right / (right + wrong) >= 0.98
    assert right / (right + missed) >= 0.9
    unmatched, same = count_unmatched(data, truth)
    assert unmatched > 10_000
    assert same / unmatched <= 2e-4  # LiDAR that met the wall behind a pole makes a second object of it


def count_unmatched(data: LandmarkDataset, truth: list[dict[str, Any]]) -> tuple[int, int]:
    """Candidates of one category that the ground truth calls unmatched, and those of them that are one object."""
    ours, unmatched, same = read_truth([data]), 0, 0
    true = []
    for frame in ours.frames:
        known = [(tuple(it["box"]), it["category"], it["identity"]) for it in truth[frame.index]["landmarks"]]
        true.append(np.array([it.identity for it in identify(data.frames[frame.index].landmarks, known)], object))
    for a, b in frame_pairs(ours).tolist():
        first, second = ours.frames[a], ours.frames[b]
        told = (label_candidates(first, second) == UNMATCHED) & (first.category[:, None] == second.category)
        told &= np.not_equal(true[a], None)[:, None] & np.not_equal(true[b], None)
        unmatched += int(told.sum())
        same += int((told & (true[a][:, None] == true[b])).sum())
    return unmatched, same


def count_pairs(data: LandmarkDataset, truth: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Pairs of landmarks in frames 2 to 25 m apart: rightly matched, wrongly matched, missed.

    What stands beyond the reach of the LiDAR map is not asked for.
    """
    right = wrong = missed = 0
    seen = []
    for frame, known in zip(data.frames, truth, strict=True):
        eye = np.array(known["T_world_camera"])[:3, 3]
        near = [it for it in known["landmarks"] if np.linalg.norm(np.array(it["position"]) - eye) < DEFAULT.map.reach]
        true = identify(frame.landmarks, [(tuple(it["box"]), it["category"], it["identity"]) for it in near])
        pairs = [(ours.identity, theirs.identity) for ours, theirs in zip(frame.landmarks, true, strict=True)]
        seen.append((eye, [it for it in pairs if it[1] is not None]))
    for (eye_a, a), (eye_b, b) in combinations(seen, 2):
        if not 2 <= np.linalg.norm(eye_a - eye_b) <= 25:
            continue
        for ours_a, true_a in a:
            for ours_b, true_b in b:
                said = ours_a is not None and ours_a == ours_b
                right += said and true_a == true_b
                wrong += said and true_a != true_b
                missed += not said and true_a == true_b
    return right, wrong, missed
