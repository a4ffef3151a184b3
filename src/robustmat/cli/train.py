"""`robustmat train`: from landmark data sets to a checkpoint."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import choose_device, need, output_folder
from robustmat.cli.console import make_console, progress_bars
from robustmat.cli.processor import set_threads


def train(
    config: Annotated[
        str,
        typer.Argument(
            help="`street`, `paper`, another method such as `hardnet`, the denoiser `sgn`, or a TOML file.",
            show_default=False,
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Option(help="A data set made by `prepare`, or for `sgn` a folder of images; repeat for several."),
    ],
    out: Annotated[
        Path, typer.Option(callback=output_folder, help="The run's folder; `best/` in it is the checkpoint.")
    ],
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
    device: Annotated[str, typer.Option(callback=choose_device, help="cpu, cuda, mps or auto.")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; 1 makes runs repeat to the byte.")
    ] = None,
) -> None:
    """Train a model; progress, validation ROC AUC (PSNR of a denoiser) and TensorBoard curves on the way.

    Without --val the last of several data sets is held out, or the last third of a single one; a data set given
    as both --data and --val is split the same way.

        robustmat train street --data D0013 --val D0002 --out runs/mine
        robustmat train sgn --data towns/images --out runs/sgn
    """
    need("torch", "lightning", "tensorboard", purpose="training")

    from robustmat.checkpoints.store import Provenance, load_checkpoint
    from robustmat.dataset.store import open_dataset
    from robustmat.denoising.registry import TRAINABLE
    from robustmat.errors import ConfigError
    from robustmat.training.config import load_training_config, read_training_values
    from robustmat.training.run import train as run

    if ":" in device:
        raise ConfigError(f"--device {device}: training takes cuda alone; choose the card by CUDA_VISIBLE_DEVICES")
    set_threads(threads)
    given = {"seed": seed, "steps": steps, "variant": variant}
    changes = {key: value for key, value in given.items() if value is not None}
    console, command = make_console(), " ".join(["robustmat", *sys.argv[1:]])
    if read_training_values(config)["method"] in TRAINABLE:
        from robustmat.training.denoising import load_denoiser_config, open_pictures, train_denoiser

        best = train_denoiser(
            load_denoiser_config(config, changes),
            [open_pictures(path) for path in data],
            [open_pictures(path) for path in val or []],
            out,
            start=start,
            resume=resume,
            provenance=Provenance(licence=licence, terms=terms, command=command),
            device=device,
            progress=progress_bars(console),
        )
        console.print(f"best checkpoint: {best}; denoise with it: robustmat denoise IMAGE --denoiser {best} --out FILE")
        return
    settings = load_training_config(config, changes)
    best = run(
        settings,
        [open_dataset(path) for path in data],
        [open_dataset(path) for path in val or []],
        out,
        start=load_checkpoint(start) if start else None,
        resume=resume,
        licence=licence,
        terms=terms,
        command=command,
        device=device,
        progress=progress_bars(console),
    )
    trained = load_checkpoint(best)
    threshold = trained.decisions[trained.network.evidence[-1]].threshold
    console.print(f"best checkpoint: {best} (step {trained.provenance.steps}, threshold {threshold:.3f})")
    console.print(f"curves: tensorboard --logdir {out}", soft_wrap=True)
