"""From two frames to one-to-one matches."""

import importlib
import json
import pkgutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import robustmat
import robustmat.matching
import robustmat.methods
from models_for_tests import seeded, small, untrained
from robustmat.checkpoints.load import from_checkpoint
from robustmat.errors import ConfigError, InputError
from robustmat.matching.assign import mutual_best
from robustmat.matching.decision import Decision
from robustmat.matching.matcher import Matcher
from robustmat.matching.network import NetworkMatcher
from robustmat.types import Frame, Landmark

DECISION = Decision(threshold=0.0, match_threshold=0.0, slope=2.0, intercept=-1.0)

scores = arrays(np.float64, st.tuples(st.integers(0, 6), st.integers(0, 6)), elements=st.floats(0, 2))


@pytest.fixture
def matcher() -> Matcher:
    return from_checkpoint(untrained(decision=DECISION))


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (60, 90, 3)).astype(np.uint8)


def frame(count: int, seed: int = 0) -> Frame:
    marks = tuple(Landmark((10.0 * i, 5.0 + i, 10.0 * i + 8, 40.0), "pole") for i in range(count))
    return Frame("test", lambda: picture(seed), marks)


@given(score=scores, threshold=st.floats(0, 2))
def test_matches_are_one_to_one_mutual_and_above_the_threshold(score: np.ndarray, threshold: float) -> None:
    pairs = mutual_best(score, threshold)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    for i, j in pairs:
        assert score[i, j] >= threshold
        assert score[i, j] == score[i].max() == score[:, j].max()


@given(score=arrays(np.float64, (4, 5), elements=st.floats(0, 2), unique=True))
def test_no_mutual_best_pair_is_left_out(score: np.ndarray) -> None:
    expected = {(i, j) for i in range(4) for j in range(5) if score[i, j] == score[i].max() == score[:, j].max() >= 1}
    assert set(mutual_best(score, 1.0)) == expected


def test_a_pair_that_is_not_allowed_is_no_rival_either() -> None:
    score = np.array([[0.9, 0.8], [0.1, 0.2]])
    allowed = np.array([[False, True], [True, False]])
    assert mutual_best(score, 0.0, allowed) == [(0, 1), (1, 0)]
    assert mutual_best(score, 0.9) == [(0, 0)]  # at the threshold
    nothing = np.zeros((2, 2), bool)
    assert mutual_best(score, 0.0, nothing) == mutual_best(score, -np.inf, nothing) == []


def test_matching_does_not_depend_on_which_frame_comes_first(matcher: Matcher) -> None:
    forward, backward = matcher.match(frame(5, 0), frame(4, 1)), matcher.match(frame(4, 1), frame(5, 0))
    assert np.allclose(forward.score, backward.score.T, atol=1e-6)
    assert {(it.a, it.b) for it in forward.matches} == {(it.b, it.a) for it in backward.matches}
    assert forward.matches


def test_matching_frames_equals_matching_their_embeddings(matcher: Matcher) -> None:
    a, b = frame(4, 0), frame(3, 1)
    direct, stored = matcher.match(a, b), matcher.match(matcher.embed(a), matcher.embed(b))
    assert direct.matches == stored.matches
    assert (direct.score == stored.score).all()


def test_each_patch_is_embedded_once(matcher: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    assert isinstance(matcher, NetworkMatcher)
    embed = matcher.network.vertex.forward
    monkeypatch.setattr(matcher.network.vertex, "forward", lambda patches: seen.append(len(patches)) or embed(patches))
    matcher.match(frame(4, 0), frame(6, 1))
    assert seen == [4, 6]


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 3), (1, 0), (1, 1), (2, 5)])
def test_every_landmark_is_matched_or_said_to_be_alone(matcher: Matcher, first: int, second: int) -> None:
    result = matcher.match(frame(first), frame(second, 1))
    assert sorted([m.a for m in result.matches] + list(result.unmatched_a)) == list(range(first))
    assert sorted([m.b for m in result.matches] + list(result.unmatched_b)) == list(range(second))


def test_duplicate_boxes_do_not_break_matching(matcher: Matcher) -> None:
    twins = Frame("twins", picture, tuple([Landmark((5, 5, 20, 40), "pole")] * 3 + [Landmark((50, 5, 60, 40), "pole")]))
    result = matcher.match(twins, frame(4, 1))
    assert np.isfinite(result.score).all()
    assert np.allclose(result.score[0], result.score[1])


def test_categories_match_their_own_kind_unless_told_otherwise() -> None:
    signs = Frame("signs", picture, (Landmark((5, 5, 20, 40), "traffic_sign"),))
    poles = Frame("poles", picture, (Landmark((5, 5, 20, 40), "pole"),))
    checkpoint = untrained()
    assert not from_checkpoint(checkpoint).match(signs, poles).matches
    assert from_checkpoint(checkpoint, same_category=False).match(signs, poles).matches


