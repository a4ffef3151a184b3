"""SGN at work: onnxruntime and numpy; torch is neither needed nor imported."""

import hashlib
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.denoising.weights import ADVICE, EXPORTED, read_header
from robustmat.errors import InputError, WeightsError
from robustmat.onnx_session import open_session, run_session
from robustmat.types import Image

STRIP_PIXELS = 1_300_000  # a larger image goes through in strips, so that memory stays flat


class SgnDenoiser:
    """A folder with `model.onnx` and `model.json`, as a denoiser.

    Args:
        name: what tables and pictures call it; the method's, unless given.
        strip_pixels: images with more pixels are denoised strip by strip, to the same result.
        threads: of onnxruntime; as many as there are cores, unless given. On a busy machine they wait for each other.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        name: str | None = None,
        strip_pixels: int = STRIP_PIXELS,
        threads: int | None = None,
    ) -> None:
        self.folder, self.strip_pixels = Path(folder), strip_pixels
        header = read_header(self.folder)
        self.name, self.cell, self.reach = name or header.method, header.cell, header.reach
        path = self.folder / EXPORTED
        if not path.is_file():
            raise WeightsError(f"{self.folder} has no {EXPORTED}: its training was not finished (--resume)")
        content = path.read_bytes()
        if header.onnx_sha256 != hashlib.sha256(content).hexdigest():
            raise WeightsError(f"{path} is broken or belongs to other weights: {ADVICE}")
        self.fingerprint = f"{header.method}-{header.weights_sha256[:12]}"
        self._session = open_session(content, str(path), threads)

    def denoise(self, image: Image) -> Image:
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
            raise InputError(f"an image must be uint8 [height, width, 3], found {image.dtype} {image.shape}")
        height, width = image.shape[:2]
        padded = cv2.copyMakeBorder(image, 0, -height % self.cell, 0, -width % self.cell, cv2.BORDER_REPLICATE)
        found = self.denoise_exactly(np.asarray(padded, np.uint8))[:height, :width]
        if (image == image[:, :, :1]).all():  # grey stays grey
            found = np.repeat(found.mean(axis=2, keepdims=True), 3, axis=2)
        return np.rint(np.clip(found, 0, 255)).astype(np.uint8)

    def denoise_exactly(self, image: Image) -> NDArray[np.float32]:
        """[H, W, 3], neither clipped nor rounded, of an image of whole cells.

        Each strip is shown with all around it that counts for its pixels.
        """
        height, width = image.shape[:2]
        rows = max(self.cell, self.strip_pixels // width // self.cell * self.cell)
        margin = -(-self.reach // self.cell) * self.cell
        parts = []
        for top in range(0, height, rows):
            first, last = max(0, top - margin), min(height, top + rows + margin)
            shown = np.ascontiguousarray(image[first:last])
            found = run_session(self._session, str(self.folder / EXPORTED), {"image": shown[None]})[0][0]
            parts.append(found[top - first : top - first + rows])
        return np.concatenate(parts)
