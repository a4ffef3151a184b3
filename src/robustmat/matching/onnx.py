"""Match with exported files: onnxruntime, numpy and OpenCV; torch is not needed and not imported."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustmat.config import nearest
from robustmat.errors import ConfigError, WeightsError
from robustmat.features.frame import frame_features
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.manifest import read_manifest, read_part
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.onnx_session import open_session, run_session
from robustmat.types import Array, Frame

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class OnnxMatcher(Matcher):
    """What `robustmat export onnx` wrote, as a matcher; embedded frames may be swapped with torch's.

    Args:
        folder: the export.
        evidence: what a score may know: `pair`, `frames` or `placement`; all that the model can, unless given.
        same_category: match signs with signs and poles with poles only; scores are not changed by it.
        int8: run the parts that also exist in eight bits in eight bits.
        threads: of onnxruntime; as many as there are cores, unless given.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        evidence: str | None = None,
        same_category: bool = True,
        int8: bool = False,
        threads: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(folder)
        known = list(self.manifest.decisions)
        self.evidence = evidence or known[-1]
        if self.evidence not in known:
            hint = nearest(self.evidence, known)
            raise ConfigError(f"the export in {folder} cannot score by evidence '{evidence}' ({hint})")
        if int8 and not self.manifest.int8:
            raise WeightsError(f"{folder} holds no int8 files: export again with --int8")
        self.name = self.manifest.checkpoint + (" (int8)" if int8 else "")
        # Eight bits round a little differently: scores stay comparable, so both may be matched with each other.
        self.fingerprint = self.manifest.fingerprint
        self.decision = self.manifest.decisions[self.evidence]
        self.same_category = same_category
        parts = self.manifest.parts | (self.manifest.int8 if int8 else {})
        self._parts, self._threads = parts, threads
        self._sessions: dict[str, InferenceSession] = {}
        for name in ("vertex", "graph", f"score_{self.evidence}"):
            if name in parts:
                self._session(name)

    def embed(self, frame: Frame) -> EmbeddedFrame:
        manifest = self.manifest
        neighborhood = manifest.num_neighbors, manifest.include_center
        found = frame_features(frame, checked_pixels(frame), manifest.patch, neighborhood)
        vertex, graph = (np.zeros((0, size), np.float32) for size in (manifest.vertex_dim, manifest.graph_dim))
        if frame.landmarks:
            vertex = self._embedding("vertex", manifest.vertex_dim, patches=found.patches)
            graph = np.zeros_like(vertex)
            if "graph" in self._parts:
                size = manifest.graph_dim
                graph = self._embedding("graph", size, vertex=vertex, index=found.index, mask=found.mask)
        arrays = {"vertex": vertex, "graph": graph, "placement": found.placement}
        return EmbeddedFrame(frame.landmarks, arrays, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        return self._compare(a, b, self.evidence)[0]

    def logits(self, a: EmbeddedFrame, b: EmbeddedFrame, evidence: str) -> Array:
        """Log odds of every pair against having no partner, by any evidence that the model knows: [A, B]."""
        return self._compare(a, b, evidence)[1]

    def _compare(self, a: EmbeddedFrame, b: EmbeddedFrame, evidence: str) -> tuple[Array, Array]:
        if not a.landmarks or not b.landmarks:
            nothing = np.zeros((len(a.landmarks), len(b.landmarks)))
            return nothing, nothing
        frames = (("a", a), ("b", b))
        known = {f"{name}_{side}": array for side, frame in frames for name, array in frame.arrays.items()}
        part = f"score_{evidence}"
        score, logits = self._run(part, **{name: known[name] for name in self._parts[part].inputs})
        return score.astype(np.float64), logits.astype(np.float64)

    def _run(self, part: str, **inputs: NDArray[Any]) -> list[NDArray[np.float32]]:
        return run_session(self._session(part), str(self.folder / self._parts[part].file), inputs)

    def _embedding(self, part: str, size: int, **inputs: NDArray[Any]) -> NDArray[np.float32]:
        """One embedding for each landmark, as the manifest promises it."""
        (found,) = self._run(part, **inputs)
        if found.shape != (len(next(iter(inputs.values()))), size) or not np.isfinite(found).all():
            raise WeightsError(
                f"{self.folder / self._parts[part].file} gives {found.shape}, or numbers that are not finite, where "
                f"{size} finite numbers for each landmark were promised: export again"
            )
        return found

    def _session(self, part: str) -> "InferenceSession":
        """Opened when it is first needed."""
        if part not in self._sessions:
            described = self._parts[part]
            where = str(self.folder / described.file)
            self._sessions[part] = open_session(read_part(self.folder, described), where, self._threads)
        return self._sessions[part]
