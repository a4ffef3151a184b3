"""`robustmat models`: what is there, and what a configuration is made of."""

from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.console import make_console


def models(
    name: Annotated[
        str | None, typer.Argument(help="A configuration (paper, street) or checkpoint to take apart.")
    ] = None,
    variant: Annotated[
        str, typer.Option(help="An ablation's variant: full, ode, gcn, resnet-gat, ode-only, pde-only.")
    ] = "full",
) -> None:
    """List configurations and checkpoints; with a NAME, print its shapes, parameters and operations per part."""
    import warnings

    import torch
    from rich.table import Table

    from robustmat.checkpoints.store import load_checkpoint, read_scores, shipped_checkpoints
    from robustmat.config import nearest
    from robustmat.errors import ConfigError, TermsWarning
    from robustmat.models.presets import PRESETS, preset
    from robustmat.models.robustmat import RobustMat
    from robustmat.models.summary import BATCH, seconds_a_patch, summarize

    console = make_console()
    if name is None:
        table = Table("configuration", "patch", "embedding", "parameters", "solver", "vertex field", "graph field")
        for known in PRESETS:
            config = preset(known)
            size = sum(parameter.numel() for parameter in RobustMat(config).parameters())
            table.add_row(
                known,
                f"{config.patch.size} px",
                str(config.vertex.embedding_dim),
                f"{size:,}",
                config.graph.solver.name,
                config.vertex.field if config.vertex.evolution == "diffusion" else "no ODE",
                config.graph.field,
            )
        console.print(table)
        table = Table("checkpoint", "size", "licence", "a patch", "F1, clean", "F1, 16 dB")
        for shipped, folder in shipped_checkpoints().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TermsWarning)  # the licence stands in the table
                checkpoint = load_checkpoint(shipped)
            weights = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            scores = read_scores(folder)
            table.add_row(
                shipped,
                f"{weights:.1f} MB",
                checkpoint.provenance.licence,
                f"{1000 * seconds_a_patch(checkpoint.network):.1f} ms",
                *(f"{scores[one]:.3f}" if one in scores else "" for one in ("f1_clean", "f1_16_db")),
            )
        console.print(table)
        console.print(
            f"a patch: in a batch of {BATCH}, on {torch.get_num_threads()} CPU threads, now. F1: matches of whole "
            "frames, mean of three real drives that nothing was fitted on (results/leave-one-out.md)."
        )
        return
    if name in PRESETS:
        config = preset(name, variant)
    elif Path(name).exists() or name in shipped_checkpoints():
        config = load_checkpoint(name).network.config
    else:
        raise ConfigError(
            f"no configuration or checkpoint '{name}' ({nearest(name, [*PRESETS, *shipped_checkpoints()])})"
        )
    table = Table(
        "part",
        "output",
        "parameters",
        "multiply-adds",
        "field evaluations",
        title=f"{name} ({variant})" if name in PRESETS else name,
    )
    parts = summarize(config)
    for part in parts:
        evaluations = "" if part.evaluations is None else str(part.evaluations)
        shape = " x ".join(map(str, part.output))
        table.add_row(part.name, shape, f"{part.parameters:,}", f"{part.multiply_adds:,}", evaluations)
    table.add_row(
        "total",
        "",
        f"{sum(one_part.parameters for one_part in parts):,}",
        f"{sum(one_part.multiply_adds for one_part in parts):,}",
        "",
    )
    console.print(table)
    console.print("per landmark, or per pair for r, d and the joint diffusion; only products are counted")
