"""Embedded frames: stored, sent elsewhere, matched later, and never with another model's."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import robustmat
from models_for_tests import seeded, small, untrained
from robustmat.checkpoints.load import from_checkpoint, load, untrained_matcher
from robustmat.checkpoints.store import Checkpoint, load_checkpoint, save_checkpoint
from robustmat.errors import InputError
from robustmat.matching.embedded import EmbeddedFrame, load_embedded
from robustmat.matching.matcher import Matcher
from robustmat.matching.steps import SteppedMatcher
from robustmat.types import MatchResult
from small_world import drive, make_boards

FRAMES = drive(make_boards(10, seed=4), frames=6).frames


def assert_same(first: MatchResult, second: MatchResult) -> None:
    assert first.matches == second.matches
    assert first.matches
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(first.probability, second.probability)


@pytest.mark.parametrize("method", ["network", "root-sift", "boost-desc", "cross-correlation", "same-class"])
def test_a_stored_frame_matches_like_a_fresh_one(method: str, tmp_path: Path) -> None:
    matcher = from_checkpoint(untrained()) if method == "network" else untrained_matcher(method)
    a, b = matcher.embed(FRAMES[0]), matcher.embed(FRAMES[2])
    stored = [robustmat.load_embedded(it.save(tmp_path / f"{it.name}.safetensors")) for it in (a, b)]
    assert_same(matcher.match(a, b), matcher.match(*stored))
    assert_same(matcher.match(a, b), matcher.match(stored[0], FRAMES[2]))
    for fresh, read in zip((a, b), stored, strict=True):
        assert (read.name, read.fingerprint, read.frame) == (fresh.name, fresh.fingerprint, None)
        assert [(mark.box, mark.category) for mark in read.landmarks] == [
            (mark.box, mark.category) for mark in fresh.landmarks
        ]


def test_a_frame_without_landmarks_is_stored_too(tmp_path: Path) -> None:
    matcher = from_checkpoint(untrained())
    empty = matcher.embed(replace(FRAMES[0], landmarks=()))
    read = load_embedded(empty.save(tmp_path / "empty.safetensors"))
    assert matcher.match(read, FRAMES[1]).score.shape == (0, len(FRAMES[1].landmarks))


def with_other_weights() -> Checkpoint:
    return replace(untrained(), network=seeded(small(), seed=1))


def test_frames_of_other_weights_are_refused_though_their_shapes_fit(tmp_path: Path) -> None:
    saved = [save_checkpoint(tmp_path / name, it) for name, it in (("a", untrained()), ("b", with_other_weights()))]
    ours, theirs = (load(folder) for folder in saved)
    frame = theirs.embed(FRAMES[0])
    own = ours.embed(FRAMES[0])
    assert {name: it.shape for name, it in frame.arrays.items()} == {name: it.shape for name, it in own.arrays.items()}
    path = frame.save(tmp_path / "frame.safetensors")
    for foreign in (frame, load_embedded(path)):
        with pytest.raises(InputError, match=rf"embedded by another model .*{theirs.fingerprint}.*again with 'a'"):
            ours.match(foreign, FRAMES[1])
        with pytest.raises(InputError, match="embedded by another model"):
            ours.match(FRAMES[1], foreign)
    again = load(saved[1])  # another process with the same checkpoint, whatever the evidence
    assert_same(theirs.match(frame, FRAMES[1]), again.match(load_embedded(path), FRAMES[1]))
    load(saved[1], evidence="pair").match(frame, FRAMES[1])


def test_networks_in_memory_are_told_apart_as_well() -> None:
    ours, theirs = from_checkpoint(untrained()), from_checkpoint(with_other_weights())
    with pytest.raises(InputError, match="embedded by another model"):
        ours.match(theirs.embed(FRAMES[0]), FRAMES[1])
    from_checkpoint(untrained()).match(ours.embed(FRAMES[0]), FRAMES[1])  # the same weights again
    with pytest.raises(InputError, match="fingerprint missing"):
        ours.match(replace(ours.embed(FRAMES[0]), fingerprint=""), FRAMES[1])


def test_frames_of_another_method_and_frames_without_the_prior_of_a_step_are_refused() -> None:
    plain, prior = untrained_matcher("cross-correlation"), untrained_matcher("same-class")
    with pytest.raises(InputError, match="embedded by another model"):
        plain.match(prior.embed(FRAMES[0]), FRAMES[1])
    stepped = SteppedMatcher(plain, "placement", prior=prior)
    with pytest.raises(InputError, match="embedded by another model"):
        stepped.match(plain.embed(FRAMES[0]), FRAMES[1])
    competing = SteppedMatcher(plain, "competition")
    assert competing.match(plain.embed(FRAMES[0]), FRAMES[1]).score.size  # it needs nothing more


@pytest.mark.parametrize("shipped", [True, False])
def test_embedded_frames_and_results_pickle(shipped: bool) -> None:
    matcher: Matcher = load(evidence="pair") if shipped else from_checkpoint(untrained())
    embedded = matcher.embed(FRAMES[0])
    again: EmbeddedFrame = pickle.loads(pickle.dumps(embedded))
    result = matcher.match(embedded, FRAMES[2])
    assert_same(result, matcher.match(again, FRAMES[2]))
    copied: MatchResult = pickle.loads(pickle.dumps(result))
    assert_same(result, copied)
    assert copied.frame_a is not None
    assert (copied.frame_a.image == FRAMES[0].image).all()


def test_an_embedded_frame_says_in_one_line_what_it_is() -> None:
    embedded = from_checkpoint(untrained()).embed(FRAMES[0])
    shown = repr(embedded)
    assert "\n" not in shown
    assert len(shown) < 200
    assert f"{len(FRAMES[0].landmarks)} landmarks" in shown
    assert embedded.fingerprint in shown


def test_what_is_no_embedded_frame_is_named(tmp_path: Path) -> None:
    path = tmp_path / "frame.safetensors"
    with pytest.raises(InputError, match=r"not found: .*frame\.safetensors"):
        load_embedded(path)
    path.write_bytes(b"not a safetensors file")
    with pytest.raises(InputError, match=r"cannot be read: .*frame\.safetensors"):
        load_embedded(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(InputError, match="not an embedded frame"):
        load_embedded(path)
    save_file({"x": np.zeros(3)}, path, {"format": "robustmat-embedded-frame", "landmarks": "[{}]"})
    with pytest.raises(InputError, match="broken header"):
        load_embedded(path)
    from_checkpoint(untrained()).embed(FRAMES[0]).save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="cannot be read"):
        load_embedded(path)


def test_the_fingerprint_is_the_checkpoints() -> None:
    assert load("street").embed(FRAMES[0]).fingerprint == load_checkpoint("street").fingerprint
