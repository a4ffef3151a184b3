"""A denoiser's checkpoint: a folder with `model.safetensors` and `model.json`, and `model.onnx` once exported."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from robustmat.checkpoints.store import Provenance, check_shapes, load_tensors, save_tensors, shapes_of
from robustmat.config import Config, parse
from robustmat.errors import WeightsError
from robustmat.files import hash_of, make_folder, read_json, write_json

if TYPE_CHECKING:
    from robustmat.denoising.network import Sgn

FORMAT, VERSION = "robustmat-denoiser", 1
WEIGHTS, EXPORTED = "model.safetensors", "model.onnx"
ADVICE = "copy the folder again, or go on with its training (--resume)"


class DenoiserHeader(Config):
    """`model.json`"""

    format: str = FORMAT
    version: int = VERSION
    method: str = "sgn"
    model: dict[str, Any]
    cell: int = Field(ge=1, le=64)  # pixels; height and width of what the network is shown are multiples of it
    reach: int = Field(ge=0, le=4096)  # pixels beyond which nothing counts for a pixel
    provenance: Provenance = Field(default_factory=Provenance)
    weights_sha256: str = ""  # of the files beside it: parts of two trainings must not meet
    onnx_sha256: str = ""


def save_denoiser(folder: Path | str, network: "Sgn", provenance: Provenance) -> Path:
    """Write weights, then the header that makes the folder a checkpoint."""
    folder = Path(folder)
    config = network.config
    save_tensors(network, make_folder(folder) / WEIGHTS)
    header = DenoiserHeader(
        model=config.model_dump(mode="json"),
        cell=config.cell,
        reach=config.reach,
        provenance=provenance,
        weights_sha256=hash_of(folder / WEIGHTS),
    )
    write_json(folder / "model.json", header.model_dump(mode="json"))
    return folder


def find_denoiser(folder: Path | str) -> Path:
    """The folder itself, or the best checkpoint of the training run in it."""
    for path in (Path(folder), Path(folder) / "best"):
        if (path / "model.json").is_file():
            return path
    raise WeightsError(f"no denoiser in {folder}: expected model.json in it, or in best/")


def read_header(folder: Path) -> DenoiserHeader:
    path = folder / "model.json"
    values = read_json(path, "denoiser checkpoint", WeightsError)
    if not isinstance(values, dict) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
        raise WeightsError(f"not a denoiser checkpoint of version {VERSION}: {path}; train one with `train sgn`")
    return parse(DenoiserHeader, values, str(path))


def load_network(folder: Path) -> "Sgn":
    """The torch network of a checkpoint, ready to denoise; nothing in it is executed."""
    from robustmat.denoising.network import Sgn, SgnConfig

    header = read_header(folder)
    config = parse(SgnConfig, header.model, f"{folder / 'model.json'}: model")
    check_shapes(folder / WEIGHTS, shapes_of(lambda: Sgn(config)))
    if header.weights_sha256 != hash_of(folder / WEIGHTS):
        raise WeightsError(f"{folder / WEIGHTS} is not what model.json was written with: {ADVICE}")
    network = Sgn(config)
    load_tensors(network, folder / WEIGHTS)
    return network.eval()
