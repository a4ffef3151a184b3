"""`robustmat map`: landmark maps, and where frames were taken."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import check_output, need, output_file
from robustmat.cli.console import make_console, progress_bars, say
from robustmat.cli.map_calibrate import calibrate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robustmat.mapping.landmark_map import LandmarkMap
    from robustmat.types import Frame


def _drawable(path: Path | None) -> Path | None:
    """Callback of an option that names a picture of a map."""
    check_output(path, (".png", ".html"))
    return path


app = typer.Typer(no_args_is_help=True, help="Build landmark maps and ask them where frames were taken.")
app.command()(calibrate)

Map = Annotated[str, typer.Argument(help="The map: a folder, or s3://... on object storage.", show_default=False)]
Datasets = Annotated[list[Path], typer.Argument(help="Landmark data sets of one world.", show_default=False)]
Images = Annotated[list[Path], typer.Argument(help="Images.", show_default=False)]
At = Annotated[int | None, typer.Option(help="A version of the map's past; `map info` says the newest.")]
Storage = Annotated[
    list[str] | None, typer.Option("--storage-option", metavar="KEY=VALUE", help="For object storage, repeatable.")
]
Boxes = Annotated[Path | None, typer.Option(help="Folder of box files named like the images, or one COCO file.")]
Masks = Annotated[Path | None, typer.Option(help="Or a folder of label maps named like the images.")]
CameraOption = Annotated[
    str | None,
    typer.Option(
        help="`fx,fy,cx,cy` in pixels, a camera.json or an intrinsics.txt. Without it, the map's own camera if the "
        "images have its size."
    ),
]
Least = Annotated[float, typer.Option(min=0.0, max=1.0, help="Below this probability a place is unknown.")]
Sequence_ = Annotated[bool, typer.Option("--sequence", help="The images are a drive: carry evidence along.")]
Step = Annotated[float, typer.Option(min=0.01, help="With --sequence: metres from image to image, about.")]
Json = Annotated[Path | None, typer.Option(callback=output_file, help="Write the answers here.")]
Picture = Annotated[Path | None, typer.Option(callback=_drawable, help="Draw map and answers (.png, .html).")]
CheckpointOption = Annotated[
    str | None, typer.Option(help="Where the checkpoint that made the map is now, if it moved.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Embed in this many processes (Dask).")]
Cluster = Annotated[str | None, typer.Option(help="Or on a Dask cluster: the scheduler's address.")]


@app.command()
def build(
    datasets: Datasets,
    out: Annotated[str, typer.Option(help="The map to make.", show_default=False)],
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint's folder or a run's.")] = "street",
    evidence: Annotated[
        str | None, typer.Option(help="What scores may know; placement by default, scene takes many bytes.")
    ] = None,
    spacing: Annotated[float, typer.Option(min=0.1, help="Metres between keyframes.")] = 2.0,
    precision: Annotated[str, typer.Option(help="Of stored embeddings: float32, float16, int8.")] = "float16",
    min_height: Annotated[float, typer.Option(min=0.0, help="Leave out boxes lower than this, in pixels.")] = 0.0,
    min_sightings: Annotated[int, typer.Option(min=1, help="Leave out objects seen in fewer frames.")] = 1,
    max_landmarks: Annotated[int | None, typer.Option(min=1, help="Keep the rarest-looking of a keyframe.")] = None,
    pose_error: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="METRES DEGREES",
            help="How well the poses of the drives are known; 0.03 0.1 if LiDAR refined them, else 0.07 0.1.",
        ),
    ] = None,
    keypoints: Annotated[
        int,
        typer.Option(min=0, help="Keep up to this many keypoints of a keyframe, too (500): surer, many more bytes."),
    ] = 0,
    workers: Workers = None,
    cluster: Cluster = None,
    storage: Storage = None,
) -> None:
    """Make a map from landmark data sets, which `robustmat prepare` makes of drives with poses in one world.

    Interrupted, the same command goes on where it was:

        robustmat map build monday tuesday --out town-map

    Then ask where an image was taken:

        robustmat map locate town-map a.jpg --picture where.png
    """
    from robustmat.checkpoints.load import load
    from robustmat.config import parse
    from robustmat.dataset.store import open_dataset

    need("lancedb", purpose="a map")
    from robustmat.mapping.build import build_map
    from robustmat.mapping.settings import MapSettings

    console = make_console()
    settings = parse(
        MapSettings,
        {
            "keyframe_spacing": spacing,
            "precision": precision,
            "min_height": min_height,
            "min_sightings": min_sightings,
            "max_landmarks": max_landmarks,
            "keypoints": keypoints,
            "pose_error": pose_error,
        },
        "map settings",
    )
    opened = [open_dataset(path) for path in datasets]
    matcher = load(checkpoint, evidence=evidence)
    if evidence is None and matcher.evidence == "scene":
        matcher = load(checkpoint, evidence="placement")  # keypoints for matching would weigh more than the pictures
    with _running(workers, cluster) as append:
        added = build_map(
            out,
            opened,
            matcher,
            settings,
            checkpoint=checkpoint,
            storage_options=_options(storage),
            progress=progress_bars(console),
            append=append,
        )
    _say_added(console, added.written, added.already_there, out)


@app.command()
def add(
    map_: Annotated[str, typer.Argument(metavar="MAP", help="The map to add to.", show_default=False)],
    datasets: Datasets,
    checkpoint: CheckpointOption = None,
    workers: Workers = None,
    cluster: Cluster = None,
    storage: Storage = None,
) -> None:
    """Add drives to a map; what it holds already is not added again."""
    from robustmat.dataset.store import open_dataset

    need("lancedb", purpose="a map")
    from robustmat.mapping.build import add_datasets

    console = make_console()
    options = _options(storage)
    matcher = _open(map_, None, storage, checkpoint).matcher
    opened = [open_dataset(path) for path in datasets]
    with _running(workers, cluster) as append:
        added = add_datasets(
            map_, opened, matcher, storage_options=options, progress=progress_bars(console), append=append
        )
    _say_added(console, added.written, added.already_there, map_)


@app.command()
def info(map_: Map, at: At = None, storage: Storage = None, json: Json = None) -> None:
    """What a map holds, and its bytes a kilometre."""
    from rich.table import Table

    from robustmat.files import write_json
    from robustmat.types import plural

    opened = _open(map_, at, storage)
    from robustmat.mapping.info import map_info

    told = map_info(opened)
    unplaced = f"; {plural(told.unplaced, 'sighting')} without a place" if told.unplaced else ""
    table = Table("", "", title=f"map {map_}, version {told.version}", show_header=False)
    table.add_row("world", told.world)
    table.add_row("made by", f"{told.checkpoint}, evidence {told.evidence}, fingerprint {told.fingerprint}")
    table.add_row("drives", ", ".join(told.drives) or "none yet")
    table.add_row("length", f"{told.metres:.0f} m in {plural(told.keyframes, 'keyframe')}")
    table.add_row("landmarks", f"{plural(told.landmarks, 'sighting')}, {plural(told.views, 'view')} to search")
    placed = ", ".join(f"{count} {kind}" for kind, count in told.objects.items()) or "none"
    table.add_row("objects", placed + unplaced)
    for precision, size in told.bytes_per_kilometre.items():
        here = " (this map)" if precision == told.precision else ""
        table.add_row(f"at {precision}", f"{size / 1e6:.2f} MB per kilometre{here}")
    table.add_row("stored", f"{told.stored_bytes / 1e6:.2f} MB")
    make_console().print(table)
    if json is not None:
        write_json(json, told.to_json())


@app.command()
def query(
    map_: Map,
    images: Images,
    boxes: Boxes = None,
    masks: Masks = None,
    camera: CameraOption = None,
    sequence: Sequence_ = False,
    step: Step = 3.0,
    min_probability: Least = 0.5,
    checkpoint: CheckpointOption = None,
    at: At = None,
    storage: Storage = None,
    json: Json = None,
    picture: Picture = None,
) -> None:
    """In which part of the map each image was taken: a keyframe with its probability, or "unknown place"."""
    opened = _open(map_, at, storage, checkpoint)
    frames = _shown(_frames(images, boxes, masks, camera), "asking")
    if sequence:
        answers = opened.query_sequence(frames, min_probability=min_probability, step=step)
    else:
        answers = (opened.query(frame, min_probability=min_probability) for frame in frames)
    _report(opened, [answer.to_json() for answer in answers], json, picture)


@app.command()
def locate(
    map_: Map,
    images: Images,
    boxes: Boxes = None,
    masks: Masks = None,
    camera: CameraOption = None,
    sequence: Sequence_ = False,
    step: Step = 3.0,
    min_probability: Least = 0.5,
    checkpoint: CheckpointOption = None,
    at: At = None,
    storage: Storage = None,
    json: Json = None,
    picture: Picture = None,
) -> None:
    """From which pose each image was taken, with its covariance."""
    opened = _open(map_, at, storage, checkpoint)
    frames = _shown(_frames(images, boxes, masks, camera), "locating")
    if sequence:
        found = opened.locate_sequence(frames, min_probability=min_probability, step=step)
    else:
        found = (opened.locate(frame, min_probability=min_probability) for frame in frames)
    _report(opened, [one.to_json() for one in found], json, picture)


@app.command()
def plot(
    map_: Map,
    out: Annotated[Path, typer.Option(callback=_drawable, help="The picture (.png or .html).", show_default=False)],
    answers: Annotated[
        Path | None, typer.Option(help="What `map query --json` or `map locate --json` wrote, drawn on top.")
    ] = None,
    at: At = None,
    storage: Storage = None,
) -> None:
    """Draw the map from above."""
    from robustmat.errors import InputError
    from robustmat.files import read_json

    opened = _open(map_, at, storage)
    from robustmat.mapping.plot import plot_map

    told = [] if answers is None else read_json(answers, "answers", InputError)
    say(f"look at {plot_map(opened, out, told)}")


@app.command()
def compact(map_: Map, storage: Storage = None) -> None:
    """Rewrite many small files as few, drop what interrupted writers left, and build indexes for fast search.

    Not while others write to the map.
    """
    opened = _open(map_, None, storage)
    opened.store.compact()
    say(f"compacted {map_}: {opened.store.bytes() / 1e6:.2f} MB")


def _open(map_: str, at: int | None, storage: list[str] | None, checkpoint: str | None = None) -> "LandmarkMap":
    need("lancedb", purpose="a map")
    from robustmat.checkpoints.load import load
    from robustmat.mapping.landmark_map import open_map

    options = _options(storage)
    if checkpoint is None:
        return open_map(map_, at=at, storage_options=options)
    evidence = open_map(map_, storage_options=options).header.evidence
    return open_map(map_, matcher=load(checkpoint, evidence=evidence), at=at, storage_options=options)


def _options(storage: list[str] | None) -> dict[str, str]:
    from robustmat.errors import InputError

    pairs = [word.partition("=") for word in storage or []]
    for key, equals, _ in pairs:
        if not equals:
            raise InputError(f"--storage-option {key}: expected KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _running(workers: int | None, cluster: str | None) -> Any:
    """How batches are made: one after the other here, or on Dask."""
    from contextlib import nullcontext

    from robustmat.errors import InputError

    if workers is not None and cluster is not None:
        raise InputError("give --workers or --cluster, not both")
    if workers is None and cluster is None:
        return nullcontext()
    need("distributed", purpose="--workers" if cluster is None else "--cluster")
    from robustmat.mapping.cluster import running_on

    return running_on(workers, cluster)


def _frames(images: "Sequence[Path]", boxes: Path | None, masks: Path | None, camera: str | None) -> "list[Frame]":
    from robustmat.errors import InputError
    from robustmat.landmarks.reading import read_frame

    if boxes is not None and masks is not None:
        raise InputError("give --boxes or --masks, not both")

    def beside(image: Path, given: Path | None, suffix: str) -> Path | None:
        if given is None or not given.is_dir():
            return given
        path = given / f"{image.stem}{suffix}"
        if not path.is_file():
            raise InputError(f"no landmarks for {image}: expected {path}")
        return path

    return [
        read_frame(image, boxes=beside(image, boxes, ".json"), masks=beside(image, masks, ".png"), camera=camera)
        for image in images
    ]


def _shown(frames: "Sequence[Frame]", what: str) -> "Iterable[Frame]":
    """The frames, with a bar on standard error while they are worked on."""
    return progress_bars(make_console(stderr=True))(frames, what)


def _report(opened: "LandmarkMap", answers: list[dict[str, Any]], json: Path | None, picture: Path | None) -> None:
    from rich.table import Table

    from robustmat.files import write_json

    table = Table("image", "keyframe", "position", "probability")
    for one in answers:
        place = "" if one["position"] is None else ", ".join(f"{value:.2f}" for value in one["position"])
        table.add_row(one["image"], one["keyframe"] or "unknown place", place, f"{one['probability']:.2f}")
    console = make_console()
    console.print(table)
    if json is not None:
        write_json(json, answers)
        console.print(f"wrote {json}", soft_wrap=True)
    if picture is not None:
        from robustmat.mapping.plot import plot_map

        plot_map(opened, picture, answers)
        console.print(f"wrote {picture}", soft_wrap=True)


def _say_added(console: Any, written: int, there: int, place: str) -> None:
    from robustmat.types import plural

    before = f", {there} {'was' if there == 1 else 'were'} there already" if there else ""
    stretches = plural(written, "stretch of road", "stretches of road")
    console.print(f"{stretches} added to {place}{before}", soft_wrap=True)
