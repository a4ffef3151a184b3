"""From scores to probabilities and thresholds: by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from models_for_tests import untrained
from robustmat.checkpoints.load import network_matcher
from robustmat.dataset.pairs import draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import read_truth
from robustmat.evaluation.scoring import embed_sample, views_of
from robustmat.fitting.calibration import fit_calibration
from robustmat.fitting.decision import (
    _match_weights,
    balance_worlds,
    decided,
    fit_decision,
    score_frames,
    world_of,
)
from robustmat.matching.decision import Decision, calibration_input, log_odds
from robustmat.perturb import CLEAN
from robustmat.types import Frame, Landmark
from small_world import drive, make_boards

BOARDS = make_boards(14, seed=0)


def test_a_probability_is_a_sigmoid_of_the_score() -> None:
    decision = Decision(threshold=0.5, match_threshold=0.5, slope=2.0, intercept=-1.0)
    np.testing.assert_allclose(decision.probability(np.array([0.0, 1.0])), expit([-1.0, 1.0]))


def test_bounded_scores_are_calibrated_by_their_log_odds() -> None:
    decision = Decision(threshold=0.5, match_threshold=0.5, slope=3.0, intercept=0.5, max_score=2.0)
    np.testing.assert_allclose(decision.probability(np.array([1.0, 1.5])), expit([0.5, 0.5 + 3 * np.log(3)]))
    found = calibration_input(np.array([0.0, 2.0]), 2.0)  # kept a millionth away from 0 and 1
    np.testing.assert_allclose(found, [-np.log(1e6 - 1), np.log(1e6 - 1)], rtol=1e-6)
    assert calibration_input(np.array([7.0]), None).tolist() == [7.0]


def test_log_odds_stop_where_they_are_told() -> None:
    np.testing.assert_allclose(log_odds(np.array([0.0, 0.5, 1.0]), 0.1), [-np.log(9), 0, np.log(9)], atol=1e-12)


def test_an_uncalibrated_score_is_cut_to_a_probability() -> None:
    decision = Decision(threshold=0.5, match_threshold=0.5)
    assert decision.probability(np.array([-0.2, 0.3, 1.7])).tolist() == [0.0, 0.3, 1.0]


def test_another_decision_makes_another_matcher() -> None:
    first = network_matcher(untrained(), "pair")
    decision = Decision(threshold=0.1, match_threshold=0.2)
    second = decided(first, decision)
    assert (second.decision, second is first, first.decision == decision) == (decision, False, False)


def test_what_is_chosen_of_every_world_weighs_one() -> None:
    world, chosen = np.array(list("aaabbc")), np.array([True, True, False, True, False, False])
    assert balance_worlds(world, chosen).tolist() == [0.5, 0.5, 0, 1, 0, 0]
    assert balance_worlds(world[:0], chosen[:0]).tolist() == []


def two_frames(name: str, first: list[int], second: list[int]) -> LandmarkDataset:
    """A world of two frames, 5 m apart, that show windows of these identities."""
    frames = []
    for z, identities in ((0.0, first), (5.0, second)):
        T_world_camera = np.eye(4)
        T_world_camera[2, 3] = z
        marks = tuple(Landmark((0.0, 0.0, 5.0, 5.0), "window", n, (9.0 * n, 0.0, 30.0)) for n in identities)
        frames.append(Frame(str(z), load_image=None, landmarks=marks, T_world_camera=T_world_camera))
    return LandmarkDataset(Path(name), name, name, has_identities=True, frames=tuple(frames))


def test_the_possible_matches_of_every_world_weigh_one() -> None:
    worlds = two_frames("a", [1, 2], [1, 2]), two_frames("b", [1, 2], [1, 3]), two_frames("c", [1], [2])
    sample = SimpleNamespace(truth=read_truth(worlds), frame_pairs=np.array([[0, 1], [2, 3], [4, 5]]))
    weight, possible = _match_weights(sample)
    assert weight.tolist() == [0.5, 1, 0]  # two, one, none at all
    assert possible == 2


def test_the_best_candidate_is_sought_among_landmarks_of_its_category() -> None:
    world = two_frames("a", [1, 2], [1, 2])
    frames = tuple(
        replace(frame, landmarks=(replace(frame.landmarks[0], category="pole"), frame.landmarks[1]))
        for frame in world.frames
    )
    matcher = SimpleNamespace(score=lambda *_: np.array([[0.1, 0.9], [0.8, 0.2]]))
    views = [((0, CLEAN), (1, CLEAN))]
    memory = dict.fromkeys(views[0])
    found = score_frames(matcher, memory, read_truth([replace(world, frames=frames)]), views)
    assert found.best.tolist() == found.right.tolist() == [True, False, False, True]


def test_every_world_has_the_same_say_in_both_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, tuple[Any, ...]] = {}
    for name in ("best_threshold", "best_match_threshold"):

        def choose(*arguments: Any, name: str = name) -> float:
            given[name] = arguments
            return 0.25

        monkeypatch.setattr(f"robustmat.fitting.decision.{name}", choose)
    worlds = drive(BOARDS, frames=10), drive(BOARDS[:5], name="other", world="village", frames=8)
    sample, matcher = draw_pairs(worlds, seed=0), network_matcher(untrained(), "pair")
    (memory,) = embed_sample([matcher], sample)
    fitted = fit_decision(matcher, memory, sample, max_score=2.0)
    assert (fitted.decision.threshold, fitted.decision.match_threshold) == (0.25, 0.25)
    assert fitted.decision.max_score == 2.0
    candidates = score_frames(matcher, memory, sample.truth, views_of(sample.frame_pairs, CLEAN, "both"))
    calibrated = fit_calibration(calibration_input(candidates.score, 2.0), candidates.right)
    assert (fitted.decision.slope, fitted.decision.intercept) == pytest.approx(calibrated)
    scores, label, weight = given["best_threshold"]
    assert (scores is fitted.scores, label is sample.label) == (True, True)
    world = world_of(sample.truth, sample.frame_a)
    for name in ("town", "village"):
        for chosen in (label, ~label):
            assert weight[chosen & (world == name)].sum() == pytest.approx(1)
    best, right, possible, weights = given["best_match_threshold"]
    pair_weight, all_possible = _match_weights(sample)
    assert (len(best), possible) == (len(weights), all_possible)
    assert right.any()
    assert not right.all()
    assert set(weights) <= set(pair_weight)
    assert len(set(weights)) == 2  # one weight for each world
