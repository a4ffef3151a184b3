"""`robustmat prepare`: a drive on disk becomes a landmark data set.

Every reader of `robustmat.sources.SOURCES` is a verb: its parameters are the options, its docstring their help. What
all of them share (`prepare_drive`) is written once.
"""

import inspect
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from robustmat.cli.checks import output_folder
from robustmat.cli.console import make_console, say
from robustmat.cli.options import refuse_odd_numbers

if TYPE_CHECKING:
    from robustmat.dataset.store import LandmarkDataset
    from robustmat.sources import Drive


class SourceVerbs(TyperGroup):
    """The commands of this group and one for every reader; readers are imported when one is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        from robustmat.sources import SOURCES

        return [*SOURCES, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from robustmat.sources import SOURCES

        if cmd_name not in SOURCES:
            return super().get_command(ctx, cmd_name)
        single = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        single.command(cmd_name)(verb_of(SOURCES[cmd_name]))
        return refuse_odd_numbers(typer.main.get_command(single))


app = typer.Typer(
    cls=SourceVerbs,
    no_args_is_help=True,
    help="Turn a drive on disk into a landmark data set. docs/data-layouts.md shows the tree of each layout.",
)

Out = Annotated[Path | None, typer.Option(callback=output_folder, help="Where the data set goes.", show_default=False)]
Corrections = Annotated[Path | None, typer.Option(help="JSON file that excludes, merges or splits identities.")]
Name = Annotated[str | None, typer.Option(help="What to call the drive; by default what its layout calls it.")]
Frames = Annotated[str, typer.Option(help="Only these frames, by number: 100-430,1565-1639; all without.")]
World = Annotated[
    str | None, typer.Option(help="Drives with the same world share coordinates and give pairs across drives.")
]
CopyImages = Annotated[bool, typer.Option(help="Copy the images into the data set instead of pointing to them.")]
RefinePoses = Annotated[
    bool, typer.Option(help="Refine the poses by LiDAR scans or, where there are none, by keypoints.")
]
Detector = Annotated[
    str, typer.Option(metavar="NAME|PATH", help="Who finds the landmarks of a drive without label maps and boxes.")
]
Tracks = Annotated[
    Path | None, typer.Option(help="Landmarks are those of this tracks.json, which `robustmat odometry` wrote.")
]
NoDetector = Annotated[bool, typer.Option("--no-detector", help="Refuse a drive without label maps and boxes.")]
RectifyTo = Annotated[
    Path | None,
    typer.Option(
        callback=output_folder, help="Only write the images there, as the reader gives them, to label them, and stop."
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Before going on after an interruption, compare every byte of the drive, not samples of it."
    ),
]


@app.callback()
def group() -> None:
    pass  # makes this a group, though only one of its verbs is declared here


def prepare_drive(
    drive: "Drive",
    out: Out = None,
    frames: Frames = "",
    corrections: Corrections = None,
    refine_poses: RefinePoses = True,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
    detector: Detector = "street-detector",
    no_detector: NoDetector = False,
    tracks: Tracks = None,
    rectify_to: RectifyTo = None,
    verify: Verify = False,
) -> None:
    """What every reader's verb does with its drive; these options are added to the reader's own."""
    from robustmat.errors import InputError

    drive = _only(drive, frames)
    if rectify_to is not None:
        _write_images(drive, rectify_to)
    elif out is None:
        raise InputError("say where the data set goes with --out, or write rectified images with --rectify-to")
    else:
        drive = _renamed(drive, name, world)
        if tracks is not None:
            from robustmat.odometry.drives import with_tracked_boxes

            drive = with_tracked_boxes(drive, tracks)
        drive = drive if no_detector else _with_landmarks(drive, detector)
        _prepare(drive, out, corrections, copy_images, refine_poses, verify)


def verb_of(open_drive: "Callable[..., Drive]", then: Callable[..., None] = prepare_drive) -> Callable[..., None]:
    """A command with the reader's parameters and those of `then`, which gets the opened drive."""
    text, notes = read_docstring(inspect.getdoc(open_drive) or "")
    hints = get_type_hints(open_drive)
    own = [
        _parameter(parameter, hints[name], notes.get(name, ""), is_argument=place == 0)
        for place, (name, parameter) in enumerate(inspect.signature(open_drive).parameters.items())
    ]
    named = {parameter.name for parameter in own}  # a reader's own option stands for a shared one of that name
    shared = [one for one in list(inspect.signature(then).parameters.values())[1:] if one.name not in named]

    def verb(**values: Any) -> None:
        drive = open_drive(**{parameter.name: values.pop(parameter.name) for parameter in own})
        then(drive, **values)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
    verb.__doc__ = text
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return verb


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What stands before `Args:`, and each argument's explanation, its lines joined."""
    before, _, args = text.partition("\nArgs:\n")
    notes: dict[str, str] = {}
    name = ""
    for line in args.splitlines():
        head = re.fullmatch(r" {4}(\w+): (.*)", line)
        if head:
            name = head[1]
            notes[name] = head[2]
        elif name and line.strip():
            notes[name] += f" {line.strip()}"
    return before.strip(), notes


def _parameter(parameter: inspect.Parameter, hint: Any, note: str, is_argument: bool) -> inspect.Parameter:
    """As typer reads it; where a reader takes a path or a string, the command line gives a path."""
    if get_origin(hint) in (Union, UnionType) and {Path, str} <= set(get_args(hint)):
        hint = Path | None if type(None) in get_args(hint) else Path
    required = parameter.default is inspect.Parameter.empty
    info = typer.Argument if is_argument else typer.Option
    return parameter.replace(annotation=Annotated[hint, info(help=note, show_default=not required)])


