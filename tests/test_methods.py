"""The registry of methods, and one set of promises for every network in it, ours and its rivals'."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import robustmat
from robustmat import methods
from robustmat.checkpoints.load import load
from robustmat.checkpoints.store import Checkpoint, Provenance, load_checkpoint, save_checkpoint
from robustmat.cli import app
from robustmat.config import merged
from robustmat.dataset.batches import PatchBank, build_bank, draw_batch
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import UNKNOWN
from robustmat.errors import ConfigError, WeightsError
from robustmat.evaluation.evaluate import evaluate
from robustmat.evaluation.metrics import roc_auc
from robustmat.features.patches import PatchConfig, to_input
from robustmat.features.placement import PLACEMENT_DIM
from robustmat.matching.decision import Decision
from robustmat.matching.network import NetworkMatcher
from robustmat.methods import Objective, find_method, method_names, rivals, split_name
from robustmat.methods.matchnet import MatchNet
from robustmat.methods.solar import Solar
from robustmat.models.batch import TrainingBatch
from robustmat.models.network import Described, DescriptorNetwork, Network
from robustmat.perturb import parse
from robustmat.tables.definitions import make_row
from robustmat.training.config import TrainingConfig, load_training_config
from robustmat.training.module import labelled_batch
from robustmat.training.run import train
from robustmat.types import MATCHED, UNMATCHED
from small_world import drive, make_boards

TRAINABLE = tuple(name for name in method_names() if find_method(name).trainable)
PATCH = {"size": 32, "margin": 2, "context": None}
PIXELS = PatchConfig(size=32, margin=2, max_aspect=2.0)
SMALL: dict[str, dict[str, Any]] = {
    "cvnet": {"cells": 3, "correlation_channels": (8, 8)},
    "matchnet": {"channels": (8, 16, 16, 16, 8), "hidden": 64, "embedding_dim": 32},
    "robustmat": {
        "vertex": {"stem_channels": 8, "channels": 8, "embedding_dim": 16, "pooling_grid": 2},
        "joint": {"width": 16},
        "similarity_hidden": [16, 8],
    },
}
DECISION = Decision(threshold=0.5, match_threshold=0.5, slope=1.0, intercept=0.0)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def config_of(method: str, **changes: Any) -> TrainingConfig:
    """The method's own training configuration with a small network."""
    model = {"model": merged({"patch": PATCH}, SMALL.get(method, {}))}
    return load_training_config(method, merged(model, changes))


def network_of(method: str, seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    return find_method(method).make_network(config_of(method, **changes).model)


def untrained(method: str, seed: int = 0) -> Network:
    network: Network = network_of(method, seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))  # some begin at zero, and a test would not see them
            if name.endswith("layer1.1.tau"):
                parameter.add_(2.0)  # HyNet's first threshold begins below all that brightness can be
    return network


def objective_of(method: str, network: Network, bank: PatchBank) -> Objective:
    identities = 1 + max(int(frame.identity.max()) for frame in bank.truth.frames)
    return find_method(method).learning.objective(config_of(method).objective, network, identities)


def weights_of(objective: Objective) -> dict[str, torch.nn.Parameter]:
    """What an objective learns by itself, such as DELG's classifier."""
    return dict(objective.named_parameters()) if isinstance(objective, torch.nn.Module) else {}


@pytest.fixture(scope="module")
def streets() -> list[LandmarkDataset]:
    return [drive(make_boards(14, seed), name=f"drive{seed}", world=f"town{seed}", frames=14) for seed in range(3)]


@pytest.fixture(scope="module")
def bank(streets: list[LandmarkDataset]) -> PatchBank:
    return build_bank(streets[:2], PIXELS, 3, False, [parse("clean")], views=1, jitter=0.05, seed=0)


def some_patches(count: int, seed: int = 0) -> torch.Tensor:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), np.uint8)
    pixels = pixels.repeat(4, axis=1).repeat(4, axis=2)  # blocks, not white noise: noise looks the same everywhere
    return torch.from_numpy(to_input(pixels, PIXELS))


def described(network: Network, patches: torch.Tensor) -> Described:
    """Landmarks without neighbours, each its own neighbourhood, all in one place."""
    count = len(patches)
    index, mask = torch.arange(count)[:, None], torch.ones(count, 1, dtype=torch.bool)
    with torch.inference_mode():
        return network.describe(patches, index, mask, torch.zeros(count, PLACEMENT_DIM))


