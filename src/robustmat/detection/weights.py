"""A detector's checkpoint: a folder with `model.safetensors` and `model.json`, and `model.onnx` once exported."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustmat.detection.config import DetectorTrainingConfig
from robustmat.errors import WeightsError
from robustmat.files import read_json, replacing, write_json

if TYPE_CHECKING:
    from torch import Tensor

    from robustmat.detection.network import DenseDetector

FORMAT, VERSION = "robustmat-detector", 1


@dataclass(frozen=True, eq=False)
class NetworkCheckpoint:
    """Weights with what `model.json` says about them."""

    weights: "dict[str, Tensor]"
    description: dict[str, Any]


def save_network(folder: Path | str, config: DetectorTrainingConfig, weights: "dict[str, Tensor]", steps: int) -> None:
    from safetensors.torch import save_file

    folder = Path(folder)
    with replacing(folder / "model.safetensors") as temporary:
        save_file({name: value.contiguous() for name, value in weights.items()}, temporary)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "dense",
        "name": config.name,
        "license": config.license,
        "steps": steps,
        "training": config.model_dump(mode="json"),
    }
    write_json(folder / "model.json", description)


def read_description(folder: Path | str) -> dict[str, Any]:
    """The checked content of `model.json`."""
    folder = Path(folder)
    content = read_json(folder / "model.json", "detector checkpoint", WeightsError)
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise WeightsError(f"not a detector checkpoint of version {VERSION}: {folder / 'model.json'}")
    lacking = [key for key in ("kind", "name", "license") if not isinstance(content.get(key), str)]
    if lacking:
        raise WeightsError(f"{folder / 'model.json'} lacks {' and '.join(lacking)}: train again")
    return content


def read_network(folder: Path | str) -> NetworkCheckpoint:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    description = read_description(folder)
    path = folder / "model.safetensors"
    if not path.is_file():
        raise WeightsError(f"detector weights not found: {path}")
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as problem:
        raise WeightsError(f"detector weights are broken: {path}: {problem}") from None
    wrong = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if wrong:
        raise WeightsError(f"detector weights are not finite: {path}: '{wrong[0]}'; train again")
    return NetworkCheckpoint(weights, description)


def load_network(network: "DenseDetector", weights: "dict[str, Tensor]") -> None:
    try:
        network.load_state_dict(weights)
    except RuntimeError as problem:
        raise WeightsError(f"detector weights do not fit this network: {problem}") from None
