"""From scores to probabilities and thresholds: by hand."""

import numpy as np
import pytest
from scipy.special import expit

from models_for_tests import untrained
from robustmat.checkpoints.load import network_matcher
from robustmat.dataset.pairs import draw_pairs
from robustmat.evaluation.scoring import possible_matches
from robustmat.fitting.decision import _match_weights, balance_worlds, decided, world_of
from robustmat.matching.decision import Decision, calibration_input, log_odds
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


def test_the_possible_matches_of_every_world_weigh_one() -> None:
    worlds = drive(BOARDS, frames=12), drive(BOARDS[:4], name="other", world="village", frames=8)
    sample = draw_pairs(worlds, seed=0)
    weight, possible = _match_weights(sample)
    assert possible == pytest.approx(2)
    assert len(weight) == len(sample.frame_pairs)
    of_pair = world_of(sample.truth, sample.frame_pairs[:, 0])
    matches = possible_matches(sample.truth, sample.frame_pairs).partner_pair
    for name in ("town", "village"):
        assert weight[matches[of_pair[matches] == name]].sum() == pytest.approx(1)