def test_probability_follows_the_stored_calibration(matcher: Matcher) -> None:
    result = matcher.match(frame(2), frame(2, 1))
    assert np.allclose(result.probability, 1 / (1 + np.exp(-(2 * result.score - 1))))
    for match in result.matches:
        assert match.probability == result.probability[match.a, match.b]


@pytest.mark.parametrize("kind", ["grey", "rgba", "sixteen bit", "jpeg"])
def test_images_of_every_kind_can_be_matched(matcher: Matcher, tmp_path: Path, kind: str) -> None:
    pixels = picture()
    path = tmp_path / ("a.jpg" if kind == "jpeg" else "a.png")
    converted = {
        "grey": pixels[:, :, 0],
        "rgba": np.dstack([pixels, np.full((60, 90), 255, np.uint8)]),
        "sixteen bit": pixels[:, :, 0].astype(np.uint16) * 257,
        "jpeg": pixels,
    }[kind]
    cv2.imwrite(str(path), converted)
    boxes = tmp_path / "a.json"
    boxes.write_text(json.dumps({"landmarks": [{"box": [5, 5, 30, 50], "category": "pole"}]}))
    read = robustmat.read_frame(path, boxes=boxes)
    assert read.image.shape == (60, 90, 3)
    assert read.image.dtype == np.uint8
    if kind == "sixteen bit":
        assert np.abs(read.image[:, :, 0].astype(int) - pixels[:, :, 0]).max() <= 1
    assert matcher.match(read, frame(2)).score.shape == (1, 2)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ([5, 5, 5, 30], "no area"),
        ([200, 5, 220, 30], "outside the image"),
        ([5, 5, 30], "four numbers"),
        ([5, 5, 30, float("nan")], "not finite"),
    ],
)
def test_a_box_that_cannot_be_used_is_an_error_that_shows_it(tmp_path: Path, box: list[float], message: str) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    (tmp_path / "a.json").write_text(json.dumps({"landmarks": [{"box": box, "category": "pole"}]}))
    with pytest.raises(InputError, match=message):
        robustmat.read_frame(tmp_path / "a.png", boxes=tmp_path / "a.json")


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (picture()[:, :, 0], r"found \(60, 90\)"),
        (picture().astype(np.uint16), "uint16"),
        (picture() / 255.0, "float64"),
        (np.dstack([picture(), picture()[:, :, :1]]), r"found \(60, 90, 4\)"),
    ],
)
def test_a_frame_put_together_by_hand_is_checked_too(matcher: Matcher, pixels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        matcher.embed(Frame("mine", lambda: pixels, frame(1).landmarks))
    with pytest.raises(InputError, match="not finite"):
        matcher.embed(Frame("mine", picture, (Landmark((0, 0, float("nan"), 10), "pole"),)))


def test_evidence_a_checkpoint_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"cannot score by evidence 'placements' .*did you mean 'placement'"):
        from_checkpoint(untrained(), "placements")
    with pytest.raises(ConfigError, match="cannot score by evidence 'frames'"):
        from_checkpoint(untrained(small(joint=None)), "frames")


def test_only_placement_evidence_sees_where_boxes_stand_and_only_frames_see_rivals() -> None:
    """The same pixels under moved boxes: patches are equal, placements are not; then a rival joins the frame."""
    grey = Frame("grey", lambda: np.full((60, 90, 3), 90, np.uint8), frame(3).landmarks)
    moved = replace(
        grey,
        landmarks=tuple(replace(it, box=(it.box[0] + 40, *it.box[1:2], it.box[2] + 40, 40.0)) for it in grey.landmarks),
    )
    fewer = replace(grey, landmarks=grey.landmarks[:2])
    for evidence, sees_boxes, sees_rivals in (
        ("pair", False, False),
        ("frames", False, True),
        ("placement", True, True),
    ):
        matcher = from_checkpoint(untrained(small(patch={"size": 16, "context": None, "margin": 0})), evidence)
        scores = [matcher.match(grey, it).score for it in (grey, moved, fewer)]
        assert np.allclose(scores[0], scores[1]) != sees_boxes
        assert np.allclose(scores[0][:, :2], scores[2], rtol=1e-4) != sees_rivals


