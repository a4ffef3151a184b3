"""`robustmat bench map` and `bench places`: how maps grow, and how well they answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import need, output_file
from robustmat.cli.console import make_console, progress_bars, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robustmat.bench.places import World
    from robustmat.mapping.settings import MapSettings
    from robustmat.types import Frame

Out = Annotated[Path | None, typer.Option(help="Write a page (.md) and the numbers (.csv) into this folder.")]


def bench_map(
    sizes: Annotated[str, typer.Option(metavar="N,N,...", help="Views of landmarks.")] = "10000,100000,1000000",
    around: Annotated[
        Path | None, typer.Option(help="A map around whose embeddings others are drawn; random directions without.")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Searches at each size.")] = 50,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    json: Annotated[
        Path | None, typer.Option(callback=output_file, help="Write the measurements here as JSON.")
    ] = None,
    out: Out = None,
) -> None:
    """How a map's building, bytes and searches grow with its landmarks, and what its index misses."""
    from rich.table import Table

    from robustmat.errors import InputError
    from robustmat.files import write_json

    need("lancedb", purpose="a map")
    from robustmat.bench.map_scale import COLUMNS, cells, measure_scale, spread_out, write_scale

    try:
        wanted = [int(word) for word in sizes.split(",")]
    except ValueError:
        raise InputError(f"--sizes {sizes}: expected numbers such as 10000,100000") from None
    real = None
    if around is not None:
        import numpy as np

        from robustmat.mapping.landmark_map import open_map

        opened = open_map(around)
        rows = opened.store.rows("views", opened.snapshot, None, ["vector"])
        real = spread_out(np.array([row["vector"] for row in rows], np.float32))
    console = make_console()
    found = measure_scale(wanted, real, queries=queries, seed=seed, tell=console.print)
    table = Table(*COLUMNS)
    for row in found:
        table.add_row(*cells(row))
    console.print(table)
    if json is not None:
        write_json(json, [row.to_json() for row in found])
    if out is not None:
        say(f"wrote {write_scale(found, out, command_line())}")


def places(
    mapped: Annotated[list[Path], typer.Argument(help="Data sets to map, one of each world.", show_default=False)],
    queries: Annotated[
        list[Path], typer.Option(help="Data sets of the same worlds to ask about, repeatable.", show_default=False)
    ],
    frames: Annotated[str, typer.Option(help="Which of their frames, by number: 1565-1639,2439-2469.")] = "",
    every_query: Annotated[int, typer.Option(min=1, help="Take every Nth frame of the queries.")] = 1,
    unknown: Annotated[
        list[Path] | None,
        typer.Option(help="Data sets of other places, repeatable; queries of the other worlds are that, too."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Take every Nth frame of other places.")] = 3,
    perturb: Annotated[str, typer.Option(metavar="P,P,...", help="Weather of the queries.")] = "clean,paper:16",
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")] = "street",
    evidence: Annotated[str, typer.Option(help="What scores may know.")] = "placement",
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="What a map keeps, repeatable: keypoints=500, min_height=40, max_landmarks=3, precision=int8, "
            "keyframe_spacing=4, pose_error=0.005:0.02; `all` is the default map.",
        ),
    ] = None,
    rivals: Annotated[bool, typer.Option(help="Compare with whole-image methods.")] = True,
    sequence: Annotated[bool, typer.Option(help="Ask about whole drives, too.")] = True,
    offsets: Annotated[
        bool, typer.Option(help="Also take away one rigid offset of the given poses a revisit.")
    ] = False,
    grey: Annotated[bool, typer.Option(help="Show other places without colours, as the map's frames are.")] = False,
    out: Out = None,
    name: Annotated[str, typer.Option(help="What the page is called.")] = "places",
) -> None:
    """How well revisits are recognised and located, beside whole-image methods, with frames of unknown places."""
    import tempfile

    from robustmat.checkpoints.load import load

    need("lancedb", purpose="a map")
    from robustmat.bench.places import evaluate_places
    from robustmat.bench.places_page import write_places
    from robustmat.bench.places_rows import as_json

    console = make_console()
    worlds = _worlds(mapped, queries, frames, every_query, unknown or [], every, grey)
    with tempfile.TemporaryDirectory() as folder:
        report = evaluate_places(
            Path(folder),
            worlds,
            load(checkpoint, evidence=evidence),
            {f"map, {text}" if text != "all" else "map": _settings(text) for text in keep or ["all"]},
            perturb.split(","),
            rivals=rivals,
            sequence=sequence,
            offsets=offsets,
            progress=progress_bars(console),
        )
    for place in report.places:
        console.print(as_json(place))
    for pose in report.poses:
        console.print(as_json(pose))
    if out is not None:
        data = ", ".join(f"{world.mapped.name} ({len(world.mapped.frames)} frames)" for world in worlds)
        told = f"Maps of {data} by `{checkpoint}` with evidence `{evidence}`."
        page = write_places(report, out, name, "Places and poses", command_line(), told)
        say(f"wrote {page}")


def command_line() -> str:
    """The command as it was given, paths by their last part."""
    import sys

    return " ".join(["robustmat", *(Path(word).name if "/" in word else word for word in sys.argv[1:])])


def _settings(text: str) -> "MapSettings":
    from robustmat.config import parse
    from robustmat.errors import InputError
    from robustmat.mapping.settings import MapSettings

    pairs = [word.partition("=") for word in text.split(",")] if text != "all" else []
    if not all(equals for _, equals, _ in pairs):
        raise InputError(f"--keep {text}: expected KEY=VALUE,... or all")
    return parse(MapSettings, {key: _number(value) for key, _, value in pairs}, f"--keep {text}")


def _number(text: str) -> Any:
    if ":" in text:
        return [_number(part) for part in text.split(":")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _worlds(
    mapped: "Sequence[Path]",
    queries: "Sequence[Path]",
    frames: str,
    every_query: int,
    unknown: "Sequence[Path]",
    every: int,
    grey: bool,
) -> "list[World]":
    from robustmat.bench.places import World, runs_of, without_colours
    from robustmat.dataset.store import open_dataset
    from robustmat.errors import InputError
    from robustmat.sources.drive import numbered

    opened = [open_dataset(path) for path in queries]
    elsewhere = [frame for path in unknown for frame in open_dataset(path).frames[::every]]
    elsewhere = [without_colours(frame) for frame in elsewhere] if grey else elsewhere
    worlds = []
    for path in mapped:
        dataset = open_dataset(path)
        asked: dict[str, list[Frame]] = {}
        for one in opened:
            if one.world == dataset.world:
                chosen = [one.frames[i] for i in numbered(one.frames, frames)]
                taken = {frame.name for frame in chosen[::every_query]}
                for run, members in runs_of(one.name, chosen).items():
                    kept = [frame for frame in members if frame.name in taken]
                    asked |= {run: kept} if kept else {}
        if not asked:
            raise InputError(f"no queries in the world '{dataset.world}' of {path}: give some with --queries")
        foreign = [frame for one in opened if one.world != dataset.world for frame in one.frames[::every]]
        worlds.append(World(dataset, asked, [*elsewhere, *foreign]))
    return worlds
