"""The denoisers by name. A checkpoint's folder is as good as a name."""

from collections.abc import Callable
from pathlib import Path

from robustmat.config import nearest
from robustmat.denoising.protocol import Denoiser
from robustmat.denoising.weights import find_denoiser
from robustmat.errors import ConfigError

SHIPPED = Path(__file__).parent / "checkpoints"
DEFAULT_DENOISER = "sgn"
TRAINABLE = ("sgn",)


def _sgn(threads: int | None = None) -> Denoiser:
    from robustmat.denoising.runtime import SgnDenoiser

    return SgnDenoiser(SHIPPED / "sgn", threads=threads)


def _nlm(threads: int | None = None) -> Denoiser:
    from robustmat.denoising.nlm import NonLocalMeans

    return NonLocalMeans()


DENOISERS: dict[str, Callable[[int | None], Denoiser]] = {DEFAULT_DENOISER: _sgn, "nlm": _nlm}


def load_denoiser(denoiser: str | Path = DEFAULT_DENOISER, threads: int | None = None) -> Denoiser:
    """A denoiser by its name in `DENOISERS`, or by the folder of a checkpoint or of its training run."""
    if str(denoiser) in DENOISERS:
        return DENOISERS[str(denoiser)](threads)
    if Path(denoiser).exists():
        from robustmat.denoising.runtime import SgnDenoiser

        return SgnDenoiser(find_denoiser(denoiser), name=Path(denoiser).resolve().name, threads=threads)
    hint = nearest(str(denoiser), list(DENOISERS))
    raise ConfigError(f"unknown denoiser '{denoiser}' ({hint}), and no such folder")
