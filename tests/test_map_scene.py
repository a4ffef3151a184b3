"""Keypoints of a map, calibration of its answers, and how its places are measured."""

from pathlib import Path

import numpy as np
import pytest

from map_world import CAMERA, IdentityMatcher, drive, pose_at, see, street
from robustmat.bench.map_scale import measure_scale, write_scale
from robustmat.bench.places import World, different_places, evaluate_places, runs_of
from robustmat.bench.places_offsets import offset_of, rigid_offset, without_offsets
from robustmat.bench.places_page import write_places
from robustmat.bench.places_rows import Answered, Located, locate_row, place_row
from robustmat.errors import InputError
from robustmat.mapping.build import build_map
from robustmat.mapping.calibration import (
    PlaceExample,
    PoseExample,
    covariance_scale,
    drift,
    fit_place_model,
    log_likelihood,
)
from robustmat.mapping.landmark_map import open_map
from robustmat.mapping.place_model import FEATURES, PlaceModel
from robustmat.mapping.pose import difference, move
from robustmat.mapping.scene import LOOK, PIXEL, POINT, place_keypoints, scene_pose
from robustmat.mapping.settings import MapSettings
from robustmat.mapping.words import frame_vector, learn_words
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.sources.drive import numbered
from robustmat.types import Array
from small_world import CAMERA as SMALL_CAMERA
from small_world import drive as boards_drive
from small_world import make_boards


def cloud(count: int = 200, seed: int = 0) -> tuple[Array, np.ndarray]:  # type: ignore[type-arg]
    """Points around a street, and what each looks like."""
    rng = np.random.default_rng(seed)
    points = np.stack([rng.uniform(-8, 8, count), rng.uniform(-3, 1, count), rng.uniform(5, 60, count)], axis=1)
    return points, rng.integers(0, 256, (count, 128), dtype=np.uint8)


def picture(points: Array, looks: np.ndarray, pose: Array, noise: float = 0.0) -> EmbeddedFrame:  # type: ignore[type-arg]
    """The keypoints of a frame at `pose`."""
    seen = (points - pose[:3, 3]) @ pose[:3, :3]
    pixels = seen @ CAMERA.matrix.T
    pixels = pixels[:, :2] / pixels[:, 2:]
    pixels += noise * np.random.default_rng(1).normal(size=pixels.shape)
    inside = (seen[:, 2] > 1) & (pixels > 0).all(axis=1) & (pixels < (CAMERA.width, CAMERA.height)).all(axis=1)
    return EmbeddedFrame((), {PIXEL: pixels[inside].astype(np.float32), LOOK: looks[inside]}, "f", "frame")


def test_neighbouring_keyframes_tell_where_keypoints_stand() -> None:
    points, looks = cloud()
    poses = [pose_at(0.0), pose_at(2.0, right=0.3)]
    placed = place_keypoints([picture(points, looks, pose) for pose in poses], poses, [CAMERA] * 2, 100)
    assert 30 < len(placed[0].arrays[POINT]) <= 100
    by_look = {look.tobytes(): point for look, point in zip(looks, points, strict=True)}
    expected = np.array([by_look[look.tobytes()] for look in placed[0].arrays[LOOK]])
    assert np.allclose(placed[0].arrays[POINT], expected, atol=0.05)


def test_a_frame_is_located_by_keypoints_alone() -> None:
    points, looks = cloud()
    poses = [pose_at(0.0), pose_at(2.0, right=0.3)]
    placed = place_keypoints([picture(points, looks, pose) for pose in poses], poses, [CAMERA] * 2, 200)
    truth = pose_at(1.2, right=-0.8, yaw=0.06)
    found = scene_pose(picture(points, looks, truth, noise=0.3), placed[0], poses[0], CAMERA)
    assert found is not None
    assert np.linalg.norm(difference(truth, found.T_world_camera)[:3]) < 0.1
    other_looks = cloud(seed=9)[1]
    assert scene_pose(picture(points, other_looks, truth), placed[0], poses[0], CAMERA) is None


