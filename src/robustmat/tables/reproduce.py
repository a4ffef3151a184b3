"""Make a table of the paper: train what is missing, predict what is missing, compute the table from the predictions.

Everything is kept in a workspace and found again there: an interrupted command goes on where it was.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from robustmat.checkpoints.load import from_checkpoint, untrained_matcher
from robustmat.checkpoints.store import Checkpoint, find_checkpoint, load_checkpoint, read_header
from robustmat.dataset.pairs import PairSample
from robustmat.denoising.frames import DenoisedMatcher, Remembering
from robustmat.denoising.protocol import Denoiser
from robustmat.denoising.registry import DEFAULT_DENOISER, load_denoiser
from robustmat.errors import ConfigError
from robustmat.evaluation.evaluate import evaluate
from robustmat.evaluation.predictions import write_predictions
from robustmat.fitting.competition import fit_steps
from robustmat.fitting.decision import decided
from robustmat.fitting.references import CONSTANT, FITTED, UNFITTED, fit_thresholds, make_references
from robustmat.matching.cached import CachedByContent, CachedMatcher
from robustmat.matching.decision import Decision
from robustmat.matching.matcher import Matcher
from robustmat.matching.steps import SteppedMatcher
from robustmat.methods import find_method, method_names
from robustmat.methods.box_geometry import EXAMPLES_FILE
from robustmat.perturb import parse
from robustmat.progress import Progress, silent
from robustmat.tables.budget import steps_within
from robustmat.tables.definitions import DENOISED, PAIR, Row, Table, Training
from robustmat.tables.plan import (
    REFERENCES,
    Cell,
    EvaluationSplit,
    TrainingSplit,
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
    refuse_trained_on,
    run_folder,
    start_digest,
    trainings_of,
)
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.inputs import Inputs
from robustmat.training.run import choose_validation, train

Tell = Callable[[str], None]
Found = dict[tuple[str, str, str, int], Path]  # training, test, perturbation, seed -> predictions file
DENOISED_FRAMES = 400  # kept, half a gigabyte: a drive and its validation frames, for all methods in turn
FIRST_SEED = 0  # of what is learned first, for all seeds alike
STEPS = ("neighbors", "competition", "placement")  # on top of the strongest references, too
STEPPED_REFERENCES = ("cross-correlation", "root-sift")  # the strongest of those that learn nothing


@dataclass(frozen=True)
class Settings:
    """How much is done for a table. Steps come from the configuration, from `steps`, or from `budget` minutes."""

    seeds: tuple[int, ...] = (0, 1, 2)
    budget: float | None = None
    steps: int | None = None
    most_frame_pairs: int = 300
    licence: str = "unspecified"
    denoiser: str = DEFAULT_DENOISER  # of rows that are shown denoised frames


@dataclass
class Workspace:
    """A folder of runs and predictions, and what is shown while they are made."""

    path: Path
    settings: Settings
    tell: Tell = lambda line: None
    progress: Progress = silent
    plan: dict[str, Any] = field(default_factory=dict)
    references: dict[tuple[str, int], list[Matcher]] = field(default_factory=dict)  # fitted once for each side and seed
    inputs: Inputs = field(default_factory=Inputs)
    priors: dict[bytes, Matcher] = field(default_factory=dict)  # box geometry, by the content of its examples
    decisions: dict[Any, list[Decision]] = field(default_factory=dict)  # of what no training fitted

    @cached_property
    def denoiser(self) -> Denoiser:
        return Remembering(load_denoiser(self.settings.denoiser, torch.get_num_threads()), DENOISED_FRAMES)

    def __post_init__(self) -> None:
        kept = {"budget": self.settings.budget, "steps": self.settings.steps}
        self.plan = keep_plan(self.path, {**kept, "most_frame_pairs": self.settings.most_frame_pairs})

    def config(self, training: Training, side: TrainingSplit, seed: int) -> TrainingConfig:
        """The run's configuration; how many steps a budget is worth is measured once and then kept.

        Fine-tuning a shipped checkpoint keeps its own steps: it goes on from a training that no budget paid for. So
        does a row that says how many it takes.
        """
        if training.start or "steps" in training.changes:
            return load_config(training, seed, None)
        steps, budget = self.settings.steps, side.budget or self.settings.budget
        if budget is not None:
            name = training.key if side.budget is None else f"{training.key}--{side.name}"  # all folds alike
            if name not in self.plan["steps"]:
                learned, _ = choose_validation(learned_by(training, side), side.validation)
                counted = steps_within(load_config(training, seed, None), learned, budget)
                self.plan = keep_steps(self.path, name, counted)
            steps = self.plan["steps"][name]
        preset = load_config(training, seed, steps)
        return preset.model_copy(update={"learning_rate": rate_of(training, side, preset)})

    def first_config(self, training: Training, first: TrainingSplit) -> TrainingConfig:
        """How a training learns from what comes first, or is suited to it."""
        if not learns_from_towns(training):
            return load_config(training, FIRST_SEED, 0)
        return self.config(training, first, FIRST_SEED)


def reproduce(table: Table, rows: Sequence[Row], tests: Sequence[EvaluationSplit], workspace: Workspace) -> Found:
    """Train and predict whatever the rows lack."""
    trainings = trainings_of(rows)
    refuse_seen(trainings.values(), tests)
    refuse_unknown_evidence(rows)
    found: Found = {}
    for seed in workspace.settings.seeds:
        for side in {test.side.name: test.side for test in tests}.values():
            digests: dict[str, str] = {}
            runs: dict[str, Path] = {}
            for training in trainings.values():
                if training.needed:
                    config = workspace.config(training, side, seed)
                    runs[training.key] = train_missing(workspace, training, config, side, seed)
                    digests[training.key] = digest([config_digest(config), start_digest(training)])
                else:
                    digests[training.key] = digest([training.config, workspace.settings.most_frame_pairs])
            for row in rows:
                if row.denoised:
                    digests[row.key] = digest([digests[row.training.key], workspace.denoiser.fingerprint])
            asked = {row.key: tuple(sorted({one.evidence for one in rows if one.key == row.key})) for row in rows}
            digests = {key: value for key, value in digests.items() if key in asked}
            if table.references:
                digests[REFERENCES] = digest([REFERENCES, *CONSTANT, *FITTED, workspace.settings.most_frame_pairs])
            for one_one in (one for one in tests if one.side.name == side.name):
                for perturb in table.conditions:
                    cells = {
                        key: Cell(
                            key, one_one, perturb, seed, value, runs.get(key.removesuffix(DENOISED)), asked.get(key, ())
                        )
                        for key, value in digests.items()
                    }
                    predict_missing(workspace, list(cells.values()))
                    for key, cell in cells.items():
                        found[key, test_name(one_one), perturb, seed] = cell.path(workspace.path)
    return found


def refuse_seen(trainings: Iterable[Training], tests: Sequence[EvaluationSplit]) -> None:
    """Of rows that were trained elsewhere."""
    tested = [data for test in tests for data in test.data]
    for start in dict.fromkeys(training.start for training in trainings if training.start):
        refuse_trained_on(tested, start, read_header(find_checkpoint(start)).provenance.drives)


def refuse_unknown_evidence(rows: Iterable[Row]) -> None:
    """A row asks for what its scores can know; that is known before anything is trained."""
    for row in rows:
        known: tuple[str, ...] = (PAIR, *find_method(row.training.config).steps) if not row.training.needed else ()
        if row.training.needed:
            config = load_config(row.training, 0, None)
            known = (*getattr(config.model, "evidence", (PAIR,)), *find_method(config.method).learning.steps)
        if row.evidence not in known:
            raise ConfigError(f"the row {row.label} cannot be made: its scores know {', '.join(known)} alone")


def test_name(test: EvaluationSplit) -> str:
    return f"{test.side.name} -> {test.name}"


def train_missing(
    workspace: Workspace, training: Training, config: TrainingConfig, side: TrainingSplit, seed: int
) -> Path:
    """A finished run is left alone, a begun one goes on, a missing one begins."""
    out = run_folder(workspace.path, training, side, seed)
    if is_finished(out, config):
        return out
    first = first_of(training, side)
    if first:
        train_missing(workspace, training, workspace.first_config(training, first), first, FIRST_SEED)
    start = start_of(workspace, training, side)
    workspace.tell(f"training {training.key} on {side.name}, seed {seed}, {config.steps} steps")
    options: dict[str, Any] = {
        "resume": (out / "run.json").exists(),
        "licence": workspace.settings.licence,
        "command": train_command(training, side, config, out, start),
        "progress": workspace.progress,
        "inputs": workspace.inputs,
    }
    began = load_checkpoint(start) if start else None
    train(config, learned_by(training, side), side.validation, out, start=began, **options)
    return out


def start_of(workspace: Workspace, training: Training, side: TrainingSplit) -> str | Path | None:
    """The checkpoint that a training begins with: its own, or what it learned from the data that comes first."""
    first = first_of(training, side)
    return run_folder(workspace.path, training, first, FIRST_SEED) if first else training.start


def predict_missing(workspace: Workspace, cells: Sequence[Cell]) -> None:
    """Judge all methods that have no predictions yet for one test, perturbation and seed, in a single pass."""
    missing = [one_cell for one_cell in cells if not one_cell.path(workspace.path).exists()]
    if not missing:
        return
    first = missing[0]
    workspace.tell(f"predicting {first.test.name}, {first.perturb}, seed {first.seed}: {len(missing)} methods")
    matchers: dict[str, list[Matcher]] = {}
    for cell in missing:
        if cell.training == REFERENCES:
            key = cell.test.side.name, cell.seed
            if key not in workspace.references:
                workspace.references[key] = reference_rows(workspace, cell.test.side, cell.seed)
            matchers[REFERENCES] = workspace.references[key]
        else:
            matchers[cell.training] = method_rows(workspace, cell)
    leader, *rest = [row for group in matchers.values() for row in group]
    _, whole = evaluate(
        leader,
        first.test.data,
        parse(first.perturb),
        seed=first.seed,
        references=rest,
        most_frame_pairs=workspace.settings.most_frame_pairs,
        resamples=1,
        progress=workspace.progress,
    )
    start = 0
    for cell in missing:
        group = matchers[cell.training]
        part = whole.rows[start : start + len(group)]
        start += len(group)
        meta = whole.meta | {"training": cell.training, "side": cell.test.side.name, "config": cell.config}
        write_predictions(cell.path(workspace.path), replace(whole, meta=meta, rows=part))


def method_rows(workspace: Workspace, cell: Cell) -> list[Matcher]:
    """A method's matcher under every kind of evidence that is asked for, trained or not, denoised or not."""
    key, side = cell.training.removesuffix(DENOISED), cell.test.side
    denoiser = workspace.denoiser if cell.training.endswith(DENOISED) else None
    untrained = key in method_names() and find_method(key).trainable is None
    if untrained:
        rows = untrained_rows(key, denoiser)
    else:
        assert cell.run is not None
        rows = trained_rows(cell.run, workspace.priors, denoiser)
    rows = [row for row in rows if row.name in cell.evidence]
    if key in UNFITTED or not (untrained or denoiser):
        return rows
    # Thresholds of what was not trained, or was trained without denoising, come from the same validation data.
    fitted = cell.training, side.name, cell.seed, cell.evidence
    if fitted not in workspace.decisions:
        sample = validation_sample(workspace, side, cell.seed)
        decided_rows = fit_thresholds(rows, sample, progress=workspace.progress)
        workspace.decisions[fitted] = [row.decision for row in decided_rows]
    return [decided(row, decision) for row, decision in zip(rows, workspace.decisions[fitted], strict=True)]


