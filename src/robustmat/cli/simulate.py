"""`robustmat simulate`: drive a simulated town and write it like a real data set."""

from pathlib import Path
from typing import Annotated

import typer


def simulate(
    out: Annotated[Path, typer.Argument(help="Folder to write the layout into.")],
    layout: Annotated[str, typer.Option(help="kitti-odometry or kitti-raw.")] = "kitti-odometry",
    frames: Annotated[int, typer.Option(min=1, help="How many frames to drive.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The town.")] = 0,
    look: Annotated[str, typer.Option(help="noon, overcast, evening, autumn, winter or dusk.")] = "noon",
    lane: Annotated[str, typer.Option(help="right, left, middle or oncoming.")] = "right",
    start: Annotated[float, typer.Option(help="Metres along the town's round to start at.")] = 0.0,
    spacing: Annotated[float, typer.Option(help="Metres between two frames.")] = 1.0,
    drive_seed: Annotated[int, typer.Option(min=0, help="The day: traffic, sway and sensor grain.")] = 0,
    sequence: Annotated[str, typer.Option(help="Sequence number (kitti-odometry).")] = "00",
    date: Annotated[str, typer.Option(help="Date of the drive (kitti-raw).")] = "2011_09_26",
    drive: Annotated[str, typer.Option(help="Drive number (kitti-raw).")] = "0001",
    scale: Annotated[float, typer.Option(min=0.1, max=2.0, help="Size of the pictures; 1 is 1242 x 375.")] = 1.0,
) -> None:
    """Drive a simulated town and write images, label maps, LiDAR, poses and the true identities.

    The same seed is the same town, so another look, lane or drive seed is another drive through it.
    """
    from rich.console import Console
    from rich.progress import track

    from robustmat.errors import ConfigError
    from robustmat.sources.street import LAYOUTS, build_town, drive_town, kitti_camera

    if layout not in LAYOUTS:
        raise ConfigError(f"unknown layout {layout!r}: choose one of {', '.join(LAYOUTS)}")
    console = Console()
    town = build_town(seed)
    the_drive = drive_town(
        town,
        frames,
        look=look,
        lane=lane,
        start=start,
        spacing=spacing,
        drive_seed=drive_seed,
        camera=kitti_camera(scale),
    )
    place = {"sequence": sequence} if layout == "kitti-odometry" else {"date": date, "number": drive}
    folder = LAYOUTS[layout](
        the_drive, out, **place, progress=lambda numbers: track(numbers, f"Driving {the_drive.name}", console=console)
    )
    ways = {
        "kitti-odometry": f"robustmat prepare kitti-odometry {out} --sequence {sequence}",
        "kitti-raw": f"robustmat prepare kitti-raw {out} --date {date} --drive {drive}",
    }
    named = f"--name {the_drive.name} --world {the_drive.world} --out DATASET"
    console.print(
        f"{frames} frames of {the_drive.name} in {folder}, with the true identities", markup=False, soft_wrap=True
    )
    console.print(f"Next: {ways[layout]} {named}", soft_wrap=True, markup=False)
