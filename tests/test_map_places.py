"""Asking a map: places, unknown places, poses with honest covariances, drives."""

from pathlib import Path

import numpy as np
import pytest

from map_world import CAMERA, IdentityMatcher, drive, pose_at, see, street
from robustmat.errors import InputError
from robustmat.mapping.build import build_map
from robustmat.mapping.filtering import DriveFilter
from robustmat.mapping.landmark_map import LandmarkMap, open_map
from robustmat.mapping.place_model import places, posterior
from robustmat.mapping.pose import difference, estimate_pose, ground_prior, move, observe
from robustmat.mapping.search import Area, divided, keyframe_votes
from robustmat.mapping.settings import MapSettings

MATCHER = IdentityMatcher()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> LandmarkMap:
    place = tmp_path_factory.mktemp("maps") / "town"
    build_map(place, [drive(street())], MATCHER, MapSettings(stretch=8))
    return open_map(place, matcher=MATCHER)


def test_a_frame_is_found_where_it_was_taken(town: LandmarkMap) -> None:
    for ahead in (5.0, 21.3, 44.0):
        answer = town.query(see(street(), pose_at(ahead, right=0.7), f"query {ahead}", jitter=0.5))
        assert not answer.unknown
        assert answer.keyframe is not None
        assert abs(answer.keyframe.position[2] - ahead) <= 2.0
        assert answer.to_json()["keyframe"] == answer.keyframe.name


def test_a_place_that_is_not_in_the_map_is_unknown(town: LandmarkMap) -> None:
    elsewhere = street(first=1000, seed=5)
    for ahead in (3.0, 25.0):
        answer = town.query(see(elsewhere, pose_at(ahead), f"elsewhere {ahead}"))
        assert answer.unknown
        assert answer.keyframe is None
        assert answer.to_json()["position"] is None


def test_a_frame_without_landmarks_is_unknown(town: LandmarkMap) -> None:
    answer = town.query(see({}, pose_at(3.0), "empty"))
    assert answer.unknown
    assert answer.probability == 0.0


def test_an_area_keeps_the_rest_of_the_map_out(town: LandmarkMap) -> None:
    frame = see(street(), pose_at(45.0), "query")
    assert town.query(frame, area=Area((0, 0, 60.0), 30.0)).unknown is False
    assert town.query(frame, area=Area((0, 0, -500.0), 30.0)).unknown is True


def test_an_embedding_of_another_model_is_refused(town: LandmarkMap) -> None:
    foreign = IdentityMatcher(fingerprint="other").embed(see(street(), pose_at(5.0), "query"))
    with pytest.raises(InputError, match="another model"):
        town.query(foreign)


def test_landmarks_that_look_like_many_have_little_to_say() -> None:
    rare = divided([{"object": "a", "_distance": 0.1}, {"object": "b", "_distance": 1.2}])
    common = divided([{"object": name, "_distance": 0.1} for name in "abcdefgh"])
    assert rare["a"] > 0.9
    assert max(common.values()) < 0.2
    assert sum(common.values()) <= 1.0


def test_votes_fall_on_keyframes_that_saw_the_landmarks(town: LandmarkMap) -> None:
    frame = MATCHER.embed(see(street(), pose_at(20.0), "query"))
    votes = keyframe_votes(town.store, town.snapshot, frame)
    best = max(votes, key=lambda name: votes[name])
    assert abs(town.keyframe(best)[0].position[2] - 20) < 8
    assert max(votes.values()) <= len(frame.landmarks)


def test_derivatives_of_residuals_are_right() -> None:
    from robustmat.mapping.pose import _residuals

    frame = see(street(), pose_at(20.0), "query")
    observed = observe([(i, m, m) for i, m in enumerate(frame.landmarks)], pose_at(20.0), CAMERA, CAMERA)
    pose = move(pose_at(19.0), np.array([0.3, 0.1, 0.2, 0.01, -0.05, 0.02]))
    before, jacobian = _residuals(observed, CAMERA, pose[None])
    for axis in range(6):
        step = 1e-6 * np.eye(6)[axis]
        after, _ = _residuals(observed, CAMERA, move(pose, step)[None])
        assert np.allclose((after - before)[0] / 1e-6, jacobian[0, :, axis], rtol=1e-3, atol=1e-3)


def test_poses_and_differences_are_inverse() -> None:
    delta = np.array([1.0, -0.2, 3.0, 0.05, -0.3, 0.1])
    assert np.allclose(difference(pose_at(4.0), move(pose_at(4.0), delta)), delta)


def test_wrong_matches_do_not_move_the_pose() -> None:
    things = street()
    key, truth = pose_at(20.0), pose_at(23.0, right=1.0, yaw=0.05)
    there, here = see(things, key, "key"), see(things, truth, "here")
    by_identity = {mark.identity: mark for mark in there.landmarks}
    seen = [
        (i, mark, by_identity[mark.identity]) for i, mark in enumerate(here.landmarks) if mark.identity in by_identity
    ]
    wrong = [(i, mark, there.landmarks[-1 - n]) for n, (i, mark, _) in enumerate(seen[:3])]
    found = estimate_pose(observe([*wrong, *seen[3:]], key, CAMERA, CAMERA), CAMERA, ground_prior(key))
    assert found is not None
    assert np.linalg.norm(difference(truth, found.T_world_camera)[:3]) < 0.1


