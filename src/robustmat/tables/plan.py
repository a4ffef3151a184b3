"""What has to be done for a table, and where its parts lie: runs, predictions, and how they are told apart.

A workspace folder serves all tables: `runs/` holds one training for each (training, side, seed), `predictions/` one
file for each (training, side, test, perturbation, seed). A file's name ends in a digest of everything that decides its
content.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustmat.checkpoints.store import WEIGHTS, find_checkpoint, fingerprint_of, read_header
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.files import read_json, write_json
from robustmat.methods import find_method
from robustmat.methods.box_geometry import EXAMPLES_FILE
from robustmat.tables.definitions import Row, Training
from robustmat.training.config import TrainingConfig, load_training_config

REFERENCES = "references"  # stands where a training's key stands
ADAPTING = 3e-5  # the most, where they are ImageNet's and have less than LONG steps: more spoils them first
LONG = 100


@dataclass(frozen=True)
class TrainingSplit:
    """Data to train on, and to choose checkpoint and thresholds by (empty: a part of the former is held out).

    `also` is learned from besides, and `first` before, once for all sides and seeds that share it, for `budget` minutes
    of its own: by everyone who learns from towns.
    """

    name: str
    data: tuple[LandmarkDataset, ...]
    validation: tuple[LandmarkDataset, ...] = ()
    also: tuple[LandmarkDataset, ...] = ()
    first: "TrainingSplit | None" = None
    budget: float | None = None

    @property
    def known(self) -> tuple[LandmarkDataset, ...]:
        """All that is learned from or chosen by."""
        return (*self.data, *self.also, *self.validation, *(self.first.data if self.first else ()))


@dataclass(frozen=True)
class EvaluationSplit:
    """Data to be judged on, together, after training on one side."""

    side: TrainingSplit
    data: tuple[LandmarkDataset, ...]

    @property
    def name(self) -> str:
        return "+".join(dataset.name for dataset in self.data)


@dataclass(frozen=True)
class Cell:
    """One file of predictions."""

    training: str
    test: EvaluationSplit
    perturb: str
    seed: int
    config: str  # digest of the training's configuration
    run: Path | None = None  # of the training, where there is one
    evidence: tuple[str, ...] = ()  # the kinds that rows ask for; all that there are unless given

    def path(self, workspace: Path) -> Path:
        side = self.test.side
        facts = [self.config, self.perturb, self.seed, *map(fingerprint, (*side.data, *side.also, *self.test.data))]
        facts += [fingerprint(dataset) for dataset in side.validation]
        facts += [list(self.evidence)] if self.evidence else []
        if side.first:
            facts += [fingerprint(dataset) for dataset in side.first.data]
        name = f"{self.training}--{side.name}--on-{self.test.name}--{self.perturb.replace(':', '')}"
        return workspace / "predictions" / f"{short(name)}--s{self.seed}--{digest(facts)}.npz"


def make_tests(
    data: Sequence[LandmarkDataset],
    validation: Sequence[LandmarkDataset],
    test: Sequence[LandmarkDataset],
    *,
    first: TrainingSplit | None = None,
    also: Sequence[LandmarkDataset] = (),
    leave_one_out: bool = False,
    each_test: bool = False,
    each_side: bool = False,
) -> list[EvaluationSplit]:
    """Which data are learned from and which are judged on; see `Table`.

    `also` is learned from whatever the side. Beside it a side's own drives are split: their last thirds are held out.
    With `leave_one_out` every data set is judged on once, after training on all others.
    """

    def make_side(drives: Sequence[LandmarkDataset]) -> TrainingSplit:
        name = short("+".join(dataset.name for dataset in drives))
        if also:
            name += f"+{len(also)}-more-{digest([dataset.name for dataset in also])[:4]}"
        if first:
            name += f"-after-{first.name}"
        held_out = (*drives, *validation) if also else tuple(validation)
        return TrainingSplit(name, tuple(drives), held_out, tuple(also), first)

    def checked(splits: list[EvaluationSplit]) -> list[EvaluationSplit]:
        for split in splits:
            refuse_learned(split.data, split.side.known)
        return splits

    if each_side:
        if leave_one_out:
            raise DataError("this table trains on each data set in turn: leave out --leave-one-out")
        if len(data) < 2 and not test:
            raise DataError("this table trains on each data set in turn and tests on the others: give two with --data")
        sides = [make_side([dataset]) for dataset in data]
        others = [[one for one in (*data, *test) if one.name != side.data[0].name] for side in sides]
        return checked(
            [EvaluationSplit(side, (one,)) for side, rest in zip(sides, others, strict=True) for one in rest]
        )
    if leave_one_out:
        if len(data) < 2 or test:
            raise DataError("--leave-one-out tests each data set of --data in turn: give two or more, and no --test")
        return checked([EvaluationSplit(make_side([one for one in data if one is not left]), (left,)) for left in data])
    if not test:
        raise DataError("no data set to test on: give at least one with --test, or --leave-one-out")
    side = make_side(data)
    return checked(
        [EvaluationSplit(side, (one,)) for one in test] if each_test else [EvaluationSplit(side, tuple(test))]
    )


def refuse_learned(tests: Sequence[LandmarkDataset], learned: Sequence[LandmarkDataset]) -> None:
    """Nothing is tested where it was trained, or where its checkpoint or threshold was chosen."""
    known = {place: one for one in learned for place in (one.name, one.world)}
    for test in tests:
        for place in (test.name, test.world):
            if place in known:
                raise DataError(
                    f"{test.name} cannot be tested on: {known[place].name}, which is learned from or held out to "
                    f"choose by, shows the same place ('{place}'); test on another street"
                )


def refuse_trained_on(tests: Sequence[LandmarkDataset], checkpoint: str, drives: Sequence[str]) -> None:
    """A checkpoint that was trained elsewhere must not have learned from what it is tested on."""
    seen = sorted({test.name for test in tests} & set(drives))
    if seen:
        raise DataError(
            f"checkpoint '{checkpoint}' was trained on {', '.join(seen)}: test it on other data, or leave it out"
        )


def make_first(
    data: Sequence[LandmarkDataset], validation: Sequence[LandmarkDataset], budget: float | None
) -> TrainingSplit:
    """What all methods learn from before they meet a side's own drives."""
    name = f"first-{digest([dataset.name for dataset in data])[:4]}"
    return TrainingSplit(name, tuple(data), tuple(validation), budget=budget)


