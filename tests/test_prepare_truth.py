"""What `prepare` says about poses and identities, and the sheets on which they are judged."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import PIL.Image
import pytest
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from robustmat.cli import app
from robustmat.dataset.judge import draw_candidates, draw_judgement_sheets, read_candidates, with_label
from robustmat.dataset.poses_by_pictures import with_poses_by_pictures
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset
from robustmat.dataset.truth import label_candidates, read_truth
from robustmat.errors import DataError
from robustmat.geometry.pose_graph import angle_between
from robustmat.geometry.registration import RegistrationConfig
from robustmat.geometry.transforms import rigid
from robustmat.landmarks.config import LandmarkConfig
from robustmat.simulation import build_town, drive_town, kitti_camera
from robustmat.sources import open_kitti_raw
from robustmat.types import MATCHED, UNMATCHED
from scene import DATE, DRIVE, write_kitti_raw

AS_GIVEN = LandmarkConfig(poses=RegistrationConfig(refine=False))


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    scene = write_kitti_raw(tmp_path_factory.mktemp("raw"), seed=3, frames=12)
    return open_kitti_raw(scene.root, DATE, DRIVE)


@pytest.fixture(scope="module")
def dataset(drive, tmp_path_factory):
    return open_dataset(prepare(drive, tmp_path_factory.mktemp("prepared") / "data"))


def turned(drive, degrees):
    """The drive as a compass that is off by so much would have it."""
    mount = Rotation.from_euler("y", degrees, degrees=True).as_matrix()
    frames = [replace(it, T_world_camera=it.T_world_camera @ rigid(mount, np.zeros(3))) for it in drive.frames]
    return replace(drive, frames=tuple(frames))


def test_poses_that_are_right_stay_right_and_the_data_set_says_so(drive, dataset):
    for frame, given in zip(dataset.frames, drive.frames, strict=True):
        np.testing.assert_allclose(frame.T_world_camera, given.T_world_camera, atol=0.02)
    said = json.loads((dataset.path / "dataset.json").read_text())["source"]["poses"]
    assert said["refined"] is True
    assert said["corrections"]["metres"]["max"] < 0.05
    assert said["corrections"]["degrees"]["max"] < 0.2


def test_poses_stay_as_given_if_told_so(drive, tmp_path):
    prepared = open_dataset(prepare(turned(drive, 1.5), tmp_path / "data", config=AS_GIVEN))
    for frame, given in zip(prepared.frames, turned(drive, 1.5).frames, strict=True):
        np.testing.assert_array_equal(frame.T_world_camera, given.T_world_camera)
    assert prepared.source["poses"] == {"refined": False}


def test_work_on_given_poses_is_not_used_for_refined_ones(drive, dataset, tmp_path):
    def cut():
        raise KeyboardInterrupt

    broken = replace(drive, frames=(*drive.frames[:-1], replace(drive.frames[-1], load_image=cut)))
    converted = replace(broken, image_paths=(None,) * len(drive.frames))
    with pytest.raises(KeyboardInterrupt):
        prepare(converted, tmp_path / "data", config=AS_GIVEN)
    resumed = open_dataset(prepare(drive, tmp_path / "data"))
    assert resumed.source["poses"]["refined"] is True
    assert [frame.landmarks for frame in resumed.frames] == [frame.landmarks for frame in dataset.frames]


def blind(drive):
    """The drive without LiDAR."""
    return replace(drive, frames=tuple(replace(it, load_points=None) for it in drive.frames))


def test_without_lidar_pictures_mend_headings(drive):
    given = blind(turned(drive, 1.5)).frames
    better, report = with_poses_by_pictures(given)
    truth = np.array([it.T_world_camera for it in drive.frames])
    before, after = (
        np.degrees(angle_between(np.array([it.T_world_camera for it in frames]), truth)) for frames in (given, better)
    )
    assert (report.refined, report.by) == (True, "pictures")
    assert np.median(after) < 0.3 * np.median(before)
    for frame, old in zip(better, given, strict=True):
        turn = Rotation.from_matrix(old.T_world_camera[:3, :3].T @ frame.T_world_camera[:3, :3]).as_rotvec()
        assert abs(np.degrees(turn[2])) < 0.01  # roll is not what straight drives tell


def test_poses_stay_where_pictures_tell_nothing(drive):
    black = [replace(it, load_image=lambda: np.zeros((375, 1242, 3), np.uint8)) for it in blind(drive).frames]
    better, report = with_poses_by_pictures(black)
    assert not report.refined
    for frame, given in zip(better, black, strict=True):
        np.testing.assert_array_equal(frame.T_world_camera, given.T_world_camera)


def test_without_lidar_identities_come_from_bearings(drive, dataset, tmp_path):
    prepared = open_dataset(prepare(blind(drive), tmp_path / "blind"))
    assert prepared.source["identities"] == "triangulation"
    assert prepared.source["lidar"] is False
    assert prepared.source["poses"]["by"] == "pictures"
    ours = [it for frame in prepared.frames for it in frame.landmarks]
    theirs = [it for frame in dataset.frames for it in frame.landmarks]
    pairs = [
        theirs[i].identity == theirs[j].identity
        for i, j in combinations(range(len(ours)), 2)
        if ours[i].identity is not None and ours[i].identity == ours[j].identity
        if theirs[i].identity is not None and theirs[j].identity is not None
    ]
    assert len(pairs) > 100
    assert np.mean(pairs) >= 0.97
    assert all((it.identity is None) or (it.position is not None) for it in ours)


def test_judgement_sheets_show_every_candidate_once(dataset, tmp_path):
    truth = read_truth([dataset])
    for label in (MATCHED, UNMATCHED):
        candidates = draw_candidates(truth, label, 9, seed=1)
        assert len(set(candidates)) == 9
        assert candidates == draw_candidates(truth, label, 9, seed=1)
        for it in candidates:
            first, second = truth.frames[it.first], truth.frames[it.second]
            assert label_candidates(first, second)[it.a, it.b] == label
            assert first.category[it.a] == second.category[it.b]
        sheets = draw_judgement_sheets(truth, candidates, tmp_path, f"label{label}")
        assert [it.name for it in sheets] == [f"label{label}-1.png", f"label{label}-2.png"]
        assert np.asarray(PIL.Image.open(sheets[0])).std() > 20


def test_candidates_of_a_matcher_can_be_judged(dataset, tmp_path):
    truth = read_truth([dataset])
    chosen = draw_candidates(truth, MATCHED, 3)
    rows = [[truth.frame(it.first).name, it.a, truth.frame(it.second).name, it.b] for it in chosen]
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps(rows))
    assert read_candidates(path, truth) == chosen
    assert with_label(truth, chosen, MATCHED) == chosen
    assert with_label(truth, chosen, UNMATCHED) == []
    for wrong in ([["nowhere", 0, rows[0][2], 0]], [[rows[0][0], 99, rows[0][2], 0]], [[1, 2]]):
        path.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=r"candidates\.json"):
            read_candidates(path, truth)


def test_inspect_tells_of_poses_and_identities_and_draws_what_is_to_be_judged(dataset, tmp_path):
    asked = ["inspect", str(dataset.path), "--out", str(tmp_path), "--judge", "2"]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert result.exit_code == 0
    assert "poses refined by LiDAR" in result.output
    assert "identities by LiDAR and triangulation" in result.output
    assert (tmp_path / "judge-matched-1.png").is_file()
    assert (tmp_path / "judge-unmatched-1.png").is_file()


@pytest.mark.parametrize("verb", ["kitti-raw", "kitti-odometry", "oxford", "boreas", "folder"])
def test_every_layout_with_lidar_can_leave_poses_alone(verb):
    result = CliRunner().invoke(app, ["prepare", verb, "--help"], env={"COLUMNS": "200"})
    assert "--no-refine-poses" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0.0, 1.5])
def test_a_simulated_drive_keeps_or_regains_its_poses(tmp_path, degrees):
    driven = drive_town(build_town(21), 40, camera=kitti_camera(0.5))
    prepared = open_dataset(prepare(turned(driven, degrees), tmp_path / "data"))
    for frame, true in zip(prepared.frames, driven.frames, strict=True):
        assert np.linalg.norm((frame.T_world_camera - true.T_world_camera)[:3, 3]) < 0.05
        turn = Rotation.from_matrix(true.T_world_camera[:3, :3].T @ frame.T_world_camera[:3, :3])
        assert np.degrees(turn.magnitude()) < 0.15
