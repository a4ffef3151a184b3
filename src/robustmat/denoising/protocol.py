"""What a denoiser is: the extension point. `registry.DENOISERS` names the ones that are here."""

from typing import Protocol

from robustmat.types import Image


class Denoiser(Protocol):
    """Takes the noise off an image."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells its weights and settings apart from others': frames embedded behind another denoiser differ."""
        ...

    def denoise(self, image: Image) -> Image:
        """A cleaner copy of an RGB image [H, W, 3], of the same size; a grey one stays grey."""
        ...
