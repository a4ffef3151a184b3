"""`robustmat perturb`: put weather or noise on an image, or see all of them on one sheet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import output_picture
from robustmat.cli.console import say

if TYPE_CHECKING:
    from robustmat.types import Image


def perturb(
    image: Annotated[
        Path | None, typer.Argument(help="An image, PNG or JPEG; the gallery draws a simulated street without one.")
    ] = None,
    with_: Annotated[
        str | None, typer.Option("--with", metavar="NAME:LEVEL", help="For instance paper:16, awgn:13, snow:3.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(callback=output_picture, help="Where to write the perturbed image.")
    ] = None,
    gallery: Annotated[
        Path | None,
        typer.Option(
            callback=output_picture, metavar="FILE", help="Draw all perturbations at all severities into this file."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other weather.")] = 0,
) -> None:
    """Perturb an image with named, seeded weather or noise.

    `awgn` and `paper` take the PSNR against the clean image in dB (paper: 19 low, 16 medium, 13 high);
    `rain`, `spatter`, `snow`, `fog`, `brightness`, `saturation`, `motion_blur` and `dusk` take a severity
    from 1 to 5.

    `robustmat perturb IMAGE --with paper:16 --out FILE`, or `robustmat perturb --gallery FILE`.
    """
    from robustmat.errors import InputError
    from robustmat.perturb import parse

    if with_ is not None:
        parse(with_)  # says what is wrong with it, before asking for more
    if (with_ is None) != (out is None):
        raise InputError("--with and --out belong together: perturb IMAGE --with paper:16 --out FILE")
    if with_ is None and gallery is None:
        raise InputError("nothing to do: give IMAGE with --with and --out, or --gallery FILE")
    if with_ is not None and out is not None:
        if image is None:
            raise InputError("which image? perturb IMAGE --with paper:16 --out FILE")
        _perturb_one(image, with_, out, seed)
    if gallery is not None:
        _draw_gallery(image, gallery, seed)


def _perturb_one(image: Path, with_: str, out: Path, seed: int) -> None:
    from robustmat.perturb import parse, perturb_image, psnr
    from robustmat.sources.images import read_image

    chosen = parse(with_)
    clean = read_image(image)
    noisy = perturb_image(clean, chosen, seed, image.stem)
    _write(noisy, out)
    say(f"{chosen} on {image}: PSNR {psnr(clean, noisy):.1f} dB, written to {out}")


def _draw_gallery(image: Path | None, out: Path, seed: int) -> None:
    from robustmat.perturb.gallery import draw_gallery
    from robustmat.sources.images import read_image

    if image is not None:
        sheet = draw_gallery(read_image(image), seed, image.stem)
    else:
        from robustmat.simulation import build_town, drive_town

        sheet = draw_gallery(drive_town(build_town(2), 1, start=60.0).frames[0].image, seed, "street")
    _write(sheet, out)
    say(f"look at {out}")


def _write(pixels: "Image", path: Path) -> None:
    import PIL.Image

    from robustmat.files import replacing

    with replacing(path) as temporary:
        PIL.Image.fromarray(pixels).save(temporary)
