"""`robustmat certify`: what a certified checkpoint's certificates are worth on data sets."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import need, output_file, output_folder
from robustmat.cli.console import make_console, progress_bars


def certify(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET", help="Prepared data sets, each judged apart.")],
    checkpoint: Annotated[
        str, typer.Option(help="A certified checkpoint or run; the default is a folder of the repository.")
    ] = "checkpoints/street-certified",
    perturb: Annotated[str, typer.Option(metavar="A,B,...", help="Conditions: clean, paper:16, ...")] = "clean",
    frame_pairs: Annotated[int, typer.Option(min=1, help="At most so many of each data set.")] = 100,
    attacks: Annotated[int, typer.Option(min=0, help="Attack so many right matches of each, by gradients.")] = 40,
    out: Annotated[Path, typer.Option(callback=output_folder, help="Folder of the page and its figure.")] = Path(
        "certificate"
    ),
    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the numbers here, too.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws frame pairs and noise.")] = 0,
) -> None:
    """Match whole frame pairs, certify every right match, and try to beat the certificates by attacks.

    A certificate is the largest change of a patch, in grey levels, for which the decision provably stays as it is.
    `robustmat match --certify` prints it for single matches.

        robustmat certify D0002 D0013 --out certificate
    """
    need("torch", purpose="certify")
    from robustmat.checkpoints.load import load
    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json
    from robustmat.perturb import parse
    from robustmat.robustness.certificate import certified_network
    from robustmat.robustness.certificate_report import measure_certificates, write_certificates

    console, progress = make_console(), progress_bars(make_console(stderr=True))
    opened = [open_dataset(path) for path in datasets]
    conditions = [parse(name) for name in perturb.split(",")]
    matcher = load(checkpoint, runtime="torch", evidence="pair")
    network = certified_network(matcher)
    reports = [
        measure_certificates(
            matcher, [one], condition, frame_pairs=frame_pairs, attacks=attacks, seed=seed, progress=progress
        )
        for one in opened
        for condition in conditions
    ]
    command = " ".join(["robustmat", *sys.argv[1:]])
    page = write_certificates(out, matcher.name, network.lipschitz, reports, command)
    console.print(f"wrote {page}", soft_wrap=True)
    if json is not None:
        write_json(json, [report.to_json() for report in reports])
        console.print(f"wrote {json}", soft_wrap=True)
