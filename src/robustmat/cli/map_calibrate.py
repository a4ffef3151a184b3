"""`robustmat map calibrate`: fit what evidence for a place is worth."""

from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import need, output_file
from robustmat.cli.console import make_console, progress_bars


def calibrate(
    datasets: Annotated[
        list[Path],
        typer.Argument(help="Data sets, two or more of each world: the first is mapped, others are asked about."),
    ],
    out: Annotated[Path, typer.Option(callback=output_file, help="Write the model here (JSON).", show_default=False)],
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint's folder or a run's.")] = "street",
    evidence: Annotated[str, typer.Option(help="What scores may know.")] = "placement",
    keypoints: Annotated[int, typer.Option(min=0, help="Of a keyframe, that maps keep.")] = 0,
    pose_error: Annotated[
        tuple[float, float], typer.Option(metavar="METRES DEGREES", help="How well the poses of the drives are known.")
    ] = (0.005, 0.02),
    drive: Annotated[
        list[Path] | None,
        typer.Option(help="Real drives, repeatable: half of the frames are mapped, others tell how poses err."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Ask about every Nth frame.")] = 4,
    perturb: Annotated[str, typer.Option(metavar="P,P,...", help="Weather of what is asked about.")] = "clean,paper:16",
) -> None:
    """Fit what evidence for a place is worth and how wide covariances are, on drives that are reported nowhere.

    The shipped models were made like this on simulated towns, with and without keypoints.
    """
    import tempfile

    from robustmat.checkpoints.load import load
    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json

    need("lancedb", purpose="a map")

    from robustmat.mapping.calibration import calibrate as fit
    from robustmat.mapping.settings import MapSettings

    console = make_console()
    opened = [open_dataset(path) for path in datasets]
    drives = [open_dataset(path) for path in drive or []]
    with tempfile.TemporaryDirectory() as folder:
        model = fit(
            opened,
            load(checkpoint, evidence=evidence),
            Path(folder),
            MapSettings(keypoints=keypoints, pose_error=pose_error),
            perturbs=perturb.split(","),
            every=every,
            fitted_on=", ".join(one.name for one in [*opened, *drives]),
            drives=drives,
            progress=progress_bars(console),
        )
    write_json(out, model.model_dump())
    console.print(model.model_dump())
