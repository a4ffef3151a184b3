"""Checkpoints of the rivals: like RobustMat's, with the method's name and the steps that were fitted on top of it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from robustmat.config import Config, parse
from robustmat.errors import WeightsError
from robustmat.files import read_json, write_json
from robustmat.models.baselines import BASELINES, make_baseline
from robustmat.models.baselines.protocol import PatchMatcher
from robustmat.models.weights import Decision, Provenance, find_checkpoint, load_tensors, save_tensors

FORMAT = "robustmat-baseline"
VERSION = 1
PAIR = "pair"  # the decision of the method itself; those of its steps stand under their names


class BaselineHeader(Config):
    format: str
    version: int
    method: str
    model: dict[str, Any]
    decisions: dict[str, Decision]
    steps: dict[str, dict[str, float]] = Field(default_factory=dict)
    provenance: Provenance = Field(default_factory=Provenance)


@dataclass(frozen=True)
class BaselineCheckpoint:
    """A rival ready to match. `steps` holds the numbers of each step on top of it (matching/steps.py)."""

    name: str
    method: str
    model: PatchMatcher
    decisions: dict[str, Decision]
    provenance: Provenance
    steps: dict[str, dict[str, float]] = field(default_factory=dict)


def save_baseline(folder: Path | str, checkpoint: BaselineCheckpoint) -> Path:
    """Write weights, then the header that makes the folder a checkpoint."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    header = BaselineHeader(
        format=FORMAT,
        version=VERSION,
        method=checkpoint.method,
        model=json.loads(checkpoint.model.config.model_dump_json()),
        decisions=checkpoint.decisions,
        steps=checkpoint.steps,
        provenance=checkpoint.provenance,
    )
    save_tensors(checkpoint.model, folder / "model.safetensors")
    write_json(folder / "model.json", json.loads(header.model_dump_json()))
    return folder


def method_of(name: str | Path) -> str | None:
    """Which rival a checkpoint holds; None if it is RobustMat's."""
    values = read_json(find_checkpoint(name) / "model.json", "checkpoint header", WeightsError)
    return values.get("method") if isinstance(values, dict) and values.get("format") == FORMAT else None


def load_baseline(name: str | Path) -> BaselineCheckpoint:
    """Read a rival's checkpoint by folder or training run; nothing in it is executed."""
    folder = find_checkpoint(name)
    path = folder / "model.json"
    values = read_json(path, "checkpoint header", WeightsError)
    if not isinstance(values, dict) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
        found = values.get("format"), values.get("version") if isinstance(values, dict) else None
        raise WeightsError(f"not a checkpoint of a patch matcher: {path} has format {found}, not {(FORMAT, VERSION)}")
    header = parse(BaselineHeader, values, str(path))
    if header.method not in BASELINES:
        raise WeightsError(f"{path} is of method '{header.method}', known are {', '.join(BASELINES)}")
    model = make_baseline(header.method, parse(BASELINES[header.method].config, header.model, f"{path}: model"))
    load_tensors(model, folder / "model.safetensors")
    label = folder.parent.name if folder.name == "best" else folder.name
    return BaselineCheckpoint(label, header.method, model.eval(), header.decisions, header.provenance, header.steps)
