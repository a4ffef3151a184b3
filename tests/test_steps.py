"""Steps on top of any matcher: neighbours, competition, placement."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robustmat.dataset.pairs import draw_pairs
from robustmat.evaluation.metrics import roc_auc
from robustmat.evaluation.scoring import embed_frames, embed_sample, score_pairs, views_of
from robustmat.features.neighborhoods import neighborhoods
from robustmat.fitting.competition import fit_competition, fit_steps
from robustmat.matching.cached import CachedByContent, CachedMatcher
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.steps import StepConfig, SteppedMatcher, compete, rivalry, with_neighbors
from robustmat.methods.cross_correlation import CrossCorrelation
from robustmat.methods.same_class import SameClass
from robustmat.perturb import CLEAN
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Array, Frame
from small_world import drive, make_boards

SCORES = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(-3, 3))


def boxes(count: int, seed: int) -> list[tuple[float, float, float, float]]:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 200, (count, 2))
    return [(x, y, x + 10, y + 20) for x, y in corners.tolist()]


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 100))
def test_neighbours_are_compared_in_the_order_of_their_distance(score: np.ndarray, seed: int) -> None:
    sides = [boxes(count, seed + k) for k, count in enumerate(score.shape)]

    def around(side: list, index: int) -> list[int]:
        centre = np.array([(it[0] + it[2], it[1] + it[3]) for it in side]) / 2
        distance = np.linalg.norm(centre - centre[index], axis=1)
        return [k for k in np.argsort(distance, kind="stable") if k != index][:3]

    found = with_neighbors(score, *(neighborhoods(it, 3, include_center=False) for it in sides))
    for i in range(score.shape[0]):
        for j in range(score.shape[1]):
            pairs = [(i, j), *zip(around(sides[0], i), around(sides[1], j), strict=False)]
            assert found[i, j] == pytest.approx(np.mean([score[pair] for pair in pairs]))


@settings(max_examples=60, deadline=None)
@given(SCORES, st.floats(-2, 2))
def test_competition_is_a_softmax_over_rivals_and_nobody(logits: np.ndarray, alone: float) -> None:
    weight, nobody = np.exp(logits), np.exp(alone)
    by_row = weight / (weight.sum(axis=1, keepdims=True) + nobody)
    by_column = weight / (weight.sum(axis=0, keepdims=True) + nobody)
    np.testing.assert_allclose(compete(logits, alone), np.log(by_row * by_column), atol=1e-9)
    rows, columns = rivalry(logits, alone)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(columns).sum(axis=0), 1)
    np.testing.assert_allclose(compete(logits.T, alone), compete(logits, alone).T)


def test_an_empty_frame_competes_with_nobody() -> None:
    assert compete(np.zeros((0, 3)), 0.0).shape == (0, 3)


def surprise(case: tuple[np.ndarray, ...], scale: float, alone: float) -> float:
    """Written with loops, landmark by landmark."""
    score, _, label = case
    total = 0.0
    for logits, said in ((scale * score, label), (scale * score.T, label.T)):
        for values, labels in zip(logits, said, strict=True):
            rivals = [np.exp(v) for v, it in zip(values, labels, strict=True) if it != AMBIGUOUS]
            norm = np.log(sum(rivals) + np.exp(alone))
            total -= sum(v - norm for v, it in zip(values, labels, strict=True) if it == MATCHED)
            if (labels == UNMATCHED).all():
                total -= alone - norm
    return total


def matching_world(seed: int, count: int) -> list[tuple[np.ndarray, ...]]:
    """Frame pairs whose partners score two higher than strangers; some candidates cannot be judged."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        rows, columns = rng.integers(1, 6, 2)
        label = np.full((rows, columns), float(UNMATCHED))
        for k in range(min(rows, columns)):
            label[k, k] = rng.choice([MATCHED, UNMATCHED], p=[0.7, 0.3])
        score = rng.normal(size=label.shape) + 2 * (label == MATCHED)
        label[rng.random(label.shape) < 0.1] = AMBIGUOUS
        cases.append((score, np.zeros_like(score), label))
    return cases


def test_fitting_makes_the_truth_likeliest_whatever_the_size_of_scores() -> None:
    cases = matching_world(0, 150)
    fitted = fit_competition(cases, np.ones(len(cases)), with_prior=False)
    assert fitted.prior_scale == 0
    best = sum(surprise(it, fitted.scale, fitted.alone) for it in cases)
    for scale in (0.8, 1.0, 1.25):
        for shift in (-0.3, 0.0, 0.3):
            assert best <= sum(surprise(it, scale * fitted.scale, fitted.alone + shift) for it in cases) + 0.05
    smaller = [(it / 1000, prior, label) for it, prior, label in cases]
    small = fit_competition(smaller, np.ones(len(cases)), with_prior=False)
    assert small.scale == pytest.approx(1000 * fitted.scale, rel=0.05)


def test_a_frame_pair_of_weight_two_counts_like_two_frame_pairs() -> None:
    cases = matching_world(1, 40)
    times = np.random.default_rng(1).integers(1, 4, len(cases))
    weighted = fit_competition(cases, times.astype(float), with_prior=False)
    repeated = [case for case, count in zip(cases, times, strict=True) for _ in range(count)]
    expected = fit_competition(repeated, np.ones(len(repeated)), with_prior=False)
    found = sum(surprise(it, weighted.scale, weighted.alone) for it in repeated) / len(repeated)
    best = sum(surprise(it, expected.scale, expected.alone) for it in repeated) / len(repeated)
    assert found == pytest.approx(best, abs=1e-3)


