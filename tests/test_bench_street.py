"""A long simulated drive takes no more memory than a short one, and no frame shows which frames came before it."""

import numpy as np
import pytest

from robustmat.simulation import build_town, drive_town, stage
from robustmat.simulation.looks import find_look
from robustmat.simulation.render import _backdrop, kitti_camera
from robustmat.simulation.stage import Stage


def test_ground_is_forgotten_in_time_and_comes_out_the_same_when_seen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MOST_TILES", 34)
    town, camera = build_town(3), kitti_camera(0.5)
    poses = [frame.T_world_camera for frame in drive_town(town, 4, spacing=60.0, camera=camera).frames]
    travelled, grounds, tiles = Stage(town, find_look("autumn")), [], []
    for pose in poses:
        assert pose is not None
        last = _backdrop(travelled, pose, camera)
        grounds.append(travelled.ground)
        tiles.append(int(travelled.ground._painted.sum()))
    assert len(set(map(id, grounds))) > 1
    assert max(tiles) <= 34
    assert poses[-1] is not None
    alone = _backdrop(Stage(town, find_look("autumn")), poses[-1], camera)
    np.testing.assert_array_equal(last.rgb, alone.rgb)
    np.testing.assert_array_equal(last.labels, alone.labels)
