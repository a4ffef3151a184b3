"""The pages of `robustmat reproduce` that are no tables of trained methods: stability, runtime, pruning."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustmat.cli.checks import need
from robustmat.cli.console import make_console, progress_bars
from robustmat.errors import InputError

if TYPE_CHECKING:
    from robustmat.checkpoints.store import Checkpoint
    from robustmat.dataset.store import LandmarkDataset

CALIBRATION = 8  # frames that tell the ranges of eight bits
STABILITY_MODELS = ("street", "street-contractive", "untrained:street:resnet-gat", "root-sift")


@dataclass(frozen=True)
class Asked:
    """What the command line says about a page."""

    data: "list[LandmarkDataset]"
    val: "list[LandmarkDataset]"
    test: "list[LandmarkDataset]"
    out: Path
    checkpoint: str
    steps: int | None
    config: str
    frame_pairs: int
    name: str | None
    methods: tuple[str, ...]
    command: str = field(default_factory=lambda: " ".join(["robustmat", *sys.argv[1:]]))


def write_other_page(table: str, data: tuple[list[Path], list[Path], list[Path]], out: Path, **said: Any) -> Path:
    """Make a page of `OTHER_PAGES` in the workspace's `tables/`, of data sets to learn from, choose by and test on."""
    from robustmat.dataset.store import open_dataset

    learned, chosen, tested = ([open_dataset(path) for path in paths] for paths in data)
    return OTHER_PAGES[table](Asked(learned, chosen, tested, out, **said))


def _stability(asked: Asked) -> Path:
    from robustmat.perturb import parse
    from robustmat.robustness.stability import NOISE, measure_stability
    from robustmat.robustness.stability_page import write_stability

    if not (asked.data or asked.test):
        raise InputError("stability needs landmarks to perturb: give data sets with --data")
    progress = progress_bars(make_console(stderr=True))
    levels, datasets = [parse(name) for name in NOISE], [*asked.data, *asked.test]
    models = dict.fromkeys((asked.checkpoint, *STABILITY_MODELS))
    measured = [measure_stability(name, datasets, levels, progress=progress) for name in models]
    names = [dataset.name for dataset in datasets]
    return write_stability(asked.out / "tables", measured, names, asked.command, asked.name or "stability")


def _runtime(asked: Asked) -> Path:
    from robustmat.bench.runtime import RuntimeSettings, bench_runtime, write_runtime

    console = make_console(stderr=True)
    report = bench_runtime(RuntimeSettings(asked.methods), console.print)
    return write_runtime(asked.out / "tables" / f"{asked.name or 'runtime'}.md", report, asked.command)


def _pruning(asked: Asked) -> Path:
    need("torch_pruning", purpose="pruning")
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.export.frames import street_frames
    from robustmat.perturb import parse
    from robustmat.tables.plan import refuse_learned, refuse_trained_on
    from robustmat.tables.pruning import measure_pruning, write_pruning
    from robustmat.training.fine_tune import fine_tune
    from robustmat.types import plural

    if not asked.test:
        raise InputError("pruning is judged on data that nothing was tuned on: give it with --test")
    refuse_learned(asked.test, (*asked.data, *asked.val))
    progress = progress_bars(make_console(stderr=True))
    data, test, out = asked.data, asked.test, asked.out
    steps = 100 if asked.steps is None else asked.steps

    whole = load_checkpoint(asked.checkpoint)
    refuse_trained_on(test, asked.checkpoint, whole.provenance.drives)

    def tune(pruned: "Checkpoint", share: float) -> "Checkpoint":
        run = out / "runs" / f"{whole.name}-{whole.fingerprint[:8]}-pruned-{share:g}"
        said: dict[str, Any] = {"config": asked.config, "steps": steps, "resume": (run / "run.json").exists()}
        return load_checkpoint(fine_tune(pruned, data, asked.val, run, **said))

    others = [frame for one in (*data, *asked.val) for frame in one.frames if len(frame.landmarks) > 2]
    rows = measure_pruning(
        whole,
        test,
        parse("paper:16"),
        tune=tune if data else None,
        calibration=others[:CALIBRATION] or street_frames(CALIBRATION),
        frame_pairs=asked.frame_pairs,
        progress=progress,
    )
    names = ", ".join(one.name for one in data)
    tuned = f"fine-tuned for {plural(steps, 'step')} on {names}" if data else "not fine-tuned"
    scope = f"Tested on {', '.join(one.name for one in test)} at 16 dB; pruned forms are {tuned}."
    return write_pruning(out / "tables" / f"{asked.name or 'pruning'}.md", asked.checkpoint, rows, scope, asked.command)


OTHER_PAGES: dict[str, Callable[[Asked], Path]] = {"stability": _stability, "runtime": _runtime, "pruning": _pruning}