def test_competition_and_placement_never_cost_what_the_pixels_knew() -> None:
    streets = [drive(make_boards(12, seed), name=f"drive{seed}", world=f"town{seed}", frames=10) for seed in range(2)]
    sample, unseen = (draw_pairs([it], "random", 0, most_frame_pairs=25) for it in streets)
    views = views_of(np.stack([unseen.frame_a, unseen.frame_b], axis=1), CLEAN, "both")
    inner = CrossCorrelation()
    matchers = [inner, *fit_steps(inner, ("competition", "placement"), sample, prior=SameClass())]
    embedded = embed_frames(matchers, unseen.truth, (it for both in views for it in both), CLEAN, 0)
    areas = [
        roc_auc(score_pairs(it, memory, views, unseen.landmark_a, unseen.landmark_b), unseen.label)
        for it, memory in zip(matchers, embedded, strict=True)
    ]
    assert areas[1] > areas[0] - 0.02
    assert areas[2] >= areas[1] - 0.01  # different classes are never one object: the prior knows
    stepped = matchers[2]
    assert isinstance(stepped, SteppedMatcher)
    assert stepped.config.prior_scale > 0.1
    assert stepped.decision.slope is not None
    assert stepped.inner is inner  # no longer the one that remembers all scores of the fitting


def test_a_step_keeps_who_may_match_whom_and_adds_its_name() -> None:
    inner = CrossCorrelation()
    inner.same_category = False
    stepped = SteppedMatcher(inner, "placement", StepConfig(prior_scale=1.0), prior=SameClass())
    assert (stepped.name, stepped.evidence, stepped.same_category) == (
        "cross-correlation+placement",
        "placement",
        False,
    )
    a, b = (stepped.embed(it) for it in drive(make_boards(6, 0), frames=3).frames[::2])
    score, prior = stepped.parts(a, b)
    np.testing.assert_array_equal(score, inner.score(a, b))
    same = np.array([[x.category == y.category for y in b.landmarks] for x in a.landmarks])
    assert (prior[same] > 0).all()
    assert (prior[~same] < 0).all()


def test_a_cached_matcher_embeds_a_frame_and_scores_a_frame_pair_once() -> None:
    asked: list[str] = []

    class Counting(CrossCorrelation):
        def embed(self, frame: Frame) -> EmbeddedFrame:
            asked.append("embed")
            return super().embed(frame)

        def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
            asked.append("score")
            return super().score(a, b)

    inner = Counting()
    shared = CachedMatcher(inner)
    steps = [
        SteppedMatcher(shared, step, prior=prior) for step, prior in (("competition", None), ("placement", SameClass()))
    ]
    frames = drive(make_boards(6, 0), frames=5).frames[::2]
    memories: list[list[EmbeddedFrame]] = [[], []]
    for frame in frames:
        for step, memory in zip(steps, memories, strict=True):
            memory.append(step.embed(frame))
    assert asked == ["embed"] * 3
    asked.clear()
    for step, (a, b, c) in zip(steps, memories, strict=True):
        alone = SteppedMatcher(CrossCorrelation(), step.step, prior=step.prior)
        for first, second in ((a, b), (b, c), (a, b), (b, a)):
            np.testing.assert_array_equal(step.score(first, second), alone.score(first, second))
    assert asked == ["score"] * 3  # a with b, b with c, b with a
    plain = CachedMatcher(SameClass())  # it remembers nothing of a frame by which two could be told apart
    a, b, c = (plain.embed(frame) for frame in frames)
    np.testing.assert_array_equal(plain.score(a, b), SameClass().score(a, b))
    np.testing.assert_array_equal(plain.score(b, c), SameClass().score(b, c))


def test_steps_fitted_on_embedded_frames_are_those_fitted_on_frames() -> None:
    sample = draw_pairs([drive(make_boards(10, 3), frames=8)], "random", 0, most_frame_pairs=12)
    steps, inner = ("neighbors", "competition", "placement"), CachedMatcher(CrossCorrelation())
    (memory,) = embed_sample([inner], sample)
    expected = fit_steps(CrossCorrelation(), steps, sample, prior=SameClass())
    found = fit_steps(inner, steps, sample, prior=CachedByContent(SameClass()), memory=memory)
    assert [(one.step, one.config, one.decision) for one in found] == [
        (one.step, one.config, one.decision) for one in expected
    ]


def test_boxes_embedded_anew_are_known_again_by_their_content() -> None:
    class Counting(SameClass):
        asked = 0

        def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
            self.asked += 1
            return super().score(a, b)

    def frames() -> list[EmbeddedFrame]:
        embedded = [shared.embed(frame) for frame in drive(make_boards(6, 0), frames=3).frames]
        return [replace(one, arrays={"box": np.array([mark.box for mark in one.landmarks])}) for one in embedded]

    inner = Counting()
    shared = CachedByContent(inner)
    for a, b, *_ in (frames(), frames()):
        np.testing.assert_array_equal(shared.score(a, b), inner.score(a, b))
        shared.score(b, a)
    assert inner.asked == 2 + 2  # two by the check itself