def test_boxes_reaching_over_the_border_are_clipped(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    (tmp_path / "a.json").write_text(json.dumps({"landmarks": [{"box": [-5, -5, 30, 500], "category": "pole"}]}))
    read = robustmat.read_frame(tmp_path / "a.png", boxes=tmp_path / "a.json")
    assert read.landmarks[0].box == (0, 0, 30, 60)


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    cv2.imwrite(str(tmp_path / "m.png"), np.zeros((30, 30), np.uint8))
    with pytest.raises(InputError, match=r"mask .* is 30x30 pixels but its image .* is 90x60"):
        robustmat.read_frame(tmp_path / "a.png", masks=tmp_path / "m.png")


def test_the_picture_shows_both_frames_and_their_matches(matcher: Matcher, tmp_path: Path) -> None:
    result = matcher.match(frame(3), frame(3))
    path = result.draw(tmp_path / "matches.png")
    drawn = cv2.imread(str(path))
    assert drawn.shape[0] > 2 * 60
    assert drawn.shape[1] >= 90
    with pytest.raises(InputError, match=r"use \.png"):
        result.draw(tmp_path / "matches.xyz")
    assert not list(tmp_path.glob("*.xyz"))


def test_a_given_threshold_takes_the_place_of_the_checkpoints_own() -> None:
    strict = from_checkpoint(untrained(decision=Decision(threshold=0.0, match_threshold=9.0)))
    a, b = strict.embed(frame(5)), strict.embed(frame(4, 1))
    assert not strict.match(a, b).matches
    everyone = strict.match(a, b, threshold=-1.0)
    assert len(everyone.matches) > 1
    assert everyone.threshold == -1.0
    middle = sorted(it.score for it in everyone.matches)[1]
    some = strict.match(a, b, threshold=middle)
    assert [it for it in everyone.matches if it.score >= middle] == list(some.matches)
    assert (some.score == everyone.score).all()


def test_a_least_probability_takes_the_place_of_the_checkpoints_threshold(matcher: Matcher) -> None:
    """With it, the probability alone decides; with both, a match has to pass both."""
    strict = from_checkpoint(untrained(decision=DECISION.model_copy(update={"match_threshold": 9.0})))
    a, b = strict.embed(frame(5)), strict.embed(frame(4, 1))
    everyone = strict.match(a, b, min_probability=0.0)
    assert everyone.matches == matcher.match(frame(5), frame(4, 1)).matches
    middle = sorted(it.probability for it in everyone.matches)[1]
    some = strict.match(a, b, min_probability=middle)
    assert [it for it in everyone.matches if it.probability >= middle] == list(some.matches)
    assert len(some.matches) < len(everyone.matches)
    assert not strict.match(a, b, min_probability=1.0).matches
    assert not strict.match(a, b, min_probability=0.0, threshold=9.0).matches
    assert strict.match(a, b, min_probability=middle, threshold=-1.0).matches == some.matches


def test_without_calibration_the_score_stands_for_the_probability() -> None:
    raw = from_checkpoint(untrained(decision=Decision(threshold=0.0, match_threshold=0.0)))
    result = raw.match(frame(3), frame(3, 1))
    np.testing.assert_array_equal(result.probability, np.clip(result.score, 0, 1))


@pytest.mark.parametrize("training", [True, False])
def test_building_a_matcher_and_matching_leave_the_callers_network_as_it_was(training: bool) -> None:
    network = seeded(small()).train(training)
    network.joint.train(not training)  # some part may be in another mode than the whole
    modes = {name: module.training for name, module in network.named_modules()}
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    needs = {name: parameter.requires_grad for name, parameter in network.named_parameters()}
    matcher = NetworkMatcher("mine", network, DECISION, evidence="placement")
    found = matcher.match(frame(4), frame(3, 1))
    assert matcher.network is network
    assert {name: module.training for name, module in network.named_modules()} == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert {name: parameter.requires_grad for name, parameter in network.named_parameters()} == needs
    assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}
    assert torch.is_grad_enabled()
    network.eval()
    assert (matcher.match(frame(4), frame(3, 1)).score == found.score).all()  # matched as if in evaluation mode


def test_a_network_that_failed_is_in_its_mode_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = seeded(small()).train()
    matcher = NetworkMatcher("mine", network, DECISION)

    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(network, "describe", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        matcher.embed(frame(2))
    assert all(module.training for module in network.modules())


def every_matcher() -> list[type[Matcher]]:
    for package in (robustmat.matching, robustmat.methods):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    found, queue = [], [Matcher]
    while queue:
        for kind in queue.pop().__subclasses__():
            if kind.__module__.startswith("robustmat."):
                found.append(kind)
                queue.append(kind)
    return found


def test_matching_is_written_once() -> None:
    kinds = every_matcher()
    assert {"NetworkMatcher", "OnnxMatcher", "SteppedMatcher", "CachedMatcher"} <= {kind.__name__ for kind in kinds}
    assert not [kind.__name__ for kind in kinds if "match" in vars(kind)]
    assert all(kind.match is Matcher.match for kind in kinds)
