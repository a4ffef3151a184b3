"""Checkpoints: what is saved is what is loaded, and what does not fit says so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models_for_tests import ALL_CONFIGS, seeded, small, untrained
from robustmat.checkpoints.store import Checkpoint, Provenance, load_checkpoint, save_checkpoint
from robustmat.errors import ConfigError, RobustMatError, TermsWarning, WeightsError
from robustmat.features.placement import PLACEMENT_DIM
from robustmat.matching.decision import Decision
from robustmat.matching.steps import StepConfig
from robustmat.models.presets import preset
from robustmat.models.robustmat import ModelConfig

DECISION = Decision(threshold=1.2, match_threshold=1.4, slope=5.0, intercept=-6.0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    provenance = Provenance(drives=("a", "b"), licence="Apache-2.0", seed=3)
    return save_checkpoint(tmp_path / "model", untrained(decision=DECISION, provenance=provenance))


def edit_header(folder: Path, **changes: object) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("config", ALL_CONFIGS.values(), ids=list(ALL_CONFIGS))
def test_saving_and_loading_gives_the_same_scores(config: ModelConfig, tmp_path: Path) -> None:
    saved = untrained(config, DECISION)
    loaded = load_checkpoint(save_checkpoint(tmp_path, saved))
    patches = torch.randn(4, config.patch.channels, 16, 16)
    placement = torch.randn(4, PLACEMENT_DIM)
    index, mask = torch.tensor([[1], [2], [3], [0]]), torch.ones(4, 1, dtype=torch.bool)
    with torch.inference_mode():
        for evidence in config.evidence:
            scores = []
            for model in (saved.network, loaded.network):
                embeddings = model.embed(patches, index, mask, placement)
                scores.append(model.match_score(embeddings, embeddings, evidence))
            assert torch.equal(*scores)
    assert loaded.network.config == config
    assert loaded.decisions == saved.decisions


def test_provenance_and_preprocessing_travel_with_the_weights(saved: Path) -> None:
    checkpoint = load_checkpoint(saved)
    assert checkpoint.provenance.drives == ("a", "b")
    assert checkpoint.provenance.licence == "Apache-2.0"
    assert json.loads((saved / "model.json").read_text())["model"]["patch"]["mean_color"] == [
        95.0,
        99.0,
        96.0,
    ]


def test_a_missing_an_unknown_and_a_misshapen_tensor_are_named(saved: Path) -> None:
    path = saved / "model.safetensors"
    tensors = load_file(path)
    tensors["stranger"] = torch.zeros(1)
    tensors["graph_matrix"] = torch.zeros(3, 3)
    del tensors["vertex.project.bias"]
    save_file(tensors, path)
    with pytest.raises(WeightsError) as caught:
        load_checkpoint(saved)
    message = str(caught.value)
    assert "'vertex.project.bias' is missing" in message
    assert "'stranger' is unknown" in message
    assert "'graph_matrix' has shape (3, 3), expected (16, 16)" in message
    assert str(path) in message


def test_an_unknown_config_key_is_named_with_the_nearest_known_one(saved: Path) -> None:
    header = json.loads((saved / "model.json").read_text())
    header["model"]["vertex"]["end_tim"] = 2.0
    edit_header(saved, model=header["model"])
    with pytest.raises(
        ConfigError, match=r"model\.json: model: unknown key 'vertex\.end_tim' \(did you mean 'end_time'\?\)"
    ):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a robustmat checkpoint"),
        ({"method": "robustmatt"}, "unknown method 'robustmatt' .*did you mean 'robustmat'"),
        ({"version": 99}, "version 99, this robustmat reads 3"),
        ({"decisions": {"pair": {"threshold": "high"}}}, r"'decisions\.pair\.threshold' = 'high'"),
        ({"decisions": {"pair": DECISION.model_dump()}}, "lacks a decision for evidence frames, placement"),
    ],
)
def test_a_header_that_does_not_fit_is_explained(saved: Path, changes: dict[str, object], message: str) -> None:
    edit_header(saved, **changes)
    with pytest.raises(RobustMatError, match=message):
        load_checkpoint(saved)


def test_a_pickle_is_never_loaded(saved: Path) -> None:
    torch.save({"weights": torch.zeros(1)}, saved / "model.safetensors")
    with pytest.raises(WeightsError, match="cannot be read"):
        load_checkpoint(saved)


def test_truncated_and_missing_weights_are_named(saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        load_checkpoint(saved)
    path.unlink()
    with pytest.raises(WeightsError, match="weights not found"):
        load_checkpoint(saved)


def test_an_unknown_checkpoint_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no checkpoint 'strret'"):
        load_checkpoint("strret")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": {"size": 50}}, "multiple of 4"),
        ({"graph": {"heads": 3}}, "must divide"),
        ({"vertex": {"channels": 12}}, "multiple of 8"),
        ({"vertex": {"solver": {"name": "rk5"}}}, r"'vertex\.solver\.name' = 'rk5'"),
        ({"graph": {"num_neighbours": 4}}, "did you mean 'num_neighbors'"),
    ],
)
def test_a_config_that_cannot_work_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset("street", changes=changes)


def test_unknown_presets_and_variants_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'street'"):
        preset("streets")
    with pytest.raises(ConfigError, match="unknown variant 'pde'"):
        preset("street", "pde")


def test_terms_are_said_whenever_weights_are_loaded(tmp_path: Path) -> None:
    checkpoint = untrained(small(), provenance=Provenance(terms="not for sale"))
    folder = save_checkpoint(tmp_path / "bound", checkpoint)
    with pytest.warns(TermsWarning, match="checkpoint 'bound': not for sale"):
        assert load_checkpoint(folder).provenance.terms == "not for sale"


def test_steps_on_top_travel_with_the_weights(tmp_path: Path) -> None:
    steps = {"competition": StepConfig(scale=3.0, alone=-1.5)}
    decisions = dict.fromkeys(("pair", "frames", "placement", "competition"), DECISION)
    loaded = load_checkpoint(save_checkpoint(tmp_path, replace(untrained(), steps=steps, decisions=decisions)))
    assert loaded.steps == steps
    assert loaded.decisions == decisions
    assert loaded.method == "robustmat"


def test_a_fingerprint_names_weights_and_preprocessing_and_not_how_a_match_is_decided(tmp_path: Path) -> None:
    def fingerprint(name: str, checkpoint: Checkpoint) -> str:
        return load_checkpoint(save_checkpoint(tmp_path / name, checkpoint)).fingerprint

    plain = fingerprint("plain", untrained())
    assert plain == fingerprint("decided", untrained(decision=DECISION, provenance=Provenance(seed=9)))
    other = replace(untrained(), network=seeded(small(), seed=1))
    assert plain != fingerprint("weights", other)
    assert plain != fingerprint("patches", untrained(small(patch={"size": 16, "margin": 3})))
