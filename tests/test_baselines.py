"""The nine rivals: one set of promises for all of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robustmat.types import MATCHED, UNMATCHED
from robustmat.config import merged
from robustmat.dataset.batches import PatchBank, build_bank, draw_batch
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import UNKNOWN
from robustmat.errors import ConfigError, WeightsError
from robustmat.evaluation.metrics import roc_auc
from robustmat.features.patches import to_input
from robustmat.fitting.methods import load_method, split_method, with_evidence
from robustmat.matching.baseline import BaselineMatcher
from robustmat.models.baselines import BASELINES, make_baseline
from robustmat.models.baselines.protocol import BaselineConfig, Descriptor, PatchMatcher
from robustmat.models.baselines.solar import Solar
from robustmat.models.baselines.weights import PAIR, BaselineCheckpoint, load_baseline, method_of, save_baseline
from robustmat.checkpoints.store import Decision, Provenance, load_checkpoint
from robustmat.perturb import parse
from robustmat.training.baseline_batches import LabelledPatches, label_batch
from robustmat.training.baseline_config import BaselineTrainingConfig, is_baseline_config, load_baseline_config
from robustmat.training.baseline_objectives import make_objective
from robustmat.training.baseline_run import train_baseline
from small_world import drive, make_boards

PATCH = {"size": 32, "margin": 2}
SMALL: dict[str, dict[str, Any]] = {
    "cvnet": {"cells": 3, "correlation_channels": (8, 8)},
    "matchnet": {"channels": (8, 16, 16, 16, 8), "hidden": 64, "embedding_dim": 32},
}
DECISION = Decision(threshold=0.5, match_threshold=0.5, slope=1.0, intercept=0.0)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def config_of(method: str) -> BaselineConfig:
    return BASELINES[method].config(patch=PATCH, **SMALL.get(method, {}))


def untrained(method: str, seed: int = 0) -> PatchMatcher:
    torch.manual_seed(seed)
    model = make_baseline(method, config_of(method))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))  # some begin at zero, and a test would not see them
            if name.endswith("layer1.1.tau"):
                parameter.add_(2.0)  # HyNet's first threshold begins below all that brightness can be
    return model


@pytest.fixture(scope="module")
def streets() -> list[LandmarkDataset]:
    return [drive(make_boards(14, seed), name=f"drive{seed}", world=f"town{seed}", frames=14) for seed in range(3)]


@pytest.fixture(scope="module")
def bank(streets: list[LandmarkDataset]) -> PatchBank:
    patch = config_of("hardnet").patch
    return build_bank(streets[:2], patch, 3, False, [parse("clean")], views=1, jitter=0.05, seed=0)


def some_patches(count: int, seed: int = 0) -> torch.Tensor:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), np.uint8)
    pixels = pixels.repeat(4, axis=1).repeat(4, axis=2)  # blocks, not white noise: noise looks the same everywhere
    return torch.from_numpy(to_input(pixels, config_of("hardnet").patch))


def labelled(bank: PatchBank, step: int, pairs: int = 3) -> LabelledPatches:
    batch = draw_batch(bank, pairs, False, np.random.default_rng([5, step]))
    return label_batch(batch, bank, config_of("hardnet").patch)


@pytest.mark.parametrize("method", BASELINES)
def test_scores_are_finite_symmetric_and_independent_of_batch_mates(method: str) -> None:
    model = untrained(method).eval()
    patches = some_patches(5)
    with torch.inference_mode():
        together = model.embed(patches)
        alone = torch.cat([model.embed(it[None]) for it in patches])
        forward, backward = model.compare(together[:2], together), model.compare(together, together[:2])
    assert together.isfinite().all()
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-4)
    assert forward.shape == (2, 5)
    assert forward.isfinite().all()
    torch.testing.assert_close(forward, backward.T, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", BASELINES)
def test_surroundings_are_a_second_view_or_are_refused(method: str) -> None:
    config = BASELINES[method].config(patch={**PATCH, "context": 3.0})
    if method in ("delg", "cvnet"):
        with pytest.raises(ConfigError, match="context"):
            make_baseline(method, config)
        return
    torch.manual_seed(0)
    model = make_baseline(method, config).eval()
    crop, around = some_patches(4), some_patches(4, seed=1)
    with torch.inference_mode():
        both = model.embed(torch.cat([crop, around], dim=1))
        other = model.embed(torch.cat([crop, around.flip(0)], dim=1))
        score = model.compare(both, other)
    assert score.shape == (4, 4)
    assert not torch.allclose(both, other)
    if isinstance(model, Descriptor):
        with torch.inference_mode():
            first, second = model.embed(crop), model.embed(around)
        torch.testing.assert_close(both.norm(dim=1), torch.ones(4))
        torch.testing.assert_close(score, (first @ first.T + second @ second.flip(0).T) / 2, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", BASELINES)
def test_every_parameter_of_model_and_loss_gets_a_gradient(method: str, bank: PatchBank) -> None:
    model = untrained(method).train()
    identities = 1 + max(int(frame.identity.max()) for frame in bank.truth.frames)
    objective = make_objective(method, load_baseline_config(method).objective, model, identities)
    learned = dict(model.named_parameters())
    if isinstance(objective, torch.nn.Module):
        learned |= {f"objective.{name}": it for name, it in objective.named_parameters()}
    losses = objective(model, labelled(bank, 0))
    losses["loss"].backward()
    assert all(it.isfinite() for it in losses.values())
    assert not [name for name, it in learned.items() if it.grad is None or not it.grad.isfinite().all()]
    assert not [name for name, it in learned.items() if not it.grad.any()]  # type: ignore[union-attr]


def test_whitening_starts_from_what_varies_among_the_patches(bank: PatchBank) -> None:
    """Dividing by the root of the spread leaves uncorrelated numbers, the strongest first."""
    torch.manual_seed(0)
    model = make_baseline("solar", config_of("solar")).eval()
    some = labelled(bank, 0).patches
    model.warm_start(some)
    assert isinstance(model, Solar)
    with torch.no_grad():
        pooled = torch.nn.functional.normalize(model.descriptor.pool(model._maps(some)), dim=1)
        said = model.descriptor.whiten(pooled)
    spread = torch.from_numpy(np.linalg.svd((pooled - pooled.mean(dim=0)).numpy(), compute_uv=False)) / len(some) ** 0.5
    count = min(len(some), 10)
    covariance = (said.T @ said / len(said))[:count, :count]
    expected = torch.diag(spread[:count] ** 2 / (spread[:count] + 1e-4))
    assert torch.allclose(covariance, expected, atol=1e-4)


@pytest.mark.parametrize("method", ["solar", "delg", "cvnet"])
def test_batch_normalisation_keeps_its_statistics_whatever_the_mode(method: str, bank: PatchBank) -> None:
    model = make_baseline(method, config_of(method))  # as it is made, before anyone says train() or eval()
    some = labelled(bank, 0).patches
    model.warm_start(some)
    kept = {name: it.clone() for name, it in model.named_buffers() if "running" in name}
    assert kept
    for mode in (lambda: model, model.train):
        mode().embed(some)
        assert all(torch.equal(it, kept[name]) for name, it in model.named_buffers() if name in kept)


def test_an_untrained_metric_network_knows_twins_from_others(bank: PatchBank) -> None:
    torch.manual_seed(0)
    model = make_baseline("matchnet", config_of("matchnet")).eval()
    some = labelled(bank, 0).patches
    model.warm_start(some)
    with torch.inference_mode():
        score = model.compare(model.embed(some), model.embed(some))
    assert torch.allclose(score.diagonal(), score.amax(dim=1))
    assert (score < score.diagonal() - 0.1).float().mean() > 0.5


@pytest.mark.parametrize("method", BASELINES)
def test_a_short_training_tells_the_objects_of_its_batch_apart(method: str, bank: PatchBank) -> None:
    settings = load_baseline_config(method)
    torch.manual_seed(0)
    model = make_baseline(method, config_of(method)).train()
    model.warm_start(labelled(bank, 0).patches)
    identities = 1 + max(int(frame.identity.max()) for frame in bank.truth.frames)
    objective = make_objective(method, settings.objective, model, identities)
    learned = [*model.parameters(), *(objective.parameters() if isinstance(objective, torch.nn.Module) else [])]
    optimizer = torch.optim.AdamW(learned, lr=settings.learning_rate)
    batch = labelled(bank, 0, pairs=2)
    for _ in range(5):
        loss = objective(model, batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        score = model.compare(model.embed(batch.patches), model.embed(batch.patches)).double().numpy()
    unrelated = score[batch.unmatched.numpy()]
    seen_twice = torch.cat([batch.first, batch.second]).numpy()
    for right in (np.diag(score)[seen_twice], score[batch.first, batch.second]):  # identical, and other views
        labels = np.arange(len(right) + len(unrelated)) < len(right)
        assert roc_auc(np.concatenate([right, unrelated]), labels) > 0.85


@pytest.mark.parametrize("method", BASELINES)
def test_saved_and_loaded_models_give_the_same_scores(method: str, tmp_path: Path) -> None:
    model = untrained(method).eval()
    save_baseline(tmp_path / "run", BaselineCheckpoint("run", method, model, {PAIR: DECISION}, Provenance(seed=3)))
    loaded = load_baseline(tmp_path / "run")
    patches = some_patches(3)
    with torch.inference_mode():
        before, after = (it.compare(it.embed(patches), it.embed(patches)) for it in (model, loaded.model))
    assert torch.equal(before, after)
    assert (loaded.method, loaded.decisions, loaded.provenance.seed) == (method, {PAIR: DECISION}, 3)
    assert loaded.model.config == model.config
    assert method_of(tmp_path / "run") == method


def test_labels_of_a_batch_speak_of_every_two_patches(streets: list[LandmarkDataset], bank: PatchBank) -> None:
    strange = drive(make_boards(10, 7), name="strange", world="strange", strangers=True)
    mixed = build_bank([strange, streets[0]], config_of("hardnet").patch, 3, False, [parse("clean")], 1, 0.0, 0)
    for step in range(4):
        batch = draw_batch(mixed, 3, True, np.random.default_rng(step))
        found = label_batch(batch, mixed, config_of("hardnet").patch)
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


def quick(method: str = "hardnet", **changes: object) -> BaselineTrainingConfig:
    values = {"steps": 4, "validate_every": 2, "frame_pairs_per_step": 2, "views": 1, "perturbations": ["clean"]}
    values |= {"validation_perturbation": "clean", "model": {"patch": PATCH}}
    return load_baseline_config(method, merged(values, changes))


def test_a_killed_training_resumes_to_the_same_weights(
    streets: list[LandmarkDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_baseline(quick(), streets[:1], streets[1:2], tmp_path / "whole")
    seen = []

    def deadly(*arguments: object) -> object:
        seen.append(arguments)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return draw_batch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("robustmat.training.run.draw_batch", deadly)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        train_baseline(quick(), streets[:1], streets[1:2], tmp_path / "cut")
    monkeypatch.undo()
    cut = train_baseline(quick(), streets[:1], streets[1:2], tmp_path / "cut", resume=True)
    first, second = (it.parent / "final" / "model.safetensors" for it in (whole, cut))
    assert first.read_bytes() == second.read_bytes()  # dropout drops the same

    matcher, provenance = load_method("hardnet", whole.parent)
    assert provenance.drives == ("drive0",)
    assert provenance.validation_drives == ("drive1",)
    for step in ("neighbors", "competition", "placement"):
        stepped, _ = load_method(f"hardnet+{step}", whole.parent)
        frame_a, frame_b = streets[2].frames[2], streets[2].frames[5]
        result = stepped.match(stepped.embed(frame_a), stepped.embed(frame_b))
        assert result.score.shape == (len(frame_a.landmarks), len(frame_b.landmarks))
        assert stepped.name == f"{matcher.name}+{step}"
        assert stepped.threshold != matcher.threshold  # each has its own
    with pytest.raises(ConfigError, match="holds hardnet, not sosnet"):
        load_method("sosnet", whole.parent)
    with pytest.raises(WeightsError, match="not a robustmat checkpoint"):
        load_checkpoint(whole.parent)
    with pytest.raises(ConfigError, match="another shape"):
        train_baseline(quick("sosnet"), streets[:1], streets[1:2], tmp_path / "b", start=load_baseline(whole))
    tuned = train_baseline(quick(seed=1), streets[2:], streets[1:2], tmp_path / "c", start=load_baseline(whole))
    assert load_baseline(tuned).provenance.drives == ("drive0", "drive2")


def test_a_frame_without_landmarks_matches_nothing() -> None:
    matcher = BaselineMatcher("hardnet", untrained("hardnet"), DECISION, Provenance())
    empty = drive(make_boards(0, 0), frames=1).frames[0]
    full = drive(make_boards(6, 0), frames=1).frames[0]
    assert matcher.match(empty, full).score.shape == (0, len(full.landmarks))


def test_every_method_has_a_shipped_training_configuration(tmp_path: Path) -> None:
    for method in BASELINES:
        config = load_baseline_config(method, {"seed": 7})
        assert (config.method, config.seed) == (method, 7)
        assert config.model.patch.max_aspect == 2.0
        assert is_baseline_config(method)
    path = tmp_path / "mine.toml"
    path.write_text('method = "delg"\nsteps = 3\n[model]\nlocal_dim = 8\n[objective]\nmargin = 0.2\n')
    config = load_baseline_config(path)
    assert (config.steps, config.objective.margin, config.model.local_dim) == (3, 0.2, 8)  # type: ignore[attr-defined]
    assert config.objective.reconstruction_weight == 10  # the rest is the shipped one's
    path.write_text('method = "hardnet"\n[objective]\nmargni = 0.2\n')
    with pytest.raises(ConfigError, match="did you mean 'margin'"):
        load_baseline_config(path)
    path.write_text('method = "hardnt"\n')
    with pytest.raises(ConfigError, match="did you mean 'hardnet'"):
        load_baseline_config(path)
    assert not is_baseline_config("street")


def test_method_names_are_read_or_refused_with_the_nearest() -> None:
    assert split_method("hardnet") == ("hardnet", None)
    assert split_method("exp-tloss+neighbors") == ("exp-tloss", "neighbors")
    assert split_method("robustmat+frames") == ("robustmat", "frames")
    assert with_evidence("robustmat", "pair") == "robustmat+pair"
    for wrong, hint in (("hardnt", "hardnet"), ("hardnet+neighbours", "neighbors"), ("robustmat+neighbors", "pair")):
        with pytest.raises(ConfigError, match=hint):
            split_method(wrong)
    with pytest.raises(ConfigError, match="METHOD"):
        with_evidence("hardnet", "pair")
