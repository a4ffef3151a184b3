"""`robustmat simulate`: drive a simulated town and write it like a real data set."""

from pathlib import Path
from typing import Annotated, Any

import typer

from robustmat.cli.checks import output_folder, plain_name
from robustmat.cli.console import make_console


def simulate(
    out: Annotated[Path, typer.Argument(callback=output_folder, help="Folder to write the layout into.")],
    layout: Annotated[
        str, typer.Option(help="kitti-odometry, kitti-raw, oxford, boreas or folder.")
    ] = "kitti-odometry",
    frames: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many frames to drive.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The town.")] = 0,
    look: Annotated[str, typer.Option(help="noon, overcast, evening, autumn, winter or dusk.")] = "noon",
    lane: Annotated[str, typer.Option(help="right, left, middle or oncoming.")] = "right",
    start: Annotated[float, typer.Option(min=-1e6, max=1e6, help="Metres along the town's round to start at.")] = 0.0,
    spacing: Annotated[float, typer.Option(min=0.01, max=1000.0, help="Metres between two frames.")] = 1.0,
    drive_seed: Annotated[int, typer.Option(min=0, help="The day: traffic, sway and sensor grain.")] = 0,
    sequence: Annotated[str, typer.Option(callback=plain_name, help="Sequence number (kitti-odometry).")] = "00",
    date: Annotated[str, typer.Option(callback=plain_name, help="Date of the drive (kitti-raw).")] = "2011_09_26",
    drive: Annotated[str, typer.Option(callback=plain_name, help="Drive number (kitti-raw).")] = "0001",
    raw_scans: Annotated[bool, typer.Option(help="Raw Velodyne readings of 32 beams (oxford).")] = False,
    boxes: Annotated[bool, typer.Option(help="Box files instead of label maps (folder).")] = False,
    scale: Annotated[float, typer.Option(min=0.1, max=2.0, help="Size of the pictures; 1 is 1242 x 375.")] = 1.0,
) -> None:
    """Drive a simulated town and write images, label maps, LiDAR, poses and the true identities.

    The same seed is the same town, so another look, lane or drive seed is another drive through it.
    """
    from rich.progress import track

    from robustmat.errors import ConfigError
    from robustmat.simulation import LAYOUTS, build_town, drive_town, kitti_camera
    from robustmat.simulation.write_kitti import ORIGIN as KITTI_ORIGIN
    from robustmat.simulation.write_oxford import ORIGIN as OXFORD_ORIGIN
    from robustmat.types import plural

    if layout not in LAYOUTS:
        raise ConfigError(f"unknown layout {layout!r}: choose one of {', '.join(LAYOUTS)}")
    console = make_console()
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
    places: dict[str, dict[str, Any]] = {
        "kitti-odometry": {"sequence": sequence},
        "kitti-raw": {"date": date, "number": drive},
        "oxford": {"raw_scans": raw_scans},
        "folder": {"boxes": boxes},
    }
    folder = LAYOUTS[layout](
        the_drive,
        out,
        **places.get(layout, {}),
        progress=lambda numbers: track(numbers, f"Driving {the_drive.name}", console=console),
    )
    ways = {
        "kitti-odometry": f"{out} --sequence {sequence}",
        "kitti-raw": f"{out} --date {date} --drive {drive} --origin {_spoken(KITTI_ORIGIN)}",
        "oxford": f"{folder} --origin {_spoken(OXFORD_ORIGIN)}",
    }
    named = f"--name {the_drive.name} --world {the_drive.world} --out DATASET"
    console.print(
        f"{plural(frames, 'frame')} of {the_drive.name} in {folder}, with the true identities", soft_wrap=True
    )
    way = ways.get(layout, str(folder))
    console.print(f"Next: robustmat prepare {layout} {way} {named}", soft_wrap=True)


def _spoken(origin: tuple[float, float, float]) -> str:
    return " ".join(f"{value:g}" if abs(value) < 1000 else f"{value:.1f}" for value in origin)
