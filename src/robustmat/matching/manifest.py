"""`export.json`: all that the exported files need beside them to turn frames into matches."""

from pathlib import Path
from typing import Any

from pydantic import Field, PositiveInt

from robustmat.config import Config, parse
from robustmat.errors import WeightsError
from robustmat.features.patches import PatchConfig
from robustmat.files import read_json
from robustmat.matching.combine import Combination
from robustmat.matching.decision import Decision

FILE = "export.json"
FORMAT = "robustmat-onnx"
VERSION = 2


class Part(Config):
    """One ONNX file: what goes in and what comes out, by name, with shapes as in the model card."""

    file: str
    inputs: dict[str, str]
    outputs: dict[str, str]


class Manifest(Config):
    """Preprocessing, neighbourhoods, files and decisions of an exported checkpoint."""

    format: str = FORMAT
    version: int = VERSION
    checkpoint: str
    fingerprint: str  # of the checkpoint that was exported
    patch: PatchConfig
    num_neighbors: PositiveInt
    include_center: bool
    vertex_dim: PositiveInt  # of each landmark
    graph_dim: PositiveInt
    parts: dict[str, Part]  # vertex, graph, and score_EVIDENCE for each kind of evidence
    int8: dict[str, Part] = Field(default_factory=dict)  # parts that also exist in eight bits
    decisions: dict[str, Decision]  # for each kind of evidence; the last is the default
    combinations: dict[str, Combination] = Field(default_factory=dict)  # weights of all evidence, by its kind
    solver_note: str = ""  # where the exported solver is not the checkpoint's own
    provenance: dict[str, Any] = Field(default_factory=dict)


def read_manifest(folder: Path | str) -> Manifest:
    """The manifest of an export's folder, or an error that says what is wrong with it."""
    path = Path(folder) / FILE
    values = read_json(path, "manifest of an ONNX export", WeightsError)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise WeightsError(f'not an ONNX export of robustmat: {path} lacks "format": "{FORMAT}"')
    if values.get("version") != VERSION:
        raise WeightsError(
            f"{path} has version {values.get('version')!r}, this robustmat reads {VERSION}: export the checkpoint again"
        )
    return parse(Manifest, values, str(path))


def is_export(folder: Path | str) -> bool:
    return (Path(folder) / FILE).is_file()