def validation_sample(workspace: Workspace, side: TrainingSplit, seed: int) -> PairSample:
    _, held_out = choose_validation((*side.data, *side.also), side.validation)
    return workspace.inputs.validation(RunConfig(seed=seed), held_out, workspace.progress).sample


def untrained_rows(method: str, denoiser: Denoiser | None) -> list[Matcher]:
    """A method that needs no training, by itself and with the steps that need no fitting, each named by it."""
    matcher = untrained_matcher(method)
    inner = CachedMatcher(DenoisedMatcher(matcher, denoiser) if denoiser else matcher)
    rows: list[Matcher] = [inner, *(SteppedMatcher(inner, step) for step in find_method(method).steps)]
    for row, kind in zip(rows, ("pair", *find_method(method).steps), strict=True):
        row.name = kind
    return rows


def trained_rows(run: Path, priors: dict[bytes, Matcher], denoiser: Denoiser | None = None) -> list[Matcher]:
    """A run's matcher under every kind of evidence that it knows, each named by it.

    Runs that learned from the same boxes share their box geometry, by its file's content: it costs more than pixels do.
    """
    checkpoint = load_checkpoint(run)
    rows: list[Matcher] = []
    for kind in checkpoint.network.evidence:
        matcher = from_checkpoint(checkpoint, kind)
        row = CachedMatcher(DenoisedMatcher(matcher, denoiser) if denoiser else matcher)
        row.name = kind
        rows.append(row)
    inner = rows[-1]
    for step, config in checkpoint.steps.items():
        prior = box_prior(checkpoint, priors) if step == "placement" else None
        stepped = SteppedMatcher(inner, step, config, checkpoint.decisions[step], prior)
        stepped.name = step
        rows.append(stepped)
    return rows


