"""`robustmat denoise`: take the noise off images, or measure what that is worth; and the option --denoise of others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from robustmat.cli.checks import check_pictures, output_file, output_picture
from robustmat.cli.console import make_console, progress_bars

if TYPE_CHECKING:
    from rich.console import Console
    from typer._click import Context  # pragma: no cover

    from robustmat.denoising.measure import Gain

DEFAULT = "sgn"
Denoise = Annotated[
    str | None,
    typer.Option(
        "--denoise",
        metavar="[NAME|PATH]",
        help="Take the noise off every frame first: `sgn` (unless named), `nlm` (non-local means), or a run's folder.",
    ),
]


class DenoiseByDefault(TyperCommand):
    """`--denoise` alone means the default: what follows is its value unless it is an option or somebody's file."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word == "--denoise" and not _is_value(args[at + 1] if at + 1 < len(args) else "-"):
                args = [*args[: at + 1], DEFAULT, *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


def _is_value(word: str) -> bool:
    if word.startswith("-"):
        return False
    path = Path(word)
    return not path.exists() or any((folder / "model.json").is_file() for folder in (path, path / "best"))


def denoise(
    sources: Annotated[list[Path], typer.Argument(help="Images, folders of images, videos.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The denoised image; a folder for several, file names kept.")] = None,
    denoiser: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|PATH",
            help="`sgn` (default), `nlm` (non-local means), or the folder of a run; repeat to measure several.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Take the images as clean, perturb them (paper:16,awgn:16) and print PSNR before and after.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(callback=output_picture, help="With --measure: the first image clean, noisy and denoised."),
    ] = None,
    json: Annotated[Path | None, typer.Option(callback=output_file, help="With --measure: the numbers.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Of folders and videos take one frame of so many.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="With --measure: draws the noise.")] = 0,
) -> None:
    """Take the noise off images.

    robustmat denoise noisy.png --out clean.png

    robustmat denoise FOLDER --measure paper:19,paper:16,paper:13,awgn:16 --denoiser sgn --denoiser nlm
    """
    from robustmat.denoising.registry import load_denoiser
    from robustmat.detection.frames import frames_of, is_single_image
    from robustmat.errors import InputError
    from robustmat.files import write_json
    from robustmat.sources.images import READABLE, write_image
    from robustmat.types import plural

    if (out is None) == (measure is None):
        raise InputError("say what to do: denoise IMAGE --out FILE, or denoise FOLDER --measure paper:16")
    if measure is None and (picture or json):
        raise InputError("--picture and --json belong to --measure: denoise FOLDER --measure paper:16 --picture FILE")
    names = denoiser or [DEFAULT]
    if measure is None and len(names) > 1:
        raise InputError(f"{len(names)} denoisers for one --out: give one; --measure takes several")
    console, errors = make_console(soft_wrap=True), make_console(stderr=True)
    if out is not None:
        alone = is_single_image(sources)
        check_pictures("--out", out, READABLE, alone)
        loaded = load_denoiser(names[0])
        count = 0
        for frame in frames_of(sources, every):
            name = frame.name if Path(frame.name).suffix else f"{frame.name}.png"  # a video's frames are numbers
            write_image(out if alone else out / name, loaded.denoise(frame.image))
            count += 1
        console.print(f"{plural(count, 'image')} denoised by {loaded.name}: wrote {out}", highlight=False)
        return
    from robustmat.denoising.measure import draw_sheet, measure_denoisers
    from robustmat.perturb import parse

    kinds = [parse(name) for name in str(measure).split(",")]
    frames, chosen = list(frames_of(sources, every)), [load_denoiser(name) for name in names]
    if not frames:
        raise InputError(f"no images in {', '.join(map(str, sources))}")
    gains = measure_denoisers(chosen, frames, kinds, seed, progress_bars(errors))
    _print_gains(gains, console)
    if json is not None:
        write_json(json, {"gains": [gain.to_json() for gain in gains], "seed": seed, "every": every})
        console.print(f"wrote {json}")
    if picture is not None:
        write_image(picture, draw_sheet(chosen, frames[0].image, kinds, seed, frames[0].name))
        console.print(f"wrote {picture}")


def _print_gains(gains: "list[Gain]", console: "Console") -> None:
    from rich.table import Table

    from robustmat.types import plural

    title = plural(gains[0].frames, "frame")
    table = Table("noise", "denoiser", "before, dB", "after, dB", "gain, dB", "least gain", title=title)
    for gain in gains:
        numbers = (gain.before, gain.after, gain.gain, gain.least_gain)
        table.add_row(gain.perturbation, gain.denoiser, *(f"{number:.2f}" for number in numbers))
    console.print(table)
