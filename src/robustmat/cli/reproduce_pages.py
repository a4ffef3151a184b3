"""The pages of `robustmat reproduce` that are no tables of trained methods: stability, runtime, pruning."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from robustmat.cli.checks import need
from robustmat.cli.console import make_console, progress_bars
from robustmat.errors import InputError

if TYPE_CHECKING:
    from robustmat.checkpoints.store import Checkpoint
    from robustmat.dataset.store import LandmarkDataset

STABILITY_MODELS = ("street", "street-contractive", "untrained:street:resnet-gat", "root-sift")


def write_other_page(
    table: str, data: list[Path], val: list[Path], test: list[Path], out: Path, checkpoint: str, steps: int | None
) -> Path:
    """Make a page of `OTHER_PAGES` in the workspace's `tables/`."""
    from robustmat.dataset.store import open_dataset

    opened = [[open_dataset(path) for path in paths] for paths in (data, val, test)]
    return OTHER_PAGES[table](*opened, out, checkpoint, steps, " ".join(["robustmat", *sys.argv[1:]]))


def _stability(
    data: "list[LandmarkDataset]",
    val: "list[LandmarkDataset]",
    test: "list[LandmarkDataset]",
    out: Path,
    checkpoint: str,
    steps: int | None,
    command: str,
) -> Path:
    from robustmat.perturb import parse
    from robustmat.robustness.stability import NOISE, measure_stability
    from robustmat.robustness.stability_page import write_stability

    if not (data or test):
        raise InputError("stability needs landmarks to perturb: give data sets with --data")
    progress = progress_bars(make_console(stderr=True))
    levels, datasets = [parse(name) for name in NOISE], [*data, *test]
    models = dict.fromkeys((checkpoint, *STABILITY_MODELS))
    measured = [measure_stability(name, datasets, levels, progress=progress) for name in models]
    return write_stability(out / "tables", measured, [dataset.name for dataset in datasets], command)


def _runtime(
    data: "list[LandmarkDataset]",
    val: "list[LandmarkDataset]",
    test: "list[LandmarkDataset]",
    out: Path,
    checkpoint: str,
    steps: int | None,
    command: str,
) -> Path:
    from robustmat.bench.runtime import RuntimeSettings, bench_runtime, write_runtime

    console = make_console(stderr=True)
    return write_runtime(out / "tables" / "runtime.md", bench_runtime(RuntimeSettings(), console.print), command)


def _pruning(
    data: "list[LandmarkDataset]",
    val: "list[LandmarkDataset]",
    test: "list[LandmarkDataset]",
    out: Path,
    checkpoint: str,
    steps: int | None,
    command: str,
) -> Path:
    need("torch_pruning", purpose="pruning")
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.perturb import parse
    from robustmat.tables.pruning import measure_pruning, write_pruning
    from robustmat.training.fine_tune import fine_tune

    if not test:
        raise InputError("pruning is judged on data that nothing was tuned on: give it with --test")
    progress = progress_bars(make_console(stderr=True))
    steps = 100 if steps is None else steps

    def tune(pruned: "Checkpoint", share: float) -> "Checkpoint":
        return load_checkpoint(fine_tune(pruned, data, val, out / "runs" / f"pruned-{share:g}", steps=steps))

    rows = measure_pruning(
        load_checkpoint(checkpoint), test, parse("paper:16"), tune=tune if data else None, progress=progress
    )
    tuned = f"fine-tuned for {steps} steps on {', '.join(one.name for one in data)}" if data else "not fine-tuned"
    scope = f"Tested on {', '.join(one.name for one in test)} at 16 dB; pruned forms are {tuned}."
    return write_pruning(out / "tables" / "pruning.md", checkpoint, rows, scope, command)


OTHER_PAGES: dict[str, Callable[..., Path]] = {"stability": _stability, "runtime": _runtime, "pruning": _pruning}