def box_prior(checkpoint: Checkpoint, priors: dict[bytes, Matcher]) -> Matcher:
    """The box geometry that a checkpoint brings, fitted once for all that bring the same."""
    assert checkpoint.folder is not None
    seed = checkpoint.provenance.seed or 0
    boxes = (checkpoint.folder / EXAMPLES_FILE).read_bytes() + str(seed).encode()
    if boxes not in priors:
        stepped = from_checkpoint(checkpoint, "placement")
        assert isinstance(stepped, SteppedMatcher)
        assert stepped.prior is not None
        priors[boxes] = CachedByContent(stepped.prior)
    return priors[boxes]


def reference_rows(workspace: Workspace, side: TrainingSplit, seed: int) -> list[Matcher]:
    """The reference rows with their thresholds from the side's validation data, as the trained methods have theirs.

    Keypoints of whole frames are not among them: they cost as much as all others, and have a table of their own.
    """
    learned, _ = choose_validation((*side.data, *side.also), side.validation)
    examples, _ = workspace.inputs.geometry(learned, seed)
    rows = make_references(examples=examples, seed=seed).rows
    sample = validation_sample(workspace, side, seed)
    fitted = fit_thresholds([row for row in rows if row.name not in UNFITTED], sample)
    geometry = next(row for row in fitted if row.name == "box-geometry")
    strong = [row for row in fitted if row.name in STEPPED_REFERENCES]
    stepped = [row for inner in strong for row in fit_steps(inner, STEPS, sample, prior=geometry)]
    return [*(row for row in rows if row.name in CONSTANT), *fitted, *stepped]


