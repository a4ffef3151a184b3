"""`robustmat perturb`: put weather or noise on an image."""

from pathlib import Path
from typing import Annotated

import typer


def perturb(
    image: Annotated[Path, typer.Argument(help="An image, PNG or JPEG.", show_default=False)],
    with_: Annotated[str, typer.Option("--with", metavar="NAME:LEVEL", help="For instance paper:16, awgn:13, snow:3.")],
    out: Annotated[Path, typer.Option(help="Where to write the perturbed image.")],
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other weather.")] = 0,
) -> None:
    """Perturb an image with named, seeded weather or noise.

    `awgn` and `paper` take the PSNR against the clean image in dB (paper: 19 low, 16 medium, 13 high);
    `rain`, `spatter`, `snow`, `fog`, `brightness`, `saturation`, `motion_blur` and `dusk` take a severity
    from 1 to 5.
    """
    import PIL.Image
    from rich import print as say

    from robustmat.errors import InputError
    from robustmat.files import replacing
    from robustmat.perturb import parse, perturb_image, psnr
    from robustmat.sources.images import read_image

    chosen = parse(with_)
    if out.suffix.lower() not in {".png", ".jpg", ".jpeg"}:
        raise InputError(f"the name to write to must end in .png or .jpg, found {out}")
    clean = read_image(image)
    noisy = perturb_image(clean, chosen, seed, image.stem)
    with replacing(out) as temporary:
        PIL.Image.fromarray(noisy).save(temporary)
    say(f"{chosen} on {image}: PSNR {psnr(clean, noisy):.1f} dB, written to {out}")
