"""`robustmat prepare`: a drive on disk becomes a landmark data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import output_folder

if TYPE_CHECKING:
    from robustmat.sources import Drive

app = typer.Typer(
    no_args_is_help=True,
    help="Turn a drive on disk into a landmark data set. docs/data-layouts.md shows the tree of each layout.",
)

Root = Annotated[Path, typer.Argument(help="The folder that holds the layout's folders.", show_default=False)]
Out = Annotated[Path, typer.Option(callback=output_folder, help="Where the data set goes.", show_default=False)]
Semantics = Annotated[
    Path | None,
    typer.Option(help="Folder of label maps (Cityscapes train ids, 19 for windows), named as the images."),
]
Corrections = Annotated[Path | None, typer.Option(help="JSON file that excludes, merges or splits identities.")]
Name = Annotated[str | None, typer.Option(help="What to call the drive; by default what its layout calls it.")]
World = Annotated[
    str | None, typer.Option(help="Drives with the same world share coordinates and give pairs across drives.")
]
CopyImages = Annotated[bool, typer.Option(help="Copy the images into the data set instead of pointing to them.")]
First = Annotated[int | None, typer.Option(help="Leave out images before this time (as files are named).")]
Last = Annotated[int | None, typer.Option(help="Leave out images after this time.")]


@app.command("kitti-raw")
def kitti_raw(
    root: Root,
    date: Annotated[str, typer.Option(help="For example 2011_09_26.", show_default=False)],
    drive: Annotated[str, typer.Option(help="For example 0013.", show_default=False)],
    out: Out,
    camera: Annotated[int, typer.Option(help="0 and 1 are grey, 2 and 3 colour.")] = 2,
    semantics: Semantics = None,
    origin: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="LATITUDE LONGITUDE ALTITUDE of the world's origin; drives with the same share a world."),
    ] = None,
    corrections: Corrections = None,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
) -> None:
    """A drive of the KITTI raw data ("synced and rectified")."""
    from robustmat.sources import open_kitti_raw

    opened = open_kitti_raw(root, date, drive, camera=camera, semantics=semantics, origin=origin)
    _prepare(_renamed(opened, name, world), out, corrections, copy_images)


@app.command("kitti-odometry")
def kitti_odometry(
    root: Root,
    sequence: Annotated[str, typer.Option(help="For example 00.", show_default=False)],
    out: Out,
    camera: Annotated[int | None, typer.Option(help="0 to 3; the first that is there.")] = None,
    semantics: Semantics = None,
    corrections: Corrections = None,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
) -> None:
    """A sequence of the KITTI odometry benchmark."""
    from robustmat.sources import open_kitti_odometry

    opened = open_kitti_odometry(root, sequence, camera=camera, semantics=semantics)
    _prepare(_renamed(opened, name, world), out, corrections, copy_images)


@app.command("oxford")
def oxford(
    root: Annotated[
        Path, typer.Argument(help="The drive's folder, with stereo/, velodyne_left/, gps/, gt/.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(callback=output_folder, help="Where the data set goes.", show_default=False)
    ] = None,
    camera: Annotated[
        str, typer.Option(help="stereo/centre, stereo/left, stereo/right, mono_left, mono_right or mono_rear.")
    ] = "stereo/centre",
    lidar: Annotated[
        str | None, typer.Option(help="velodyne_left or velodyne_right; the first that is there. Raw scans win.")
    ] = None,
    poses: Annotated[
        str | None, typer.Option(help="rtk, ins, radar (ground-truth odometry) or vo; the first that is there.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(help="Folder of camera models; models/ in the drive's folder or beside it.")
    ] = None,
    extrinsics: Annotated[
        Path | None, typer.Option(help="Folder of extrinsics; extrinsics/ in the drive's folder or beside it.")
    ] = None,
    semantics: Annotated[
        Path | None,
        typer.Option(help="Folder of label maps of the *rectified* images, named as them; semantics/CAMERA/ if there."),
    ] = None,
    rectified: Annotated[bool, typer.Option(help="The images are demosaiced and undistorted already.")] = False,
    rectify_to: Annotated[
        Path | None,
        typer.Option(
            callback=output_folder,
            help="Only write the demosaiced, undistorted images there, to label them, and stop.",
        ),
    ] = None,
    first: First = None,
    last: Last = None,
    origin: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="NORTHING EASTING DOWN of the world's origin; drives with the same share a world."),
    ] = None,
    corrections: Corrections = None,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
) -> None:
    """A drive of Oxford Radar RobotCar (or RobotCar): mosaics, Velodyne scans, INS or odometry poses.

    Camera models and extrinsics come with the development kit. Without label maps yet, begin with --rectify-to DIR.
    """
    from robustmat.errors import InputError
    from robustmat.sources import open_oxford

    opened = open_oxford(
        root,
        camera=camera,
        lidar=lidar,
        poses=poses,
        origin=origin,
        models=models,
        extrinsics=extrinsics,
        semantics=semantics,
        rectified=rectified,
        first=first,
        last=last,
    )
    if rectify_to is not None:
        _write_images(opened, rectify_to)
    elif out is None:
        raise InputError("say where the data set goes with --out, or write rectified images with --rectify-to")
    else:
        _prepare(_renamed(opened, name, world), out, corrections, copy_images)


@app.command("boreas")
def boreas(
    root: Annotated[
        Path, typer.Argument(help="The sequence's folder, with camera/, lidar/, applanix/, calib/.", show_default=False)
    ],
    out: Out,
    semantics: Annotated[
        Path | None,
        typer.Option(help="Folder of label maps (Cityscapes train ids, 19 for windows); semantics/camera/ if there."),
    ] = None,
    first: First = None,
    last: Last = None,
    corrections: Corrections = None,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
) -> None:
    """A sequence of Boreas. All sequences share one world, so they give pairs across days."""
    from robustmat.sources import open_boreas

    opened = open_boreas(root, semantics=semantics, first=first, last=last)
    _prepare(_renamed(opened, name, world), out, corrections, copy_images)


@app.command("folder")
def folder(
    root: Annotated[Path, typer.Argument(help="The folder that holds images/.", show_default=False)],
    out: Out,
    semantics: Annotated[
        Path | None,
        typer.Option(help="Folder of label maps (Cityscapes train ids, 19 for windows); masks/ if there."),
    ] = None,
    corrections: Corrections = None,
    copy_images: CopyImages = False,
    name: Name = None,
    world: World = None,
) -> None:
    """Your own frames: images/ and as much beside it as you have.

    boxes/NAME.json, boxes.json (COCO) or masks/NAME.png say where the landmarks are. camera.json (fx, fy, cx, cy,
    T_camera_lidar), poses.txt (TUM or KITTI, camera to world) and lidar/NAME.bin (float32 x, y, z, reflectance) give
    them identities; without these they can be matched, not evaluated or trained on.
    """
    from robustmat.sources import open_folder

    opened = open_folder(root, semantics=semantics)
    _prepare(_renamed(opened, name, world), out, corrections, copy_images)


@app.command("warped")
def warped(
    root: Annotated[Path, typer.Argument(help="The folder that holds images/, or the images.", show_default=False)],
    out: Out,
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
    from rich.console import Console
    from rich.progress import track

    from robustmat.simulation.warped import prepare_warped
    from robustmat.sources.labelled_images import open_labelled_images

    opened = open_labelled_images(root, semantics=semantics, limit=limit)
    console = Console(stderr=True)
    path = prepare_warped(
        _renamed(opened, name, name),
        out,
        views=views,
        seed=seed,
        progress=lambda frames: track(frames, "views", console=console),
    )
    _say_what_is_there(path)


def _renamed(drive: "Drive", name: str | None, world: str | None) -> "Drive":
    from dataclasses import replace

    return replace(drive, name=name or drive.name, world=world or drive.world)


def _prepare(drive: "Drive", out: Path, corrections_path: Path | None, copy_images: bool) -> None:
    from rich.console import Console
    from rich.progress import track

    from robustmat.dataset.prepare import prepare
    from robustmat.landmarks.corrections import read_corrections

    console = Console(stderr=True)
    corrections = read_corrections(corrections_path) if corrections_path else None
    path = prepare(
        drive,
        out,
        copy_images=copy_images,
        corrections=corrections,
        progress=lambda frames, what: track(frames, what, console=console),
    )
    _say_what_is_there(path)


def _say_what_is_there(path: Path) -> None:
    from robustmat.dataset.store import open_dataset

    dataset = open_dataset(path)
    landmarks = [landmark for frame in dataset.frames for landmark in frame.landmarks]
    identities = {landmark.identity for landmark in landmarks} - {None}
    typer.echo(f"{path}: {len(dataset.frames)} frames, {len(landmarks)} landmarks, {len(identities)} identities")
    if not dataset.has_identities:
        typer.echo("No identities (they need LiDAR and poses): it can be matched, not evaluated or trained on.")


def _write_images(drive: "Drive", folder: Path) -> None:
    from rich.console import Console
    from rich.progress import track

    from robustmat.sources.images import write_image

    for frame in track(drive.frames, "rectified images", console=Console(stderr=True)):
        write_image(folder / f"{frame.name}.png", frame.image)
    typer.echo(f"{folder}: {len(drive.frames)} images; label them, then prepare with --semantics")
