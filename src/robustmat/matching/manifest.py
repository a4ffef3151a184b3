"""`export.json`: all that the exported files need beside them to turn frames into matches."""

import hashlib
from pathlib import Path, PurePath
from typing import Any

from pydantic import Field, field_validator, model_validator

from robustmat.config import Config, Size, parse
from robustmat.errors import WeightsError
from robustmat.features.patches import PatchConfig
from robustmat.files import read_json
from robustmat.matching.combine import StoredCombination
from robustmat.matching.decision import Decision

FILE = "export.json"
FORMAT = "robustmat-onnx"
VERSION = 3  # 2 had no hashes


class Part(Config):
    """One ONNX file: what goes in and what comes out, by name, with shapes as in the model card."""

    file: str
    sha256: str = ""  # of the file: parts of two exports must not meet
    inputs: dict[str, str]
    outputs: dict[str, str]

    @field_validator("file")
    @classmethod
    def _beside(cls, name: str) -> str:
        if PurePath(name).name != name or "\\" in name:
            raise ValueError("must be the name of a file beside the manifest")
        return name


class Manifest(Config):
    """Preprocessing, neighbourhoods, files and decisions of an exported checkpoint."""

    format: str = FORMAT
    version: int = VERSION
    checkpoint: str
    fingerprint: str  # of the checkpoint that was exported
    patch: PatchConfig
    num_neighbors: int = Field(gt=0, le=64)
    include_center: bool
    vertex_dim: Size  # of each landmark
    graph_dim: Size
    parts: dict[str, Part]  # vertex, graph, and score_EVIDENCE for each kind of evidence
    int8: dict[str, Part] = Field(default_factory=dict)  # parts that also exist in eight bits
    decisions: dict[str, Decision]  # for each kind of evidence; the last is the default
    combinations: dict[str, StoredCombination] = Field(default_factory=dict)  # weights of all evidence, by its kind
    solver_note: str = ""  # where the exported solver is not the checkpoint's own
    provenance: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> "Manifest":
        missing = {"vertex", *(f"score_{evidence}" for evidence in self.decisions)} - set(self.parts)
        if missing or not self.decisions:
            raise ValueError(f"there is no part {', '.join(sorted(missing)) or 'that scores'}")
        return self


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


def read_part(folder: Path, part: Part) -> bytes:
    """The bytes of an ONNX file, if they are those that were exported."""
    path = folder / part.file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise WeightsError(f"ONNX file not found: {path}; copy it beside its {FILE}, or export again") from None
    except OSError as problem:
        raise WeightsError(f"ONNX file cannot be read: {path}: {problem.strerror}; export again") from None
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise WeightsError(f"{path} is broken or belongs to another export than its {FILE}: export again")
    return content


def is_export(folder: Path | str) -> bool:
    return (Path(folder) / FILE).is_file()
