"""`robustmat odometry`: how the camera moved along a drive, assisted by matched landmarks, and their tracks.

What follows is a path, or the name of a layout with that layout's own options, as for `robustmat prepare`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import need, output_folder
from robustmat.cli.console import make_console, progress_bars, say
from robustmat.cli.default_verb import DefaultVerb

if TYPE_CHECKING:
    from robustmat.sources import Drive

PATH = "path"


class DriveVerbs(DefaultVerb):
    """A command for every reader, and one for paths, whose name need not be given."""

    default = PATH

    def list_commands(self, ctx: Any) -> list[str]:
        from robustmat.sources import SOURCES

        return [*super().list_commands(ctx), *SOURCES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from robustmat.cli.prepare import verb_of
        from robustmat.sources import SOURCES

        if cmd_name not in SOURCES:
            return super().get_command(ctx, cmd_name)
        single = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        single.command(cmd_name)(verb_of(SOURCES[cmd_name], follow))
        return typer.main.get_command(single)


app = typer.Typer(
    cls=DriveVerbs,
    no_args_is_help=True,
    subcommand_metavar="PATH | LAYOUT [ARGS]...",
    help="""Tell how the camera moved along a drive, assisted by matched landmarks.

    PATH is a data set, a folder of frames or a video:

        robustmat odometry drive.mp4 --camera 700,700,640,360 --every 2 --out moved

    Or name a layout and give its own options, as for `prepare`; `robustmat odometry LAYOUT --help` lists them:

        robustmat odometry kitti-odometry ROOT --sequence 07 --out moved
    """,
)

Out = Annotated[Path, typer.Option(callback=output_folder, help="Folder for all that is written.", show_default=False)]
Assist = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART",
        help="Use only these parts, repeatable: agree, static, carry, tracks (all four by default), guided, weigh.",
    ),
]
NoAssist = Annotated[bool, typer.Option("--no-assist", help="Keypoints alone, no landmarks.")]
Scale = Annotated[str, typer.Option(help="Where metres come from: auto, lidar, poses, height, none.")]
Height = Annotated[float, typer.Option(min=0.1, help="Metres of the camera above the road, for --scale height.")]
CameraOption = Annotated[
    str | None, typer.Option(help="`fx,fy,cx,cy` in pixels, or a camera.json; instead of the drive's own.")
]
Every = Annotated[int, typer.Option(min=1, help="Take every Nth frame.")]
First = Annotated[str | None, typer.Option(help="Name of the first frame to take.")]
Last = Annotated[str | None, typer.Option(help="Name of the last frame to take.")]
Perturb = Annotated[str, typer.Option(help="Weather or noise on every frame: clean, paper:16, rain:3, fog:3.")]
RefinePoses = Annotated[bool, typer.Option(help="Refine the given poses by LiDAR before they serve as truth.")]
Detector = Annotated[
    str, typer.Option(metavar="NAME|PATH", help="Who finds landmarks where there are no label maps and no boxes.")
]
NoDetector = Annotated[bool, typer.Option("--no-detector", help="Go without landmarks where nobody drew them.")]
Checkpoint = Annotated[str, typer.Option(help="A shipped name, a checkpoint's folder or a run's.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the robust sample, of the weather and of LiDAR points.")]
Lidar = Annotated[
    bool, typer.Option("--lidar", help="Also register the LiDAR scans, with few points, more of them on landmarks.")
]
LidarPoints = Annotated[int, typer.Option(min=50, help="Points of a scan that --lidar uses.")]


@app.callback()
def group() -> None:
    pass


@app.command(PATH)
def path(
    source: Annotated[Path, typer.Argument(help="A data set, a folder of frames, or a video.", show_default=False)],
    out: Out,
    assist: Assist = None,
    no_assist: NoAssist = False,
    scale: Scale = "auto",
    camera_height: Height = 1.65,
    camera: CameraOption = None,
    every: Every = 1,
    first: First = None,
    last: Last = None,
    perturb: Perturb = "clean",
    refine_poses: RefinePoses = True,
    detector: Detector = "street-detector",
    no_detector: NoDetector = False,
    checkpoint: Checkpoint = "street",
    seed: Seed = 0,
    lidar: Lidar = False,
    lidar_points: LidarPoints = 1000,
) -> None:
    """Odometry of a data set, a folder of frames (docs/data-layouts.md) or a video; `path` need not be named."""
    from robustmat.odometry.drives import open_drive

    drive = open_drive(source, out / "images")
    follow(
        drive,
        out,
        assist=assist,
        no_assist=no_assist,
        scale=scale,
        camera_height=camera_height,
        camera=camera,
        every=every,
        first=first,
        last=last,
        perturb=perturb,
        refine_poses=refine_poses,
        detector=detector,
        no_detector=no_detector,
        checkpoint=checkpoint,
        seed=seed,
        lidar=lidar,
        lidar_points=lidar_points,
    )


def follow(
    drive: "Drive",
    out: Out,
    assist: Assist = None,
    no_assist: NoAssist = False,
    scale: Scale = "auto",
    camera_height: Height = 1.65,
    camera: CameraOption = None,
    every: Every = 1,
    first: First = None,
    last: Last = None,
    perturb: Perturb = "clean",
    refine_poses: RefinePoses = True,
    detector: Detector = "street-detector",
    no_detector: NoDetector = False,
    checkpoint: Checkpoint = "street",
    seed: Seed = 0,
    lidar: Lidar = False,
    lidar_points: LidarPoints = 1000,
) -> None:
    """What every drive is put through; these options are added to a layout's own."""
    from dataclasses import replace
    from functools import partial

    from robustmat.checkpoints.load import load
    from robustmat.config import parse
    from robustmat.errors import InputError
    from robustmat.odometry.config import USUAL, OdometryConfig
    from robustmat.odometry.drives import landmarks_of, some_frames, with_camera
    from robustmat.odometry.lidar import lidar_odometry, scans_of
    from robustmat.odometry.run import run_odometry
    from robustmat.odometry.write import write_odometry
    from robustmat.perturb.named import parse as parse_perturbation
    from robustmat.perturb.named import perturb_frame

    if assist and no_assist:
        raise InputError("give --assist or --no-assist, not both")
    parts = () if no_assist else tuple(assist or USUAL)
    settings = {"assist": parts, "scale": scale, "camera_height": camera_height, "seed": seed}
    config = parse(OdometryConfig, settings, "odometry settings")
    weather = parse_perturbation(perturb)
    drive = some_frames(with_camera(drive, camera), every, first, last)
    if len(drive.frames) < 2:
        raise InputError(f"odometry needs at least two frames: {drive.name} has {len(drive.frames)}")
    if lidar and not all(frame.load_points and frame.T_camera_lidar is not None for frame in drive.frames):
        raise InputError(
            f"--lidar needs a scan for every frame, and {drive.name} lacks some: give a layout's name and its folder, "
            "such as `robustmat odometry kitti-raw ROOT ...` (a prepared data set keeps no scans)"
        )
    need("evo", purpose="odometry")
    console = make_console(stderr=True)
    truth = _truth(drive, refine_poses, out / ".poses.npz", console)
    finder = None
    if parts and not no_detector and not _has_landmarks(drive):
        from robustmat.detection.registry import load_detector

        finder = load_detector(detector).detect
        console.print(f"{drive.name} has neither label maps nor boxes: {detector} looks for landmarks")
    keep = out / ".unfinished.jsonl"
    frames = [perturb_frame(frame, weather, seed, f"{drive.name}/{frame.name}") for frame in drive.frames]
    out.mkdir(parents=True, exist_ok=True)
    done = run_odometry(
        frames,
        load(checkpoint, evidence="scene"),
        partial(landmarks_of, detect=finder),
        config,
        keep=keep,
        truth=truth,
        progress=progress_bars(console),
    )
    if lidar:
        scans = scans_of(progress_bars(console)(drive.frames, "LiDAR"), done.measured)
        done = replace(done, lidar=lidar_odometry(scans, lidar_points, seed=seed))
    metrics = write_odometry(done, drive, out)
    for left in (keep, out / ".poses.npz"):
        left.unlink(missing_ok=True)
    _say(done, metrics, out)


