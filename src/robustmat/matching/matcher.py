"""The matcher: a checkpoint that embeds frames and matches embedded frames.

torch is imported where it computes: whoever runs exported files uses the rest of this module without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustmat.config import nearest
from robustmat.errors import ConfigError, InputError
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches, to_input
from robustmat.features.placement import placements
from robustmat.landmarks.boxes import check_landmarks
from robustmat.matching.assign import mutual_best
from robustmat.models.decision import Decision
from robustmat.types import Array, Camera, Frame, Image, Landmark, Match, MatchResult

if TYPE_CHECKING:
    from robustmat.models.robustmat import Embeddings, RobustMat
    from robustmat.models.weights import Checkpoint


@dataclass(frozen=True)
class EmbeddedFrame:
    """All that matching needs of a frame, [landmarks, D] each: store it, reuse it.

    `frame` is kept for drawing alone; `dataclasses.replace(embedded, frame=None)` lets go of the pixels.
    """

    landmarks: tuple[Landmark, ...]
    vertex: NDArray[np.float32]
    graph: NDArray[np.float32]
    placement: NDArray[np.float32]
    frame: Frame | None = None


class RobustMatcher:
    """Embed a frame once, match it with many.

    Args:
        checkpoint: weights, decision, provenance.
        same_category: match signs with signs and poles with poles only; scores are not changed by it.
        evidence: what a score may know: `pair`, `frames` or `placement`; all that the model can, unless given.
        device: where torch computes.

    Example:
        >>> matcher = robustmat.load("runs/mine")                              # doctest: +SKIP
        >>> a, b = matcher.embed(frame_a), matcher.embed(frame_b)              # doctest: +SKIP
        >>> matcher.match(a, b).matches                                        # doctest: +SKIP
    """

    def __init__(
        self, checkpoint: "Checkpoint", same_category: bool = True, evidence: str | None = None, device: str = "cpu"
    ) -> None:
        known = checkpoint.model.config.evidence
        self.evidence = evidence or known[-1]
        if self.evidence not in known:
            hint = nearest(self.evidence, list(known))
            raise ConfigError(f"checkpoint '{checkpoint.name}' cannot score by evidence '{evidence}' ({hint})")
        self.name = checkpoint.name
        self.model = checkpoint.model.to(device).eval()
        self.decision = checkpoint.decisions[self.evidence]
        self.provenance = checkpoint.provenance
        self.threshold = self.decision.threshold
        self.match_threshold = self.decision.match_threshold
        self.trained_on = checkpoint.provenance.drives
        self.same_category = same_category
        self.device = device

    def embed(self, frame: Frame) -> EmbeddedFrame:
        """What the model knows of all landmarks of `frame`, in one batch."""
        found = embed_landmarks(self.model, usable_pixels(frame), frame.landmarks, frame.camera, self.device)
        assert found.placement is not None
        vertex, graph, placement = (it.cpu().numpy() for it in (found.vertex, found.graph, found.placement))
        return EmbeddedFrame(frame.landmarks, vertex, graph, placement, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        """The score of every landmark of `a` with every one of `b`: [A, B]."""
        import torch

        with torch.inference_mode():
            score = self.model.match_score(self._embeddings(a), self._embeddings(b), self.evidence)
        return score.cpu().numpy().astype(np.float64)

    def match(self, a: Frame | EmbeddedFrame, b: Frame | EmbeddedFrame) -> MatchResult:
        """One-to-one matches by mutual best score at or above the match threshold."""
        a = self.embed(a) if isinstance(a, Frame) else a
        b = self.embed(b) if isinstance(b, Frame) else b
        return decide(a, b, self.score(a, b), self.decision, self.match_threshold, self.same_category)

    def _embeddings(self, frame: EmbeddedFrame) -> "Embeddings":
        import torch

        from robustmat.models.robustmat import Embeddings

        expected = (len(frame.landmarks), self.model.config.vertex.numbers)
        if frame.vertex.shape != expected:
            raise InputError(
                f"embedding of shape {frame.vertex.shape}, but checkpoint '{self.name}' gives {expected} for this "
                "frame: it was embedded with another checkpoint; embed it again"
            )
        arrays = (frame.vertex, frame.graph, frame.placement)
        vertex, graph, placement = (torch.from_numpy(it).to(self.device) for it in arrays)
        return Embeddings(vertex, graph, placement)


def decide(
    a: EmbeddedFrame,
    b: EmbeddedFrame,
    score: Array,
    decision: Decision,
    match_threshold: float,
    same_category_only: bool = True,
) -> MatchResult:
    """One-to-one matches of two frames whose landmarks score [A, B]."""
    probability = decision.probability(score)
    allowed = same_category(a.landmarks, b.landmarks) if same_category_only else None
    pairs = mutual_best(score, match_threshold, allowed)
    return MatchResult(
        landmarks_a=a.landmarks,
        landmarks_b=b.landmarks,
        matches=tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs),
        score=score,
        probability=probability,
        threshold=match_threshold,
        frame_a=a.frame,
        frame_b=b.frame,
    )


def usable_pixels(frame: Frame) -> Image:
    """The frame's image, or an error that says what is wrong with a frame put together by hand."""
    pixels = frame.image
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise InputError(
            f"frame '{frame.name}': the image must be RGB [height, width, 3] of uint8, found {pixels.shape} of "
            f"{pixels.dtype}; robustmat.read_frame converts files"
        )
    height, width = pixels.shape[:2]
    check_landmarks(frame.landmarks, width, height)
    return pixels


def same_category(a: Sequence[Landmark], b: Sequence[Landmark]) -> NDArray[np.bool_]:
    """Which pairs are of one category: [A, B]."""
    names_a, names_b = ([landmark.category for landmark in it] for it in (a, b))
    return np.array([[x == y for y in names_b] for x in names_a], np.bool_).reshape(len(a), len(b))


def embed_landmarks(
    model: "RobustMat",
    image: NDArray[np.uint8],
    landmarks: Sequence[Landmark],
    camera: Camera | None = None,
    device: str = "cpu",
) -> "Embeddings":
    """Crop, build the neighbourhood graphs and embed the landmarks of one frame."""
    import torch

    from robustmat.models.robustmat import Embeddings

    config = model.config
    boxes = [landmark.box for landmark in landmarks]
    patches = to_input(cut_patches(image, boxes, config.patch), config.patch)
    graphs = neighborhoods(boxes, config.graph.num_neighbors, config.graph.include_center)
    height, width = image.shape[:2]
    placement = placements(landmarks, camera, width, height)
    with torch.inference_mode():
        if not boxes:
            vertex, graph = (torch.zeros(0, it) for it in (config.vertex.numbers, config.vertex.embedding_dim))
            return Embeddings(vertex, graph, torch.from_numpy(placement))
        arrays = (patches, graphs.index, graphs.mask, placement)
        return model.embed(*(torch.from_numpy(it).to(device) for it in arrays))


def load(name: str | Path = "street", **options: Any) -> RobustMatcher:
    """A matcher from a shipped checkpoint's name, a checkpoint folder or a training run."""
    from robustmat.models.weights import load_checkpoint

    return RobustMatcher(load_checkpoint(name), **options)
