"""`robustmat robustness`: what is left of matches under every named corruption."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import output_folder
from robustmat.cli.console import make_console, progress_bars


def robustness(
    data: Annotated[list[Path], typer.Option(help="A prepared data set; repeat for several.")],
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Checkpoints, runs and methods that need no training: street,root-sift,runs/hardnet; `NAME=PATH` "
            "names a run, `+EVIDENCE` behind it says what its scores may know: street+pair.",
        ),
    ] = "street,root-sift",
    out: Annotated[Path, typer.Option(callback=output_folder, help="Folder of the page, heat map and counts.")] = Path(
        "robustness"
    ),
    reference: Annotated[
        str | None, typer.Option(help="The method that mCE is relative to; the last one unless given.")
    ] = None,
    corruptions: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Some of them instead of all: rain,fog,awgn.")
    ] = None,
    severities: Annotated[str, typer.Option(metavar="1,2,...", help="Which of 1 to 5.")] = "1,2,3,4,5",
    frame_pairs: Annotated[int, typer.Option(min=1, help="At most so many, of all data sets together.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Draws frame pairs and noise.")] = 0,
    denoise: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Take the noise off every frame first: `nlm`, ...")
    ] = None,
    allow_seen: Annotated[bool, typer.Option("--allow-seen", help="Measure even on drives of a training.")] = False,
) -> None:
    """Measure whole-frame matches under every named corruption at five severities, by category.

    Clean first; then a page with mCE (ImageNet-C) and mRR (RoboDepth), a heat map and JSON. What was counted is kept
    in --out: an interrupted command goes on where it was.

        robustmat robustness --data D0002 --data D0013 --methods street,hardnet=runs/hardnet,root-sift --out robustness
    """
    from robustmat.checkpoints.load import describe_source, load
    from robustmat.cli.evaluate import refuse_seen
    from robustmat.dataset.store import open_dataset
    from robustmat.denoising.frames import DenoisedMatcher
    from robustmat.denoising.registry import load_denoiser
    from robustmat.errors import ConfigError
    from robustmat.folders import locked
    from robustmat.robustness.corruption_page import write_report
    from robustmat.robustness.corruptions import conditions, measure_corruptions

    named = dict(_named(text.strip()) for text in methods.split(","))
    against = reference or list(named)[-1]
    if against not in named:
        raise ConfigError(f"--reference {against} is not one of --methods: {', '.join(named)}")
    try:
        wanted_severities = [int(word) for word in severities.split(",")]
    except ValueError:
        raise ConfigError(f"--severities must be numbers from 1 to 5, found {severities}") from None
    wanted = conditions(corruptions.split(",") if corruptions else None, wanted_severities)
    opened = [open_dataset(path) for path in data]
    matchers = {}
    for name, (source, evidence) in named.items():
        if not allow_seen:
            _, provenance = describe_source(source)
            refuse_seen(opened, provenance.drives, f"{name} was trained on")
        matchers[name] = load(source, evidence=evidence)
        if denoise is not None:
            matchers[name] = DenoisedMatcher(matchers[name], load_denoiser(denoise))
    console, progress = make_console(), progress_bars(make_console(stderr=True))
    settings = {"frame_pairs": frame_pairs, "seed": seed, "severities": wanted_severities, "denoise": denoise}
    with locked(out):
        measured = measure_corruptions(
            matchers, opened, wanted, out, frame_pairs=frame_pairs, seed=seed, progress=progress
        )
        names, command = [dataset.name for dataset in opened], " ".join(["robustmat", *sys.argv[1:]])
        page = write_report(out, measured, against, names, settings, command)
    console.print(f"wrote {page}, robustness.png and robustness.json beside it", soft_wrap=True)


def _named(text: str) -> tuple[str, tuple[str, str | None]]:
    """`NAME=SOURCE+EVIDENCE`, of which only the source is needed, as the name and what to load."""
    name, equals, rest = text.partition("=")
    source, _, evidence = (rest if equals else name).partition("+")
    return (name if equals else text), (source, evidence or None)