def _has_landmarks(drive: "Drive") -> bool:
    from robustmat.detection.drives import has_labels

    return has_labels(drive) or any(frame.landmarks for frame in drive.frames)


def _truth(drive: "Drive", refine: bool, keep: Path, console: Any) -> list[Any]:
    """The given poses, refined by LiDAR where there is some: GPS headings are off by degrees."""
    from rich.progress import track

    from robustmat.landmarks.better_poses import with_better_poses

    frames = list(drive.frames)
    if refine and all(frame.T_world_camera is not None for frame in frames):
        show = lambda some: track(some, "truth by LiDAR", console=console, transient=True)  # noqa: E731
        frames, _ = with_better_poses(frames, keep, progress=show)
    return [frame.T_world_camera for frame in frames]


def _say(done: Any, metrics: dict[str, Any], out: Path) -> None:
    if "ate" in metrics:
        from rich.table import Table

        table = Table("", "ATE m", "RPE m a step", "degrees a step", "off after 10 m")
        rows = [("with landmarks", metrics), ("without", metrics["baseline"])]
        if "lidar" in metrics:
            rows.append((f"LiDAR, {metrics['lidar']['points']:.0f} points a scan", metrics["lidar"]))
        for name, row in rows:
            share = "" if row["stretch"] is None else f"{100 * row['stretch']:.2f} %"
            table.add_row(name, f"{row['ate']:.3f}", f"{row['rpe']:.4f}", f"{row['rpe_degrees']:.4f}", share)
        make_console().print(table)
    for note in done.notes:
        say(f"note: {note}")
    from robustmat.types import plural

    by = ", ".join(metrics["metres_by"]) or "nothing"
    say(
        f"{plural(len(done.frames), 'frame')}, {plural(len(done.tracks), 'track')}, metres by {by}; real time factor "
        f"{done.real_time_factor:.2f} ({done.seconds:.1f} s for {done.drive_seconds:.1f} s of driving)"
    )
    say(f"look at {out / 'trajectory.png'} and {out / 'tracks.png'}; {out / 'dataset'} goes into `robustmat map build`")