def test_frames_that_share_keypoints_look_alike() -> None:
    points, looks = cloud(600)
    here, near = (frame_vector(picture(points, looks, pose_at(ahead)).arrays) for ahead in (0.0, 1.0))
    elsewhere = frame_vector(picture(*cloud(600, seed=4), pose_at(0.0)).arrays)
    assert here @ near > here @ elsewhere + 0.1
    assert np.linalg.norm(here) == pytest.approx(1.0, abs=1e-4)


def test_words_are_the_means_of_what_looks_alike() -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 128)).astype(np.float32)
    looks = np.repeat(centers, 200, axis=0) + 0.01 * rng.normal(size=(800, 128)).astype(np.float32)
    words = learn_words(looks, 4)
    assert np.abs(words[:, None] - centers).max(axis=2).min(axis=0).max() < 0.02


def test_five_answers_are_five_places() -> None:
    along = np.array([[0.0, 0, 0], [0, 0, 2], [0, 0, 40], [0, 0, 4.9], [0, 0, 20], [0, 0, 46], [0, 0, 80], [0, 0, 99]])
    assert different_places(along) == [0, 2, 4, 5, 6]


def test_a_map_with_keypoints_answers_without_landmarks(tmp_path: Path) -> None:
    from dataclasses import replace

    made = boards_drive(make_boards(14, seed=3), frames=14, spacing=1.0)
    build_map(tmp_path / "map", [made], IdentityMatcher(), MapSettings(keypoints=200, keyframe_spacing=1.0))
    opened = open_map(tmp_path / "map", matcher=IdentityMatcher())
    info = opened.keyframes()[3]
    _, frame = opened.keyframe(info.name)
    assert 0 < len(frame.arrays[POINT]) == len(frame.arrays[LOOK]) <= 200
    bare = replace(made.frames[5], landmarks=(), camera=SMALL_CAMERA)
    answer = opened.query(bare, min_probability=0.0)
    assert answer.keyframe is not None
    assert abs(answer.keyframe.position[2] - 5.0) <= 3.0


def example(agreeing: float, truth: Array | None) -> PlaceExample:
    features = np.zeros((2, len(FEATURES)))
    features[0, FEATURES.index("agreeing")] = agreeing
    return PlaceExample(features, np.array([[0, 0, 0], [0, 0, 100.0]]), truth)


def test_fitting_learns_what_tells_known_from_unknown_places() -> None:
    rng = np.random.default_rng(0)
    here = np.zeros(3)
    known = [example(rng.normal(3.0, 0.5), here) for _ in range(40)]
    unknown = [example(rng.normal(1.0, 0.5), None) for _ in range(40)]
    model = fit_place_model([*known, *unknown], "test")
    assert model.agreeing > 0
    assert np.mean([np.exp(log_likelihood(model, one)) for one in [*known, *unknown]]) > 0.85
    assert log_likelihood(model, known[0]) > log_likelihood(PlaceModel(agreeing=0.0, share=0.0), known[0])


def test_covariances_are_scaled_until_most_errors_keep_to_them() -> None:
    rng = np.random.default_rng(0)
    own, said = 1e-4 * np.eye(6), 0.01 * np.eye(6)  # errors have three times the deviation that is said
    examples = [PoseExample(rng.normal(0, 0.3, 6), said, own, 1.0) for _ in range(300)]
    assert covariance_scale(examples) == pytest.approx(9.0, rel=0.25)
    assert covariance_scale([]) == 1.0


def test_errors_that_grow_with_the_distance_from_a_keyframe_widen_covariances_with_it() -> None:
    rng = np.random.default_rng(0)
    said, own = 1e-6 * np.eye(6), 1e-6 * np.eye(6)
    away = rng.uniform(1, 10, 400)
    examples = [PoseExample(rng.normal(0, 0.02 * d, 6) / [1, 1, 1, 30, 30, 30], said, own, d) for d in away]
    assert drift(examples, 1.0) == pytest.approx(0.02, abs=0.004)
    assert drift([], 1.0) == 0.0


def test_recall_counts_right_answers_among_all() -> None:
    right, wrong = Answered((1.0, 30.0), 0.9, True), Answered((30.0, 2.0), 0.4, True)
    foreign = Answered((), 0.6, False)
    row = place_row("map", "clean", [right, wrong, foreign], 0.5, [(0.1, 0.2)])
    assert (row.recall_at_1, row.recall_at_5, row.queries, row.unknown) == (0.5, 1.0, 2, 1)
    assert row.recall_at_precision == 0.5
    assert (row.answers, row.precision) == (2, 0.5)


