"""Metrics against scikit-learn, and against the paper's own tables."""

import numpy as np
import pytest
import sklearn.metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from robustmat.errors import DataError
from robustmat.evaluation import metrics
from robustmat.fitting.calibration import fit_calibration
from robustmat.matching.decision import Decision, calibration_input

# Precision, recall and AUC as printed, for three matched pairs to one unmatched: noisy KITTI, noisy Oxford.
KITTI = {
    "MatchNet": (0.9288, 0.8490, 0.8269),
    "HardNet": (0.8937, 0.8528, 0.7744),
    "SOSNet": (0.9250, 0.8549, 0.8234),
    "Exp-TLoss": (0.9266, 0.8752, 0.8336),
    "HyNet": (0.9266, 0.8757, 0.8339),
    "SOLAR": (0.9256, 0.8629, 0.8275),
    "DELG": (0.9251, 0.7840, 0.7968),
    "CVNet": (0.9287, 0.7365, 0.7835),
    "RobustMat (GCN-PDE)": (0.9327, 0.8811, 0.8453),
    "RobustMat (GAT-PDE)": (0.9308, 0.8970, 0.8485),
}
OXFORD = {
    "MatchNet": (0.9267, 0.8363, 0.8189),
    "HardNet": (0.9248, 0.8360, 0.8160),
    "SOSNet": (0.9184, 0.8416, 0.8088),
    "Exp-TLoss": (0.9024, 0.8384, 0.7832),
    "HyNet": (0.9314, 0.8696, 0.8389),
    "SOLAR": (0.9201, 0.8603, 0.8181),
    "DELG": (0.9223, 0.8232, 0.8076),
    "CVNet": (0.9302, 0.8101, 0.8139),
    "RobustMat (GCN-PDE)": (0.9421, 0.8595, 0.8505),
    "RobustMat (GAT-PDE)": (0.9486, 0.8811, 0.8689),
}
SIAMESE = {"KITTI": (0.8242, 0.7728, 0.8040), "Oxford": (0.8778, 0.6000, 0.7580)}


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Scores with many ties, both labels present, integer weights that leave both labels present."""
    count = draw(st.integers(2, 40))
    scores = draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count))
    labels = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    weights = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    labels[0], labels[1], weights[0], weights[1] = True, False, weights[0] + 1, weights[1] + 1
    return np.array(scores) / 2, np.array(labels), np.array(weights, float), draw(st.integers(-6, 6)) / 2


@settings(max_examples=60, deadline=None)
@given(cases())
def test_weighted_metrics_equal_scikit_learn(case: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    scores, labels, weights, threshold = case
    found = metrics.all_metrics(scores, labels, threshold, weights[None])
    said = scores >= threshold
    how = {"sample_weight": weights, "zero_division": 0}
    false_rate, true_rate, _ = oracle.roc_curve(labels, scores, sample_weight=weights, drop_intermediate=False)
    sensitivity = oracle.recall_score(labels, said, **how)
    specificity = oracle.recall_score(~labels, ~said, **how)
    expected = {
        "precision": oracle.precision_score(labels, said, **how),
        "recall": sensitivity,
        "f1": oracle.f1_score(labels, said, **how),
        "auc_paper": (sensitivity + specificity) / 2,
        "roc_auc": oracle.roc_auc_score(labels, scores, sample_weight=weights),
        "average_precision": oracle.average_precision_score(labels, scores, sample_weight=weights),
        "fpr95": false_rate[np.argmax(true_rate >= 0.95 - 1e-9)],
    }
    assert set(found) == set(metrics.METRICS) == set(expected)
    for name, value in expected.items():
        assert found[name][0] == pytest.approx(value, abs=1e-9), name


def test_plain_functions_agree_with_the_table_of_all_metrics() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(300) < 0.75
    scores = rng.normal(size=300) + labels
    found = metrics.measure(scores, labels, 0.4)
    for name in ("precision", "recall", "f1", "auc_paper"):
        assert getattr(metrics, name)(scores, labels, 0.4) == found[name]
    for name in ("roc_auc", "average_precision", "fpr95"):
        assert getattr(metrics, name)(scores, labels) == found[name]


def test_area_under_a_single_decision_is_what_roc_auc_gives_for_hard_labels() -> None:
    rng = np.random.default_rng(1)
    labels = rng.random(200) < 0.75
    scores = rng.normal(size=200) + labels
    hard = (scores >= 0.3).astype(float)
    assert metrics.auc_paper(scores, labels, 0.3) == pytest.approx(oracle.roc_auc_score(labels, hard))


@pytest.mark.parametrize("table", [KITTI, OXFORD])
def test_auc_paper_reproduces_the_papers_tables_on_three_to_one_pairs(
    table: dict[str, tuple[float, float, float]],
) -> None:
    for name, (precision, recall, auc) in table.items():
        # Printed digits, and means over several runs, leave the fourth digit open.
        assert metrics.auc_paper_from(precision, recall, 3) == pytest.approx(auc, abs=3e-4), name


@pytest.mark.parametrize("name", SIAMESE)
def test_siamese_column_fits_one_to_one_pairs_only(name: str) -> None:
    precision, recall, auc = SIAMESE[name]
    assert metrics.auc_paper_from(precision, recall, 1) == pytest.approx(auc, abs=3e-4)
    assert abs(metrics.auc_paper_from(precision, recall, 3) - auc) > 0.05


def test_auc_paper_from_published_numbers_agrees_with_counting() -> None:
    rng = np.random.default_rng(2)
    labels = np.arange(400) < 300
    scores = rng.normal(size=400) + 1.5 * labels
    counted = metrics.measure(scores, labels, 0.7)
    derived = metrics.auc_paper_from(counted["precision"], counted["recall"], 3)
    assert derived == pytest.approx(counted["auc_paper"])


def test_saying_yes_to_everything_has_an_f1_of_0_857_and_an_auc_of_one_half() -> None:
    labels = np.arange(400) < 300
    found = metrics.measure(np.ones(400), labels, 0.5)
    assert found["f1"] == pytest.approx(6 / 7)
    assert found["auc_paper"] == found["roc_auc"] == 0.5


@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_threshold_beats_the_best_one(case: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    scores, labels, _, _ = case
    best = metrics.auc_paper(scores, labels, metrics.best_threshold(scores, labels))
    tried = [*np.unique(scores), *(np.unique(scores) + 0.1), -100.0]
    rivals = [metrics.auc_paper(scores, labels, it) for it in tried]
    assert best == pytest.approx(max(rivals))


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_a_pair_of_weight_two_decides_thresholds_like_two_pairs(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, float], data: st.DataObject
) -> None:
    scores, labels, _, _ = case
    times = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(scores), max_size=len(scores))))
    scores_repeated, labels_repeated = np.repeat(scores, times), np.repeat(labels, times)
    weighted = metrics.best_threshold(scores, labels, times.astype(float))
    assert weighted == metrics.best_threshold(scores_repeated, labels_repeated)
    possible = int(labels_repeated.sum()) + 2
    weighted = metrics.best_match_threshold(scores, labels, possible, times.astype(float))
    assert weighted == metrics.best_match_threshold(scores_repeated, labels_repeated, possible)


def test_metrics_that_cannot_be_known_are_nan_not_a_guess() -> None:
    found = metrics.measure(np.array([0.1, 0.9]), np.array([True, True]), 0.5)
    assert all(np.isnan(found[name]) for name in ("auc_paper", "roc_auc", "fpr95"))


def test_calibration_recovers_the_probability_that_made_the_labels() -> None:
    rng = np.random.default_rng(3)
    scores = rng.uniform(0, 2, 40_000)
    labels = rng.random(40_000) < 1 / (1 + np.exp(-(4.0 * scores - 6.0)))
    slope, intercept = fit_calibration(scores, labels)
    assert slope == pytest.approx(4, rel=0.03)
    assert intercept == pytest.approx(-6, rel=0.03)


def test_calibration_is_the_maximum_likelihood_that_scikit_learn_finds() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(4)
    labels = rng.random(5000) < 0.2
    scores = 0.8 * labels + rng.normal(0.5, 0.4, 5000)
    model = LogisticRegression(C=1e9, tol=1e-10).fit(scores[:, None], labels)
    slope, intercept = fit_calibration(scores, labels)
    grid = np.linspace(-0.5, 2, 50)
    np.testing.assert_allclose(expit(slope * grid + intercept), model.predict_proba(grid[:, None])[:, 1], atol=0.005)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_calibration_of_perfectly_separated_scores_is_steep_but_finite(offset: float) -> None:
    scores = offset + np.concatenate([np.linspace(0, 0.4, 50), np.linspace(0.6, 1, 20)])
    labels = np.arange(70) >= 50
    slope, intercept = fit_calibration(scores, labels)
    probability = expit(slope * scores + intercept)
    assert np.isfinite([slope, intercept]).all()
    assert probability[~labels].max() < 0.5 < probability[labels].min()
    # At the optimum the probabilities add up to Platt's softened labels, not to certainty.
    assert probability.sum() == pytest.approx(20 * 21 / 22 + 50 / 52, rel=1e-4)


def test_calibration_needs_both_labels() -> None:
    with pytest.raises(DataError, match="0 unmatched"):
        fit_calibration([0.1, 0.2], [True, True])


@pytest.mark.parametrize("highest", [1.0, 2.0])
def test_shares_of_trust_are_calibrated_by_their_log_odds(highest: float) -> None:
    """Scores that are probabilities already, times `highest`, come back as such; by the raw score they would not."""
    rng = np.random.default_rng(0)
    truth = rng.beta(0.3, 1.0, 20_000)  # most candidates of two frames are wrong
    labels = rng.random(len(truth)) < truth
    scores = highest * truth
    slope, intercept = fit_calibration(calibration_input(scores, highest), labels)
    bent = Decision(threshold=0, match_threshold=0, slope=slope, intercept=intercept, max_score=highest)
    slope, intercept = fit_calibration(scores, labels)
    straight = Decision(threshold=0, match_threshold=0, slope=slope, intercept=intercept)
    error, other = (np.abs(it.probability(scores) - truth).max() for it in (bent, straight))
    assert error < 0.02
    assert other > 0.05
    assert np.isfinite(bent.probability(np.array([0.0, highest]))).all()


def test_thresholds_lie_midway_between_the_scores_they_separate() -> None:
    scores, right = np.array([0.9, 0.1, 0.8, 0.4]), np.array([True, False, True, False])
    assert metrics.best_threshold(scores, right) == pytest.approx(0.6)
    assert metrics.best_match_threshold(scores, right, 2) == pytest.approx(0.6)
    assert metrics.best_match_threshold(scores, np.ones(4, bool), 4) == pytest.approx(0.1)  # there is none below
    assert metrics.best_match_threshold(np.zeros(0), np.zeros(0, bool), 3) == 0.0


def test_a_threshold_on_matches_weighs_what_is_missed_against_what_is_wrong() -> None:
    scores, right = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, False, True])
    assert metrics.best_match_threshold(scores, right, 1.0) == pytest.approx(0.85)  # F1 1 against 0.8 for all four
    assert metrics.best_match_threshold(scores, right, 8.0) == pytest.approx(0.6)  # 0.22 against 0.33
    lighter = np.array([1.0, 0.1, 0.1, 1.0])
    assert metrics.best_match_threshold(scores, right, 2.0, lighter) == pytest.approx(0.6)
    assert metrics.best_match_threshold(np.full(3, 0.5), np.array([True, False, False]), 1.0) == pytest.approx(0.5)


def test_a_score_at_the_threshold_is_accepted() -> None:
    found = metrics.measure([0.5, 0.5, 0.4], [True, False, True], 0.5)
    assert (found["precision"], found["recall"], found["f1"], found["auc_paper"]) == (0.5, 0.5, 0.5, 0.25)


def test_fpr95_is_that_of_the_strictest_threshold_that_keeps_95_percent() -> None:
    scores = np.concatenate([np.arange(20.0), [0.5, 1.5, 5.5, 30.0]])
    labels = np.arange(24) < 20
    assert metrics.fpr95(scores, labels) == pytest.approx(3 / 4)  # 19 of 20 are kept from 1 on
