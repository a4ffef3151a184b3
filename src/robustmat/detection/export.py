"""The trained network as `model.onnx`, and the check that both compute the same."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustmat.detection.network import DenseDetector
from robustmat.detection.regions import extract_landmarks
from robustmat.detection.runtime import CELL, DenseLandmarkDetector
from robustmat.detection.weights import load_network, read_description, read_network
from robustmat.errors import WeightsError
from robustmat.files import hash_of, replacing, write_json
from robustmat.onnx_trace import write_graph
from robustmat.types import Frame, Image

TOLERANCE = 1e-3  # of a probability


class _Deployed(nn.Module):
    """Probabilities [1, CHANNELS, H/2, W/2] of an image [1, H, W, 3] of bytes."""

    def __init__(self, network: DenseDetector) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return torch.sigmoid(self.network(image.permute(0, 3, 1, 2).float()))


@dataclass(frozen=True)
class DetectorParity:
    """What the exported network does differently from torch."""

    frames: int
    largest_difference: float  # of a probability
    landmarks: int  # that torch finds
    landmarks_changed: int  # found by one of the two alone

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_onnx(folder: Path | str) -> Path:
    """Write FOLDER/model.onnx from FOLDER/model.safetensors."""
    folder = Path(folder)
    image = torch.zeros((1, 2 * CELL, 3 * CELL, 3), dtype=torch.uint8)
    axes = {"image": {1: "height", 2: "width"}, "probabilities": {2: "half_height", 3: "half_width"}}
    with replacing(folder / "model.onnx") as temporary:
        write_graph(_Deployed(_network(folder)), temporary, {"image": image}, ["probabilities"], axes)
    described = read_description(folder)
    described["onnx_sha256"] = hash_of(folder / "model.onnx")
    write_json(folder / "model.json", described)
    return folder / "model.onnx"


def check_parity(folder: Path | str, images: Sequence[Image]) -> DetectorParity:
    """Compare FOLDER/model.onnx with torch and write `parity.json`; a difference that counts is an error."""
    folder = Path(folder)
    exported = DenseLandmarkDetector(folder)
    network = _Deployed(_network(folder)).eval()
    largest, count, changed = 0.0, 0, 0
    for number, image in enumerate(images):
        height, width = (side - side % CELL for side in image.shape[:2])
        cut = np.ascontiguousarray(image[:height, :width])
        with torch.no_grad():
            wanted = network(torch.from_numpy(cut)[None])[0]
        wanted = torch.nn.functional.interpolate(wanted[None], scale_factor=2.0, mode="bilinear")[0].numpy()
        found, scale = exported.probabilities(cut)
        if scale == 1.0:
            largest = max(largest, float(np.abs(found - wanted).max()))
        ours = set(extract_landmarks(wanted, exported.extraction))
        theirs = exported.detect(Frame(str(number), load_image=lambda cut=cut: cut))  # type: ignore[misc]
        boxes, other = ({(one.box, one.category) for one in some} for some in (ours, theirs))
        count, changed = count + len(boxes), changed + len(boxes ^ other)
    parity = DetectorParity(len(images), largest, count, changed)
    write_json(folder / "parity.json", parity.to_json())
    if not largest <= TOLERANCE:
        raise WeightsError(f"{folder / 'model.onnx'}: a probability differs by {largest:.1e} from torch's")
    return parity


def _network(folder: Path) -> DenseDetector:
    network = DenseDetector()
    load_network(network, read_network(folder).weights)
    return network