def test_errors_of_poses_are_held_against_their_covariance() -> None:
    rng = np.random.default_rng(0)
    covariance, nothing = np.diag([0.1, 0.05, 0.2, 0.01, 0.02, 0.01]) ** 2, np.zeros((6, 6))
    given = [move(np.eye(4), rng.normal(size=6) * np.sqrt(np.diag(covariance))) for _ in range(400)]
    found = [Located("drive", np.eye(4), pose, covariance, nothing) for pose in given]
    row = locate_row("map", "clean", "drive", "given", found, 800)
    assert row.answered == 0.5
    assert row.within_bounds == pytest.approx(0.95, abs=0.03)
    assert row.normalised == pytest.approx(1.0, abs=0.2)


def test_an_offset_of_a_revisits_poses_is_found_and_taken_away() -> None:
    rng = np.random.default_rng(0)
    T = move(np.eye(4), np.array([0.5, -0.8, 0.2, 0.0, 0.02, 0.0]))
    track = [pose_at(ahead) for ahead in range(20)]
    found = [move(pose, rng.normal(0, 0.01, 6)) for pose in track]
    given = [np.linalg.inv(T) @ pose for pose in track]
    assert np.allclose(rigid_offset(found, given), T, atol=0.05)
    poses = [Located("again", a, b, np.eye(6), np.eye(6)) for a, b in zip(found, given, strict=True)]
    assert np.median([np.linalg.norm(one.error[:3]) for one in poses]) > 0.8
    assert np.median([np.linalg.norm(one.error[:3]) for one in without_offsets(poses, poses)]) < 0.05
    told = offset_of("again", poses, track)
    assert told is not None
    assert abs(told.above_found) < 0.05
    assert told.above < -0.7  # the given poses are below the road
    assert without_offsets(poses[:2], poses[:2]) == []


def test_frames_are_chosen_by_number_and_cut_at_jumps() -> None:
    frames = [see(street(), pose_at(ahead), f"{i:04d}") for i, ahead in enumerate([0.0, 1.0, 50.0, 51.0])]
    assert list(runs_of("monday", frames)) == ["monday from 0000", "monday from 0002"]
    assert list(runs_of("monday", frames[:2])) == ["monday"]
    assert numbered(frames, "1-2,3") == [1, 2, 3]
    for wrong, said in (("first", "expected numbers"), ("7-9", "found 0000 to 0003")):
        with pytest.raises(InputError, match=said):
            numbered(frames, wrong)


def test_places_are_measured_from_map_to_table(tmp_path: Path) -> None:
    things = street()
    queries = [see(things, pose_at(5.0 + 6 * i, right=0.5), f"{i:04d}", jitter=0.5) for i in range(4)]
    unknown = [see(street(first=1000, seed=5), pose_at(10.0), "elsewhere")]
    worlds = [World(drive(things), {"tuesday": queries}, unknown)]
    kept = {"map": MapSettings(), "map, few": MapSettings(max_landmarks=3)}
    report = evaluate_places(
        tmp_path, worlds, IdentityMatcher(), kept, ["clean"], rivals=False, sequence=False, offsets=True
    )
    whole, few = report.places
    assert whole.recall_at_1 == whole.recall_at_precision == 1.0
    assert few.megabytes < whole.megabytes
    assert report.poses[0].metres < 0.3
    text = write_places(report, tmp_path, "places", "Places", "robustmat bench places", "A street.").read_text()
    assert "| map | clean | 1.00 |" in text
    assert "poses as given" in text
    assert (tmp_path / "places-poses.csv").read_text().count("\n") == 1 + len(report.poses)


@pytest.mark.slow
def test_an_index_finds_what_exact_search_finds(tmp_path: Path) -> None:
    rows = measure_scale([2000, 21000], queries=10)
    assert rows[0].recall == 1.0
    assert rows[1].recall > 0.9
    assert rows[1].megabytes > rows[0].megabytes
    assert "| 21,000 |" in write_scale(rows, tmp_path, "robustmat bench map").read_text()
