"""Checkpoints: a folder with `model.safetensors` and `model.json`, readable without running anyone's code.

`model.json` names the method and holds its configuration with the preprocessing, the decisions (thresholds and
calibration for each kind of evidence, fitted on validation data), the numbers of the steps on top of it, and where the
weights come from (drives, command, licence). `onnx/` beside them, where it is there, is the same model exported.
"""

import hashlib
import json
import warnings
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from robustmat.config import Config, nearest, parse
from robustmat.errors import TermsWarning, WeightsError
from robustmat.files import hash_of, make_folder, read_json, replacing, write_json
from robustmat.matching.combine import Combination, StoredCombination
from robustmat.matching.decision import Decision
from robustmat.matching.steps import StepConfig
from robustmat.methods import find_method, method_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from robustmat.models.network import Network

FORMAT = "robustmat-checkpoint"
VERSION = 3
WEIGHTS = "model.safetensors"
EXPORTED = "onnx"  # the folder of the exported files inside a checkpoint


class Provenance(Config):
    """Where weights come from. `drives` are refused as test data; `validation_drives` chose the decision."""

    drives: tuple[str, ...] = ()
    validation_drives: tuple[str, ...] = ()
    licence: str = "unspecified"
    command: str = ""
    seed: int | None = None
    steps: int = 0
    notes: str = ""
    terms: str = ""  # what users of the weights must heed; said whenever they are loaded


class CheckpointHeader(Config):
    """`model.json`"""

    format: str = FORMAT
    version: int = VERSION
    method: str
    model: dict[str, Any]
    decisions: dict[str, Decision]  # for each kind of evidence
    steps: dict[str, StepConfig] = Field(default_factory=dict)
    combinations: dict[str, StoredCombination] = Field(default_factory=dict)  # weights of all evidence, by its kind
    provenance: Provenance = Field(default_factory=Provenance)
    weights_sha256: str = ""  # of the file beside it; without one (older checkpoints) any that fits is taken


@dataclass(frozen=True)
class Checkpoint:
    """A network ready to match: its weights, how it decides, and where it comes from."""

    name: str
    method: str
    network: "Network"
    decisions: dict[str, Decision]
    provenance: Provenance = field(default_factory=Provenance)
    steps: dict[str, StepConfig] = field(default_factory=dict)
    folder: Path | None = None
    fingerprint: str = ""
    combinations: dict[str, Combination] = field(default_factory=dict)


def save_checkpoint(folder: Path | str, checkpoint: Checkpoint) -> Path:
    """Write weights, then the header that makes the folder a checkpoint."""
    folder = make_folder(folder)
    header = CheckpointHeader(
        method=checkpoint.method,
        model=json.loads(checkpoint.network.config.model_dump_json()),
        decisions=checkpoint.decisions,
        steps=checkpoint.steps,
        combinations=checkpoint.combinations,
        provenance=checkpoint.provenance,
    )
    save_tensors(checkpoint.network, folder / WEIGHTS)
    header = header.model_copy(update={"weights_sha256": hash_of(folder / WEIGHTS)})
    write_json(folder / "model.json", json.loads(header.model_dump_json()))
    return folder


def save_tensors(model: "nn.Module", path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary)


def shipped_checkpoints() -> dict[str, Path]:
    """The checkpoints that come with the package, by name."""
    root = Path(str(resources.files("robustmat.checkpoints"))) / "shipped"
    return {path.parent.name: path.parent for path in sorted(root.glob("*/model.json"))}


def find_checkpoint(name: str | Path) -> Path:
    """A shipped checkpoint by name, or a folder; a training run's folder stands for its best checkpoint."""
    shipped = shipped_checkpoints()
    if str(name) in shipped:
        return shipped[str(name)]
    for folder in (Path(name), Path(name) / "best"):
        if (folder / "model.json").is_file():
            return folder
    known = nearest(str(name), [*shipped, *method_names()])
    raise WeightsError(f"no checkpoint '{name}': neither a folder with model.json nor a known name ({known})")


def checkpoint_name(folder: Path) -> str:
    return folder.parent.name if folder.name == "best" else folder.name


