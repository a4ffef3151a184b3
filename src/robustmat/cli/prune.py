"""`robustmat prune`: a narrower checkpoint, fine-tuned where there is data."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import need, output_folder
from robustmat.cli.console import make_console, progress_bars
from robustmat.cli.processor import set_threads


def prune(
    checkpoint: Annotated[
        str, typer.Argument(help="A shipped name, a checkpoint folder or a run.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(callback=output_folder, help="Folder of the pruned checkpoint.")],
    to: Annotated[float, typer.Option(min=0.05, max=1.0, help="Share of the inner channels that stay.")] = 0.5,
    data: Annotated[
        list[Path] | None, typer.Option(help="Data sets to fine-tune on; without them nothing is trained.")
    ] = None,
    val: Annotated[list[Path] | None, typer.Option(help="Held-out data sets, for checkpoint and thresholds.")] = None,
    config: Annotated[str, typer.Option(help="Training configuration of the fine-tuning.")] = "street",
    steps: Annotated[int, typer.Option(min=1, help="Of the fine-tuning.")] = 100,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Of the fine-tuning.")] = 2e-4,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads of the fine-tuning.")] = None,
) -> None:
    """Leave out the least important channels inside the network; the widths of all states stay.

    torch-pruning finds what hangs together. With --data the rest is fine-tuned and its thresholds are fitted anew:

        robustmat prune street --to 0.5 --data D0005 --val D0013 --steps 100 --out runs/half
    """
    need("torch", "torch_pruning", purpose="pruning")

    from robustmat.checkpoints.store import load_checkpoint, save_checkpoint
    from robustmat.dataset.store import open_dataset
    from robustmat.errors import InputError
    from robustmat.export.prune import prune_checkpoint

    if val and not data:
        raise InputError("--val without --data: give data sets to fine-tune on, or leave both out")
    set_threads(threads)
    console = make_console()
    whole = load_checkpoint(checkpoint)
    pruned = prune_checkpoint(whole, to)
    counts = [sum(one.numel() for one in network.parameters()) for network in (whole.network, pruned.network)]
    if data:
        from robustmat.training.fine_tune import fine_tune

        best = fine_tune(
            pruned,
            [open_dataset(path) for path in data],
            [open_dataset(path) for path in val or []],
            out,
            config=config,
            steps=steps,
            learning_rate=learning_rate,
            command=" ".join(["robustmat", *sys.argv[1:]]),
            progress=progress_bars(console),
        )
    else:
        best = save_checkpoint(out, pruned)
    widths = ", ".join(map(str, pruned.network.config.vertex.inner_channels or ()))
    console.print(f"{counts[0]:,} parameters to {counts[1]:,}; inner channels {widths}", highlight=False)
    console.print(f"wrote {best}", soft_wrap=True)