def rows(known: Described, chosen: slice) -> Described:
    return {name: array[chosen] for name, array in known.items()}


def scored(network: Network, a: Described, b: Described, evidence: str = "pair") -> torch.Tensor:
    with torch.inference_mode():
        return network.score_pairs(a, b, evidence)


def labelled(bank: PatchBank, step: int, pairs: int = 3) -> TrainingBatch:
    return labelled_batch(draw_batch(bank, pairs, False, np.random.default_rng([5, step])), bank, PIXELS)


def test_the_paper_and_its_nine_rivals_are_registered() -> None:
    nine = {"siamesenet", "matchnet", "hardnet", "sosnet", "exp-tloss", "hynet", "solar", "delg", "cvnet"}
    assert set(rivals()) == nine
    assert set(TRAINABLE) == nine | {"robustmat", "certified"}


@pytest.mark.parametrize("name", method_names())
def test_every_method_says_what_it_is_and_how_it_is_come_by(name: str, tmp_path: Path) -> None:
    method = find_method(name)
    assert method.label
    assert (method.trainable is None) != (method.matcher is None)
    if method.trainable is None:
        with pytest.raises(ConfigError, match=f"{re.escape(method.label)} needs no training"):
            load_training_config(name)
        with pytest.raises(ConfigError, match=rf"{name} cannot score by evidence 'pear' .*did you mean 'pair'"):
            split_name(f"{name}+pear")
        return
    config = load_training_config(name, {"seed": 7})
    assert (config.method, config.seed) == (name, 7)
    assert isinstance(config.model, method.trainable.config)
    assert isinstance(config.objective, method.trainable.settings)
    assert config.model.patch.max_aspect == 2.0  # type: ignore[attr-defined]
    assert set(method.trainable.evidence) >= {"pair"}
    assert not set(method.trainable.evidence) & set(method.trainable.steps)
    with pytest.raises(ConfigError, match=rf"{name} has to be trained first .`robustmat train {name}"):
        load(name)
    path = tmp_path / "mine.toml"
    path.write_text(f'method = "{name}"\nlearning_rat = 1\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: unknown key 'learning_rat' .did you mean 'learning_rate'"):
        load_training_config(path)
    path.write_text(f'method = "{name}"\n[model]\npach = 1\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: model: unknown key 'pach' .did you mean 'patch'"):
        load_training_config(path)


def test_keys_of_a_file_are_laid_over_the_methods_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('method = "delg"\nsteps = 3\n[model]\nlocal_dim = 8\n[objective]\nmargin = 0.2\n')
    config = load_training_config(path)
    assert (config.steps, config.objective.margin, config.model.local_dim) == (3, 0.2, 8)  # type: ignore[attr-defined]
    assert config.objective.reconstruction_weight == 10  # type: ignore[attr-defined]  # the rest is the method's own
    assert config.learning_rate == load_training_config("delg").learning_rate
    path.write_text('method = "hardnet"\n[objective]\nmargni = 0.2\n')
    with pytest.raises(ConfigError, match="did you mean 'margin'"):
        load_training_config(path)
    path.write_text('method = "hardnt"\n')
    with pytest.raises(ConfigError, match="did you mean 'hardnet'"):
        load_training_config(path)


def test_names_are_read_or_refused_with_the_nearest() -> None:
    assert split_name("hardnet") == ("hardnet", None)
    assert split_name("exp-tloss+neighbors") == ("exp-tloss", "neighbors")
    assert split_name("robustmat+frames") == ("robustmat", "frames")
    assert split_name("robustmat", "pair") == ("robustmat", "pair")
    assert split_name("hardnet+pair", "pair") == ("hardnet", "pair")
    for wrong, hint in (("hardnt", "hardnet"), ("hardnet+neighbours", "neighbors"), ("robustmat+neighbors", "pair")):
        with pytest.raises(ConfigError, match=hint):
            split_name(wrong)
    with pytest.raises(ConfigError, match=r"evidence 'pair' does not go with 'hardnet\+neighbors'"):
        split_name("hardnet+neighbors", "pair")
    with pytest.raises(ConfigError, match="cannot score by evidence 'frames'"):
        split_name("hardnet", "frames")
    with pytest.raises(ConfigError, match=r"unknown method 'rot-sift' .*did you mean 'root-sift'"):
        find_method("rot-sift")


@pytest.mark.parametrize(("method", "library"), [("hardnet", "kornia.feature"), ("solar", "efficientnet_lite_pytorch")])
def test_a_missing_library_is_named_with_what_to_install(
    method: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = untrained(method)
    folder = save_checkpoint(tmp_path, Checkpoint("mine", method, network, {"pair": DECISION}))
    monkeypatch.setitem(sys.modules, library, None)
    label = find_method(method).label
    for wanted in (lambda: network_of(method), lambda: load_checkpoint(folder)):
        with pytest.raises(ConfigError, match=rf"{label} needs '{library}.*pip install 'robustmat\[train\]'"):
            wanted()


def test_a_file_whose_import_fails_says_what_is_missing(tmp_path: Path, toys: Path) -> None:
    (toys / "far_fetched.py").write_text("import a_library_of_tomorrow\n")
    assert "far-fetched" in method_names()
    with pytest.raises(ConfigError, match="far-fetched needs 'a_library_of_tomorrow': pip install"):
        find_method("far-fetched")


@pytest.mark.parametrize("method", TRAINABLE)
def test_scores_are_finite_symmetric_and_independent_of_batch_mates(method: str) -> None:
    network = untrained(method).eval()
    patches = some_patches(5)
    together = described(network, patches)
    alone = [described(network, patch[None]) for patch in patches]
    for name, array in together.items():
        assert array.isfinite().all(), name
        torch.testing.assert_close(torch.cat([one[name] for one in alone]), array, atol=1e-5, rtol=1e-4)
    for evidence in network.evidence:
        two = rows(together, slice(2))
        forward, backward = scored(network, two, together, evidence), scored(network, together, two, evidence)
        assert forward.shape == (2, 5)
        assert forward.isfinite().all()
        torch.testing.assert_close(forward, backward.T, atol=1e-5, rtol=1e-4)
        highest = network.max_score(evidence)
        assert highest is None or 0 <= forward.min() <= forward.max() <= highest


@pytest.mark.parametrize("method", TRAINABLE)
def test_surroundings_are_a_second_view_or_are_refused(method: str) -> None:
    surroundings = {"model": {"patch": {"context": 3.0}}}
    if method in ("delg", "cvnet", "certified"):
        with pytest.raises(ConfigError, match="context"):
            network_of(method, **surroundings)
        return
    network = network_of(method, **surroundings).eval()
    crop, around = some_patches(4), some_patches(4, seed=1)
    both = described(network, torch.cat([crop, around], dim=1))
    other = described(network, torch.cat([crop, around.flip(0)], dim=1))
    score = scored(network, both, other)
    assert score.shape == (4, 4)
    assert not torch.allclose(next(iter(both.values())), next(iter(other.values())))
    if isinstance(network, DescriptorNetwork):
        with torch.inference_mode():
            first, second = network.embed(crop), network.embed(around)
        torch.testing.assert_close(both["patch"].norm(dim=1), torch.ones(4))
        torch.testing.assert_close(score, (first @ first.T + second @ second.flip(0).T) / 2, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", TRAINABLE)
def test_every_parameter_of_network_and_objective_gets_a_gradient(method: str, bank: PatchBank) -> None:
    network = untrained(method).train()
    objective = objective_of(method, network, bank)
    learned = dict(network.named_parameters())
    learned |= {f"objective.{name}": parameter for name, parameter in weights_of(objective).items()}
    losses = objective(network, labelled(bank, 0, pairs=4))  # in one of four, RobustMat sees no placements
    losses["loss"].backward()
    assert all(value.isfinite() for value in losses.values())
    found = {name: parameter.grad for name, parameter in learned.items()}
    assert not [name for name, grad in found.items() if grad is None or not grad.isfinite().all()]
    assert not [name for name, grad in found.items() if grad is not None and not grad.any()]


def test_whitening_starts_from_what_varies_among_the_patches(bank: PatchBank) -> None:
    """Dividing by the root of the spread leaves uncorrelated numbers, the strongest first."""
    network = network_of("solar").eval()
    some = labelled(bank, 0).known().patches
    network.warm_start(some)
    assert isinstance(network, Solar)
    with torch.no_grad():
        pooled = torch.nn.functional.normalize(network.descriptor.pool(network._maps(some)), dim=1)
        said = network.descriptor.whiten(pooled)
    spread = torch.from_numpy(np.linalg.svd((pooled - pooled.mean(dim=0)).numpy(), compute_uv=False)) / len(some) ** 0.5
    count = min(len(some), 10)
    covariance = (said.T @ said / len(said))[:count, :count]
    expected = torch.diag(spread[:count] ** 2 / (spread[:count] + 1e-4))
    assert torch.allclose(covariance, expected, atol=1e-4)


@pytest.mark.parametrize("method", ["solar", "delg", "cvnet"])
def test_batch_normalisation_keeps_its_statistics_whatever_the_mode(method: str, bank: PatchBank) -> None:
    network = network_of(method)  # as it is made, before anyone says train() or eval()
    some = labelled(bank, 0).known().patches
    network.warm_start(some)
    kept = {name: buffer.clone() for name, buffer in network.named_buffers() if "running" in name}
    assert kept
    for mode in (lambda: network, network.train):
        mode().embed(some)
        assert all(torch.equal(buffer, kept[name]) for name, buffer in network.named_buffers() if name in kept)
    NetworkMatcher("mine", network, DECISION).embed(drive(make_boards(4, 0), frames=1).frames[0])
    assert not any(module.training for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d))


def test_an_untrained_metric_network_knows_twins_from_others(bank: PatchBank) -> None:
    network = network_of("matchnet").eval()
    some = labelled(bank, 0).known().patches
    network.warm_start(some)
    assert isinstance(network, MatchNet)
    with torch.inference_mode():
        score = network.compare(network.embed(some), network.embed(some))
    assert torch.allclose(score.diagonal(), score.amax(dim=1))
    assert (score < score.diagonal() - 0.1).float().mean() > 0.5


@pytest.mark.parametrize("method", TRAINABLE)
def test_a_short_training_tells_the_objects_of_its_batch_apart(method: str, bank: PatchBank) -> None:
    network = network_of(method).train()
    network.warm_start(labelled(bank, 0).known().patches)
    objective = objective_of(method, network, bank)
    learned = [*network.parameters(), *weights_of(objective).values()]
    optimizer = torch.optim.AdamW(learned, lr=config_of(method).learning_rate)
    batch = labelled(bank, 0, pairs=2)
    for _ in range(5):
        loss = objective(network, batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    known = batch.known()
    seen = described(network.eval(), known.patches)
    score = scored(network, seen, seen).double().numpy()
    unrelated = score[known.unmatched.numpy()]
    seen_twice = torch.cat([known.first, known.second]).numpy()
    for right in (np.diag(score)[seen_twice], score[known.first, known.second]):  # identical, and other views
        labels = np.arange(len(right) + len(unrelated)) < len(right)
        assert roc_auc(np.concatenate([right, unrelated]), labels) > 0.85


@pytest.mark.parametrize("method", TRAINABLE)
def test_saved_and_loaded_networks_give_the_same_scores(method: str, tmp_path: Path) -> None:
    network = untrained(method).eval()
    decisions = dict.fromkeys(network.evidence, DECISION)
    saved = Checkpoint("run", method, network, decisions, Provenance(seed=3))
    loaded = load_checkpoint(save_checkpoint(tmp_path / "run", saved))
    patches = some_patches(3)
    for evidence in network.evidence:
        known = [described(one, patches) for one in (network, loaded.network)]
        before, after = (
            scored(one, it, it, evidence) for one, it in zip((network, loaded.network), known, strict=True)
        )
        assert torch.equal(before, after)
    assert (loaded.name, loaded.method, loaded.decisions, loaded.provenance.seed) == ("run", method, decisions, 3)
    assert loaded.network.config == network.config
    assert json.loads((tmp_path / "run" / "model.json").read_text())["method"] == method
    assert robustmat.load(tmp_path / "run").fingerprint == loaded.fingerprint


def test_labels_of_a_batch_speak_of_every_two_patches(streets: list[LandmarkDataset]) -> None:
    strange = drive(make_boards(10, 7), name="strange", world="strange", strangers=True)
    mixed = build_bank([strange, streets[0]], PIXELS, 3, False, [parse("clean")], 1, 0.0, 0)
    for step in range(4):
        batch = draw_batch(mixed, 3, True, np.random.default_rng(step))
        found = labelled_batch(batch, mixed, PIXELS).known()
        identity = found.identity.numpy()
        assert (identity != UNKNOWN).all()  # strangers teach nothing
        expected = sum(int((mixed.truth.frames[it].identity != UNKNOWN).sum()) for it in batch.frames)
        assert len(found.patches) == len(identity) == expected
        same = identity[:, None] == identity[None]
        label = found.label.numpy()
        assert not (label[same] == UNMATCHED).any()
        assert not (label[~same] == MATCHED).any()
        assert not np.diag(label == MATCHED).any()
        assert (identity[found.first] == identity[found.second]).all()
        wanted = sum(int((pair.label == MATCHED).sum()) for pair in batch.pairs)
        assert len(found.first) == wanted
        worlds = np.concatenate(
            [
                [mixed.truth.frames[it].world] * int((mixed.truth.frames[it].identity != UNKNOWN).sum())
                for it in batch.frames
            ]
        )
        assert (label[worlds[:, None] != worlds[None]] == UNMATCHED).all()


QUICK: dict[str, Any] = {
    "steps": 4,
    "validate_every": 2,
    "frame_pairs_per_step": 2,
    "views": 1,
    "perturbations": ["clean"],
    "validation_perturbation": "clean",
}


@pytest.fixture(scope="module")
def whole(streets: list[LandmarkDataset], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of HardNet."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return train(config_of("hardnet", **QUICK), streets[:1], streets[1:2], folder)


@pytest.mark.parametrize("method", ["hardnet", "delg"])  # with dropout; with an objective that has weights of its own
def test_a_killed_training_resumes_to_the_same_weights(
    method: str, whole: Path, streets: list[LandmarkDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(method, **QUICK)
    if method != "hardnet":
        whole = train(config, streets[:1], streets[1:2], tmp_path / "whole")
    seen = []

    def deadly(*arguments: object) -> object:
        seen.append(arguments)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return draw_batch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("robustmat.training.run.draw_batch", deadly)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        train(config, streets[:1], streets[1:2], tmp_path / "cut")
    monkeypatch.undo()
    cut = train(config, streets[:1], streets[1:2], tmp_path / "cut", resume=True)
    first, second = (it.parent / "final" / "model.safetensors" for it in (whole, cut))
    assert first.read_bytes() == second.read_bytes()


def test_a_trained_rival_is_loaded_alone_and_with_every_step_on_top(
    whole: Path, streets: list[LandmarkDataset]
) -> None:
    matcher = load(whole.parent)
    provenance = load_checkpoint(whole).provenance
    assert provenance.drives == ("drive0",)
    assert provenance.validation_drives == ("drive1",)
    frame_a, frame_b = streets[2].frames[2], streets[2].frames[5]
    for step in find_method("hardnet").learning.steps:
        stepped = load(whole.parent, evidence=step)
        result = stepped.match(stepped.embed(frame_a), stepped.embed(frame_b))
        assert result.score.shape == (len(frame_a.landmarks), len(frame_b.landmarks))
        assert (stepped.name, stepped.evidence) == (f"{matcher.name}+{step}", step)
        assert stepped.decision.threshold != matcher.decision.threshold  # each has its own
        assert not load(whole.parent, evidence=step, same_category=False).same_category
    with pytest.raises(ConfigError, match=r"cannot score by evidence 'placements' .*did you mean 'placement'"):
        load(whole.parent, evidence="placements")
    evaluated = ["evaluate", "somewhere", "--checkpoint", str(whole.parent), "--method", "sosnet"]
    with pytest.raises(ConfigError, match="holds hardnet, not sosnet"):
        CliRunner().invoke(app, evaluated, catch_exceptions=False)


def test_training_goes_on_from_its_own_kind_alone(whole: Path, streets: list[LandmarkDataset], tmp_path: Path) -> None:
    start = load_checkpoint(whole)
    with pytest.raises(ConfigError, match="holds another network than this training"):
        train(config_of("sosnet", **QUICK), streets[:1], streets[1:2], tmp_path / "b", start=start)
    with pytest.raises(ConfigError, match="another model configuration"):
        train(config_of("robustmat", **QUICK), streets[:1], streets[1:2], tmp_path / "b", start=start)
    tuned = train(config_of("hardnet", **QUICK, seed=1), streets[2:], streets[1:2], tmp_path / "c", start=start)
    assert load_checkpoint(tuned).provenance.drives == ("drive0", "drive2")


@pytest.mark.parametrize("method", TRAINABLE)
def test_a_frame_without_landmarks_matches_nothing(method: str) -> None:
    network = untrained(method)
    empty = drive(make_boards(0, 0), frames=1).frames[0]
    full = drive(make_boards(6, 0), frames=1).frames[0]
    for evidence in network.evidence:
        matcher = NetworkMatcher(method, network, DECISION, evidence=evidence)
        assert matcher.match(empty, full).score.shape == (0, len(full.landmarks))
        assert matcher.match(full, empty).score.shape == (len(full.landmarks), 0)


TRAINED_TOY = """
import torch
from robustmat.config import Config
from robustmat.methods import Method, Trainable
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig


class MeanColour(DescriptorNetwork):
    def __init__(self, config):
        super().__init__(config)
        self.project = torch.nn.Linear(3, config.embedding_dim)

    def embed(self, patches):
        return torch.nn.functional.normalize(self.project(patches[:, :3].mean(dim=(2, 3))), dim=1)


class Settings(Config):
    margin: float = 0.2


def objective(settings, network, identities):
    def losses(network, batch):
        known = batch.known()
        cosine = network.embed(known.patches) @ network.embed(known.patches).T
        wrong = cosine[known.unmatched].mean()
        return {"loss": (settings.margin + wrong - cosine[known.first, known.second]).clamp(min=0).mean()}

    return losses


METHOD = Method("mean colour", Trainable(PatchNetworkConfig, MeanColour, Settings, objective, run={"steps": 2}))
"""

UNTRAINED_TOY = """
import numpy as np
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.methods import Method


class Height(Matcher):
    name = fingerprint = "box-height"
    decision = Decision(threshold=0.8, match_threshold=0.8)

    def embed(self, frame):
        heights = np.array([mark.box[3] - mark.box[1] for mark in frame.landmarks])
        return EmbeddedFrame(frame.landmarks, {"height": heights}, self.fingerprint, frame.name, frame)

    def score(self, a, b):
        first, second = a.arrays["height"][:, None], b.arrays["height"][None]
        return np.minimum(first, second) / np.maximum(first, second)


METHOD = Method("box height", matcher=Height)
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is part of the registry for as long as the test lasts."""
    folder = tmp_path / "methods"
    folder.mkdir()
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(folder)])
    importlib.invalidate_caches()
    yield folder
    for path in folder.glob("*.py"):
        sys.modules.pop(f"{methods.__name__}.{path.stem}", None)
        if hasattr(methods, path.stem):
            delattr(methods, path.stem)


def test_one_file_makes_a_method_that_is_trained_loaded_and_evaluated(
    toys: Path, streets: list[LandmarkDataset], tmp_path: Path
) -> None:
    (toys / "mean_colour.py").write_text(TRAINED_TOY)
    assert "mean-colour" in method_names()
    changes = {"frame_pairs_per_step": 2, "views": 1, "perturbations": ["clean"], "validation_perturbation": "clean"}
    config = load_training_config("mean-colour", {**changes, "objective": {"margin": 0.3}})
    assert (config.steps, config.objective.margin) == (2, 0.3)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="did you mean 'margin'"):
        load_training_config("mean-colour", {"objective": {"margn": 0.3}})
    best = train(config, streets[:1], streets[1:2], tmp_path / "run")
    assert load_checkpoint(best).provenance.steps == 2
    for evidence in ("pair", "neighbors", "competition", "placement"):
        matcher = load(tmp_path / "run", evidence=evidence)
        report, _ = evaluate(matcher, streets[2:], resamples=5, most_frame_pairs=20)
        assert 0 <= report["match_f1"] <= 1
        assert report["roc_auc"] > 0.5  # boards differ in colour
    row = make_row("mean-colour+competition")
    assert (row.training.config, row.evidence) == ("mean-colour", "competition")
    del sys.modules["robustmat.methods.mean_colour"]
    (toys / "mean_colour.py").unlink()
    with pytest.raises(WeightsError, match="unknown method 'mean-colour'"):
        load(tmp_path / "run")


def test_one_file_makes_a_method_that_needs_no_training(toys: Path, streets: list[LandmarkDataset]) -> None:
    (toys / "box_height.py").write_text(UNTRAINED_TOY)
    matcher = load("box-height")
    report, _ = evaluate(matcher, streets[2:], resamples=5, most_frame_pairs=20)
    assert report["method"] == "box-height"
    assert report["match_f1"] > 0
    with pytest.raises(ConfigError, match="box height needs no training"):
        load_training_config("box-height")
