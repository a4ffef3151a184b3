"""`robustmat evaluate`: how well a matcher does on landmark data sets, beside the reference rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from robustmat.dataset.store import LandmarkDataset

PARTS = {
    "pairs, {negatives}": (
        *("precision", "recall", "f1", "auc_paper", "roc_auc"),
        *("average_precision", "fpr95"),
    ),
    "whole frames": ("match_precision", "match_recall", "match_f1"),
}
LABELS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc_paper": "AUC (paper)",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "fpr95": "FPR, 95 % recall",
    "match_precision": "match precision",
    "match_recall": "match recall",
    "match_f1": "match F1",
}


def evaluate(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET", help="Prepared data sets.")],
    *,
    method: Annotated[str, typer.Option(help="What to evaluate.")] = "robustmat",
    checkpoint: Annotated[str, typer.Option(help="Name of a shipped model, or a run's folder.")] = "street",
    perturb: Annotated[str, typer.Option(metavar="NAME:LEVEL", help="clean, paper:16, snow:3, ...")] = "clean",
    perturb_side: Annotated[str, typer.Option(help="Perturb both frames of a pair or the second.")] = "both",
    negatives: Annotated[str, typer.Option(help="Unmatched pairs: same-class or random.")] = "same-class",
    seed: Annotated[int, typer.Option(min=0, help="Draws pairs and noise.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write the numbers to this file.")] = None,
    predictions: Annotated[Path | None, typer.Option(help="Write all predictions to this .npz file.")] = None,
    reference_data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DATASET", help="Training side, for references that learn; may be repeated."),
    ] = None,
    allow_seen: Annotated[bool, typer.Option("--allow-seen", help="Evaluate even on drives of the training.")] = False,
) -> None:
    """Evaluate a matcher: landmark pairs as in the paper, and whole frame pairs as a user sees them."""
    from rich.console import Console
    from rich.progress import track

    from robustmat.dataset.store import open_dataset
    from robustmat.dataset.truth import read_truth
    from robustmat.errors import ConfigError
    from robustmat.evaluation.evaluate import evaluate as run
    from robustmat.evaluation.predictions import write_predictions
    from robustmat.evaluation.references import make_references, read_examples
    from robustmat.files import write_json
    from robustmat.matching import load
    from robustmat.models.weights import find_checkpoint
    from robustmat.perturb import parse

    if method != "robustmat":
        raise ConfigError(f"unknown method {method!r}: this version evaluates robustmat")
    console, errors = Console(), Console(stderr=True)
    perturbation = parse(perturb)
    opened = [open_dataset(path) for path in datasets]
    training = [open_dataset(path) for path in reference_data or ()]
    read_truth([*opened, *training])  # refuses what cannot be judged before anything slow begins
    matcher = load(checkpoint)
    if not allow_seen:
        held_out = matcher.provenance.validation_drives
        _refuse_seen(opened, matcher.trained_on, f"checkpoint {checkpoint} was trained on")
        _refuse_seen(opened, held_out, f"the threshold of checkpoint {checkpoint} was chosen on")
        _refuse_seen(opened, [dataset.name for dataset in training], "--reference-data fits the references on")

    def progress(items: Sequence[Any], what: str) -> Iterable[Any]:
        return track(items, what, console=errors, transient=True)

    references = make_references(
        training,
        perturbation,
        negatives,
        seed,
        side=perturb_side,
        examples=read_examples(find_checkpoint(checkpoint)),
        progress=progress,
    )
    report, predicted = run(
        matcher,
        opened,
        perturbation,
        negatives,
        seed,
        side=perturb_side,
        references=references,
        method=method,
        checkpoint=checkpoint,
        progress=progress,
    )
    console.print(_table(report))
    for row, reason in report["references_omitted"].items():
        console.print(f"no row {row}: {reason}", style="dim")
    if predictions is not None:
        write_predictions(predictions, predicted)
        console.print(f"predictions: {predictions}", markup=False, soft_wrap=True)
    if json is not None:
        write_json(json, report)
        console.print(f"numbers: {json}", markup=False, soft_wrap=True)


def _refuse_seen(opened: "Sequence[LandmarkDataset]", seen: Iterable[str], what: str) -> None:
    from robustmat.errors import DataError

    shared = sorted({dataset.name for dataset in opened} & set(seen))
    if shared:
        raise DataError(
            f"{what} {', '.join(shared)}: numbers on a drive that was learned from say nothing about others; "
            "evaluate on another drive, or insist with --allow-seen"
        )


def _table(report: dict[str, Any]) -> "Table":
    """One line a metric, one column a method, so that it fits a narrow terminal."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        caption_justify="left",
        title=f"{', '.join(report['datasets'])}, {report['perturb']}",
        caption=(
            f"{report['n_matched']} matched and {report['n_unmatched']} unmatched pairs of "
            f"{report['n_identities']} objects; {report['n_frame_pairs']} of {report['n_frame_pairs_found']} "
            f"frame pairs. Intervals: 95 % over objects; unmatched pairs are of one class (same-class) or of "
            "any two objects (random). The best possible threshold would add "
            f"{report['threshold_loss']:.3f} to AUC (paper)."
        ),
    )
    table.add_column("", no_wrap=True)
    table.add_column(report["method"], justify="right", style="bold", no_wrap=True)
    table.add_column("interval", justify="right", no_wrap=True, style="dim")
    for row in report["references"]:
        table.add_column(row.replace("-", " "), justify="right", overflow="fold")
    for part, names in PARTS.items():
        table.add_row(part.format(negatives=report["negatives"]), style="italic")
        for name in names:
            low, high = report["intervals"][name]
            spread = "" if low is None or high is None else f"{low:.2f}-{high:.2f}"
            others = (f"{values[name]:.3f}" for values in report["references"].values())
            table.add_row(LABELS[name], f"{report[name]:.3f}", spread, *others)
        table.add_section()
    for kind, rows in report["by_negatives"].items():
        if kind != report["negatives"]:
            table.add_row(f"pairs, {kind}", style="italic")
            for name in ("f1", "auc_paper", "roc_auc"):
                ours, *theirs = (f"{values[name]:.3f}" for values in rows.values())
                table.add_row(LABELS[name], ours, "", *theirs)
    return table