def read_header(folder: Path) -> CheckpointHeader:
    """What `model.json` says, or an error that says what is wrong with it."""
    path = folder / "model.json"
    values = read_json(path, "checkpoint header", WeightsError)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise WeightsError(f'not a robustmat checkpoint: {path} lacks "format": "{FORMAT}"')
    if values.get("version") != VERSION:
        raise WeightsError(
            f"{path} has checkpoint version {values.get('version')!r}, this robustmat reads {VERSION}: "
            "train again or install the robustmat that wrote it"
        )
    header = parse(CheckpointHeader, values, str(path))
    if header.method not in method_names():
        hint = nearest(header.method, list(method_names()))
        raise WeightsError(f"{path} is of an unknown method '{header.method}' ({hint})")
    if header.provenance.terms:
        note = f"checkpoint '{checkpoint_name(folder)}': {header.provenance.terms}"
        warnings.warn(note, TermsWarning, stacklevel=3)
    return header


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a checkpoint by name or folder; nothing in it is executed."""
    folder = find_checkpoint(name)
    header = read_header(folder)
    method = find_method(header.method)
    config = parse(method.learning.config, header.model, f"{folder / 'model.json'}: model")
    check_shapes(
        folder / WEIGHTS, shapes_of(lambda: method.make_network(config))
    )  # a small file must not make a large network
    network = method.make_network(config)
    missing = set(network.evidence) - set(header.decisions)
    if missing:
        raise WeightsError(
            f"{folder / 'model.json'} lacks a decision for evidence {', '.join(sorted(missing))}: train again"
        )
    if header.weights_sha256 and header.weights_sha256 != hash_of(folder / WEIGHTS):
        raise WeightsError(
            f"{folder / WEIGHTS} is not what {folder / 'model.json'} was written with: copy both again, or go on with "
            "the training (--resume)"
        )
    load_tensors(network, folder / WEIGHTS)
    return Checkpoint(
        checkpoint_name(folder),
        header.method,
        network.eval(),
        header.decisions,
        header.provenance,
        header.steps,
        folder,
        fingerprint_of(header, folder / WEIGHTS),
        header.combinations,
    )


def fingerprint_of(header: CheckpointHeader, weights: Path) -> str:
    """Names what makes embeddings: method, configuration and weights, but not thresholds."""
    config = json.dumps([header.method, header.model], sort_keys=True).encode()
    return hashlib.sha256(config + bytes.fromhex(hash_of(weights))).hexdigest()[:16]


def read_scores(folder: Path) -> dict[str, float]:
    """The scores that were published with a checkpoint: none, if its maker wrote no `scores.json`."""
    path = folder / "scores.json"
    return dict(read_json(path, "scores of a checkpoint", WeightsError)) if path.is_file() else {}


Shapes = dict[str, tuple[tuple[int, ...], str]]  # by name: shape, and the kind of numbers as safetensors calls it


def shapes_of(make: "Callable[[], nn.Module]") -> Shapes:
    """The weights of the network that `make` would give, without making them."""
    import torch

    with torch.device("meta"):
        network = make()
    return {
        name: (tuple(value.shape), "F32" if value.is_floating_point() else "I64")
        for name, value in network.state_dict().items()
    }


def check_shapes(path: Path, expected: Shapes) -> None:
    """Compare a safetensors file's header with what is expected, or say what does not fit; no weights are read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
            found = {name: (tuple(one.get_shape()), str(one.get_dtype())) for name, one in slices.items()}
    except FileNotFoundError:
        raise WeightsError(f"weights not found: {path}; copy it beside its model.json") from None
    except (SafetensorError, OSError) as problem:
        raise WeightsError(f"weights cannot be read: {path}: {problem}") from None
    problems = [f"'{name}' is missing" for name in sorted(set(expected) - set(found))]
    problems += [f"'{name}' is unknown" for name in sorted(set(found) - set(expected))]
    for name, (shape, kind) in expected.items():
        if name in found and found[name][0] != shape:
            problems.append(f"'{name}' has shape {found[name][0]}, expected {shape}")
        elif name in found and found[name][1] != kind:
            problems.append(f"'{name}' holds {found[name][1]}, expected {kind}")
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise WeightsError(f"weights do not fit their model.json: {path}: {'; '.join(problems[:5])}{more}")


def load_tensors(model: "nn.Module", path: Path) -> None:
    """Fill the model from a safetensors file whose header was checked."""
    from safetensors.torch import load_file

    found = load_file(path)
    broken = [name for name, value in found.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise WeightsError(f"weights are not finite: {path}: '{broken[0]}'; train again")
    model.load_state_dict(found)
