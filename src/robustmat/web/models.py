"""The matchers of a server: shipped checkpoints and the one it was started with, loaded when first asked for."""

import threading
from pathlib import Path
from typing import Any

from robustmat.checkpoints.load import describe_source, load
from robustmat.checkpoints.store import EXPORTED, find_checkpoint, read_header, shipped_checkpoints
from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.matching.manifest import is_export, read_manifest
from robustmat.matching.matcher import Matcher
from robustmat.methods import method_names

# What the kinds of evidence that are known today look at; others are shown by their names.
ABOUT = {
    "pair": "two landmarks and their neighbours",
    "frames": "all landmarks of both frames, by pixels",
    "placement": "where boxes stand, and how the camera moved",
    "scene": "keypoints of the whole frames",
    "motion": "the odometry between both frames",
    "neighbors": "neighbours, nearest with nearest",
    "competition": "all candidates of both frames compete",
}


class Models:
    """Matchers by checkpoint and evidence; requests name checkpoints of this list and never a path."""

    def __init__(self, default: str, runtime: str = "auto") -> None:
        self.default, self.runtime = default, runtime
        self._loaded: dict[tuple[str, str, bool], Matcher] = {}
        self._lock = threading.Lock()
        self.evidence = {name: _evidence(name) for name in dict.fromkeys([default, *shipped_checkpoints()])}

    def matcher(self, name: str | None = None, evidence: str | None = None, same_category: bool = True) -> Matcher:
        """A matcher; the default checkpoint's with all it knows, unless told."""
        name = name or self.default
        if name not in self.evidence:
            raise ConfigError(f"no checkpoint '{name}' on this server ({nearest(name, list(self.evidence))})")
        known = self.evidence[name]
        evidence = evidence or known[-1]
        if evidence not in known:
            hint = nearest(evidence, list(known))
            raise ConfigError(f"checkpoint '{name}' cannot score by evidence '{evidence}' ({hint})")
        key = name, evidence, same_category
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = load(
                    name, runtime=self._runtime(name, evidence), evidence=evidence, same_category=same_category
                )
            return self._loaded[key]

    def warm(self) -> None:
        """Load the default checkpoint with each kind of evidence now, so that the first visitor does not wait."""
        for kind in self.evidence[self.default]:
            self.matcher(self.default, kind)

    def _runtime(self, name: str, evidence: str) -> str:
        """Exported files start fast and run anywhere; they are taken where they know the evidence."""
        if self.runtime != "auto" or name in method_names() or is_export(name):
            return self.runtime
        exported = find_checkpoint(name) / EXPORTED
        return "onnx" if is_export(exported) and evidence in _exported_evidence(exported) else "auto"

    def list(self) -> list[dict[str, Any]]:
        """What `GET /api/models` tells of each."""
        listed = []
        for name, known in self.evidence.items():
            about = [{"name": kind, "about": ABOUT.get(kind, "")} for kind in known]
            method, licence = name, ""
            if not is_export(name):
                method, provenance = describe_source(name)
                licence = provenance.licence
            listed.append(
                {
                    "name": name,
                    "default": name == self.default,
                    "method": method,
                    "licence": licence,
                    "evidence": about,
                }
            )
        return listed


def _evidence(name: str) -> tuple[str, ...]:
    """The kinds of evidence that a checkpoint knows, each adding to the one before."""
    if is_export(name):
        return _exported_evidence(Path(name))
    if name in method_names():
        return (load(name).evidence,)
    header = read_header(find_checkpoint(name))
    return tuple(dict.fromkeys([*header.decisions, *header.combinations]))


def _exported_evidence(folder: Path) -> tuple[str, ...]:
    """The same of exported files; what was exported before files gave log odds beside scores knows nothing."""
    manifest = read_manifest(folder)
    scores = [part for name, part in manifest.parts.items() if name.startswith("score_")]
    if not all(len(part.outputs) > 1 for part in scores):
        return ()
    return tuple(dict.fromkeys([*manifest.decisions, *manifest.combinations]))
