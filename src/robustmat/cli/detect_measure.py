"""`robustmat detect evaluate|matches|table`: how well detectors find landmarks, and what that leaves of the matches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import output_file, output_folder
from robustmat.cli.console import make_console, progress_bars

if TYPE_CHECKING:
    from robustmat.detection.truth import Truth

Detector = Annotated[str, typer.Option(metavar="NAME|PATH", help="A detector's name, or a checkpoint's folder.")]


def evaluate(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Folders with images/ beside semantics/ or boxes.json, drives of KITTI raw, or prepared data sets.",
            show_default=False,
        ),
    ],
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the report here.")] = None,
    detector: Detector = "street-detector",
    labelled: Annotated[
        str, typer.Option(metavar="CATEGORY,...", help="Judge these: the categories that the data labels.")
    ] = "traffic_sign,traffic_light,pole,window",
    include: Annotated[str, typer.Option(help="File names to take, as a shell pattern.")] = "*",
    exclude: Annotated[str, typer.Option(help="File names to leave out, as a shell pattern.")] = "",
    every: Annotated[int, typer.Option(min=1, help="Take one image of so many.")] = 1,
) -> None:
    """Average precision, precision and recall by category and by box size.

    A detection is right from an overlap (IoU) of 0.5, of 0.3 for poles.

        robustmat detect evaluate camvid --include '0006R0*' --labelled traffic_sign,traffic_light,pole --json F
    """
    from rich.progress import track
    from rich.table import Table

    from robustmat.detection.evaluate import evaluate_detector
    from robustmat.detection.registry import load_detector
    from robustmat.files import write_json
    from robustmat.landmarks.boxes import check_category
    from robustmat.types import plural

    categories = tuple(check_category(name, "--labelled") for name in labelled.split(","))
    console = make_console(soft_wrap=True)
    loaded = load_detector(detector)
    truths = [truth for path in data for truth in _truths(path, include, exclude, every)]
    report = evaluate_detector(loaded, track(truths, "detecting", console=console, transient=True), categories)
    report |= {"data": [path.name for path in data], "include": include, "exclude": exclude, "every": every}
    title = f"{loaded.name}, {plural(len(truths), 'frame')}"
    table = Table("category", "landmarks", "AP", "precision", "recall", title=title)
    for category, row in report["classes"].items():
        table.add_row(category, str(row["n"]), *(_number(row[key]) for key in ("ap", "precision", "recall")))
    console.print(table)
    if json is not None:
        write_json(json, report)
        console.print(f"wrote {json}")


def matches(
    data: Annotated[list[Path], typer.Argument(help="Data sets made by `prepare`.", show_default=False)],
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the numbers here.")] = None,
    detector: Detector = "street-detector",
    checkpoint: Annotated[
        str, typer.Option(help="The matcher: a shipped name, a checkpoint folder or a run.")
    ] = "street",
    pairs: Annotated[int, typer.Option(min=1, help="Frame pairs of each data set.")] = 150,
    seed: Annotated[int, typer.Option(min=0, help="Draws the frame pairs.")] = 0,
) -> None:
    """How many true matches survive when detected landmarks replace the given ones.

    robustmat detect matches D0002 D0005 D0013 --json detected.json
    """
    from rich.table import Table

    from robustmat.checkpoints.load import load
    from robustmat.dataset.store import open_dataset
    from robustmat.detection.registry import load_detector
    from robustmat.evaluation.detected import evaluate_detected
    from robustmat.files import write_json

    console = make_console(soft_wrap=True)
    loaded, matcher = load_detector(detector), load(checkpoint)
    rows = {}
    for path in data:
        dataset = open_dataset(path)
        rows[dataset.name] = evaluate_detected(dataset, loaded, matcher, most_pairs=pairs, seed=seed).to_json()
    columns = ("possible", "recall_given", "precision_given", "detected_share", "recall", "precision")
    table = Table("data set", *(name.replace("_", " ") for name in columns), title=loaded.name)
    for name, row in rows.items():
        table.add_row(name, str(row["possible"]), *(_number(row[key]) for key in columns[1:]))
    console.print(table)
    if json is not None:
        settings = {"detector": loaded.name, "checkpoint": checkpoint, "pairs": pairs, "seed": seed}
        write_json(json, {"data": rows, **settings})
        console.print(f"wrote {json}")


def table(
    config: Annotated[Path, typer.Argument(help="A TOML file such as configs/detector/table.toml.")],
    data: Annotated[Path, typer.Option(help="The folder that the configuration's data are in.")],
    out: Annotated[Path, typer.Option(callback=output_folder, help="Gets detector.md and detector.csv.")],
    cache: Annotated[Path, typer.Option(help="Where single measurements are kept.")] = Path("runs/detector-table"),
) -> None:
    """Measure several detectors on several data sets, and what they leave of the matches, on one page.

    robustmat detect table configs/detector/table.toml --data DATA --out results
    """
    from robustmat.tables.detection import make_detection_table, read_table_config

    console = make_console(soft_wrap=True)
    command = f"robustmat detect table {config} --data DATA --out {out.name}"
    settings = read_table_config(config)
    page = make_detection_table(settings, data, out, command, cache=cache, progress=progress_bars(console))
    console.print(f"wrote {page}")


def _truths(path: Path, include: str, exclude: str, every: int) -> "list[Truth]":
    from robustmat.dataset.store import open_dataset
    from robustmat.detection.config import SourceConfig
    from robustmat.detection.samples import find_samples
    from robustmat.detection.truth import dataset_truth, sample_truth
    from robustmat.errors import DataError

    if (path / "dataset.json").is_file():
        return dataset_truth(open_dataset(path))[::every]
    if not path.is_dir():
        raise DataError(f"data not found: expected the folder {path}")
    settings: dict[str, Any] = {"path": ".", "include": include, "exclude": exclude, "every": every}
    if (path / "image_02").is_dir():  # a drive of KITTI raw
        settings |= {"images": "image_02/data", "masks": "semantics_02/data"}
    return [sample_truth(sample) for sample in find_samples(SourceConfig(**settings), path)]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
