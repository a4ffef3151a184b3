"""Evidence of the scene and of one motion of all landmarks, on a street that the test made up itself."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robustmat.features.keypoints import Keypoints
from robustmat.geometry.relative_pose import MotionPrior, nothing
from robustmat.matching.assign import mutual_best
from robustmat.matching.combine import BESIDE_SCENE, SCENE_NAMES, Combination, candidate_features, compete
from robustmat.matching.diffusion import DiffusionConfig, agreement, diffuse
from robustmat.matching.keypoints_in_boxes import keypoint_votes
from robustmat.matching.motion import car_motions, known_motion, motion_likelihood, tangent_boxes
from robustmat.matching.scene import SCENE_FEATURES, SceneEvidence, SceneView, scene_evidence
from robustmat.tables.marginal import MarginalConfig, marginal
from robustmat.types import CATEGORIES, Array

INTRINSICS = np.array([720.0, 720.0, 620.0, 187.0])
WIDTH, HEIGHT = 1242, 375
POLE = CATEGORIES.index("pole")


@dataclass(frozen=True)
class Street:
    """Poles beside a road and points all over it, seen from two places."""

    a: SceneView
    b: SceneView
    T_b_a: Array

    @property
    def count(self) -> int:
        return len(self.a.boxes)


def pole_boxes(places: Array, T: Array) -> Array:
    """Boxes of poles that stand on the ground at (x, z), 0.2 m wide and 3 m high, seen from T_camera_world."""
    foot, top = (np.stack([places[:, 0], np.full(len(places), y), places[:, 1]], axis=1) for y in (1.65, -1.35))
    foot, top = (it @ T[:3, :3].T + T[:3, 3] for it in (foot, top))
    fx, fy, cx, cy = INTRINSICS
    column, half = fx * foot[:, 0] / foot[:, 2] + cx, 0.1 * fx / foot[:, 2]
    rows = [np.clip(fy * it[:, 1] / it[:, 2] + cy, 0, HEIGHT) for it in (top, foot)]
    return np.stack([column - half, rows[0], column + half, rows[1]], axis=1)


def keypoints(points: Array, descriptors: Array, T: Array, rng: np.random.Generator) -> Keypoints:
    seen = points @ T[:3, :3].T + T[:3, 3]
    place = seen[:, :2] / seen[:, 2:] * INTRINSICS[:2] + INTRINSICS[2:] + rng.normal(0, 0.3, (len(points), 2))
    inside = (seen[:, 2] > 1) & (place >= 0).all(axis=1) & (place < (WIDTH, HEIGHT)).all(axis=1)
    return {
        "keypoint_place": place[inside].astype(np.float32),
        "keypoint_descriptor": descriptors[inside],
        "keypoint_noise": np.zeros(1, np.float32),
    }


def street(points: int = 400, yaw: float = 3.0, distance: float = 5.0) -> Street:
    rng = np.random.default_rng(0)
    T_b_a = np.eye(4)
    T_b_a[:3, :3] = Rotation.from_euler("y", -yaw, degrees=True).as_matrix()
    heading = np.radians(yaw) / 2
    T_b_a[:3, 3] = -T_b_a[:3, :3] @ (distance * np.array([np.sin(heading), 0, np.cos(heading)]))
    poles = np.array([(-5.0, 12), (-5, 18), (-5, 26), (4.5, 10), (4.8, 17), (5, 24), (7, 35)])
    depth = rng.uniform(6, 45, points)
    cloud = np.stack([rng.uniform(-0.7, 0.7, points) * depth, rng.uniform(-6, 1.6, points), depth], axis=1)
    descriptors = rng.integers(0, 255, (points, 128)).astype(np.uint8)
    category = np.full(len(poles), POLE)
    views = [
        SceneView(pole_boxes(poles, T), category, INTRINSICS, WIDTH, HEIGHT, keypoints(cloud, descriptors, T, rng))
        for T in (np.eye(4), T_b_a)
    ]
    return Street(views[0], views[1], T_b_a)


@pytest.fixture(scope="module")
def scene() -> Street:
    return street()


def test_the_boxes_of_one_object_fit_the_motion_best(scene: Street) -> None:
    evidence = scene_evidence(scene.a, scene.b)
    misfit = evidence.features[:, :, SCENE_FEATURES.index("misfit")]
    assert not evidence.pose.abstains
    assert (misfit.argmin(axis=1) == np.arange(scene.count)).mean() > 0.8
    assert np.diag(misfit).max() < 1.0


def test_swapping_the_frames_transposes_the_evidence(scene: Street) -> None:
    there, back = scene_evidence(scene.a, scene.b), scene_evidence(scene.b, scene.a)
    for name in ("misfit", "parted", "guided_share"):
        index = SCENE_FEATURES.index(name)
        np.testing.assert_allclose(there.features[:, :, index], back.features[:, :, index].T, atol=1.0)


def test_a_frame_without_keypoints_makes_the_scene_abstain_and_fade(scene: Street) -> None:
    empty = street(points=3)
    evidence = scene_evidence(empty.a, empty.b)
    features = candidate_features({"frames": np.zeros((scene.count,) * 2)}, scene=evidence)
    assert evidence.pose.abstains
    for name, values in features.items():
        assert np.isfinite(values).all(), name
        assert np.abs(values).max() < 1e-9, name


def test_odometry_stands_in_for_missing_keypoints() -> None:
    empty = street(points=3)
    evidence = scene_evidence(empty.a, empty.b, motion=MotionPrior(empty.T_b_a))
    misfit = evidence.features[:, :, SCENE_FEATURES.index("misfit")]
    assert np.diag(misfit).max() < 1.5


def test_no_landmarks_at_all_are_no_error(scene: Street) -> None:
    nobody = SceneView(np.zeros((0, 4)), np.zeros(0, np.int64), INTRINSICS, WIDTH, HEIGHT, scene.a.keypoints)
    assert scene_evidence(nobody, scene.b).features.shape == (0, scene.count, len(SCENE_FEATURES))
    assert scene_evidence(scene.a, nobody).features.shape == (scene.count, 0, len(SCENE_FEATURES))
    assert keypoint_votes(nobody, scene.b).shape == (0, scene.count)


def test_votes_of_keypoints_join_the_boxes_that_hold_them(scene: Street) -> None:
    votes = keypoint_votes(scene.a, scene.b)
    assert votes.sum() > 0
    assert np.trace(votes) > 0.6 * votes.sum()


@pytest.mark.parametrize("method", ["marginal", "diffuse"])
def test_landmarks_alone_agree_on_the_motion(scene: Street, method: str) -> None:
    belief = believe(scene, method)
    found = mutual_best(belief, 0.2)
    assert [it for it in found if it[0] != it[1]] == []
    assert len(found) >= scene.count - 2


@pytest.mark.parametrize("method", ["marginal", "diffuse"])
def test_known_motion_makes_belief_surer(scene: Street, method: str) -> None:
    vague, told = believe(scene, method), believe(scene, method, told=True)
    assert np.trace(told) >= np.trace(vague) - 1e-6


def believe(scene: Street, method: str, told: bool = False) -> Array:
    """What the landmarks come to believe where pixels hardly tell them apart."""
    boxes_a, boxes_b = (tangent_boxes(it.boxes, INTRINSICS, WIDTH, HEIGHT) for it in (scene.a, scene.b))
    pairs = np.argwhere(np.ones((scene.count,) * 2, bool))
    motions = car_motions()
    if told:
        place = -scene.T_b_a[:3, :3].T @ scene.T_b_a[:3, 3]
        motions = known_motion(motions, np.radians(3.0), np.radians(0.5), place[[0, 2]], (5.0, 0.5))
    likelihood = motion_likelihood(boxes_a, boxes_b, scene.a.category, pairs, motions)
    logits = 1.5 * np.eye(scene.count)
    if method == "marginal":
        return marginal(logits, pairs, likelihood, motions.log_prior, MarginalConfig())
    return diffuse(logits, pairs, likelihood, motions, DiffusionConfig())


def test_agreement_is_symmetric_and_highest_among_true_candidates(scene: Street) -> None:
    boxes_a, boxes_b = (tangent_boxes(it.boxes, INTRINSICS, WIDTH, HEIGHT) for it in (scene.a, scene.b))
    pairs = np.argwhere(np.ones((scene.count,) * 2, bool))
    motions = car_motions()
    edges, _ = agreement(motion_likelihood(boxes_a, boxes_b, scene.a.category, pairs, motions), motions)
    np.testing.assert_allclose(edges, edges.T, atol=1e-4)
    true = pairs[:, 0] == pairs[:, 1]
    off = ~np.eye(len(pairs), dtype=bool)
    assert edges[true][:, true][off[true][:, true]].mean() > edges[true][:, ~true].mean() + 0.3


def test_a_rival_never_makes_a_candidate_likelier() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 4, (6, 5))
    allowed = rng.random((6, 5)) < 0.7
    share = compete(logits, allowed)
    assert (share[~allowed] == 0).all()
    assert (share <= 1).all()
    stronger = logits.copy()
    stronger[2, 3] += 2.0
    after = compete(stronger, np.ones_like(allowed))
    before = compete(logits, np.ones_like(allowed))
    assert after[2, 3] > before[2, 3]
    assert (np.delete(after[2], 3) <= np.delete(before[2], 3)).all()
    assert (np.delete(after[:, 3], 2) <= np.delete(before[:, 3], 2)).all()


def test_a_combination_is_plain_numbers() -> None:
    combination = Combination(weights={"pair": 1.0, "diffusion": 0.5}, intercept=-1.0, slope=1.1, offset=0.2)
    again = Combination.model_validate_json(combination.model_dump_json())
    features = {"pair": np.array([[3.0, -2.0]]), "diffusion": np.array([[1.0, 0.0]])}
    probability = again.probability(features, np.array([[True, False]]))
    odds = np.exp(3.0 + 0.5 - 1.0)
    share = odds / np.sqrt((1 + odds) * (1 + odds))
    expected = 1 / (1 + np.exp(-(1.1 * np.log(share / (1 - share)) + 0.2)))
    np.testing.assert_allclose(probability, [[expected, 0.0]], rtol=1e-9)


@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_the_scene_counts_as_far_as_it_is_trusted_and_changes_what_landmarks_count(trust: float) -> None:
    rng = np.random.default_rng(0)
    logits, belief = {"placement": rng.normal(size=(3, 2))}, rng.uniform(0.01, 0.99, (3, 2))
    pose, no_matches = nothing(0), np.zeros((0, 2), np.int64)
    scene = SceneEvidence(pose, rng.normal(size=(3, 2, len(SCENE_FEATURES))), no_matches, trust)
    alone, beside = candidate_features(logits, belief), candidate_features(logits, belief, scene)
    assert set(beside) == {"placement", "diffusion", *BESIDE_SCENE.values(), *SCENE_NAMES}
    for name, number in alone.items():
        np.testing.assert_array_equal(beside[name], number)
        np.testing.assert_allclose(beside[BESIDE_SCENE[name]], trust * number)
    np.testing.assert_allclose(beside["scene"], trust)
    for index, name in enumerate(SCENE_FEATURES):
        np.testing.assert_allclose(beside[f"scene_{name}"], trust * scene.features[:, :, index])
