"""`robustmat inspect`: what a data set holds, as a table and as contact sheets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import output_file, output_folder
from robustmat.cli.console import make_console, say

if TYPE_CHECKING:
    from robustmat.dataset.store import LandmarkDataset


def inspect(
    dataset: Annotated[Path, typer.Argument(help="A prepared data set.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(callback=output_folder, help="Folder for the contact sheets; DATASET/inspect by default."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="How many matched pairs to draw, 40 a sheet.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other pairs.")] = 0,
    judge: Annotated[
        int | None,
        typer.Option(min=1, help="Draw so many matched and as many unmatched candidates, with the frames in between."),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(help="With --judge: draw from these only; JSON rows [frame, landmark number, frame, number]."),
    ] = None,
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the counts here as JSON.")] = None,
) -> None:
    """Count what a data set holds and draw contact sheets to look at.

    Frames with boxes, coloured by identity, and LiDAR points; matched pairs, drawn at random and numbered: what share
    of them shows one and the same object is the precision of the identities. --judge adds sheets of matched and
    unmatched candidates of one category, each with frames in between.
    """
    from robustmat.dataset.inspect import count, draw_sheets
    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json

    opened = open_dataset(dataset)
    counts = count(opened)
    _print(counts, opened)
    for sheet in draw_sheets(opened, out or dataset / "inspect", seed, pairs):
        say(f"look at {sheet}")
    if judge is not None:
        _judge(opened, out or dataset / "inspect", judge, seed, candidates)
    if json is not None:
        write_json(json, counts)
        say(f"counts in {json}")


def _judge(dataset: "LandmarkDataset", out: Path, count: int, seed: int, candidates: Path | None) -> None:
    import numpy as np

    from robustmat.dataset.judge import draw_candidates, draw_judgement_sheets, read_candidates, with_label
    from robustmat.dataset.truth import read_truth
    from robustmat.types import MATCHED, UNMATCHED

    truth = read_truth([dataset])
    given = None if candidates is None else read_candidates(candidates, truth)
    for name, label in (("judge-matched", MATCHED), ("judge-unmatched", UNMATCHED)):
        if given is None:
            chosen = draw_candidates(truth, label, count, seed)
        else:
            fitting = with_label(truth, given, label)
            picked = np.random.default_rng(seed).choice(len(fitting), min(count, len(fitting)), replace=False)
            chosen = [fitting[i] for i in sorted(picked.tolist())]
        for sheet in draw_judgement_sheets(truth, chosen, out, name):
            say(f"judge {sheet}")


def _print(counts: dict[str, Any], dataset: "LandmarkDataset") -> None:
    from rich.table import Table

    from robustmat.types import plural

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
    console = make_console()
    console.print(table)
    frames, pairs = plural(counts["frames"], "frame"), plural(counts["frame_pairs"], "frame pair")
    console.print(f"{frames} ({counts['frames_without_landmarks']} without landmarks), {pairs} 2 to 25 m apart")
    source = dataset.source
    if source.get("identities") in ("triangulation", "lidar and triangulation"):
        console.print(f"identities by {source['identities'].replace('lidar', 'LiDAR')}")
    by = dataset.pose_corrections
    if by is not None:
        console.print(
            f"poses refined by {dataset.poses_refined_by}: median {by['metres']['median']:.2f} m and "
            f"{by['degrees']['median']:.2f} degrees, at most {by['metres']['max']:.2f} m and "
            f"{by['degrees']['max']:.2f} degrees"
        )
    elif source.get("poses") == {"refined": False}:
        console.print("poses as given")
    for title, key, unit in (
        ("landmarks per frame", "landmarks_per_frame", ""),
        ("sightings per identity", "observations_per_identity", ""),
        ("distance to a landmark", "distance_to_landmark", " m"),
    ):
        if counts[key] is not None:
            least, median, most = (counts[key][name] for name in ("least", "median", "most"))
            console.print(f"{title}: {least:.0f} to {most:.0f}{unit}, median {median:.0f}{unit}")
