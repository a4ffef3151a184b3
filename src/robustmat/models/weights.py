"""Checkpoints: a folder with `model.safetensors` and `model.json`, readable without running anyone's code.

`model.json` holds the configuration with its preprocessing, the decisions (thresholds and calibration for
each kind of evidence, fitted on validation data), and where the weights come from (drives, command, licence).
"""

import json
import warnings
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from robustmat.config import Config, nearest, parse
from robustmat.errors import TermsWarning, WeightsError
from robustmat.files import read_json, replacing, write_json
from robustmat.models.decision import Decision
from robustmat.models.robustmat import ModelConfig, RobustMat

__all__ = [
    "Checkpoint",
    "CheckpointHeader",
    "Decision",
    "Provenance",
    "find_checkpoint",
    "load_checkpoint",
    "load_tensors",
    "read_scores",
    "save_checkpoint",
    "save_tensors",
    "shipped_checkpoints",
]

FORMAT = "robustmat-checkpoint"
VERSION = 2


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
    format: str
    version: int
    model: ModelConfig
    decisions: dict[str, Decision]  # for each kind of evidence
    provenance: Provenance = Field(default_factory=Provenance)


@dataclass(frozen=True)
class Checkpoint:
    """A model ready to match: its weights, how it decides, and where it comes from."""

    name: str
    model: RobustMat
    decisions: dict[str, Decision]
    provenance: Provenance


def save_checkpoint(folder: Path | str, checkpoint: Checkpoint) -> Path:
    """Write weights, then the header that makes the folder a checkpoint."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    header = CheckpointHeader(
        format=FORMAT,
        version=VERSION,
        model=checkpoint.model.config,
        decisions=checkpoint.decisions,
        provenance=checkpoint.provenance,
    )
    save_tensors(checkpoint.model, folder / "model.safetensors")
    write_json(folder / "model.json", json.loads(header.model_dump_json()))
    return folder


def save_tensors(model: nn.Module, path: Path) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary)


def shipped_checkpoints() -> dict[str, Path]:
    """The checkpoints that come with the package, by name."""
    root = Path(str(resources.files("robustmat.models"))) / "checkpoints"
    return {it.parent.name: it.parent for it in sorted(root.glob("*/model.json"))}


def find_checkpoint(name: str | Path) -> Path:
    """A shipped checkpoint by name, or a folder; a training run's folder stands for its best checkpoint."""
    shipped = shipped_checkpoints()
    if str(name) in shipped:
        return shipped[str(name)]
    for folder in (Path(name), Path(name) / "best"):
        if (folder / "model.json").is_file():
            return folder
    known = nearest(str(name), list(shipped)) if shipped else "none is shipped yet; train one with `robustmat train`"
    raise WeightsError(f"no checkpoint '{name}': neither a folder with model.json nor a shipped name ({known})")


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a checkpoint by name or folder; nothing in it is executed."""
    folder = find_checkpoint(name)
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
    model = RobustMat(header.model)
    missing = set(header.model.evidence) - set(header.decisions)
    if missing:
        raise WeightsError(f"{path} lacks a decision for evidence {', '.join(sorted(missing))}: train again")
    load_tensors(model, folder / "model.safetensors")
    model.eval()
    label = folder.parent.name if folder.name == "best" else folder.name
    if header.provenance.terms:
        warnings.warn(f"checkpoint '{label}': {header.provenance.terms}", TermsWarning, stacklevel=2)
    return Checkpoint(label, model, header.decisions, header.provenance)


def read_scores(folder: Path) -> dict[str, float]:
    """The scores that were published with a checkpoint: none, if its maker wrote no `scores.json`."""
    path = folder / "scores.json"
    return dict(read_json(path, "scores of a checkpoint", WeightsError)) if path.is_file() else {}


def load_tensors(model: nn.Module, path: Path) -> None:
    """Fill the model from a safetensors file, or say what does not fit."""
    expected: dict[str, Any] = model.state_dict()
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except FileNotFoundError:
        raise WeightsError(f"weights not found: {path}; copy it beside its model.json") from None
    except (SafetensorError, OSError) as problem:
        raise WeightsError(f"weights cannot be read: {path}: {problem}") from None
    problems = [f"'{name}' is missing" for name in sorted(set(expected) - set(found))]
    problems += [f"'{name}' is unknown" for name in sorted(set(found) - set(expected))]
    problems += [
        f"'{name}' has shape {tuple(found[name].shape)}, expected {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise WeightsError(f"weights do not fit their model.json: {path}: {'; '.join(problems[:5])}{more}")
    model.load_state_dict(found)
