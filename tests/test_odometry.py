"""Odometry follows a car through everything that real drives do, and says what it could not do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from odometry_world import CAMERA, World, WorldMatcher, drive, frames_of
from robustmat.dataset.store import open_dataset
from robustmat.errors import RobustMatError
from robustmat.files import write_json
from robustmat.geometry.transforms import invert
from robustmat.matching.combined import whole_frame
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.drives import with_tracked_boxes
from robustmat.odometry.keypoints import plain_matches
from robustmat.odometry.run import ASSISTED, BASELINE, FOCAL_DOUBT, Odometry, run_odometry, tell
from robustmat.odometry.steps import Measured, Step
from robustmat.odometry.tracks import Track, judge_tracks, tracks_table
from robustmat.odometry.trajectory import trajectory_errors, write_kitti, write_tum
from robustmat.odometry.visual import focal_gain
from robustmat.odometry.write import write_odometry
from robustmat.sources.drive import Drive
from robustmat.types import Array, Camera, Frame, InMemory, Landmark

pytest.importorskip("evo")
SCALED = OdometryConfig(scale="poses")


def follow(
    poses: Sequence[Array],
    world: World | None = None,
    config: OdometryConfig = SCALED,
    *,
    seen: Sequence[EmbeddedFrame] | None = None,
    unreadable: Sequence[str] = (),
    camera: Camera = CAMERA,
    **options: Any,
) -> Odometry:
    world = world or World.street()
    embedded = seen or [world.seen(T, str(i)) for i, T in enumerate(poses)]
    frames = frames_of(embedded, poses, camera)
    matcher = WorldMatcher(embedded, unreadable)
    truth = [frame.T_world_camera for frame in frames]
    return run_odometry(frames, matcher, lambda frame: frame.landmarks, config, truth=truth, **options)  # type: ignore[arg-type]


def metres_off(done: Odometry, arm: str = ASSISTED) -> float:
    assert done.truth is not None
    return float(np.linalg.norm(done.poses[arm][:, :3, 3] - done.truth[:, :3, 3], axis=1).max())


def test_a_drive_is_followed_with_and_without_landmarks() -> None:
    done = follow(drive(8, yaw=lambda i: 1.5 if i > 4 else 0.0))
    assert metres_off(done) < 0.15
    assert metres_off(done, BASELINE) < 0.15
    told = done.metrics()
    assert told["ate"] < 0.1
    assert set(told["baseline"]) >= {"ate", "rpe"}
    assert told["notes"] == []


def test_standing_still_adds_no_drift_and_is_told() -> None:
    moving = drive(4)
    poses = [*moving, *[moving[-1]] * 3]
    done = follow(poses)
    waited = done.best[4:, :3, 3] - done.best[3, :3, 3]
    assert np.abs(waited).max() < 0.05  # landmarks may still shift a window by a hair; steps themselves are zero
    assert all(np.abs(one.steps[BASELINE].T_b_a[:3, 3]).max() == 0 for one in done.measured[4:])
    assert any("does not move" in note for note in done.notes)


def test_a_car_that_reverses_is_followed_backwards() -> None:
    done = follow(drive(6, step=-0.8))
    assert metres_off(done) < 0.15
    assert done.best[-1, 2, 3] < -3.5


def test_a_sharp_turn_beats_the_prediction() -> None:
    done = follow(drive(7, yaw=lambda i: 9.0 if 3 <= i <= 4 else 0.0))
    assert metres_off(done) < 0.25


def test_missing_frames_are_bridged() -> None:
    poses = drive(12)
    world = World.street()
    kept = [0, 1, 2, 6, 7]  # three are missing
    seen = [world.seen(poses[i], str(i)) for i in kept]
    done = follow([poses[i] for i in kept], world, seen=seen)
    assert metres_off(done) < 0.2


def test_an_unreadable_image_costs_one_guess() -> None:
    done = follow(drive(7), unreadable=("4",))
    assert done.measured[4].steps[ASSISTED].by == "missing"
    assert metres_off(done) < 0.3
    assert any("could not be read" in note for note in done.notes)


def test_without_landmarks_for_long_it_goes_on_and_says_so() -> None:
    world = World.street(signs=1)
    world.signs += 500.0
    done = follow(drive(12), world)
    assert metres_off(done) < 0.2
    assert any("11 frames in a row" in note for note in done.notes)


def test_wrong_intrinsics_are_suspected_in_turns() -> None:
    world, poses = World.street(count=700), drive(2, yaw=lambda _: 8.0)
    a, b = (whole_frame(world.seen(T, str(i))) for i, T in enumerate(poses))
    shorter, longer = focal_gain(a, b, plain_matches(a, b))
    assert max(shorter, longer) < 0
    a, b = (replace(one, intrinsics=one.intrinsics * np.array([0.75, 0.75, 1, 1])) for one in (a, b))
    shorter, longer = focal_gain(a, b, plain_matches(a, b))
    assert longer > FOCAL_DOUBT
    assert longer > shorter
    step = Step(0, -1, np.eye(4), np.eye(6), "start")
    told = [Measured(i, str(i), {BASELINE: step}, (), (), (), (), (shorter, longer)) for i in range(6)]
    frames = frames_of([world.seen(poses[0], "0")], poses[:1])
    assert any("longer" in note for note in tell(frames, told, {BASELINE: SCALED}))


def test_landmarks_carry_on_where_keypoints_are_gone() -> None:
    poses = drive(8)
    world = World.street(signs=60)
    seen = [world.seen(T, str(i)) for i, T in enumerate(poses)]
    for i in (5, 6):
        few = {name: array[:4] for name, array in seen[i].arrays.items() if "place" in name or "descriptor" in name}
        seen[i] = replace(seen[i], arrays={**seen[i].arrays, **few})
    done = follow(poses, world, seen=seen)
    assert done.measured[5].steps[ASSISTED].by == "landmarks"
    assert done.measured[5].steps[BASELINE].by == "prediction"
    assert metres_off(done) < 1.0
    assert any("landmarks alone" in note for note in done.notes)


def test_metres_come_from_the_cameras_height() -> None:
    done = follow(drive(6), World.street(count=900), OdometryConfig(scale="height", camera_height=1.65))
    way = np.linalg.norm(done.best[-1, :3, 3])
    assert way == pytest.approx(4.0, rel=0.08)


def test_an_interrupted_run_goes_on_to_the_same_poses(tmp_path: Path) -> None:
    poses, world = drive(6), World.street()
    whole = follow(poses, world, keep=tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "part.jsonl").write_text("".join(lines[:5]) + lines[5][:40])  # stopped while writing
    resumed = follow(poses, world, keep=tmp_path / "part.jsonl")
    assert np.abs(resumed.best - whole.best).max() < 1e-9
    assert [one.links for one in resumed.measured] == [one.links for one in whole.measured]


def test_tracks_are_single_objects_at_their_places() -> None:
    done = follow(drive(8))
    identities = [[mark.identity for mark in one.landmarks] for one in done.measured]
    report = judge_tracks(done.tracks, identities)
    assert report.precision == 1.0
    assert report.switches == 0
    world = World.street()
    placed = [track for track in done.tracks if track.position is not None]
    assert placed
    for track in placed:
        frame, number = track.sightings[0]
        sign = identities[frame][number]
        assert sign is not None
        assert np.linalg.norm(np.array(track.position) - world.signs[sign]) < 1.5


def test_judging_counts_wrong_sightings_and_switches() -> None:
    track = Track(0, "pole", ((0, 0), (1, 0), (2, 0), (3, 0)))
    report = judge_tracks([track], [[7], [7], [8], [None]])
    assert report.precision == pytest.approx(2 / 3)
    assert report.switches == 1


def test_errors_agree_with_a_plain_numpy_oracle() -> None:
    rng = np.random.default_rng(0)
    truth = np.stack(drive(9, yaw=lambda i: 3.0 * (i % 3)))
    poses = truth.copy()
    poses[:, :3, 3] += rng.normal(0, 0.1, (9, 3))
    turns = Rotation.from_rotvec(rng.normal(0, 0.01, (9, 3))).as_matrix()
    poses[:, :3, :3] = turns @ poses[:, :3, :3]
    found = trajectory_errors(poses, truth)
    a, b = poses[:, :3, 3] - poses[:, :3, 3].mean(0), truth[:, :3, 3] - truth[:, :3, 3].mean(0)
    u, _, v = np.linalg.svd(b.T @ a)
    R = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    assert found.ate == pytest.approx(np.sqrt(((a @ R.T - b) ** 2).sum(1).mean()))
    steps = [
        np.linalg.norm((invert(invert(truth[i]) @ truth[i + 1]) @ invert(poses[i]) @ poses[i + 1])[:3, 3])
        for i in range(8)
    ]
    assert found.rpe == pytest.approx(np.sqrt(np.mean(np.square(steps))))


def test_both_formats_hold_the_same_poses(tmp_path: Path) -> None:
    poses = np.stack(drive(5, yaw=lambda _: 10.0))
    write_kitti(tmp_path / "kitti.txt", poses)
    write_tum(tmp_path / "tum.txt", poses, [0.1 * i for i in range(5)])
    kitti, tum = np.loadtxt(tmp_path / "kitti.txt").reshape(5, 3, 4), np.loadtxt(tmp_path / "tum.txt")
    assert np.allclose(kitti, poses[:, :3], atol=1e-6)
    assert np.allclose(tum[:, 1:4], kitti[:, :, 3], atol=1e-6)
    assert np.allclose(Rotation.from_quat(tum[:, 4:]).as_matrix(), kitti[:, :, :3], atol=1e-6)


def test_what_is_written_can_be_read_as_a_data_set(tmp_path: Path) -> None:
    done = follow(drive(6))
    source = Drive("street", "street", done.frames, (None,) * 6, {"layout": "test"})
    metrics = write_odometry(done, source, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {
        "trajectory.txt",
        "trajectory_tum.txt",
        "tracks.json",
        "metrics.json",
        "trajectory.png",
        "tracks.png",
    }
    data = open_dataset(tmp_path / "out" / "dataset")
    assert data.has_identities
    assert np.allclose([frame.T_world_camera for frame in data.frames], done.best)
    assert metrics["ate"] < 0.1


def test_prepare_takes_the_boxes_of_tracks(tmp_path: Path) -> None:
    told = tracks_table(
        [Track(0, "pole", ((0, 0), (1, 0))), Track(1, "pole", ((0, 1), (1, 1)), moving=True)],
        [
            Measured(i, str(i), {}, (Landmark((i, 0, 9, 9), "pole"), Landmark((i, 2, 5, 5), "pole")), (), (), ())
            for i in range(2)
        ],
    )
    write_json(tmp_path / "tracks.json", told)
    frames = tuple(Frame(str(i), InMemory(np.zeros((9, 9, 3), np.uint8))) for i in range(3))
    drive_ = with_tracked_boxes(Drive("street", "street", frames, (None,) * 3), tmp_path / "tracks.json")
    boxes = [[mark.box for mark in frame.load_boxes()] for frame in drive_.frames if frame.load_boxes]
    assert boxes == [[(0, 0, 9, 9)], [(1, 0, 9, 9)], []]
    with pytest.raises(RobustMatError, match="lacks"):
        with_tracked_boxes(Drive("other", "other", frames[:1], (None,)), tmp_path / "tracks.json")


def test_measured_frames_survive_json() -> None:
    one = follow(drive(3)).measured[2]
    again = Measured.from_json(one.to_json())
    assert again.links == one.links
    assert np.allclose(again.steps[ASSISTED].T_b_a, one.steps[ASSISTED].T_b_a)


def test_unknown_parts_are_refused_with_the_nearest() -> None:
    with pytest.raises((ValueError, RobustMatError), match="guided"):
        OdometryConfig(assist=("guide",))
