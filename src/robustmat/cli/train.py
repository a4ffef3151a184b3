"""`robustmat train`: from landmark data sets to a checkpoint."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def train(
    config: Annotated[
        str, typer.Argument(help="`street`, `paper`, a rival such as `hardnet`, or a TOML file.", show_default=False)
    ],
    data: Annotated[list[Path], typer.Option(help="A data set made by `prepare`; repeat for several.")],
    out: Annotated[Path, typer.Option(help="The run's folder; `best/` in it is the checkpoint.")],
    val: Annotated[
        list[Path] | None, typer.Option(help="Held-out data sets that choose checkpoint and threshold.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Begin with the weights of this checkpoint (name or folder), to fine-tune it.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the configuration's.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=0, help="Instead of the configuration's; 0 fits thresholds alone.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="An ablation's variant: full, gcn, resnet-gat, ode-only, pde-only.")
    ] = None,
    licence: Annotated[str, typer.Option(help="What the data allows; stored with the weights.")] = "unspecified",
    terms: Annotated[
        str, typer.Option(help="What users of the weights must heed; said whenever they are loaded.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu, gpu, or what lightning knows.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads; 1 makes runs repeat to the byte.")] = None,
) -> None:
    """Train a model; progress, validation ROC AUC and TensorBoard curves on the way.

    Without --val the last of several data sets is held out, or the last third of a single one; a data set given
    as both --data and --val is split the same way.

        robustmat train street --data D0013 --val D0002 --out runs/mine
    """
    import torch
    from rich.console import Console
    from rich.progress import track

    from robustmat.dataset.store import open_dataset
    from robustmat.errors import ConfigError
    from robustmat.models.baselines.weights import PAIR, load_baseline
    from robustmat.models.weights import load_checkpoint

    try:
        from robustmat.training.baseline_config import is_baseline_config, load_baseline_config
        from robustmat.training.baseline_run import train_baseline
        from robustmat.training.config import load_training_config
        from robustmat.training.run import train as run
    except ModuleNotFoundError as missing:
        raise ConfigError(f"training needs '{missing.name}': pip install 'robustmat[train]'") from None

    if threads:
        torch.set_num_threads(threads)
    changes = {
        key: value for key, value in (("seed", seed), ("steps", steps), ("variant", variant)) if value is not None
    }
    console = Console()
    options: dict[str, Any] = {
        "resume": resume,
        "licence": licence,
        "terms": terms,
        "command": " ".join(["robustmat", *sys.argv[1:]]),
        "device": device,
        "progress": lambda items: track(items, description="cutting patches", console=console),
    }
    if is_baseline_config(config):
        if variant:
            raise ConfigError(f"--variant {variant} is an ablation of RobustMat: leave it out for a rival")
        method = load_baseline_config(config, changes)
        opened = [open_dataset(path) for path in data], [open_dataset(path) for path in val or []]
        earlier = load_baseline(start) if start else None
        best = train_baseline(method, *opened, out, start=earlier, **options)
        rival = load_baseline(best)
        provenance, decision = rival.provenance, rival.decisions[PAIR]
    else:
        settings = load_training_config(config, changes)
        opened = [open_dataset(path) for path in data], [open_dataset(path) for path in val or []]
        began = load_checkpoint(start) if start else None
        best = run(settings, *opened, out, start=began, **options)
        checkpoint = load_checkpoint(best)
        provenance, decision = checkpoint.provenance, checkpoint.decisions[checkpoint.model.config.evidence[-1]]
    console.print(f"best checkpoint: {best} (step {provenance.steps}, threshold {decision.threshold:.3f})")
    console.print(f"curves: tensorboard --logdir {out}", markup=False, soft_wrap=True)