def test_a_single_frame_is_located(town: LandmarkMap) -> None:
    truth = pose_at(22.6, right=1.2, yaw=-0.04)
    found = town.locate(see(street(), truth, "query", jitter=0.5))
    assert found.T_world_camera is not None
    off = difference(truth, found.T_world_camera)
    assert np.linalg.norm(off[:3]) < 0.3
    assert np.degrees(np.linalg.norm(off[3:])) < 0.5
    told = found.to_json()
    assert np.array(told["T_world_camera"]).shape == (4, 4)
    assert np.array(told["covariance"]).shape == (6, 6)


def test_the_covariance_is_honest(town: LandmarkMap) -> None:
    """Normalised errors of forward and sideways motion and yaw: of three degrees of freedom 3 on average if exact."""
    rng = np.random.default_rng(1)
    normalised = []
    for number in range(40):
        truth = pose_at(rng.uniform(4, 50), rng.uniform(-1.5, 1.5), rng.normal(0, 0.04))
        found = town.locate(see(street(), truth, f"query {number}", jitter=2.0))
        if found.pose is not None:
            off = difference(found.pose.T_world_camera, truth)[[0, 2, 4]]
            normalised.append(off @ np.linalg.solve(found.pose.covariance[np.ix_([0, 2, 4], [0, 2, 4])], off))
    assert len(normalised) > 30
    assert 0.2 < np.mean(normalised) < 6.0
    assert np.mean(np.array(normalised) < 7.81) > 0.9  # 95 % of a chi-square with three degrees of freedom


def test_unknown_cameras_of_the_same_size_are_the_maps(town: LandmarkMap) -> None:
    from dataclasses import replace

    frame = replace(see(street(), pose_at(20.0), "query"), camera=None)
    assert town.locate(frame).T_world_camera is not None


def test_a_drive_is_followed(town: LandmarkMap) -> None:
    frames = [see(street(), pose_at(10.0 + 1.5 * i), f"drive {i}", jitter=1.0) for i in range(8)]
    frames[4] = see({}, pose_at(16.0), "covered by a lorry")
    answers = list(town.query_sequence(frames))
    for number, answer in enumerate(answers):
        if number not in (0, 4):
            assert answer.keyframe is not None
            assert abs(answer.keyframe.position[2] - 10 - 1.5 * number) < 3.0
    located = list(town.locate_sequence(frames))
    errors = [
        np.linalg.norm(difference(frame.T_world_camera, one.T_world_camera)[:3])
        for frame, one in zip(frames, located, strict=True)
        if one.T_world_camera is not None
    ]
    assert len(errors) >= 6
    assert np.median(errors) < 0.3


def test_a_drive_filter_keeps_its_belief_a_distribution() -> None:
    places_ = np.stack([np.zeros(30), np.zeros(30), np.arange(30) * 2.0], axis=1)
    follow = DriveFilter([str(i) for i in range(30)], places_, 3.0)
    belief = follow.start()
    for step in range(5):
        belief = follow.update(follow.predict(belief), {str(10 + step): 6.0})
        assert belief.sum() == pytest.approx(1.0)
        assert (belief >= 0).all()
    assert 13 <= int(belief[:-1].argmax()) <= 15
    assert belief[-1] < 0.2
    for _ in range(20):
        belief = follow.update(follow.predict(belief), {})
    assert belief[-1] > 0.5  # nothing seen for long: lost


def test_candidates_of_one_place_do_not_compete() -> None:
    apart = np.array([[0, 0, 0], [0, 0, 2.0], [0, 0, 100.0]])
    ratio = np.array([3.0, 2.5, -2.0])
    assert places(ratio, apart, 10.0) == [[0, 1], [2]]
    found = posterior(ratio, apart, 10.0)
    assert found.probability[0] > found.probability[1] > found.probability[2]
    assert found.probability[0] + found.probability[2] + found.unknown == pytest.approx(1.0)
    assert posterior(np.zeros(0), np.zeros((0, 3)), 10.0).unknown == 1.0


def test_a_map_is_drawn_flat_and_whole(town: LandmarkMap, tmp_path: Path) -> None:
    from robustmat.mapping.plot import ground_axes, plot_map, view_of

    axes = ground_axes(np.array([info.T_world_camera for info in town.keyframes()]))
    up = np.array([0, -1.0, 0])
    assert np.allclose(np.cross(axes[0], axes[1]), up)  # seen from above, not mirrored
    found = town.locate(see(street(), pose_at(22.0), "query")).to_json()
    view = view_of(town, [found])
    assert sum(len(points) for points in view.objects.values()) == len(town.objects())
    assert view.answers[0].ellipse is not None
    assert np.linalg.norm(view.answers[0].ellipse - view.answers[0].place, axis=1).max() < 5
    assert plot_map(town, tmp_path / "map.png", [found]).stat().st_size > 1000
    page = plot_map(town, tmp_path / "map.html", [found]).read_text()
    assert "<script src=" not in page  # nothing is fetched from elsewhere
    with pytest.raises(InputError, match=r"use \.png or \.html"):
        plot_map(town, tmp_path / "map.pdf")
