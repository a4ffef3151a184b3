"""`robustmat inspect`: what a data set holds, as a table and as contact sheets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from robustmat.cli.checks import output_file, output_folder


def inspect(
    dataset: Annotated[Path, typer.Argument(help="A prepared data set.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(callback=output_folder, help="Folder for the contact sheets; DATASET/inspect by default."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="How many matched pairs to draw, 40 a sheet.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other pairs.")] = 0,
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the counts here as JSON.")] = None,
) -> None:
    """Count what a data set holds and draw contact sheets to look at.

    Frames with boxes, coloured by identity, and LiDAR points; matched pairs, drawn at random and numbered: what share
    of them shows one and the same object is the precision of the identities.
    """
    from robustmat.dataset.inspect import count, draw_sheets
    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json

    opened = open_dataset(dataset)
    counts = count(opened)
    _print(counts)
    for sheet in draw_sheets(opened, out or dataset / "inspect", seed, pairs):
        typer.echo(f"look at {sheet}")
    if json is not None:
        write_json(json, counts)
        typer.echo(f"counts in {json}")


def _print(counts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{counts['name']} (world {counts['world']})", title_justify="left")
    for column in ("", "pole", "sign", "light", "window", "all"):
        table.add_column(column, justify="right" if column else "left")

    def row(title: str, key: str) -> None:
        by = counts.get(f"{key}_by_category", {})
        names = ("pole", "traffic_sign", "traffic_light", "window")
        table.add_row(title, *(str(by.get(name, 0)) for name in names), str(counts[key]))

    row("landmarks", "landmarks")
    row("  with an identity", "observations")
    row("identities", "identities")
    row("matched pairs, 2 to 25 m", "matched_pairs")
    console = Console()
    console.print(table)
    console.print(f"{counts['frames']} frames ({counts['frames_without_landmarks']} without landmarks), ", end="")
    console.print(f"{counts['frame_pairs']} frame pairs 2 to 25 m apart")
    for title, key, unit in (
        ("landmarks per frame", "landmarks_per_frame", ""),
        ("sightings per identity", "observations_per_identity", ""),
        ("distance to a landmark", "distance_to_landmark", " m"),
    ):
        if counts[key] is not None:
            least, median, most = (counts[key][name] for name in ("least", "median", "most"))
            console.print(f"{title}: {least:.0f} to {most:.0f}{unit}, median {median:.0f}{unit}")
