"""LiDAR ground truth against the simulator's own identities, at full size."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset
from robustmat.landmarks.known import identify
from robustmat.landmarks.reference_map import REACH
from robustmat.sources import open_kitti_odometry
from robustmat.sources.street import build_town, drive_town, write_kitti_odometry

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("seed", "look", "lane"), [(21, "noon", "right"), (22, "overcast", "left")])
def test_prepare_recovers_the_simulators_identities(tmp_path: Path, seed: int, look: str, lane: str) -> None:
    """Pairs of landmarks in frames 2 to 25 m apart; what stands beyond the reach of the LiDAR map is not asked for."""
    drive = drive_town(build_town(seed), 60, look=look, lane=lane)
    folder = write_kitti_odometry(drive, tmp_path / "layout")
    data = open_dataset(prepare(open_kitti_odometry(tmp_path / "layout", "00"), tmp_path / "data"))
    truth = json.loads((folder / "identities.json").read_text())["frames"]
    right = wrong = missed = 0
    seen = []
    for frame, known in zip(data.frames, truth, strict=True):
        eye = np.array(known["T_world_camera"])[:3, 3]
        near = [it for it in known["landmarks"] if np.linalg.norm(np.array(it["position"]) - eye) < REACH]
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
    assert right > 5000
    assert right / (right + wrong) >= 0.98
    assert right / (right + missed) >= 0.9