def train_command(
    training: Training, side: TrainingSplit, config: TrainingConfig, out: Path, start: str | Path | None = None
) -> str:
    """What a user would type for the same run; changes beyond steps, seed and variant go into a TOML file."""
    data = " ".join(f"--data {dataset.path}" for dataset in learned_by(training, side))
    held = "".join(f" --val {dataset.path}" for dataset in side.validation)
    variant = training.changes.get("variant")
    more = f" --variant {variant}" if variant else ""
    more += f" --start {start}" if start else ""
    rest = {key: value for key, value in training.changes.items() if key != "variant"}
    preset = load_config(training, config.seed, config.steps)
    rest |= {"learning_rate": config.learning_rate} if config.learning_rate != preset.learning_rate else {}
    note = f"  # with {rest}" if rest else ""
    head = f"robustmat train {training.config} {data}{held}{more}"
    return f"{head} --seed {config.seed} --steps {config.steps} --out {out}{note}"


def evaluate_command(row: Row, test: EvaluationSplit, perturb: str, seed: int, run: Path, settings: Settings) -> str:
    data = " ".join(str(dataset.path) for dataset in test.data)
    what = f"--checkpoint {run}" if row.training.needed else f"--method {row.training.config}"
    more = f" --frame-pairs {settings.most_frame_pairs}"
    more += f" --denoise {settings.denoiser}" if row.denoised else ""
    return f"robustmat evaluate {data} {what} --evidence {row.evidence} --perturb {perturb} --seed {seed}{more}"
