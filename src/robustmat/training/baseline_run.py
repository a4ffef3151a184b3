"""Train a rival as RobustMat is trained: the same data, the same views, the same validation, its own loss.

When the steps are done, what goes on top of the best checkpoint (`matching/steps.py`) is fitted on the validation data
as well, and stored with it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from robustmat.dataset.batches import Batch, PatchBank, Progress
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError
from robustmat.evaluation.metrics import measure
from robustmat.fitting.competition import fit_steps
from robustmat.fitting.decision import embed_sample, fit_decision
from robustmat.fitting.references import BoxGeometry, fit_box_geometry, geometry_examples, write_examples
from robustmat.matching.baseline import BaselineMatcher
from robustmat.matching.steps import NUM_NEIGHBORS, STEPS
from robustmat.models.baselines import make_baseline
from robustmat.models.baselines.protocol import PatchMatcher
from robustmat.models.baselines.weights import PAIR, BaselineCheckpoint, load_baseline, save_baseline
from robustmat.models.weights import Decision, Provenance
from robustmat.training.baseline_batches import label_batch
from robustmat.training.baseline_config import BaselineTrainingConfig
from robustmat.training.baseline_objectives import make_objective
from robustmat.training.inputs import Inputs, some_patches
from robustmat.training.module import make_optimizer
from robustmat.training.run import KeepBest, check_run, choose_validation, fit, learned_from
from robustmat.training.validation import UNDECIDED, ValidationSet

NEW_LAYERS = 10  # times the learning rate, for layers that begin at random beside learned ones


class BaselineModule(lightning.LightningModule):
    """A rival in training, with its loss and whatever the loss learns."""

    def __init__(self, config: BaselineTrainingConfig, bank: PatchBank) -> None:
        super().__init__()
        self.config, self.bank = config, bank
        self.model = make_baseline(config.method, config.model)
        identities = 1 + max(int(frame.identity.max()) for frame in bank.truth.frames)
        self.objective = make_objective(config.method, config.objective, self.model, identities)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        labelled = label_batch(batch, self.bank, self.config.model.patch, self.device)
        with torch.random.fork_rng():
            # What dropout drops is the step's alone, so that a resumed run drops the same.
            torch.manual_seed(self.config.seed * 1_000_003 + self.global_step)
            losses = self.objective(self.model, labelled)
        self.log_dict({f"train/{name}": value.detach() for name, value in losses.items()})
        self.log("loss", losses["loss"].detach(), prog_bar=True, logger=False)
        return losses["loss"]

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # pixels travel as bytes and become tensors inside the step

    def configure_optimizers(self) -> Any:
        elsewhere = tuple(f"model.{name}." for name in self.model.learned_elsewhere)
        adapted = [it for name, it in self.named_parameters() if name.startswith(elsewhere)]
        new = [it for name, it in self.named_parameters() if not name.startswith(elsewhere)]
        if not adapted:
            return make_optimizer(new, self.config)
        rate = NEW_LAYERS * self.config.learning_rate
        return make_optimizer([{"params": adapted}, {"params": new, "lr": rate}], self.config)


def train_baseline(
    config: BaselineTrainingConfig,
    datasets: Sequence[LandmarkDataset],
    validation: Sequence[LandmarkDataset],
    out: Path | str,
    *,
    start: BaselineCheckpoint | None = None,
    resume: bool = False,
    licence: str = "unspecified",
    terms: str = "",
    command: str = "",
    device: str = "cpu",
    progress: Progress | None = None,
    inputs: Inputs | None = None,
) -> Path:
    """Train, and return the folder of the best checkpoint by validation ROC AUC; see `training.run.train`."""
    out = Path(out)
    training, held_out = choose_validation(datasets, validation)
    facts = Provenance(licence=licence, terms=terms, command=command, seed=config.seed)
    provenance = learned_from(facts, training, held_out, start.provenance if start else None)
    record = check_run(out, config, provenance, resume)
    show: Progress = progress or (lambda items: items)
    inputs = inputs or Inputs()
    bank = inputs.bank(config, config.model.patch, NUM_NEIGHBORS, False, training, show)
    judge = inputs.judge(config, held_out, show)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        module = BaselineModule(config, bank)
    if start:
        load_weights(module.model, start)
    else:
        module.model.warm_start(some_patches(bank, config.model.patch, config.seed))

    def save(folder: str, decisions: dict[str, Decision], steps: int) -> None:
        came_from = provenance.model_copy(update={"steps": steps})
        save_baseline(out / folder, BaselineCheckpoint(out.name, config.method, module.model, decisions, came_from))

    keeper = KeepBest(config, lambda: _validate(module, judge), save, out)
    fit(module, bank, keeper, config, out, record, resume=resume, device=device, bar=progress is not None)
    examples = geometry_examples(training, config.seed)
    for folder in ("best", "final"):
        write_examples(out / folder, examples)
    add_steps(out / "best", judge, fit_box_geometry(examples, config.seed))
    return out / "best"


def load_weights(model: PatchMatcher, start: BaselineCheckpoint) -> None:
    """Begin with the weights of a checkpoint of the same method and shape."""
    if start.model.config != model.config or type(start.model) is not type(model):
        raise ConfigError(
            f"checkpoint '{start.name}' holds {start.method} of another shape than this training: start from one "
            "of the same method and [model], or leave --start out"
        )
    model.load_state_dict(start.model.state_dict())


def add_steps(folder: Path, judge: ValidationSet, geometry: BoxGeometry) -> None:
    """Fit every step on top of a checkpoint on the validation data, and store it there."""
    checkpoint = load_baseline(folder)
    matcher = BaselineMatcher(checkpoint.method, checkpoint.model, checkpoint.decisions[PAIR], checkpoint.provenance)
    decisions, steps = dict(checkpoint.decisions), {}
    for stepped in fit_steps(matcher, STEPS, judge.sample, prior=geometry):
        assert stepped.decision is not None
        decisions[stepped.step], steps[stepped.step] = stepped.decision, stepped.config.model_dump()
    save_baseline(folder, replace(checkpoint, decisions=decisions, steps=steps))


def _validate(module: BaselineModule, judge: ValidationSet) -> tuple[dict[str, Decision], dict[str, float]]:
    """The best decision on the held-out drives, and the metrics there."""
    matcher = BaselineMatcher("in training", module.model, UNDECIDED, Provenance(), device=str(module.device))
    fitted = fit_decision(matcher, embed_sample(matcher, judge.sample), judge.sample)
    module.model.train()
    return {PAIR: fitted.decision}, measure(fitted.scores, judge.sample.label, fitted.decision.threshold)
