"""Odometry follows a car through everything that real drives do, and says what it could not do."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from odometry_world import CAMERA, World, WorldMatcher, drive, frames_of
from robustmat.bench.odometry import compare
from robustmat.dataset.store import open_dataset
from robustmat.errors import RobustMatError
from robustmat.files import write_json
from robustmat.geometry.relative_pose import rays, refined_pose
from robustmat.geometry.transforms import invert, transform
from robustmat.matching.combined import whole_frame
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.scene import SceneView
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.drives import with_tracked_boxes
from robustmat.odometry.keypoints import PointMatches, plain_matches
from robustmat.odometry.lidar import lidar_odometry, scans_of
from robustmat.odometry.prediction import START
from robustmat.odometry.run import ASSISTED, BASELINE, FOCAL_DOUBT, Odometry, run_odometry, tell
from robustmat.odometry.steps import Measured, Step
from robustmat.odometry.tracks import Track, judge_tracks, sightings_of, tracks_table
from robustmat.odometry.trajectory import trajectory_errors, write_kitti, write_tum
from robustmat.odometry.visual import focal_gain, keypoint_motion
from robustmat.odometry.window import adjusted, chained
from robustmat.odometry.write import write_odometry
from robustmat.sources.drive import Drive
from robustmat.types import Array, Camera, Frame, InMemory, Landmark
from test_odometry_lidar import street

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


def test_a_bad_first_step_does_not_mislead_those_after_it() -> None:
    aside = np.array([np.sin(0.2), 0.0, -np.cos(0.2)])  # eleven degrees off
    doubtful = START.after(np.eye(3), aside, 0.2, 1.0, 1.0, 0.015)
    assert np.degrees(np.arccos(doubtful.ahead[2])) < 4.5
    assert doubtful.doubt > 0.9 * START.doubt
    sure = START
    straight = np.array([0.0, 0.0, -1.0])
    for direction in (aside, *[straight] * 8):
        sure = sure.after(np.eye(3), direction, 0.001, 1.0, 1.0, 0.015)
    assert np.degrees(np.arccos(sure.ahead[2])) < 1.0
    assert sure.doubt < 0.5 * START.doubt


def noisy_matches(true: int, false: int, step: float, seed: int = 0) -> tuple[SceneView, SceneView, PointMatches]:
    """Matches of a car that drives straight ahead: some true to half a pixel, others at random."""
    world = World.street(count=4000, seed=seed)
    a, b = (whole_frame(world.seen(T, str(i))) for i, T in enumerate(drive(2, step)))
    points = plain_matches(a, b)
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(points))[:true]
    places = [
        np.concatenate([one[some] + rng.normal(0, 0.5, (true, 2)), rng.uniform((0, 0), (640, 240), (false, 2))])
        for one in (points.a, points.b)
    ]
    count = true + false
    return a, b, PointMatches(places[0], places[1], np.ones(count), np.full(count, -1, np.int64))


def test_matches_that_no_point_explains_add_no_certainty() -> None:
    a, b, points = noisy_matches(120, 0, 0.8)
    rays_a, rays_b = rays(points.a, a.intrinsics), rays(points.b, b.intrinsics)
    ahead = np.array([0.0, 0.0, -1.0])
    plain = refined_pose((np.eye(3), ahead), rays_a, rays_b, float(a.intrinsics[0]))
    # On their epipolar lines, but moving towards the point that the car drives to: no point does that.
    wrong_a = rays(np.random.default_rng(0).uniform((0, 0), (640, 240), (200, 2)), a.intrinsics)
    wrong_b = wrong_a * (0.7, 0.7, 1.0)
    more = refined_pose(
        (np.eye(3), ahead), np.concatenate([rays_a, wrong_a]), np.concatenate([rays_b, wrong_b]), float(a.intrinsics[0])
    )
    assert more.count == plain.count
    assert np.allclose(more.direction, plain.direction, atol=1e-3)
    assert np.trace(more.covariance) > 0.95 * np.trace(plain.covariance)


@pytest.mark.parametrize("seed", range(3))
def test_chance_does_not_overrule_the_prediction(seed: int) -> None:
    a, b, points = noisy_matches(20, 120, 0.8, seed)
    ahead = replace(START, metres=0.8, doubt=0.01, begun=True)
    found = keypoint_motion(a, b, points, ahead, 1.0, SCALED)
    assert np.degrees(np.arccos(min(-found.pose.direction[2], 1.0))) < 4.0


def test_bearings_that_bend_sure_steps_are_not_believed() -> None:
    done = follow(drive(8))
    steps = [one.steps[BASELINE] for one in done.measured]
    seen = sightings_of(done.frames, chained(steps), done.measured)
    right = adjusted(steps, seen, done.tracks, SCALED)
    assert np.abs(right - chained(steps)).max() < 0.1
    rng = np.random.default_rng(0)
    numbers = [rng.permutation(len(one.landmarks)) for one in done.measured]
    wrong = [
        replace(track, sightings=tuple((frame, int(numbers[frame][number])) for frame, number in track.sightings))
        for track in done.tracks
    ]
    assert np.abs(adjusted(steps, seen, wrong, SCALED) - chained(steps)).max() < 0.1


def test_lidar_is_followed_beside_the_camera(tmp_path: Path) -> None:
    poses = drive(5)
    done = follow(poses)
    T_camera_lidar = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    points, _ = street(np.random.default_rng(0))
    frames = []
    for frame, T in zip(done.frames, poses, strict=True):
        scan = transform(invert(T_camera_lidar) @ invert(T) @ T_camera_lidar, points).astype(np.float32)
        frames.append(replace(frame, T_camera_lidar=T_camera_lidar, load_points=partial(np.asarray, scan)))
    done = replace(done, frames=tuple(frames), lidar=lidar_odometry(scans_of(frames, done.measured), 500))
    metrics = write_odometry(done, Drive("street", "street", done.frames, (None,) * 5, {}), tmp_path)
    assert metrics["lidar"]["rpe"] < 0.02
    assert metrics["lidar"]["registered"] == 4
    written = np.loadtxt(tmp_path / "trajectory_lidar.txt").reshape(5, 3, 4)
    assert written[-1, 2, 3] == pytest.approx(3.2, abs=0.05)


def test_seeds_of_a_frame_are_drawn_together() -> None:
    truth = np.stack(drive(20))
    poses = truth.copy()
    poses[:, 0, 3] += np.random.default_rng(0).normal(0, 0.1, 20)
    half = truth + (poses - truth) / 2
    worse, better = (trajectory_errors(one, truth) for one in (poses, half))
    change = compare([better, better], [worse, worse])["rpe"]
    assert change == pytest.approx([-0.5] * 3, abs=1e-3)
    assert compare([worse, better], [better, worse])["rpe"] == [0, 0, 0]


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
    report = judge_tracks(done.tracks, [one.landmarks for one in done.measured])
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
    truth = [[Landmark((0, 0, 9, 9), "pole", identity)] for identity in (7, 7, 8, None)]
    report = judge_tracks([track], truth)
    assert report.precision == report.strict == pytest.approx(2 / 3)
    assert report.switches == 1


def test_one_post_in_two_pieces_is_no_wrong_sighting() -> None:
    track = Track(0, "pole", tuple((i, 0) for i in range(5)))
    places = {7: (10.0, 0.0, 0.0), 8: (10.2, 0.0, 1.1), 9: (15.0, 0.0, 0.0)}
    truth = [[Landmark((0, 0, 9, 9), "pole", identity, places[identity])] for identity in (7, 7, 7, 8, 9)]
    report = judge_tracks([track], truth)
    assert report.precision == pytest.approx(3 / 4)
    assert report.strict == pytest.approx(3 / 5)
    assert (report.ambiguous, report.switches) == (1, 1)


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