@app.command("warped")
def warped(
    root: Annotated[Path, typer.Argument(help="The folder that holds images/, or the images.", show_default=False)],
    out: Annotated[Path, typer.Option(callback=output_folder, help="Where the data set goes.", show_default=False)],
    semantics: Annotated[
        Path | None,
        typer.Option(help="Folder of label maps (Cityscapes train ids, 19 for windows); ROOT/semantics by default."),
    ] = None,
    views: Annotated[int, typer.Option(min=2, max=10, help="How many virtual cameras see each image.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other views.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Use so many images, evenly from first to last.")] = None,
    name: Name = None,
) -> None:
    """Single images with label maps, of no drive: each is seen by several virtual cameras, which gives pairs.

    For training: pixels are real and identities certain, but poses and positions are nominal and parallax is made up.
    """
    from rich.progress import track

    from robustmat.simulation.warped import prepare_warped
    from robustmat.sources.labelled_images import open_labelled_images

    opened = open_labelled_images(root, semantics=semantics, limit=limit)
    console = make_console(stderr=True)
    path = prepare_warped(
        _renamed(opened, name, name),
        out,
        views=views,
        seed=seed,
        progress=lambda frames: track(frames, "views", console=console),
    )
    _say_what_is_there(path)


def _only(drive: "Drive", frames: str) -> "Drive":
    from dataclasses import replace

    from robustmat.sources.drive import numbered

    kept = numbered(drive.frames, frames)
    source = {**drive.source, "frames": frames} if frames else drive.source
    return replace(
        drive,
        frames=tuple(drive.frames[i] for i in kept),
        image_paths=tuple(drive.image_paths[i] for i in kept),
        source=source,
    )


def _renamed(drive: "Drive", name: str | None, world: str | None) -> "Drive":
    from dataclasses import replace

    return replace(drive, name=name or drive.name, world=world or drive.world)


def _prepare(
    drive: "Drive", out: Path, corrections_path: Path | None, copy_images: bool, refine_poses: bool, verify: bool
) -> None:
    from rich.progress import track

    from robustmat.dataset.prepare import prepare
    from robustmat.geometry.registration import RegistrationConfig
    from robustmat.landmarks.config import LandmarkConfig
    from robustmat.landmarks.corrections import read_corrections

    console = make_console(stderr=True)
    corrections = read_corrections(corrections_path) if corrections_path else None
    path = prepare(
        drive,
        out,
        copy_images=copy_images,
        corrections=corrections,
        config=LandmarkConfig(poses=RegistrationConfig(refine=refine_poses)),
        progress=lambda frames, what: track(frames, what, console=console),
        verify=verify,
    )
    _say_what_is_there(path)


def _with_landmarks(drive: "Drive", detector: str) -> "Drive":
    """The drive itself, or with a detector's boxes where it has neither label maps nor boxes."""
    from robustmat.detection.drives import has_labels, with_detections
    from robustmat.detection.registry import load_detector

    if has_labels(drive):
        return drive
    loaded = load_detector(detector)
    say(f"{drive.name} has neither label maps nor boxes: {loaded.name} looks for landmarks", err=True)
    return with_detections(drive, loaded)


def _say_what_is_there(path: Path) -> None:
    from robustmat.dataset.store import open_dataset
    from robustmat.types import plural

    dataset = open_dataset(path)
    landmarks = [landmark for frame in dataset.frames for landmark in frame.landmarks]
    identities = {landmark.identity for landmark in landmarks} - {None}
    counts = (len(dataset.frames), "frame"), (len(landmarks), "landmark"), (len(identities), "identity", "identities")
    say(f"{path}: {', '.join(plural(*count) for count in counts)}")
    moved = dataset.pose_corrections
    if moved is not None:
        say(
            f"Poses refined by {dataset.poses_refined_by}: moved by {moved['metres']['median']:.2f} m and "
            f"{moved['degrees']['median']:.2f} degrees (median), at most {moved['metres']['max']:.2f} m and "
            f"{moved['degrees']['max']:.2f} degrees."
        )
    if dataset.source.get("identities") == "triangulation":
        say("No LiDAR: identities by triangulating boxes over frames with known poses.")
    if not landmarks:
        say("No landmarks, so nothing to match: label maps must hold Cityscapes train ids, and 19 for windows.")
    elif not dataset.has_identities:
        say(
            "No identities (they need camera and poses), so this data set cannot be evaluated or trained on; "
            f"its images can be matched: robustmat match {quoted(to_match(dataset))}"
        )


def to_match(dataset: "LandmarkDataset") -> Path:
    """The folder that `robustmat match` takes where somebody has a data set: that of its images, as they were."""
    folder = Path(os.path.relpath(dataset.image_paths[0].parent))
    if ".." in folder.parts:
        folder = folder.resolve()
    return folder.parent if folder.name == "images" else folder  # boxes or masks may stand beside images/


def quoted(path: Path) -> str:
    """As a shell reads it."""
    return shlex.quote(str(path))


def _write_images(drive: "Drive", folder: Path) -> None:
    from rich.progress import track

    from robustmat.sources.images import write_image
    from robustmat.types import plural

    for frame in track(drive.frames, "rectified images", console=make_console(stderr=True)):
        write_image(folder / f"{frame.name}.png", frame.image)
    say(f"{folder}: {plural(len(drive.frames), 'image')}; label them, then prepare with --semantics")
