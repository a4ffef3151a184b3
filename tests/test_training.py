"""Training: it learns, it repeats to the byte, and it survives a kill."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from models_for_tests import SMALL, untrained
from robustmat.checkpoints.load import load
from robustmat.checkpoints.store import Provenance, load_checkpoint
from robustmat.config import merged
from robustmat.dataset.batches import build_bank, draw_batch
from robustmat.dataset.splits import split_last_third
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError, DataError
from robustmat.evaluation.evaluate import evaluate
from robustmat.features.patches import PatchConfig
from robustmat.methods.robustmat import RobustMatSettings, graph_loss_weight
from robustmat.models.presets import preset
from robustmat.models.robustmat import RobustMat
from robustmat.perturb import CLEAN, parse
from robustmat.training.config import TrainingConfig, load_training_config
from robustmat.training.run import choose_validation, train
from robustmat.types import MATCHED
from small_world import drive, make_boards


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def drives() -> tuple[LandmarkDataset, LandmarkDataset]:
    return tuple(drive(make_boards(12, seed), name=f"drive{seed}", world=f"town{seed}", frames=9) for seed in (0, 1))  # type: ignore[return-value]


def quick(**changes: object) -> TrainingConfig:
    values = {"steps": 4, "validate_every": 2, "frame_pairs_per_step": 2, "views": 2, "learning_rate": 3e-3}
    values |= {"perturbations": ["clean", "awgn:16"], "validation_perturbation": "awgn:16"}
    values |= {"model": SMALL, "objective": {"triplet_weight": 1.0}}
    return load_training_config("robustmat", merged(values, changes))


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_same_seed_gives_the_same_bytes_and_another_seed_others(
    drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(quick(seed=seed), drives[:1], drives[1:], tmp_path / name)
    assert weights(tmp_path / "a" / "final") == weights(tmp_path / "b" / "final")
    assert weights(tmp_path / "a" / "final") != weights(tmp_path / "c" / "final")


def test_a_killed_run_resumes_to_the_same_weights(
    drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = quick(steps=6, schedule="cosine", optimizer="adamw")
    train(config, drives[:1], drives[1:], tmp_path / "whole")

    class KilledError(Exception):
        pass

    steps_seen = []

    def deadly(*arguments: object) -> object:
        steps_seen.append(arguments)
        if len(steps_seen) == 4:  # in the middle of the second stretch
            raise KilledError
        return draw_batch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("robustmat.training.run.draw_batch", deadly)
    with pytest.raises(KilledError):
        train(config, drives[:1], drives[1:], tmp_path / "cut")
    monkeypatch.undo()
    assert not (tmp_path / "cut" / "final").exists()
    train(config, drives[:1], drives[1:], tmp_path / "cut", resume=True)
    assert weights(tmp_path / "cut" / "final") == weights(tmp_path / "whole" / "final")
    assert weights(tmp_path / "cut" / "best") == weights(tmp_path / "whole" / "best")


def test_a_run_refuses_to_mix_configurations(drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path) -> None:
    train(quick(steps=2), drives[:1], drives[1:], tmp_path / "run")
    with pytest.raises(DataError, match="already holds a training run"):
        train(quick(steps=2), drives[:1], drives[1:], tmp_path / "run")
    with pytest.raises(DataError, match="another configuration"):
        train(quick(steps=3), drives[:1], drives[1:], tmp_path / "run", resume=True)


def test_fine_tuning_starts_from_given_weights_and_remembers_their_drives(
    drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path
) -> None:
    provenance = Provenance(drives=("simulated",))
    start = replace(untrained(quick().model, provenance=provenance), name="start")  # type: ignore[arg-type]
    best = train(quick(steps=1, learning_rate=1e-12), drives[:1], drives[1:], tmp_path / "run", start=start)
    tuned = load_checkpoint(best)
    for name, weight in start.network.state_dict().items():
        assert torch.allclose(tuned.network.state_dict()[name], weight, atol=1e-6), name
    assert tuned.provenance.drives == tuple(sorted({"simulated", drives[0].name}))
    lean = untrained(preset("street", changes=SMALL | {"joint": None}))
    grown = load_checkpoint(
        train(quick(steps=1, learning_rate=1e-12), drives[:1], drives[1:], tmp_path / "grown", start=lean)
    )
    for name, weight in lean.network.state_dict().items():  # and what it lacks began anew
        assert torch.allclose(grown.network.state_dict()[name], weight, atol=1e-6), name
    other = untrained(preset("street", changes=SMALL | {"patch": {"margin": 3}}))
    with pytest.raises(ConfigError, match="another model configuration"):
        train(quick(steps=1), drives[:1], drives[1:], tmp_path / "other", start=other)


def test_a_warm_start_comes_from_the_training_drives_and_a_given_start_goes_before_it(
    drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path
) -> None:
    """Without a step: what the run ends with is what it began with."""
    cold, warm = quick(steps=0), quick(steps=0, warm_start=True)
    at_random = load_checkpoint(train(cold, drives[:1], drives[1:], tmp_path / "cold")).network.state_dict()
    begun = load_checkpoint(train(warm, drives[:1], drives[1:], tmp_path / "warm"))
    changed = {key for key, it in begun.network.state_dict().items() if not torch.equal(it, at_random[key])}
    assert {key.split(".")[0] for key in changed} == {"vertex", "vertex_similarity", "graph_matrix"}
    assert {key for key in changed if key.startswith("vertex.")} == {"vertex.project.weight", "vertex.project.bias"}
    going_on = train(quick(steps=0, warm_start=True, seed=1), drives[:1], drives[1:], tmp_path / "on", start=begun)
    assert weights(going_on) == weights(tmp_path / "warm" / "best")


def test_a_run_that_could_not_start_leaves_its_folder_free(
    drives: tuple[LandmarkDataset, LandmarkDataset], tmp_path: Path
) -> None:
    hopeless = drive(make_boards(1, 5), name="bare", world="nowhere")
    with pytest.raises(DataError):
        train(quick(steps=2), drives[:1], [hopeless], tmp_path / "run")
    train(quick(steps=2), drives[:1], drives[1:], tmp_path / "run")


def test_training_learns_to_match_a_street_it_has_not_seen(tmp_path: Path) -> None:
    streets = [drive(make_boards(16, seed), name=f"drive{seed}", world=f"town{seed}", frames=24) for seed in range(5)]
    model = {"patch": {"size": 32, "margin": 2}}
    config = quick(model=model, steps=120, validate_every=40, frame_pairs_per_step=4, perturbations=["clean"])
    held_out = replace(streets[3], frames=streets[3].frames[:10])
    best = train(config, streets[:3], [held_out], tmp_path / "run")
    report, _ = evaluate(load(best), streets[4:], negatives="same-class", resamples=10)
    assert report["roc_auc"] > 0.8  # boards of one class and size, told apart by their texture alone
    checkpoint = load_checkpoint(best)
    assert checkpoint.provenance.drives == ("drive0", "drive1", "drive2")
    assert checkpoint.provenance.validation_drives == ("drive3",)
    assert (checkpoint.decisions["placement"].slope or 0) > 0  # a higher score is a higher probability
    curves = EventAccumulator(str(tmp_path / "run" / "curves"))
    curves.Reload()
    assert [it.step for it in curves.Scalars("validation/f1")] == [40, 80, 120]
    assert len(curves.Scalars("train/loss")) >= 10


def test_batches_hold_their_pairs_labels_and_graphs_within_frames(
    drives: tuple[LandmarkDataset, LandmarkDataset],
) -> None:
    config = preset("street", changes=SMALL)
    bank = build_bank(drives[:1], config.patch, 3, True, [parse("clean"), parse("awgn:16")], 2, 0.05, 0)
    batch = draw_batch(bank, 3, True, np.random.default_rng(0))
    again = draw_batch(bank, 3, True, np.random.default_rng(0))
    assert (batch.patches == again.patches).all()
    for pair in batch.pairs:
        assert (pair.label == MATCHED).any()
        for side, count in ((pair.a, pair.label.shape[0]), (pair.b, pair.label.shape[1])):
            assert side.stop - side.start == count
            used = batch.index[side][batch.mask[side]]
            assert side.start <= used.min() <= used.max() < side.stop


def test_the_last_third_shares_neither_place_nor_identity_with_the_rest() -> None:
    whole = drive(make_boards(40, 0), frames=90)
    first, last = split_last_third(whole)
    centers = [np.array([frame.T_world_camera[:3, 3] for frame in it.frames]) for it in (first, last)]  # type: ignore[index]
    assert np.linalg.norm(centers[0][:, None] - centers[1], axis=-1).min() >= 25
    identities = [{mark.identity for frame in it.frames for mark in frame.landmarks} for it in (first, last)]
    assert identities[0].isdisjoint(identities[1])
    assert len(identities[1]) > 3


def test_a_drive_too_short_to_split_asks_for_another() -> None:
    with pytest.raises(DataError, match="--val"):
        split_last_third(drive(make_boards(12, 0)))


def test_validation_is_never_training_data(drives: tuple[LandmarkDataset, LandmarkDataset]) -> None:
    again = drive(make_boards(12, 0), name="another day", world="town0")
    for training, held_out in (([drives[0], again], []), (drives[:1], [again])):
        with pytest.raises(DataError, match=r"another day cannot be validation data.*same world"):
            choose_validation(training, held_out)
    long = drive(make_boards(40, 0), name="long", world="town0", frames=90)
    with pytest.raises(DataError, match=r"long cannot be validation data.*same world"):
        choose_validation([long, again], [long])
    training, held_out = choose_validation(drives, [])
    assert [it.name for it in training] == ["drive0"]
    assert [it.name for it in held_out] == ["drive1"]


def test_a_drive_given_for_training_and_validation_is_split(drives: tuple[LandmarkDataset, LandmarkDataset]) -> None:
    long = drive(make_boards(40, 7), name="long", world="elsewhere", frames=90)
    training, held_out = choose_validation([long, drives[0]], [long, drives[1]])
    assert [it.name for it in training] == ["long", "drive0"]
    assert [it.name for it in held_out] == ["long", "drive1"]
    first, last = split_last_third(long)
    assert (training[0], held_out[0]) == (first, last)


def test_every_world_comes_equally_often() -> None:
    short = drive(make_boards(12, 0), name="short", world="short", frames=8)
    long = drive(make_boards(40, 1), name="long", world="long", frames=60)
    bank = build_bank([short, long], PatchConfig(size=8), 2, True, [CLEAN], 1, 0.0, 0)
    frames = draw_batch(bank, 300, False, np.random.default_rng(0)).frames
    share = np.mean([bank.truth.frames[it].world == "short" for it in frames])
    assert 0.4 < share < 0.6


def effective_weight(config: TrainingConfig) -> float:
    """Lambda as the objective takes it."""
    assert isinstance(config.objective, RobustMatSettings)
    with torch.device("meta"):
        network = RobustMat(config.model)  # type: ignore[arg-type]
    return graph_loss_weight(network, config.objective)


@pytest.mark.parametrize("name", ["paper", "street", "street-real"])
def test_shipped_training_configs_load(name: str) -> None:
    config = load_training_config(name, {"seed": 7, "variant": "ode-only"})
    assert config.seed == 7
    assert effective_weight(config) == 0
    assert effective_weight(load_training_config(name, {"variant": "pde-only"})) == 1


def test_training_config_errors_name_the_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('preset = "street"\nlearning_rat = 1\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: unknown key 'learning_rat' \(did you mean 'learning_rate'"):
        load_training_config(path)
    path.write_text('perturbations = ["papr:16"]\n')
    with pytest.raises(ConfigError, match="paper"):
        load_training_config(path)
    path.write_text("[model.vertex]\nend_time = 2.0\n")
    assert load_training_config(path).model.vertex.end_time == 2.0  # type: ignore[attr-defined]
    for wrong, message in (
        ('preset = "streets"\n', "robustmat has no preset 'streets' .*did you mean 'street'"),
        ('variant = "pdes"\n', "robustmat has no variant 'pdes' .known are full, ode, gcn"),
        ('method = "hardnet"\npreset = "street"\n', "hardnet has no preset 'street' .it has none"),
        ('model = "street"\n', r"\[model\] must be a table of keys, found 'street'"),
        ("method = 3\n", "method must be a name, found 3"),
        ('method = "root-sift"\n', "RootSIFT needs no training"),
        ("[model.vertex]\nend_tim = 2.0\n", r"mine\.toml: model: unknown key 'vertex\.end_tim'"),
    ):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match=message):
            load_training_config(path)
    with pytest.raises(ConfigError, match="no training configuration 'stret'"):
        load_training_config("stret")
