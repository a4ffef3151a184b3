"""`robustmat export`: a checkpoint for where torch is not."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import need, output_folder
from robustmat.cli.console import make_console, progress_bars, say

if TYPE_CHECKING:
    from rich.table import Table

    from robustmat.export.parity import ParityReport
    from robustmat.types import Frame

app = typer.Typer(no_args_is_help=True, help="Write a checkpoint in another format, checked against torch.")


@app.callback()
def _formats() -> None:
    """Keeps the format's name in the command, though there is one format only."""


@app.command()
def onnx(
    out: Annotated[
        Path, typer.Option(callback=output_folder, help="Folder for the ONNX files, their manifest and model card.")
    ],
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")] = "street",
    int8: Annotated[bool, typer.Option("--int8", help="Also in eight bits, with what that costs in F1.")] = False,
    fixed_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of rk4 where the checkpoint's solver is adaptive (dopri5).")
    ] = None,
    frames: Annotated[int, typer.Option(min=1, help="Simulated frames of each of two drives to compare on.")] = 4,
    seed: Annotated[int | None, typer.Option(min=0, help="The simulated town to compare on.")] = None,
) -> None:
    """Vertex embedder, graph embedder and scorers as ONNX files, with any number of landmarks.

    The files are run beside torch on a simulated street; where scores differ by more than 1e-4 or a single
    decision differs, nothing is written and the exit code is 1.

        robustmat export onnx --checkpoint street --out street-onnx

        robustmat match a.png b.png --boxes-a a.json --boxes-b b.json --runtime onnx --checkpoint street-onnx
    """
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.export.frames import TOWN, street_frames

    need("torch", "onnx", purpose="exporting")
    from robustmat.export.write import check_exportable, export_onnx

    console, errors = make_console(), make_console(stderr=True)
    loaded = load_checkpoint(checkpoint)
    check_exportable(loaded, out, fixed_steps)  # before the frames are rendered
    town = TOWN if seed is None else seed

    def street(number: int, purpose: str) -> "list[Frame]":
        def show(items: Sequence[Any], what: str) -> Iterable[Any]:
            return progress_bars(errors)(items, f"{what} to {purpose}")

        return street_frames(frames, number, progress=show)

    compared = street(town, "compare on")
    calibration = street(town + 1, "set int8 ranges on") if int8 else []
    with errors.status("exporting and comparing with torch"):
        found = export_onnx(loaded, out, compared, calibration=calibration, fixed_steps=fixed_steps)
    console.print(_table("ONNX against torch", found.parity))
    if found.int8 is not None:
        console.print(_table("int8 against torch", found.int8))
    if found.solver is not None:
        console.print(_table("fixed steps against dopri5", found.solver))
    if not found.passed:
        for line in found.parity.problems():
            say(f"no parity: {line}", err=True)
        say(f"robustmat: nothing was written to {out}", err=True)
        raise typer.Exit(1)
    console.print(f"wrote {out}; look at {out / 'README.md'}", soft_wrap=True)


def _table(title: str, report: "ParityReport") -> "Table":
    from rich.table import Table

    table = Table(
        *("evidence", "largest difference", "decisions changed", "matches changed", "match F1"),
        title=f"{title}, {report.frame_pairs} frame pairs",
        title_justify="left",
    )
    for name, one in report.evidence.items():
        changed = f"{one.decisions_changed} of {one.candidates}", f"{one.matches_changed} of {one.matches}"
        table.add_row(name, f"{one.largest_difference:.1e}", *changed, one.f1_change)
    return table
