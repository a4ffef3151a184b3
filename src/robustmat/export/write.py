"""Write a checkpoint as ONNX files, and hold them to torch before anyone can use them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.checkpoints.load import network_matcher
from robustmat.checkpoints.store import Checkpoint
from robustmat.errors import ConfigError, InputError
from robustmat.export.card import write_card
from robustmat.export.frames import frame_pairs
from robustmat.export.parity import ParityReport, compare_matchers
from robustmat.export.parts import Exportable, check_fixed_steps, exportables, with_fixed_steps
from robustmat.export.quantize import quantize_vertex
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches
from robustmat.files import hash_of, make_folder, write_json
from robustmat.folders import locked, replacing_folder
from robustmat.matching.manifest import FILE, Manifest, Part
from robustmat.matching.matcher import Matcher
from robustmat.matching.onnx import OnnxMatcher
from robustmat.models.robustmat import RobustMat
from robustmat.onnx_trace import write_graph
from robustmat.types import Frame


@dataclass(frozen=True)
class Exported:
    """What an export gave: the parity with torch, and what int8 and other solver steps change, where asked for."""

    folder: Path
    parity: ParityReport
    int8: ParityReport | None = None
    solver: ParityReport | None = None  # the exported model against the checkpoint's own adaptive solver

    @property
    def passed(self) -> bool:
        return not self.parity.problems()


def export_onnx(
    checkpoint: Checkpoint,
    folder: Path | str,
    frames: Sequence[Frame],
    *,
    calibration: Sequence[Frame] = (),
    fixed_steps: int | None = None,
) -> Exported:
    """Export, check, and only then put the files into `folder`; without parity nothing is written there.

    Args:
        frames: real-looking frames with landmarks, to compare with torch on.
        calibration: other such frames, to write the vertex embedder in eight bits with, too; none, no eight bits.
        fixed_steps: of rk4, where the checkpoint's solver is adaptive.
    """
    folder = Path(folder)
    check_exportable(checkpoint, folder, fixed_steps)
    if len(frames) < 2 or not all(frame.landmarks for frame in frames):
        raise InputError("a parity check needs at least two frames with landmarks")
    original = checkpoint
    if fixed_steps is not None:
        network = with_fixed_steps(robustmat_of(checkpoint), fixed_steps)
        fingerprint = f"{checkpoint.fingerprint}-rk4x{fixed_steps}"
        checkpoint = replace(checkpoint, network=network, fingerprint=fingerprint)
    with locked(folder), replacing_folder(folder) as staged:
        note = _solver_note(original, checkpoint, fixed_steps)
        write_parts(checkpoint, staged, calibration, note)
        pairs = frame_pairs(frames)
        references = matchers_of(checkpoint)
        found = Exported(
            folder,
            compare_matchers(references, _opened(staged, references), pairs),
            compare_matchers(references, _opened(staged, references, int8=True), pairs) if calibration else None,
            None if not note else compare_matchers(matchers_of(original), references, pairs),
        )
        _write_reports(staged, found)
        write_sample(staged, checkpoint, frames)
        write_card(staged, found.parity, found.int8, found.solver)
        if not found.passed:
            shutil.rmtree(staged)
    return found


def robustmat_of(checkpoint: Checkpoint) -> RobustMat:
    """The network of a checkpoint that can be exported."""
    if not isinstance(checkpoint.network, RobustMat):
        raise ConfigError(f"checkpoint '{checkpoint.name}' holds {checkpoint.method}: only robustmat can be exported")
    return checkpoint.network


def matchers_of(checkpoint: Checkpoint) -> dict[str, Matcher]:
    """One matcher for each kind of evidence that the network knows."""
    return {kind: network_matcher(checkpoint, kind) for kind in checkpoint.network.evidence}


def check_exportable(checkpoint: Checkpoint, folder: Path, fixed_steps: int | None = None) -> None:
    """Raise what would keep the checkpoint from being exported to `folder`, before any work is done."""
    network = robustmat_of(checkpoint)
    if fixed_steps is None:
        check_fixed_steps(network.config)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot export to {folder}: it is a file; give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / FILE).is_file():
        raise InputError(f"{folder} holds other files: give an empty folder, or one that an export made")
    make_folder(folder.parent)


def write_parts(
    checkpoint: Checkpoint, folder: Path, calibration: Sequence[Frame] = (), solver_note: str = ""
) -> Manifest:
    """The ONNX files and their manifest, unchecked; with int8 where there are frames to calibrate on."""
    config = checkpoint.network.config
    traced = exportables(robustmat_of(checkpoint))
    described = {part.name: part.described() for part in traced}  # runs each once, so that bounded weights are known
    for part in traced:
        trace(part, folder / described[part.name].file)
    smaller = {}
    if calibration:
        smaller["vertex"] = Part(**{**described["vertex"].model_dump(), "file": "vertex.int8.onnx"})
        cut = [cut_patches(one.image, [mark.box for mark in one.landmarks], config.patch) for one in calibration]
        quantize_vertex(folder / described["vertex"].file, folder / smaller["vertex"].file, cut)
    described, smaller = (
        {name: part.model_copy(update={"sha256": hash_of(folder / part.file)}) for name, part in parts.items()}
        for parts in (described, smaller)
    )
    manifest = Manifest(
        checkpoint=checkpoint.name,
        fingerprint=checkpoint.fingerprint,
        patch=config.patch,
        num_neighbors=config.graph.num_neighbors,
        include_center=config.graph.include_center,
        vertex_dim=config.vertex.descriptor_dim,
        graph_dim=config.vertex.embedding_dim,
        parts=described,
        int8=smaller,
        decisions={one: checkpoint.decisions[one] for one in config.evidence},
        combinations=checkpoint.combinations,
        solver_note=solver_note,
        provenance=json.loads(checkpoint.provenance.model_dump_json()),
    )
    write_json(folder / "model.json", json.loads(config.model_dump_json()))
    write_json(folder / FILE, json.loads(manifest.model_dump_json()))
    return manifest


def trace(part: Exportable, path: Path) -> None:
    """One part as an ONNX file; the number of landmarks stays open."""
    import onnx

    open_axes = {name: {0: axis} for name, axis in part.open_axes.items()}
    open_axes |= {name: dict(enumerate(part.output_axes)) for name in part.outputs}
    write_graph(part.module, path, part.example, part.outputs, open_axes)
    onnx.checker.check_model(str(path), full_check=True)


def write_sample(folder: Path, checkpoint: Checkpoint, frames: Sequence[Frame]) -> None:
    """`sample.npz`: what goes into the files for one frame pair, and the scores that torch gives it."""
    first, second = frames[0], frames[-1]
    arrays: dict[str, Any] = {}
    config, matchers = checkpoint.network.config, matchers_of(checkpoint)
    for side, frame in (("a", first), ("b", second)):
        boxes = [mark.box for mark in frame.landmarks]
        around = neighborhoods(boxes, config.graph.num_neighbors, config.graph.include_center)
        arrays[f"patches_{side}"] = cut_patches(frame.image, boxes, config.patch)
        arrays[f"index_{side}"], arrays[f"mask_{side}"] = around.index, around.mask
        arrays[f"placement_{side}"] = next(iter(matchers.values())).embed(frame).arrays["placement"]
        arrays[f"boxes_{side}"] = np.array(boxes)
        arrays[f"category_{side}"] = np.array([mark.category for mark in frame.landmarks])
    for evidence, matcher in matchers.items():
        arrays[f"score_{evidence}"] = matcher.match(first, second).score
    np.savez_compressed(folder / "sample.npz", **arrays)


def _opened(folder: Path, like: dict[str, Matcher], int8: bool = False) -> dict[str, Matcher]:
    return {evidence: OnnxMatcher(folder, evidence=evidence, int8=int8) for evidence in like}


def _solver_note(original: Checkpoint, exported: Checkpoint, fixed_steps: int | None) -> str:
    if original.network.config == exported.network.config:
        return ""
    return f"dopri5 of the checkpoint was replaced by rk4 with {fixed_steps} steps per unit of time"


def _write_reports(folder: Path, found: Exported) -> None:
    named = {"onnx": found.parity, "int8": found.int8, "solver": found.solver}
    write_json(folder / "parity.json", {name: one.to_json() for name, one in named.items() if one is not None})
