"""One way to a matcher: shipped names, folders of runs and of exports, methods that need no training."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import robustmat
from models_for_tests import untrained
from robustmat.checkpoints.load import describe_source, load, needs_no_training
from robustmat.checkpoints.store import Provenance, save_checkpoint, shipped_checkpoints
from robustmat.errors import ConfigError, WeightsError
from robustmat.fitting.references import geometry_examples
from robustmat.matching.combined import CombinedMatcher
from robustmat.matching.decision import Decision
from robustmat.matching.matcher import Matcher
from robustmat.matching.network import NetworkMatcher
from robustmat.matching.onnx import OnnxMatcher
from robustmat.matching.steps import StepConfig, SteppedMatcher
from robustmat.methods.box_geometry import write_examples
from small_world import drive, make_boards

FRAMES = drive(make_boards(10, seed=4), frames=6).frames
DECISION = Decision(threshold=0.1, match_threshold=0.2, slope=2.0, intercept=-1.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A training run as `robustmat train` leaves it: its best checkpoint has a step on top and its box geometry."""
    plain = untrained(provenance=Provenance(drives=("mine",), seed=3))
    decisions = dict.fromkeys(("pair", "frames", "placement", "competition"), DECISION)
    checkpoint = replace(plain, decisions=decisions, steps={"competition": StepConfig(scale=3.0)})
    save_checkpoint(tmp_path / "run" / "best", checkpoint)
    write_examples(tmp_path / "run" / "best", geometry_examples([drive(make_boards(8, 1), frames=6)]))
    return tmp_path / "run"


def matches(matcher: Matcher) -> int:
    result = matcher.match(FRAMES[0], FRAMES[2], min_probability=0.0)
    assert result.score.shape == (len(FRAMES[0].landmarks), len(FRAMES[2].landmarks))
    assert np.isfinite(result.score).all()
    return len(result.matches)


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_shipped_checkpoints_by_name_and_by_folder(name: str) -> None:
    for source in (name, shipped_checkpoints()[name], str(shipped_checkpoints()[name])):
        matcher = robustmat.load(source)
        assert matcher.name == name
        if name == "street":
            assert isinstance(matcher, CombinedMatcher)
            assert isinstance(matcher.inner, NetworkMatcher)
            assert matcher.evidence == "scene"
        else:
            assert isinstance(matcher, NetworkMatcher)
            assert matcher.evidence == "placement"
    assert matches(matcher) > 0


def test_the_folder_of_a_run_stands_for_its_best_checkpoint(run: Path) -> None:
    matcher = load(run)
    assert (matcher.name, matcher.evidence) == ("run", "placement")
    assert matcher.fingerprint == load(run / "best").fingerprint
    assert matches(matcher) > 0
    assert describe_source(run)[1].drives == ("mine",)


def test_a_folder_of_exported_files(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shipped_checkpoints()["street"] / "onnx", tmp_path / "files"))
    for runtime in ("auto", "onnx"):
        matcher = load(folder, runtime=runtime, evidence="pair", same_category=False)
        assert isinstance(matcher, OnnxMatcher)
        assert (matcher.evidence, matcher.same_category) == ("pair", False)
    assert matches(matcher) > 0
    with pytest.raises(ConfigError, match="is an ONNX export"):
        load(folder, runtime="torch")


@pytest.mark.parametrize("name", ["root-sift", "vgg", "boost-desc", "cross-correlation", "always-match", "same-class"])
def test_methods_that_need_no_training_by_name(name: str) -> None:
    matcher = load(name)
    assert matcher.name == name
    assert matches(matcher) > 0
    assert describe_source(name) == (name, Provenance())
    assert load(name, evidence="pair").evidence == "pair"
    assert not load(name, same_category=False).same_category
    with pytest.raises(ConfigError, match=f"{name} cannot score by evidence 'frames'"):
        load(name, evidence="frames")


def test_every_kind_of_evidence_has_its_own_scores(run: Path) -> None:
    scores = {}
    for evidence in ("pair", "frames", "placement", "competition"):
        matcher = load(run, evidence=evidence)
        assert matcher.evidence == evidence
        assert isinstance(matcher, SteppedMatcher) == (evidence == "competition")
        scores[evidence] = matcher.match(FRAMES[0], FRAMES[2]).score
    values = list(scores.values())
    assert all(not np.allclose(a, b) for i, a in enumerate(values) for b in values[:i])


def test_a_step_whose_boxes_are_missing_says_how_to_get_them(tmp_path: Path) -> None:
    config = untrained().network.config.model_copy(update={"joint": None})
    rival = untrained(config)
    decisions = dict.fromkeys(("pair", "placement"), DECISION)
    folder = save_checkpoint(
        tmp_path / "mine", replace(rival, decisions=decisions, steps={"placement": StepConfig(prior_scale=1.0)})
    )
    assert load(folder).evidence == "pair"
    with pytest.raises(ConfigError, match="'mine' lacks its box geometry: finish its training"):
        load(folder, evidence="placement")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("strete", {}, "no checkpoint 'strete': .*did you mean 'street'"),
        ("rot-sift", {}, "no checkpoint 'rot-sift': .*did you mean 'root-sift'"),
        ("no/such/folder", {}, "neither a folder with model.json nor a known name .known are street"),
        ("hardnet", {}, "hardnet has to be trained first .`robustmat train hardnet"),
        ("box-geometry", {}, "fitted on data of the training side"),
        (
            "street",
            {"evidence": "placements"},
            "'street' cannot score by evidence 'placements' .did you mean 'placement'",
        ),
        ("street", {"evidence": "neighbors"}, "cannot score by evidence 'neighbors'"),
        ("street", {"runtime": "onx"}, "unknown runtime 'onx' .did you mean 'onnx'"),
        ("street", {"runtime": "tensorrt"}, "known are auto, torch, onnx, onnx-int8"),
        ("root-sift", {"runtime": "onx"}, "unknown runtime 'onx'"),
        ("street", {"device": "gpux"}, "device 'gpux' cannot be used here .*: choose cpu"),
        ("street", {"runtime": "onnx", "device": "cuda"}, "run on the cpu, not on device 'cuda'"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_hint(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((ConfigError, WeightsError), match=message):
        load(name, **options)  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"device 'cuda:99' cannot be used here .*: choose cpu"):
        load("street", runtime="torch", device="cuda:99")


def test_the_network_is_on_the_device_that_was_asked_for() -> None:
    matcher = load("street", runtime="torch", device="cpu", evidence="pair")
    assert isinstance(matcher, NetworkMatcher)
    assert {parameter.device.type for parameter in matcher.network.parameters()} == {"cpu"}
    assert not any(module.training for module in matcher.network.modules())


def test_a_method_is_told_from_a_checkpoint_by_its_name_alone(tmp_path: Path) -> None:
    assert needs_no_training("root-sift")
    assert not needs_no_training("street")
    assert not needs_no_training(tmp_path)
