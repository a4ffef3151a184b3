"""`robustmat detect`: from photographs to landmarks; and how detectors are trained and measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from robustmat.cli.checks import need, output_file
from robustmat.cli.console import make_console, say

if TYPE_CHECKING:
    from typer._click import Context  # pragma: no cover

    from robustmat.detection.truth import Truth
    from robustmat.types import Landmark

Detector = Annotated[str, typer.Option(metavar="NAME|PATH", help="A detector's name, or a checkpoint's folder.")]


class ImagesByDefault(TyperGroup):
    """`detect a.jpg` means `detect images a.jpg`."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["images", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=ImagesByDefault,
    no_args_is_help=True,
    help="Find signs, lights, poles and windows: `robustmat detect IMAGE... --out boxes.json --picture P`.",
)


@app.command()
def images(
    sources: Annotated[list[Path], typer.Argument(help="Images, folders of images, videos.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(callback=output_file, help="Box file; COCO if there are several images.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the boxes here: a file for one image, a folder for several.")
    ] = None,
    detector: Detector = "street-detector",
    every: Annotated[int, typer.Option(min=1, help="Of folders and videos take one frame of so many.")] = 1,
) -> None:
    """Detect landmarks in images. The box files are those that `match` reads.

    robustmat detect a.jpg --out a.json --picture a-boxes.png
    """
    from robustmat.detection.boxes import write_boxes, write_coco
    from robustmat.detection.drawing import draw_landmarks
    from robustmat.detection.frames import frames_of, is_single_image
    from robustmat.detection.registry import load_detector

    console = make_console(soft_wrap=True)
    loaded = load_detector(detector)
    alone = is_single_image(sources)
    found: dict[str, Sequence[Landmark]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for frame in frames_of(sources, every):
        name, landmarks = frame.name, loaded.detect(frame)
        height, width = frame.image.shape[:2]
        found[name], sizes[name] = landmarks, (width, height)
        console.print(f"{name}: {_counted(landmarks)}", highlight=False)
        if picture is not None:
            draw_landmarks(frame.image, landmarks, picture if alone else picture / f"{Path(name).stem}.png")
    if out is not None:
        if alone:
            write_boxes(out, next(iter(found.values())))
        else:
            write_coco(out, found, sizes)
        console.print(f"wrote {out}")
    if picture is not None:
        console.print(f"wrote {picture}")


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A TOML file such as configs/detector/street-detector.toml.")],
    data: Annotated[Path, typer.Option(help="The folder that the configuration's sources are in.")],
    out: Annotated[Path, typer.Option(help="The run's folder, and its checkpoint.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.")] = None,
) -> None:
    """Train a detector on labelled images, and export it to ONNX.

    robustmat detect train configs/detector/street-detector.toml --data DATA --out runs/detector
    """
    need("torch", "onnx", purpose="training a detector")
    import torch
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from robustmat.config import read_toml
    from robustmat.detection.config import read_training_config
    from robustmat.detection.export import check_parity, write_onnx
    from robustmat.detection.samples import find_samples
    from robustmat.detection.train import train as run
    from robustmat.sources.images import read_image

    if threads:
        torch.set_num_threads(threads)
    console = make_console(soft_wrap=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=None)

        def tell(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, description=f"training, loss {loss:.3f}")

        if read_toml(config).get("kind") == "faster-rcnn":
            from robustmat.detection.faster_rcnn import read_faster_rcnn_config, train_faster_rcnn

            train_faster_rcnn(read_faster_rcnn_config(config), data, out, tell)
            return
        settings = read_training_config(config)
        run(settings, data, out, resume=resume, progress=tell)
    write_onnx(out)
    samples = find_samples(settings.sources[0], data)[:4]
    parity = check_parity(out, [read_image(sample.image) for sample in samples])
    console.print(
        f"checkpoint: {out} (ONNX differs from torch by at most {parity.largest_difference:.1e}, "
        f"{parity.landmarks_changed} of {parity.landmarks} landmarks differ)",
        markup=False,
    )


@app.command()
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

    categories = tuple(check_category(name, "--labelled") for name in labelled.split(","))
    console = make_console(soft_wrap=True)
    loaded = load_detector(detector)
    truths = [truth for path in data for truth in _truths(path, include, exclude, every)]
    report = evaluate_detector(loaded, track(truths, "detecting", console=console, transient=True), categories)
    report |= {"data": [path.name for path in data], "include": include, "exclude": exclude, "every": every}
    table = Table("category", "landmarks", "AP", "precision", "recall", title=f"{loaded.name}, {len(truths)} frames")
    for category, row in report["classes"].items():
        table.add_row(category, str(row["n"]), *(_number(row[key]) for key in ("ap", "precision", "recall")))
    console.print(table)
    if json is not None:
        write_json(json, report)
        console.print(f"wrote {json}")


@app.command()
def calibrate(
    checkpoint: Annotated[Path, typer.Argument(help="A trained detector's folder; its model.json is changed.")],
    data: Annotated[list[Path], typer.Argument(help="As for `detect evaluate`; nothing it was trained on.")],
    every: Annotated[int, typer.Option(min=1, help="Take one image of so many.")] = 1,
) -> None:
    """Turn confidences into probabilities that a landmark is one, on labelled frames.

    robustmat detect calibrate runs/detector/3 DATA/towns-test
    """
    from robustmat.detection.calibration import calibrate as fit

    found = fit(checkpoint, (truth for path in data for truth in _truths(path, "*", "", every)))
    for category, limit in found.confidence.items():
        say(f"{category}: returned from a confidence of {limit:.2f}")


@app.command()
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


@app.command()
def towns(
    out: Annotated[Path, typer.Argument(help="Where images/, semantics/ and instances/ go.", show_default=False)],
    first: Annotated[int, typer.Option(min=0, help="Seed of the first town.")] = 7000,
    count: Annotated[int, typer.Option(min=1, help="Number of towns.")] = 80,
    frames: Annotated[int, typer.Option(min=1, help="Of each town.")] = 8,
) -> None:
    """Render labelled frames of simulated towns for training: many towns, all looks, many cameras."""
    from rich.progress import Progress

    from robustmat.detection.towns import write_town_frames

    with Progress() as bar:
        task = bar.add_task("rendering towns", total=count)
        write_town_frames(out, range(first, first + count), frames, lambda done, _: bar.update(task, completed=done))


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


def _counted(landmarks: "Sequence[Landmark]") -> str:
    from robustmat.types import CATEGORIES

    counts = {name: sum(mark.category == name for mark in landmarks) for name in CATEGORIES}
    words = [f"{count} {name.replace('_', ' ')}{'s' if count != 1 else ''}" for name, count in counts.items() if count]
    return ", ".join(words) or "no landmarks found"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
