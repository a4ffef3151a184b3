"""`robustmat evaluate`: how well a matcher does on landmark data sets, beside the reference rows."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import output_file, output_folder
from robustmat.cli.console import make_console, progress_bars
from robustmat.cli.denoise import Denoise

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from robustmat.dataset.store import LandmarkDataset

PAIR_METRICS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc_paper": "AUC (paper)",
    "roc_auc": "ROC AUC",
    "average_precision": "AP",
    "fpr95": "FPR95",
}
FRAME_METRICS = {"match_precision": "precision", "match_recall": "recall", "match_f1": "match F1"}


def evaluate(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET", help="Prepared data sets.")],
    *,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[+EVIDENCE]",
            help="robustmat, root-sift, hardnet+neighbors, ...; the checkpoint's own unless given.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Name of a shipped model, or a run's folder; `street` unless given.")
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(help="What a score may know: pair, frames (all landmarks, by pixels), placement (boxes, too)."),
    ] = None,
    perturb: Annotated[str, typer.Option(metavar="NAME:LEVEL", help="clean, paper:16, snow:3, ...")] = "clean",
    denoise: Denoise = None,
    perturb_side: Annotated[str, typer.Option(help="Perturb both frames of a pair or the second.")] = "both",
    negatives: Annotated[str, typer.Option(help="Unmatched pairs: same-class or random.")] = "same-class",
    seed: Annotated[int, typer.Option(min=0, help="Draws pairs and noise.")] = 0,
    frame_pairs: Annotated[
        int, typer.Option(min=1, help="At most so many whole frame pairs; fewer are quicker, landmark pairs stay.")
    ] = 300,
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the numbers to this file.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(callback=output_file, help="Write all predictions to this .npz file.")
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(callback=output_folder, help="Draw the dozen frame pairs with most errors into this folder."),
    ] = None,
    reference_data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DATASET", help="Training side, for references that learn; may be repeated."),
    ] = None,
    allow_seen: Annotated[bool, typer.Option("--allow-seen", help="Evaluate even on drives of the training.")] = False,
) -> None:
    """Evaluate a matcher: landmark pairs as in the paper, and whole frame pairs as a user sees them."""
    from robustmat.checkpoints.load import describe_source, load, needs_no_training
    from robustmat.checkpoints.store import find_checkpoint
    from robustmat.dataset.store import open_dataset
    from robustmat.dataset.truth import read_truth
    from robustmat.denoising.frames import DenoisedMatcher
    from robustmat.denoising.registry import load_denoiser
    from robustmat.errors import ConfigError
    from robustmat.evaluation.evaluate import evaluate as run
    from robustmat.evaluation.failures import draw_failures
    from robustmat.evaluation.predictions import write_predictions
    from robustmat.files import write_json
    from robustmat.fitting.references import make_references
    from robustmat.methods import find_method, split_name
    from robustmat.methods.box_geometry import read_examples
    from robustmat.perturb import parse
    from robustmat.types import plural

    # A misspelt name is refused before anything slow begins.
    wanted, evidence = split_name(method, evidence) if method else (None, evidence)
    source = checkpoint or ("street" if wanted is None or find_method(wanted).trainable else wanted)
    found, provenance = describe_source(source)
    if wanted not in (None, found):
        raise ConfigError(f"checkpoint '{source}' holds {found}, not {wanted}: give the folder of a {wanted} run")
    console, errors = make_console(), make_console(stderr=True)
    perturbation = parse(perturb)
    opened = [open_dataset(path) for path in datasets]
    training = [open_dataset(path) for path in reference_data or ()]
    read_truth([*opened, *training])  # refuses what cannot be evaluated before anything slow begins
    matcher = load(source, evidence=evidence)
    if denoise is not None:
        matcher = DenoisedMatcher(matcher, load_denoiser(denoise))
    if not allow_seen:
        refuse_seen(opened, provenance.drives, f"checkpoint {source} was trained on")
        refuse_seen(opened, provenance.validation_drives, f"the threshold of checkpoint {source} was chosen on")
        refuse_seen(opened, [dataset.name for dataset in training], "--reference-data fits the references on")
    progress = progress_bars(errors)
    references = make_references(
        training,
        perturbation,
        negatives,
        seed,
        perturbed_frames=perturb_side,
        examples=read_examples(find_checkpoint("street" if needs_no_training(source) else source)),
        progress=progress,
    )
    report, predicted = run(
        matcher,
        opened,
        perturbation,
        negatives,
        seed,
        perturbed_frames=perturb_side,
        references=references.rows,
        references_omitted=references.omitted,
        method=_row_name(found, matcher.evidence, denoise),
        checkpoint=str(source),
        evidence=matcher.evidence,
        most_frame_pairs=frame_pairs,
        progress=progress,
    )
    _print_report(console, report)
    if predictions is not None:
        write_predictions(predictions, predicted)
        console.print(f"predictions: {predictions}", soft_wrap=True)
    if pictures is not None:
        drawn = draw_failures(matcher, read_truth(opened), predicted, perturbation, pictures, progress=progress)
        console.print(f"{plural(len(drawn), 'picture')} of frame pairs with errors: {pictures}", soft_wrap=True)
    if json is not None:
        write_json(json, report | {"denoise": denoise})
        console.print(f"numbers: {json}", soft_wrap=True)


def _print_report(console: "Console", report: dict[str, Any]) -> None:
    console.print(f"{', '.join(report['datasets'])}, {report['perturb']}, evidence: {report['evidence']}", style="bold")
    for table in _tables(report):
        console.print(table)
    console.print(_distance_table(report))
    console.print(_caption(report), style="dim")
    for row, reason in report["references_omitted"].items():
        console.print(f"no row {row}: {reason}", style="dim")


def _row_name(method: str, evidence: str, denoiser: str | None) -> str:
    return "+".join([method, *([evidence] if evidence != "pair" else []), *(["denoising"] if denoiser else [])])


def refuse_seen(opened: "Sequence[LandmarkDataset]", seen: Iterable[str], what: str) -> None:
    from robustmat.errors import DataError

    shared = sorted({dataset.name for dataset in opened} & set(seen))
    if shared:
        raise DataError(
            f"{what} {', '.join(shared)}: numbers on a drive that was learned from say nothing about others; "
            "evaluate on another drive, or insist with --allow-seen"
        )


def _tables(report: dict[str, Any]) -> "Iterator[Table]":
    """One line a method, one table a protocol: narrow enough for a narrow terminal, however many methods."""
    pairs = {report["method"]: report, **report["references"]}
    yield _table(f"pairs, {report['negatives']} negatives", PAIR_METRICS, pairs, report["intervals"])
    for kind, rows in report["by_negatives"].items():
        if kind != report["negatives"]:
            yield _table(f"pairs, {kind} negatives", PAIR_METRICS, rows)
    yield _table("whole frames", FRAME_METRICS, pairs, report["intervals"])


def _table(
    title: str,
    metrics: dict[str, str],
    rows: dict[str, dict[str, Any]],
    intervals: dict[str, tuple[float | None, float | None]] | None = None,
) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        *("", *metrics.values()),
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for number, (method, values) in enumerate(rows.items()):
        table.add_row(method, *(f"{values[metric]:.3f}" for metric in metrics), style="" if number else "bold")
        if not number and intervals:
            for end, name in enumerate(("  from", "  to")):
                ends = (intervals[metric][end] for metric in metrics)
                table.add_row(name, *("" if one_end is None else f"{one_end:.3f}" for one_end in ends), style="dim")
    return table


def _distance_table(report: dict[str, Any]) -> "Table":
    """The method's matches by the distance between the cameras."""
    from rich import box
    from rich.table import Table

    title = f"{report['method']}: whole frames by metres between the cameras"
    columns = ("", "precision", "recall", "F1", "right", "wrong", "possible")
    table = Table(
        *columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for name, values in report["match_by_distance"].items():
        shares = (f"{values[share]:.3f}" for share in ("precision", "recall", "f1"))
        table.add_row(f"{name} m", *shares, *(str(values[count]) for count in ("right", "wrong", "possible")))
    return table


def _caption(report: dict[str, Any]) -> str:
    return (
        f"{report['n_matched']} matched and {report['n_unmatched']} unmatched pairs of {report['n_identities']} "
        f"objects; {report['n_frame_pairs']} of {report['n_frame_pairs_found']} frame pairs. From, to: 95 % over "
        "objects. Unmatched pairs are of one class (same-class) or of any two objects (random). The best possible "
        f"threshold would add {report['threshold_loss']:.3f} to AUC (paper). {_believed(report)}"
    )


def _believed(report: dict[str, Any]) -> str:
    """How far probabilities hold, and what is matched where nothing can be."""
    from robustmat.types import plural

    calibration, unrelated = report["calibration"], report["unrelated"]
    parts = []
    if calibration["ece"] is not None:
        parts.append(f"Expected calibration error {calibration['ece']:.3f}.")
    if calibration["n_above_0.9"]:
        share = calibration["right_above_0.9"]
        parts.append(f"Of {calibration['n_above_0.9']} candidates above 0.9, {share:.1%} are right.")
    if unrelated["n_frame_pairs"]:
        pairs = unrelated["n_frame_pairs"]
        matches = plural(unrelated["matches"], "match", "matches")
        parts.append(f"{matches} in {plural(pairs, 'frame pair')} that share nothing.")
    return " ".join(parts)