def first_of(training: Training, side: TrainingSplit) -> TrainingSplit | None:
    """What a training meets before its side; one that begins with a checkpoint has learned already."""
    return None if training.start else side.first


def learns_from_towns(training: Training) -> bool:
    """Otherwise `first` only initialises it, and `also` is not for it: see `RunConfig`. A shipped checkpoint has
    learned from its own towns."""
    return not training.start and load_config(training, 0, None).learns_from_towns


def rate_of(training: Training, side: TrainingSplit, config: TrainingConfig) -> float:
    """The learning rate at which a training learns from its own drives."""
    if uses_imagenet(config):
        return config.learning_rate if config.steps >= LONG else min(ADAPTING, config.learning_rate)
    return config.learning_rate * (config.rate_after_first if first_of(training, side) else 1.0)


def uses_imagenet(config: TrainingConfig) -> bool:
    """Parts of the network begin with weights that were learned elsewhere."""
    network: Any = find_method(config.method).learning.network
    return bool(network.learned_elsewhere)


def learned_by(training: Training, side: TrainingSplit) -> tuple[LandmarkDataset, ...]:
    return (*side.data, *side.also) if learns_from_towns(training) else side.data


def load_config(training: Training, seed: int, steps: int | None) -> TrainingConfig:
    """The configuration of one run, as its preset has it; `steps` end in one validation."""
    changes: dict[str, Any] = {**training.changes, "seed": seed}
    if steps is not None:
        changes |= {"steps": steps, "validate_every": max(1, steps)}
    return load_training_config(training.config, changes)


def run_folder(workspace: Path, training: Training, side: TrainingSplit, seed: int) -> Path:
    """Named by all that a run learns from; what it is configured to do stands in it."""
    facts = [*map(fingerprint, side.known), start_digest(training)]
    return workspace / "runs" / f"{training.key}--{side.name}--s{seed}--{digest(facts)[:6]}"


def start_digest(training: Training) -> str:
    """Of the weights that a training begins with, where it names a checkpoint."""
    if not training.start:
        return ""
    folder = find_checkpoint(training.start)
    return fingerprint_of(read_header(folder), folder / WEIGHTS)


def is_finished(run: Path, config: TrainingConfig) -> bool:
    """The last step of this very configuration is done, and so is what follows it."""
    final = run / "final" / "model.json"
    if not final.is_file() or not (run / "best" / EXAMPLES_FILE).is_file():
        return False
    if read_json(run / "run.json", "training run")["config"] != json.loads(config.model_dump_json()):
        return False
    best = read_json(run / "best" / "model.json", "checkpoint header")
    return set(best["steps"]) == set(find_method(config.method).learning.steps)


def keep_plan(workspace: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The workspace's plan: how long trainings are, and what was decided on the way; refuses to mix two of them."""
    path = workspace / "plan.json"
    if not path.exists():
        plan = {"settings": settings, "steps": {}}
        write_json(path, plan)
        return plan
    plan = read_json(path, "plan of a workspace")
    if not isinstance(plan, dict) or not all(isinstance(plan.get(key), dict) for key in ("settings", "steps")):
        raise DataError(f"{path} is no plan of a workspace: choose another --out")
    for key, value in settings.items():
        if plan["settings"].get(key) != value:
            raise DataError(
                f"{path} was made with {key} = {plan['settings'].get(key)!r}, not {value!r}: tables of one workspace "
                "must be comparable; say the same, or choose another --out"
            )
    return dict(plan)


def keep_steps(workspace: Path, name: str, steps: int) -> dict[str, Any]:
    """Add the length of one training to the plan as it is now: another process may fill the same workspace."""
    path = workspace / "plan.json"
    plan = dict(read_json(path, "plan of a workspace"))
    plan["steps"].setdefault(name, steps)
    write_json(path, plan)
    return plan


def trainings_of(rows: Sequence[Row]) -> dict[str, Training]:
    """Every training once, by its key; two rows must not mean different ones by the same key."""
    found: dict[str, Training] = {}
    for row in rows:
        if found.setdefault(row.training.key, row.training) != row.training:
            raise DataError(f"two rows train different things by the name {row.training.key}")
    return found


def config_digest(config: TrainingConfig) -> str:
    return digest(json.loads(config.model_dump_json()))


def fingerprint(dataset: LandmarkDataset) -> str:
    """A digest of the landmarks and frames of a data set, whatever their place on disk."""
    frames = [
        [frame.name, [[*mark.box, mark.category, mark.identity] for mark in frame.landmarks]]
        for frame in dataset.frames
    ]
    return digest([dataset.name, dataset.world, frames])


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def short(name: str) -> str:
    """A name that fits a file's and leads nowhere else, told apart by a digest where it was changed."""
    plain = re.sub(r"[^\w.+,-]|^\.", "_", name, flags=re.ASCII)
    return plain if plain == name and len(name) <= 80 else f"{plain[:60]}-{digest(name)[:8]}"
