"""A training run: from data sets to a folder with the best checkpoint, resumable after a kill.

Step s of a run draws its batch from (seed, s) alone, so an interrupted run continues with the very batches it
would have seen. The folder holds `run.json` (what is trained on what), `last.ckpt` (lightning's state after
the newest validation), `best/` and `final/` (checkpoints to match with) and `curves/` (TensorBoard).
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader, IterableDataset

from robustmat.checkpoints.load import from_checkpoint
from robustmat.checkpoints.store import Checkpoint, Provenance, load_checkpoint, save_checkpoint
from robustmat.dataset.batches import Batch, PatchBank, draw_batch
from robustmat.dataset.splits import split_last_third
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.files import read_json, replacing, write_json
from robustmat.fitting.competition import fit_steps
from robustmat.fitting.references import geometry_examples
from robustmat.matching.decision import Decision
from robustmat.methods import find_method
from robustmat.methods.box_geometry import fit_box_geometry, read_examples, write_examples
from robustmat.progress import Progress, silent
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.inputs import Inputs, some_patches
from robustmat.training.module import TrainingModule
from robustmat.training.validation import ValidationSet, validate


def train(
    config: TrainingConfig,
    datasets: Sequence[LandmarkDataset],
    validation: Sequence[LandmarkDataset],
    out: Path | str,
    *,
    start: Checkpoint | None = None,
    resume: bool = False,
    licence: str = "unspecified",
    terms: str = "",
    command: str = "",
    device: str = "cpu",
    progress: Progress | None = None,
    inputs: Inputs | None = None,
) -> Path:
    """Train, and return the folder of the best checkpoint by validation ROC AUC.

    Without `validation` the last of several drives is held out, or the last third of a single one; so is the last
    third of a drive that is in both lists. With `start`, training goes on from that checkpoint's weights, and its
    drives count as trained on. Runs that are given the same `inputs` cut their patches once.
    """
    out = Path(out)
    training, held_out = choose_validation(datasets, validation)
    facts = Provenance(licence=licence, terms=terms, command=command, seed=config.seed)
    provenance = learned_from(facts, training, held_out, start.provenance if start else None)
    record = check_run(out, config, provenance, resume)
    show = progress or silent
    inputs = inputs or Inputs()
    bank = inputs.bank(config, training, show)
    held = inputs.validation(config, held_out, show)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        module = TrainingModule(config, bank)
    if start:
        module.network.start_from(start.network, start.name)
    elif config.warm_start:
        module.network.warm_start(some_patches(bank, module.network.config.patch, config.seed))

    def save(folder: str, decisions: dict[str, Decision], steps: int) -> None:
        came_from = provenance.model_copy(update={"steps": steps})
        save_checkpoint(out / folder, Checkpoint(out.name, config.method, module.network, decisions, came_from))

    keeper = KeepBest(config, lambda: validate(module.network, held), save, out)
    fit(module, bank, keeper, config, out, record, resume=resume, device=device, bar=progress is not None)
    examples = geometry_examples(training, config.seed)
    for folder in ("best", "final"):
        write_examples(out / folder, examples)
    add_steps(out / "best", held)
    return out / "best"


def add_steps(folder: Path, validation: ValidationSet) -> None:
    """Fit every step that the method can take on top of a checkpoint on the validation data, and store it there."""
    checkpoint = load_checkpoint(folder)
    steps = find_method(checkpoint.method).learning.steps
    examples = read_examples(folder)
    if not steps or examples is None:
        return
    prior = fit_box_geometry(examples, checkpoint.provenance.seed or 0)
    fitted = fit_steps(from_checkpoint(checkpoint), steps, validation.sample, prior=prior)
    decisions = checkpoint.decisions | {one.step: one.decision for one in fitted}
    save_checkpoint(folder, replace(checkpoint, decisions=decisions, steps={one.step: one.config for one in fitted}))


def learned_from(
    facts: Provenance,
    training: Sequence[LandmarkDataset],
    held_out: Sequence[LandmarkDataset],
    start: Provenance | None,
) -> Provenance:
    """The facts of a run with its drives; those of the checkpoint that it starts from count as trained on."""
    seen = {dataset.name for dataset in training} | set(start.drives if start else ())
    drives = {"drives": tuple(sorted(seen)), "validation_drives": tuple(sorted({dataset.name for dataset in held_out}))}
    return facts.model_copy(update=drives)


def fit(
    module: lightning.LightningModule,
    bank: PatchBank,
    keeper: "KeepBest",
    config: RunConfig,
    out: Path,
    record: dict[str, Any],
    *,
    resume: bool,
    device: str,
    bar: bool,
) -> None:
    """Run the steps that are left; `record` is written when training begins."""
    write_json(out / "run.json", record)
    if not config.steps:
        keeper.keep(0)
        return
    callbacks: list[Any] = [keeper, TQDMProgressBar(refresh_rate=5)] if bar else [keeper]
    with quiet_lightning():
        trainer = lightning.Trainer(
            accelerator=device,
            devices=1,
            max_steps=config.steps,
            gradient_clip_val=config.gradient_clip,
            callbacks=callbacks,
            logger=TensorBoardLogger(out, "curves", version=""),
            enable_checkpointing=False,  # KeepBest does it
            log_every_n_steps=10,
            enable_progress_bar=bar,
            enable_model_summary=False,
            deterministic=True if device == "cpu" else "warn",
        )
        loader = DataLoader(_Steps(trainer, bank, config), batch_size=None)
        last = out / "last.ckpt"
        trainer.fit(module, loader, ckpt_path=last if resume and last.is_file() else None, weights_only=True)


def choose_validation(
    datasets: Sequence[LandmarkDataset], validation: Sequence[LandmarkDataset]
) -> tuple[list[LandmarkDataset], list[LandmarkDataset]]:
    """Which drives train and which choose the checkpoint and its threshold: never the same place for both.

    A drive that is given for both, or alone, is split: its last third, beyond a gap, is held out.
    """
    if not datasets:
        raise DataError("no data set to train on: give at least one with --data")
    if not validation:
        training, held_out = (datasets, datasets) if len(datasets) == 1 else (datasets[:-1], datasets[-1:])
    else:
        training, held_out = datasets, validation
    split = {
        dataset.name: split_last_third(dataset)
        for dataset in held_out
        if dataset.name in {one.name for one in training}
    }
    thirds = [last for _, last in split.values()]
    training = [split[dataset.name][0] if dataset.name in split else dataset for dataset in training]
    held_out = [dataset for dataset in held_out if dataset.name not in split]
    learned = {(dataset.world, dataset.name) for dataset in training}
    seen = sorted({dataset.name for dataset in held_out if dataset.world in {world for world, _ in learned}})
    seen += [
        third.name for third in thirds if any(third.world == world and third.name != name for world, name in learned)
    ]
    if seen:
        raise DataError(
            f"{', '.join(seen)} cannot be validation data: the training data holds another drive of the same world, "
            "so its places were learned; give a drive of another world with --val"
        )
    return training, [*thirds, *held_out]


def check_run(out: Path, config: RunConfig, provenance: Provenance, resume: bool) -> dict[str, Any]:
    """What is trained on what, to be written when training begins; refuses to mix two runs in one folder."""
    record = {
        "config": json.loads(config.model_dump_json()),
        "drives": list(provenance.drives),
        "validation_drives": list(provenance.validation_drives),
    }
    path = out / "run.json"
    if path.exists():
        if not resume:
            raise DataError(
                f"{out} already holds a training run: add --resume to go on with it, or choose another --out"
            )
        if read_json(path, "training run") != record:
            raise DataError(f"{path} was started with another configuration or other data: choose another --out")
    return record


class _Steps(IterableDataset[Batch]):
    """One batch for every step that is left, from wherever the trainer stands."""

    def __init__(self, trainer: lightning.Trainer, bank: PatchBank, config: RunConfig) -> None:
        self.trainer, self.bank, self.config = trainer, bank, config

    def __iter__(self) -> Iterator[Batch]:
        config = self.config
        for step in range(self.trainer.global_step, config.steps):
            rng = np.random.default_rng([config.seed, step])
            yield draw_batch(self.bank, config.frame_pairs_per_step, config.flip, rng)

    def __len__(self) -> int:
        return self.config.steps


class KeepBest(lightning.Callback):
    """Every `validate_every` steps, validates, keeps the checkpoint with the best ROC AUC, and saves where we are.

    Args:
        validate: gives the decisions and metrics of the network as it is.
        save: writes a checkpoint: its folder's name, the decisions, the steps.
    """

    def __init__(
        self,
        config: RunConfig,
        validate: Callable[[], tuple[dict[str, Decision], dict[str, float]]],
        save: Callable[[str, dict[str, Decision], int], None],
        out: Path,
    ) -> None:
        self.config, self.validate, self.save, self.out = config, validate, save, out
        self.best_roc_auc = -1.0

    def state_dict(self) -> dict[str, Any]:
        return {"best_roc_auc": self.best_roc_auc}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best_roc_auc = state_dict["best_roc_auc"]

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        step, config = trainer.global_step, self.config
        if step % config.validate_every and step < config.steps:
            return
        metrics = self.keep(step)
        for logger in trainer.loggers:
            logger.log_metrics({f"validation/{name}": value for name, value in metrics.items()}, step)
        pl_module.log("validation ROC AUC", metrics["roc_auc"], prog_bar=True, logger=False)
        with replacing(self.out / "last.ckpt") as temporary:
            trainer.save_checkpoint(temporary)

    def keep(self, step: int) -> dict[str, float]:
        """Validate, and write the checkpoint if it is the best one or the last one."""
        decisions, metrics = self.validate()
        if metrics["roc_auc"] >= self.best_roc_auc:  # of equals, the one that has trained longer
            self.best_roc_auc = metrics["roc_auc"]
            self.save("best", decisions, step)
        if step == self.config.steps:
            self.save("final", decisions, step)
        return metrics


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Without lightning's notes on hardware and workers, which say nothing about this run."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
