"""`robustmat models`: what is there, and what a configuration is made of."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import missing_package, need
from robustmat.cli.console import make_console

if TYPE_CHECKING:
    from rich.console import Console


def models(
    name: Annotated[
        str | None, typer.Argument(help="A configuration (paper, street) or checkpoint to take apart; needs torch.")
    ] = None,
    variant: Annotated[
        str, typer.Option(help="An ablation's variant: full, ode, gcn, resnet-gat, ode-only, pde-only.")
    ] = "full",
) -> None:
    """List checkpoints, methods and configurations; with a NAME, print its shapes, parameters and operations per part.

    Names of checkpoints, and of methods that need no training, are what `--checkpoint` takes:

        robustmat match a.jpg b.jpg --checkpoint root-sift
    """
    console = make_console()
    if name is not None:
        need("torch", purpose=f"robustmat models {name}")
        _take_apart(name, variant, console)
        return
    with_torch = find_spec("torch") is not None
    _list_checkpoints(console, with_torch)
    _list_methods(console)
    if with_torch:
        _list_configurations(console)
    else:
        about = "what a model is made of and how fast it is (robustmat models paper)"
        console.print(missing_package(["torch"], about), soft_wrap=True, highlight=False)


def _list_checkpoints(console: "Console", with_torch: bool) -> None:
    """The shipped checkpoints; how fast they are is measured where torch is there to do it."""
    import warnings

    from rich.table import Table

    from robustmat.checkpoints.store import read_header, read_scores, shipped_checkpoints
    from robustmat.errors import TermsWarning

    timed = ["a patch"] if with_torch else []
    table = Table("checkpoint", "size", "licence", *timed, "F1, clean", "F1, 16 dB")
    for shipped, folder in shipped_checkpoints().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TermsWarning)  # the licence stands in the table
            licence = read_header(folder).provenance.licence
            times = [_time_a_patch(shipped) for _ in timed]
        weights = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        scores = read_scores(folder)
        f1 = (f"{scores[one]:.3f}" if one in scores else "" for one in ("f1_clean", "f1_16_db"))
        table.add_row(shipped, f"{weights:.1f} MB", licence, *times, *f1)
    console.print(table)
    note = (
        "F1: matches of whole frames, mean of three real drives that nothing was fitted on (results/leave-one-out.md)."
    )
    if with_torch:
        import torch

        from robustmat.models.summary import BATCH

        note = f"a patch: in a batch of {BATCH}, on {torch.get_num_threads()} CPU threads, now. {note}"
    console.print(note)


def _time_a_patch(name: str) -> str:
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.models.summary import seconds_a_patch

    return f"{1000 * seconds_a_patch(load_checkpoint(name).network):.1f} ms"


def _list_methods(console: "Console") -> None:
    from robustmat.errors import ConfigError
    from robustmat.methods import find_method, method_names

    ready: list[str] = []
    trained: list[str] = []
    for name in method_names():
        try:
            trainable = find_method(name).trainable is not None
        except ConfigError:  # its file imports torch, which only those that learn do
            trainable = True
        (trained if trainable else ready).append(name)
    console.print(f"methods that need no training: {', '.join(ready)} (those that lack a package or weights say so)")
    console.print(f"methods to train first (robustmat train NAME; give the folder of the run): {', '.join(trained)}")


def _list_configurations(console: "Console") -> None:
    from rich.table import Table

    from robustmat.models.presets import PRESETS, preset
    from robustmat.models.robustmat import RobustMat

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


def _take_apart(name: str, variant: str, console: "Console") -> None:
    from rich.table import Table

    from robustmat.checkpoints.store import load_checkpoint, shipped_checkpoints
    from robustmat.config import nearest
    from robustmat.errors import ConfigError
    from robustmat.models.presets import PRESETS, preset
    from robustmat.models.summary import summarize

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
