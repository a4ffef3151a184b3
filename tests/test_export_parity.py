"""What the parity report counts, and that weights are bounded anew when they change."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models_for_tests import seeded, small, untrained
from robustmat.checkpoints.load import from_checkpoint
from robustmat.export.parity import EvidenceParity, ParityReport, compare_matchers, match_f1
from robustmat.models.bounds import Bounded, convolution_bound, matrix_bound
from robustmat.models.vertex import ContractiveField
from robustmat.types import Landmark, Match, MatchResult
from test_export import street


def result(a: list[int | None], b: list[int | None], pairs: list[tuple[int, int]]) -> MatchResult:
    first, second = (tuple(Landmark((0, 0, 1, 1), "pole", it) for it in side) for side in (a, b))
    zeros = np.zeros((len(a), len(b)))
    return MatchResult(first, second, tuple(Match(i, j, 1.0, 1.0) for i, j in pairs), zeros, zeros, 0.0)


def test_f1_counts_right_wrong_and_missed_matches_and_nothing_unknown() -> None:
    found = result([1, 2, 3, None], [3, 2, None, 9], [(0, 3), (1, 1), (3, 2)])
    # (1, 1) right, (0, 3) wrong, (3, 2) unknown; 3 was missed: precision 1/2, recall 1/2
    assert match_f1([found]) == pytest.approx(0.5)
    assert match_f1([result([1], [2], [(0, 0)])]) is None


@given(
    a=st.lists(st.integers(0, 4), max_size=5, unique=True),
    b=st.lists(st.integers(0, 4), max_size=5, unique=True),
    data=st.data(),
)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(a: list[int], b: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(b))))
    pairs = list(zip(range(len(a)), order, strict=False))
    right = sum(a[i] == b[j] for i, j in pairs)
    possible = len(set(a) & set(b))
    found = match_f1([result(list(a), list(b), pairs)])
    if not possible:
        assert found is None
    elif not right:
        assert found == 0
    else:
        precision, recall = right / len(pairs), right / possible
        assert found == pytest.approx(2 * precision * recall / (precision + recall))


def report(**changes: float) -> ParityReport:
    values = {"candidates": 10, "largest_difference": 1e-6, "decisions_changed": 0, "matches_changed": 0, "matches": 3}
    row = EvidenceParity(**(values | changes), f1_reference=None, f1_candidate=None)  # type: ignore[arg-type]
    return ParityReport("a", "b", 1, 0, 5, 0.0, 0.0, {"pair": row})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"largest_difference": 2e-4}, "differs by 2.00e-04"),
        ({"largest_difference": float("nan")}, "differs by nan"),
        ({"decisions_changed": 1}, "1 of 10 decisions differ"),
        ({"matches_changed": 2}, "2 matches differ"),
    ],
)
def test_each_kind_of_difference_breaks_parity(changes: dict[str, float], message: str) -> None:
    assert not report().problems()
    (problem,) = report(**changes).problems()
    assert message in problem


def test_a_matcher_has_parity_with_itself_and_not_with_other_weights() -> None:
    ours, other = (from_checkpoint(it) for it in (untrained(), untrained(small(vertex={"end_time": 0.5}))))
    pairs = [(street(2)[0], street(2)[1])]
    assert not compare_matchers({"placement": ours}, {"placement": ours}, pairs).problems()
    changed = compare_matchers({"placement": ours}, {"placement": other}, pairs)
    assert changed.problems()
    assert changed.vertex_difference > 0


@pytest.mark.parametrize(("bound", "shape"), [(convolution_bound, (8, 8, 3, 3)), (matrix_bound, (6, 6))])
def test_remembered_bounds_follow_the_weights(bound, shape: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    weight = torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    bounded = Bounded(bound, 0.5)
    with torch.inference_mode():
        first = bounded(weight)[0]
        assert bounded(weight)[0] is first  # nothing changed: nothing is computed
    weight.data.mul_(-1)  # unseen by torch's version counter
    with torch.no_grad():
        torch.testing.assert_close(bounded(weight)[0], -first)
        weight.mul_(1e-3)  # now below the limit: left as it is
        torch.testing.assert_close(bounded(weight)[0], weight)
    learned = bounded(weight)[0]
    assert learned.requires_grad
    learned.sum().backward()
    assert weight.grad is not None


def test_a_copied_field_does_not_share_what_is_remembered() -> None:
    field = ContractiveField(8, 0.5, 0.7)
    with torch.no_grad():
        state = torch.randn(1, 8, 4, 4)
        before = field.dynamics()(torch.zeros(()), state)
        other = copy.deepcopy(field)
        other.conv1.weight.mul_(0.1)
        assert not torch.allclose(other.dynamics()(torch.zeros(()), state), before)
        torch.testing.assert_close(field.dynamics()(torch.zeros(()), state), before)


def test_weights_trained_after_matching_are_the_ones_matched_with() -> None:
    model = seeded(small())
    patches = torch.randn(2, 6, 16, 16)
    with torch.inference_mode():
        before = model.vertex(patches)[0]
    model.vertex(patches)[0].sum().backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    with torch.inference_mode():
        after = model.vertex(patches)[0]
    fresh = copy.deepcopy(model)
    fresh.vertex.field.bounded = Bounded(convolution_bound, 0.7**0.5)  # type: ignore[union-attr]
    with torch.inference_mode():
        torch.testing.assert_close(after, fresh.vertex(patches)[0])
    assert not torch.allclose(before, after)
