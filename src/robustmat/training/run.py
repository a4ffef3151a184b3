"""The training run of a matcher: from data sets to a folder with the best checkpoint (the loop is `loop.py`)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from robustmat.checkpoints.load import from_checkpoint
from robustmat.checkpoints.store import Checkpoint, Provenance, load_checkpoint, save_checkpoint
from robustmat.dataset.batches import Batch, draw_batch
from robustmat.dataset.splits import split_last_third
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.fitting.competition import fit_steps
from robustmat.folders import locked
from robustmat.matching.matcher import Matcher
from robustmat.methods import find_method
from robustmat.methods.box_geometry import write_examples
from robustmat.progress import Progress, silent
from robustmat.training.config import TrainingConfig
from robustmat.training.inputs import Inputs, some_patches
from robustmat.training.loop import Headline, KeepBest, check_run, fit
from robustmat.training.module import TrainingModule
from robustmat.training.validation import Validated, ValidationSet, validate

HEADLINE = Headline("roc_auc", "validation ROC AUC")


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
    with locked(out):
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

        best: list[Validated] = []  # kept where it is the last step's: otherwise the network has moved on

        def save(folder: str, found: Validated, steps: int) -> None:
            came_from = provenance.model_copy(update={"steps": steps})
            checkpoint = Checkpoint(out.name, config.method, module.network, found.decisions, came_from)
            save_checkpoint(out / folder, checkpoint)
            if folder == "best":
                best[:] = [found] if steps == config.steps else []

        def draw(rng: np.random.Generator) -> Batch:
            return draw_batch(bank, config.frame_pairs_per_step, config.flip, rng)

        keeper = KeepBest(config, lambda: validate(module.network, held), save, out, HEADLINE)
        fit(module, draw, keeper, config, out, record, resume=resume, device=device, bar=progress is not None)
        examples, prior = inputs.geometry(training, config.seed)
        for folder in ("best", "final"):
            write_examples(out / folder, examples)
        add_steps(out / "best", held, prior, best[0] if best else None)
        return out / "best"


def add_steps(folder: Path, validation: ValidationSet, prior: Matcher, validated: Validated | None = None) -> None:
    """Fit every step that the method can take on top of a checkpoint on the validation data, and store it there.

    `validated`, where it is known, is what the checkpoint's weights made of that data.
    """
    checkpoint = load_checkpoint(folder)
    steps = find_method(checkpoint.method).learning.steps
    if not steps:
        return
    matcher, memory = (validated.matcher, validated.memory) if validated else (from_checkpoint(checkpoint), None)
    fitted = fit_steps(matcher, steps, validation.sample, prior=prior, memory=memory)
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
