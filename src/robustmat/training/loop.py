"""The one training loop, whatever is trained: steps, validation on the way, the best checkpoint, and resuming.

Step s of a run draws its batch from (seed, s) alone, so an interrupted run continues with the very batches it
would have seen. The folder holds `run.json` (what is trained on what), `last.ckpt` (lightning's state after
the newest validation), `best/` and `final/` (checkpoints) and `curves/` (TensorBoard).
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader, IterableDataset

from robustmat.checkpoints.store import Provenance
from robustmat.errors import DataError
from robustmat.files import read_json, replacing, write_json
from robustmat.training.config import LoopConfig

LAST_KEYS = ("callbacks", "optimizer_states", "lr_schedulers", "loops")  # of lightning's state
Draw = Callable[[np.random.Generator], Any]  # a step's batch


@dataclass(frozen=True)
class Headline:
    """The metric that chooses the best checkpoint: higher is better."""

    metric: str
    label: str  # beside the progress bar


def fit(
    module: lightning.LightningModule,
    draw: Draw,
    keeper: "KeepBest",
    config: LoopConfig,
    out: Path,
    record: dict[str, Any],
    *,
    resume: bool,
    device: str,
    bar: bool,
) -> None:
    """Run the steps that are left, each on a batch that `draw` makes; `record` is written when training begins."""
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
        loader = DataLoader(_Steps(trainer, draw, config), batch_size=None)
        last = out / "last.ckpt"
        begun = resume and last.is_file()
        if begun:
            check_last(last, module)
        trainer.fit(module, loader, ckpt_path=last if begun else None, weights_only=True)


def check_last(path: Path, module: lightning.LightningModule) -> None:
    """Refuse a `last.ckpt` that is broken or of another network, before it is used."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        found = {name: tuple(value.shape) for name, value in state["state_dict"].items()}
        whole = isinstance(state["global_step"], int) and all(isinstance(state[key], list | dict) for key in LAST_KEYS)
    except Exception:  # whatever a file of any bytes makes torch raise
        whole, found = False, {}
    if not whole or found != {name: tuple(value.shape) for name, value in module.state_dict().items()}:
        raise DataError(f"{path} is broken or of another run: delete it, and --resume begins from the first step")


def check_run(out: Path, config: LoopConfig, provenance: Provenance, resume: bool) -> dict[str, Any]:
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


class _Steps(IterableDataset[Any]):
    """One batch for every step that is left, from wherever the trainer stands."""

    def __init__(self, trainer: lightning.Trainer, draw: Draw, config: LoopConfig) -> None:
        self.trainer, self.draw, self.config = trainer, draw, config

    def __iter__(self) -> Iterator[Any]:
        for step in range(self.trainer.global_step, self.config.steps):
            yield self.draw(np.random.default_rng([self.config.seed, step]))

    def __len__(self) -> int:
        return self.config.steps


class KeepBest(lightning.Callback):
    """Every `validate_every` steps, validates, keeps the checkpoint with the best headline, and saves where we are.

    Args:
        validate: gives what was fitted on the validation data (decisions; None where nothing is) and the metrics.
        save: writes a checkpoint: its folder's name, what was fitted, the steps.
    """

    def __init__(
        self,
        config: LoopConfig,
        validate: Callable[[], tuple[Any, dict[str, float]]],
        save: Callable[[str, Any, int], None],
        out: Path,
        headline: Headline,
    ) -> None:
        self.config, self.validate, self.save, self.out = config, validate, save, out
        self.headline, self.best = headline, -float("inf")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        step, config = trainer.global_step, self.config
        if step % config.validate_every and step < config.steps:
            return
        metrics = self.keep(step)
        for logger in trainer.loggers:
            logger.log_metrics({f"validation/{name}": value for name, value in metrics.items()}, step)
        pl_module.log(self.headline.label, metrics[self.headline.metric], prog_bar=True, logger=False)
        with replacing(self.out / "last.ckpt") as temporary:
            trainer.save_checkpoint(temporary)

    def keep(self, step: int) -> dict[str, float]:
        """Validate, and write the checkpoint if it is the best one or the last one."""
        fitted, metrics = self.validate()
        if metrics[self.headline.metric] >= self.best:  # of equals, the one that has trained longer
            self.best = metrics[self.headline.metric]
            self.save("best", fitted, step)
        if step == self.config.steps:
            self.save("final", fitted, step)
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
