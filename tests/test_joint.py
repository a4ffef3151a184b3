"""Joint diffusion of two frames: placements, competition, and what training asks of it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from robustmat.errors import ConfigError
from robustmat.evaluation.metrics import best_match_threshold
from robustmat.features.placement import BOX_DIM, mirrored_placements, placements
from robustmat.models.joint import AcrossFrames, Assignment, JointConfig, JointDiffusion, pair_encoding
from robustmat.models.losses import assignment_loss
from robustmat.models.presets import preset
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Camera, Landmark

LANDMARKS = [Landmark((100.0, 50.0, 120.0, 150.0), "pole"), Landmark((300.0, 40.0, 340.0, 80.0), "traffic_sign")]


def camera(scale: float = 1.0) -> Camera:
    matrix = np.array([[500 * scale, 0, 310 * scale], [0, 500 * scale, 95 * scale], [0, 0, 1]])
    return Camera(matrix, round(600 * scale), round(200 * scale))


def random_assignment(rows: int, columns: int, seed: int = 0) -> Assignment:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return Assignment(logits, torch.tensor(0.3, dtype=torch.float64))


def test_cameras_of_different_resolution_agree_about_placements() -> None:
    doubled = [Landmark(tuple(2 * it for it in mark.box), mark.category) for mark in LANDMARKS]  # type: ignore[arg-type]
    np.testing.assert_allclose(
        placements(LANDMARKS, camera(), 600, 200), placements(doubled, camera(2.0), 1200, 400), atol=1e-6
    )
    np.testing.assert_allclose(placements(LANDMARKS, None, 600, 200), placements(doubled, None, 1200, 400), atol=1e-6)


def test_placements_tell_direction_size_and_category() -> None:
    pole, sign = placements(LANDMARKS, camera(), 600, 200)
    assert pole[0] * 0.5 == pytest.approx((110 - 310) / 500)  # right of the axis, as a tangent
    assert sign[2] > pole[2]  # wider
    assert sign[3] < pole[3]  # lower
    assert pole[BOX_DIM:].tolist() == [0, 0, 1, 0]
    assert sign[BOX_DIM:].tolist() == [1, 0, 0, 0]


def test_a_mirrored_placement_is_the_placement_in_the_mirrored_frame() -> None:
    turned = [Landmark((600 - x1, y0, 600 - x0, y1), it.category) for it in LANDMARKS for x0, y0, x1, y1 in [it.box]]
    plain, mirrored = (placements(it, None, 600, 200) for it in (LANDMARKS, turned))
    np.testing.assert_allclose(mirrored_placements(plain), mirrored, atol=1e-6)


@settings(deadline=None)
@given(rows=st.integers(1, 5), columns=st.integers(1, 5), seed=st.integers(0, 1000))
def test_trust_is_divided_among_partners_and_none(rows: int, columns: int, seed: int) -> None:
    assignment = random_assignment(rows, columns, seed)
    by_row, by_column = assignment.log_shares()
    wide = np.hstack([assignment.logits.numpy(), np.full((rows, 1), 0.3)])
    tall = np.vstack([assignment.logits.numpy(), np.full((1, columns), 0.3)])
    np.testing.assert_allclose(by_row.numpy(), log_softmax(wide, axis=1), atol=1e-12)
    np.testing.assert_allclose(by_column.numpy(), log_softmax(tall, axis=0), atol=1e-12)
    shares = np.exp(log_softmax(wide, axis=1)[:, :-1]) * np.exp(log_softmax(tall, axis=0)[:-1])
    np.testing.assert_allclose(assignment.score().numpy(), np.sqrt(shares), atol=1e-12)


def test_a_rival_takes_trust_away() -> None:
    alone = Assignment(torch.tensor([[2.0]]), torch.tensor(0.0)).score()
    rivalled = Assignment(torch.tensor([[2.0, 2.0]]), torch.tensor(0.0)).score()
    assert rivalled[0, 0] < alone[0, 0]


def test_the_assignment_loss_is_what_numpy_says() -> None:
    assignment = random_assignment(3, 4)
    label = np.array(
        [
            [MATCHED, UNMATCHED, UNMATCHED, UNMATCHED],
            [UNMATCHED, UNMATCHED, AMBIGUOUS, UNMATCHED],
            [UNMATCHED, UNMATCHED, UNMATCHED, UNMATCHED],
        ]
    )
    weight = np.random.default_rng(0).random((3, 4)) * (label != AMBIGUOUS)
    logits = assignment.logits.numpy()
    probability = 1 / (1 + np.exp(-logits))
    entropy = -np.where(label == MATCHED, np.log(probability), np.log(1 - probability))
    single = (entropy * weight).sum() / weight.sum()
    open_logits = np.where(label == AMBIGUOUS, -np.inf, logits)
    rows = log_softmax(np.hstack([open_logits, np.full((3, 1), 0.3)]), axis=1)
    columns = log_softmax(np.vstack([open_logits, np.full((1, 4), 0.3)]), axis=0)
    trust = (rows[0, 0] + columns[0, 0]) / 2
    # Row 1 and column 2 hold a candidate that nobody can judge: they are not said to be alone.
    alone = np.mean([rows[2, -1], columns[-1, 1], columns[-1, 3]])
    found = assignment_loss(assignment, torch.from_numpy(label), torch.from_numpy(weight))
    assert float(found) == pytest.approx(single - trust - alone, abs=1e-9)


def test_a_frame_pair_without_matches_or_judged_candidates_costs_a_finite_amount() -> None:
    for value in (UNMATCHED, AMBIGUOUS):
        label = torch.full((3, 4), value)
        loss = assignment_loss(random_assignment(3, 4), label, (label != AMBIGUOUS).double())
        assert torch.isfinite(loss)


def test_without_placements_boxes_do_not_matter_and_with_them_they_do() -> None:
    torch.manual_seed(0)
    joint = JointDiffusion(JointConfig(width=16), 8).eval()
    vertex = torch.randn(4, 8), torch.randn(5, 8)
    first, second = ((torch.randn(4, 10), torch.randn(5, 10)) for _ in range(2))
    with torch.inference_mode():
        assert not torch.allclose(joint(*vertex, *first).logits, joint(*vertex, *second).logits)
        assert torch.equal(joint(*vertex, None, None).logits, joint(*vertex, None, None).logits)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="must divide"):
        preset("street", changes={"joint": {"width": 30}})


@settings(deadline=None)
@given(
    scores=st.lists(st.integers(0, 5), min_size=1, max_size=12),
    data=st.data(),
)
def test_the_match_threshold_gives_the_best_f1_there_is(scores: list[int], data: st.DataObject) -> None:
    right = np.array(data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    possible = int(right.sum()) + data.draw(st.integers(0, 4))
    values = np.array(scores, float)

    def f1(threshold: float) -> float:
        taken = values >= threshold
        return 2 * (right & taken).sum() / max(1, taken.sum() + possible)

    best = max(f1(it) for it in np.unique(values))
    assert f1(best_match_threshold(values, right, possible)) == pytest.approx(best)


def boxes_of(places: np.ndarray, camera_at: float) -> list[Landmark]:
    """Poles at [N, 3] (right, down, ahead) as a camera sees them that stands `camera_at` metres ahead."""
    marks = []
    for right, down, ahead in places:
        depth = ahead - camera_at
        x, y, width, height = (500 * it / depth for it in (right, down, 0.3, 2.0))
        marks.append(Landmark((310 + x - width, 95 + y - height, 310 + x + width, 95 + y + height), "pole"))
    return marks


def test_a_landmark_leaves_the_center_as_it_grows() -> None:
    places = np.array([[4.0, 0.5, 20.0], [-3.0, 0.2, 30.0], [6.0, -1.0, 25.0]])
    seen = [boxes_of(places, at) for at in (0.0, 8.0)]
    numbers = pair_encoding(torch.from_numpy(placements([*seen[0], *seen[1]], camera(), 600, 200)))
    expansion = numbers[..., 18:24].abs().amax(dim=-1)[:3, 3:]  # by width and by height
    assert expansion.diagonal().max() < 1e-4
    assert expansion[~torch.eye(3, dtype=torch.bool)].min() > 0.1


@settings(deadline=None)
@given(motion=st.sampled_from([0, 3]), seed=st.integers(0, 50))
def test_frames_and_landmarks_may_come_in_any_order(motion: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    joint = JointDiffusion(JointConfig(width=16, motion=motion), 12)
    a, b = (torch.randn(count, 12, generator=generator) for count in (4, 3))
    at, bt = (torch.randn(count, 10, generator=generator) for count in (4, 3))
    order = torch.randperm(4, generator=generator)
    with torch.no_grad():
        plain = joint(a, b, at, bt).logits
        assert torch.allclose(joint(b, a, bt, at).logits.T, plain, atol=1e-4)
        assert torch.allclose(joint(a[order], b, at[order], bt).logits, plain[order], atol=1e-4)


def test_trusted_pairs_say_how_the_camera_moved() -> None:
    torch.manual_seed(0)
    across = AcrossFrames(2, 3)
    placement = torch.randn(5, 10)
    trust = torch.zeros(3, 2)
    trust[1, 0] = 1.0
    _, one = across(placement, 3, lambda _: trust)
    _, scaled = across(placement, 3, lambda _: trust / 2)
    assert torch.allclose(one, scaled, atol=1e-5)  # who is trusted counts, not how many are
    trust = trust.clone()
    trust[2, 1] = 5.0
    _, other = across(placement, 3, lambda _: trust)
    assert not torch.allclose(one, other, atol=1e-4)


def test_the_exchange_counts_by_its_weight() -> None:
    torch.manual_seed(0)
    vertex, placed = (torch.randn(4, 8), torch.randn(5, 8)), (torch.randn(4, 10), torch.randn(5, 10))
    weights = JointDiffusion(JointConfig(width=16), 8).state_dict()

    def logits(weight: float) -> torch.Tensor:
        joint = JointDiffusion(JointConfig(width=16, exchange_weight=weight), 8)
        joint.load_state_dict(weights)
        with torch.no_grad():
            said: torch.Tensor = joint(*vertex, *placed).logits
        return said

    half = logits(1.0) - logits(0.5)
    assert half.abs().max() > 1e-3
    assert torch.allclose(half, 2 * (logits(0.5) - logits(0.25)), atol=1e-5)


def test_a_pair_votes_on_the_motion_by_the_product_of_both_sides_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    joint = JointDiffusion(JointConfig(width=16), 8)
    told = []
    judge = joint.across.forward

    def listen(placement: torch.Tensor, count: int, trust: Callable[[torch.Tensor], torch.Tensor]) -> object:
        told.append(trust(torch.full((2, 2), -torch.inf).fill_diagonal_(0.0)))  # pixels decide, where boxes allow it
        return judge(placement, count, trust)

    monkeypatch.setattr(joint.across, "forward", listen)
    vertex = torch.eye(2, 8)
    with torch.no_grad():
        joint(vertex, vertex, torch.randn(2, 10), torch.randn(2, 10))
    share = (5.0 - np.logaddexp(5.0, 0.0)) * 2  # the only candidate, against having no partner, on either side
    np.testing.assert_allclose(told[0].diagonal().numpy(), np.exp(share), atol=1e-6)
    assert not told[0][0, 1]
