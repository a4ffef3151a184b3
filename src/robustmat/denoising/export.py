"""The trained network as `model.onnx`, and the check that both compute the same."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from robustmat.denoising.network import Sgn
from robustmat.denoising.runtime import SgnDenoiser
from robustmat.denoising.weights import EXPORTED, load_network, read_header
from robustmat.errors import WeightsError
from robustmat.files import hash_of, replacing, write_json
from robustmat.onnx_trace import write_graph

TOLERANCE = 0.05  # grey levels


class _Deployed(nn.Module):
    """Denoised [1, H, W, 3] of an image [1, H, W, 3] of bytes."""

    def __init__(self, network: Sgn) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        found: Tensor = self.network(image.permute(0, 3, 1, 2).float())
        return found.permute(0, 2, 3, 1)


def write_onnx(folder: Path) -> Path:
    """Write FOLDER/model.onnx from FOLDER/model.safetensors; one that computes anything else is refused."""
    network = load_network(folder)
    cell = network.config.cell
    example = torch.zeros((1, 4 * cell, 6 * cell, 3), dtype=torch.uint8)
    axes = {name: {1: "height", 2: "width"} for name in ("image", "denoised")}
    with replacing(folder / EXPORTED) as temporary:
        write_graph(_Deployed(network), temporary, {"image": example}, ["denoised"], axes)
    header = read_header(folder).model_copy(update={"onnx_sha256": hash_of(folder / EXPORTED)})
    write_json(folder / "model.json", header.model_dump(mode="json"))
    difference = largest_difference(folder)
    if not difference <= TOLERANCE:
        (folder / EXPORTED).unlink()
        raise WeightsError(f"{folder / EXPORTED}: a pixel differs by {difference:.1e} grey levels from torch's")
    return folder / EXPORTED


def largest_difference(folder: Path, seed: int = 0) -> float:
    """Between the exported network and torch, in grey levels, on noise of another size than the export's example."""
    network = load_network(folder)
    cell = network.config.cell
    image = np.random.default_rng(seed).integers(0, 256, (9 * cell, 7 * cell, 3), np.uint8)
    with torch.inference_mode():
        wanted = _Deployed(network)(torch.from_numpy(image)[None])[0].numpy()
    found = SgnDenoiser(folder).denoise_exactly(image)
    return float(np.abs(found - wanted).max())
