"""Make a table of the paper: train what is missing, predict what is missing, compute the table from the predictions.

Everything is kept in a workspace and found again there: an interrupted command goes on where it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robustmat.dataset.batches import Progress
from robustmat.evaluation.evaluate import evaluate
from robustmat.evaluation.predictions import write_predictions
from robustmat.evaluation.scoring import Progress as LabelledProgress
from robustmat.evaluation.scoring import silent
from robustmat.fitting.competition import fit_steps
from robustmat.fitting.decision import embed_sample_with, fit_decision
from robustmat.fitting.methods import ROBUSTMAT, load_method
from robustmat.fitting.references import (
    EXAMPLES_FILE,
    BoxGeometry,
    References,
    geometry_examples,
    make_references,
)
from robustmat.matching.matcher import RobustMatcher
from robustmat.matching.protocol import Matcher
from robustmat.matching.steps import STEPS, SharedMatcher, SteppedMatcher
from robustmat.models.baselines.weights import load_baseline, method_of
from robustmat.models.weights import find_checkpoint, load_checkpoint
from robustmat.perturb import parse
from robustmat.tables.budget import steps_within
from robustmat.tables.definitions import PAIR, Row, Table, Training
from robustmat.tables.plan import (
    REFERENCES,
    Cell,
    Side,
    Test,
    config_digest,
    digest,
    first_of,
    is_finished,
    keep_plan,
    keep_steps,
    learned_by,
    learns_from_towns,
    load_config,
    rate_of,
    run_folder,
    trainings_of,
)
from robustmat.training.baseline_config import BaselineTrainingConfig
from robustmat.training.baseline_run import train_baseline
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.inputs import Inputs
from robustmat.training.run import choose_validation, train
from robustmat.training.validation import build_validation

Tell = Callable[[str], None]
Found = dict[tuple[str, str, str, int], Path]  # training, test, perturbation, seed -> predictions file
FIRST_SEED = 0  # of what is learned first, for all seeds alike
STEPPED_REFERENCES = ("cross-correlation", "root-sift")  # the strongest of those that learn nothing


@dataclass(frozen=True)
class Settings:
    """How much is done for a table. Steps come from the configuration, from `steps`, or from `budget` minutes."""

    seeds: tuple[int, ...] = (0, 1, 2)
    budget: float | None = None
    steps: int | None = None
    most_frame_pairs: int = 300
    licence: str = "unspecified"


@dataclass
class Workspace:
    """A folder of runs and predictions, and what is shown while they are made."""

    path: Path
    settings: Settings
    tell: Tell = lambda line: None
    progress: Progress | None = None
    labelled: LabelledProgress = silent
    plan: dict[str, Any] = field(default_factory=dict)
    references: dict[tuple[str, int], list[Matcher]] = field(default_factory=dict)  # fitted once for each side and seed
    inputs: Inputs = field(default_factory=Inputs)

    def __post_init__(self) -> None:
        kept = {"budget": self.settings.budget, "steps": self.settings.steps}
        self.plan = keep_plan(self.path, {**kept, "most_frame_pairs": self.settings.most_frame_pairs})

    def config(self, training: Training, side: Side, seed: int) -> RunConfig:
        """The run's configuration; how many steps a budget is worth is measured once and then kept.

        Fine-tuning a shipped checkpoint keeps its own steps: it goes on from a training that no budget paid for.
        """
        if training.start:
            return load_config(training, seed, None)
        steps, budget = self.settings.steps, side.budget or self.settings.budget
        if budget is not None:
            name = f"{training.key}--{side.name}"
            if name not in self.plan["steps"]:
                learned, _ = choose_validation(learned_by(training, side), side.validation)
                counted = steps_within(load_config(training, seed, None), learned, budget)
                self.plan = keep_steps(self.path, name, counted)
            steps = self.plan["steps"][name]
        preset = load_config(training, seed, steps)
        return preset.model_copy(update={"learning_rate": rate_of(training, side, preset)})

    def first_config(self, training: Training, first: Side) -> RunConfig:
        """How a training learns from what comes first, or is suited to it."""
        if not learns_from_towns(training):
            return load_config(training, FIRST_SEED, 0)
        return self.config(training, first, FIRST_SEED)


def reproduce(table: Table, rows: Sequence[Row], tests: Sequence[Test], workspace: Workspace) -> Found:
    """Train and predict whatever the rows lack."""
    trainings = trainings_of(rows)
    found: Found = {}
    for seed in workspace.settings.seeds:
        for side in {it.side.name: it.side for it in tests}.values():
            digests = {}
            for training in trainings.values():
                config = workspace.config(training, side, seed)
                train_missing(workspace, training, config, side, seed)
                digests[training.key] = config_digest(config)
            digests[REFERENCES] = digest([REFERENCES, workspace.settings.most_frame_pairs])
            for it in (one for one in tests if one.side.name == side.name):
                for perturb in table.conditions:
                    cells = {key: Cell(key, it, perturb, seed, value) for key, value in digests.items()}
                    predict_missing(workspace, list(cells.values()))
                    for key, cell in cells.items():
                        found[key, test_name(it), perturb, seed] = cell.path(workspace.path)
    return found


def test_name(test: Test) -> str:
    return f"{test.side.name} -> {test.name}"


def train_missing(workspace: Workspace, training: Training, config: RunConfig, side: Side, seed: int) -> Path:
    """A finished run is left alone, a begun one goes on, a missing one begins."""
    out = run_folder(workspace.path, training.key, side, seed)
    if is_finished(out, config):
        return out
    start: str | Path | None = training.start
    first = first_of(training, side)
    if first:
        before = workspace.first_config(training, first)
        start = train_missing(workspace, training, before, first, FIRST_SEED)
    workspace.tell(f"training {training.key} on {side.name}, seed {seed}, {config.steps} steps")
    options: dict[str, Any] = {
        "resume": (out / "run.json").exists(),
        "licence": workspace.settings.licence,
        "command": train_command(training, side, config, out, start),
        "progress": workspace.progress,
        "inputs": workspace.inputs,
    }
    if isinstance(config, BaselineTrainingConfig):
        begin = load_baseline(start) if start else None
        train_baseline(config, learned_by(training, side), side.validation, out, start=begin, **options)
    elif isinstance(config, TrainingConfig):
        shipped = load_checkpoint(start) if start else None
        train(config, learned_by(training, side), side.validation, out, start=shipped, **options)
    return out


def predict_missing(workspace: Workspace, cells: Sequence[Cell]) -> None:
    """Judge all methods that have no predictions yet for one test, perturbation and seed, in a single pass."""
    missing = [it for it in cells if not it.path(workspace.path).exists()]
    if not missing:
        return
    first = missing[0]
    workspace.tell(f"predicting {first.test.name}, {first.perturb}, seed {first.seed}: {len(missing)} methods")
    matchers: dict[str, list[Matcher]] = {}
    priors: dict[bytes, SharedMatcher] = {}
    for cell in missing:
        if cell.training == REFERENCES:
            key = cell.test.side.name, cell.seed
            if key not in workspace.references:
                workspace.references[key] = reference_rows(cell.test.side, cell.seed)
            matchers[REFERENCES] = workspace.references[key]
        else:
            run = run_folder(workspace.path, cell.training, cell.test.side, cell.seed)
            matchers[cell.training] = trained_rows(run, priors)
    (leader, *rest) = [it for group in matchers.values() for it in group]
    _, whole = evaluate(
        leader,
        first.test.data,
        parse(first.perturb),
        seed=first.seed,
        references=References(tuple(rest)),
        most_frame_pairs=workspace.settings.most_frame_pairs,
        resamples=1,
        progress=workspace.labelled,
    )
    start = 0
    for cell in missing:
        group = matchers[cell.training]
        part = whole.rows[start : start + len(group)]
        start += len(group)
        meta = whole.meta | {"training": cell.training, "side": cell.test.side.name, "config": cell.config}
        write_predictions(cell.path(workspace.path), replace(whole, meta=meta, rows=part))


def trained_rows(run: Path, priors: dict[bytes, SharedMatcher]) -> list[Matcher]:
    """A run's matcher with everything that goes on top of it, each under the name of its step.

    Runs that learned from the same boxes share their box geometry, by its file's content: it costs more than pixels do.
    """
    method = method_of(run) or ROBUSTMAT
    rows: list[Matcher] = []
    if method == ROBUSTMAT:
        checkpoint = load_checkpoint(run)
        for kind in checkpoint.model.config.evidence:
            robust = RobustMatcher(checkpoint, evidence=kind)
            robust.name = kind
            rows.append(robust)
        return rows
    shared = SharedMatcher(load_method(method, run)[0])
    shared.name = PAIR
    for step in STEPS:
        stepped, _ = load_method(f"{method}+{step}", run)
        assert isinstance(stepped, SteppedMatcher)
        stepped.inner, stepped.name = shared, step
        if stepped.prior:
            boxes = (find_checkpoint(run) / EXAMPLES_FILE).read_bytes()
            stepped.prior = priors.setdefault(boxes, SharedMatcher(stepped.prior))
        rows.append(stepped)
    return [shared, *rows]


def reference_rows(side: Side, seed: int) -> list[Matcher]:
    """The reference rows with their thresholds from the side's validation data, as the trained methods have theirs."""
    learned, held_out = choose_validation((*side.data, *side.also), side.validation)
    rows = list(make_references(examples=geometry_examples(learned, seed), seed=seed).rows)
    judge = build_validation(held_out, parse("paper:16"), seed)
    for row, embedded in zip(rows, embed_sample_with(rows, judge.sample), strict=True):
        if row.name in ("always-match", "same-class"):
            continue
        decision = fit_decision(row, embedded, judge.sample).decision
        row.threshold, row.match_threshold = decision.threshold, decision.match_threshold
    geometry = next(it for it in rows if isinstance(it, BoxGeometry))
    strong = [it for it in rows if it.name in STEPPED_REFERENCES]
    stepped = [it for inner in strong for it in fit_steps(inner, STEPS, judge.sample, prior=geometry)]
    return [*rows, *stepped]


def train_command(training: Training, side: Side, config: RunConfig, out: Path, start: str | Path | None = None) -> str:
    """What a user would type for the same run; changes beyond steps, seed and variant go into a TOML file."""
    data = " ".join(f"--data {it.path}" for it in learned_by(training, side))
    held = "".join(f" --val {it.path}" for it in side.validation)
    variant = training.changes.get("variant")
    more = f" --variant {variant}" if variant else ""
    more += f" --start {start}" if start else ""
    rest = {key: value for key, value in training.changes.items() if key != "variant"}
    preset = load_config(training, config.seed, config.steps)
    rest |= {"learning_rate": config.learning_rate} if config.learning_rate != preset.learning_rate else {}
    note = f"  # with {rest}" if rest else ""
    head = f"robustmat train {training.config} {data}{held}{more}"
    return f"{head} --seed {config.seed} --steps {config.steps} --out {out}{note}"


def evaluate_command(row: Row, test: Test, perturb: str, seed: int, run: Path) -> str:
    data = " ".join(str(it.path) for it in test.data)
    return f"robustmat evaluate {data} --method {row.method} --checkpoint {run} --perturb {perturb} --seed {seed}"
