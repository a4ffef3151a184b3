"""`robustmat stability`: what noise does to embeddings, stage by stage."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import need, output_file, output_folder
from robustmat.cli.console import make_console, progress_bars


def stability(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET", help="Prepared data sets.")],
    models: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Checkpoints, runs or methods without training (root-sift); `untrained:street`, "
            "`untrained:paper:resnet-gat` for a preset with random weights.",
        ),
    ] = "street,street-contractive,untrained:street:resnet-gat,root-sift",
    perturb: Annotated[str, typer.Option(metavar="A,B,...", help="Perturbations, little noise first.")] = (
        "paper:19,paper:16,paper:13"
    ),
    frames: Annotated[int, typer.Option(min=1, help="So many frames of all data sets, evenly spread.")] = 20,
    out: Annotated[Path, typer.Option(callback=output_folder, help="Folder of the page and its figures.")] = Path(
        "stability"
    ),
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the medians here, too.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the noise, and of random weights.")] = 0,
) -> None:
    """Compare embeddings of clean and perturbed landmarks: h_DS, f and g of RobustMat, descriptors of others.

    Writes `stability.md` with the paper's density and box plots. Norms alone mislead, since a stage that shrinks
    everything shrinks noise, too: beside them stands the noise over the distance between different landmarks.

        robustmat stability D0002 D0013 --out stability
    """
    need("torch", purpose="stability")

    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json
    from robustmat.perturb import parse
    from robustmat.robustness.stability import measure_stability
    from robustmat.robustness.stability_page import to_json, write_stability

    console, progress = make_console(), progress_bars(make_console(stderr=True))
    opened = [open_dataset(path) for path in datasets]
    perturbations = [parse(name) for name in perturb.split(",")]
    measured = [
        measure_stability(name.strip(), opened, perturbations, frames=frames, seed=seed, progress=progress)
        for name in models.split(",")
    ]
    command = " ".join(["robustmat", *sys.argv[1:]])
    page = write_stability(out, measured, [dataset.name for dataset in opened], command)
    console.print(f"wrote {page}", soft_wrap=True)
    if json is not None:
        write_json(json, to_json(measured))
        console.print(f"wrote {json}", soft_wrap=True)
