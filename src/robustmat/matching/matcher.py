"""The matcher: a checkpoint that embeds frames and matches embedded frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robustmat.dataset.graphs import neighborhoods
from robustmat.dataset.patches import cut_patches, to_input
from robustmat.errors import InputError
from robustmat.landmarks.boxes import check_landmarks
from robustmat.matching.assign import mutual_best
from robustmat.models.robustmat import Embeddings, RobustMat
from robustmat.models.weights import Checkpoint, load_checkpoint
from robustmat.types import Array, Box, Frame, Image, Landmark, Match, MatchResult


@dataclass(frozen=True)
class EmbeddedFrame:
    """All that matching needs of a frame, [landmarks, D] each: store it, reuse it.

    `frame` is kept for drawing alone; `dataclasses.replace(embedded, frame=None)` lets go of the pixels.
    """

    landmarks: tuple[Landmark, ...]
    vertex: NDArray[np.float32]
    graph: NDArray[np.float32]
    frame: Frame | None = None


class RobustMatcher:
    """Embed a frame once, match it with many.

    Args:
        checkpoint: weights, decision, provenance.
        same_category: match signs with signs and poles with poles only; scores are not changed by it.
        device: where torch computes.

    Example:
        >>> matcher = robustmat.load("runs/mine")                              # doctest: +SKIP
        >>> a, b = matcher.embed(frame_a), matcher.embed(frame_b)              # doctest: +SKIP
        >>> matcher.match(a, b).matches                                        # doctest: +SKIP
    """

    def __init__(self, checkpoint: Checkpoint, same_category: bool = True, device: str = "cpu") -> None:
        self.name = checkpoint.name
        self.model = checkpoint.model.to(device).eval()
        self.decision = checkpoint.decision
        self.provenance = checkpoint.provenance
        self.threshold = checkpoint.decision.threshold
        self.trained_on = checkpoint.provenance.drives
        self.same_category = same_category
        self.device = device

    def embed(self, frame: Frame) -> EmbeddedFrame:
        """f and g of all landmarks of `frame`, in one batch."""
        boxes = [landmark.box for landmark in frame.landmarks]
        embeddings = embed_boxes(self.model, usable_pixels(frame), boxes, self.device)
        return EmbeddedFrame(frame.landmarks, embeddings.vertex.cpu().numpy(), embeddings.graph.cpu().numpy(), frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        """S_match of every landmark of `a` with every one of `b`: [A, B]."""
        with torch.inference_mode():
            score = self.model.score(self.model.compare(self._embeddings(a), self._embeddings(b)))
        return score.cpu().numpy().astype(np.float64)

    def match(self, a: Frame | EmbeddedFrame, b: Frame | EmbeddedFrame) -> MatchResult:
        """One-to-one matches by mutual best score at or above the threshold."""
        a = self.embed(a) if isinstance(a, Frame) else a
        b = self.embed(b) if isinstance(b, Frame) else b
        score = self.score(a, b)
        probability = self.decision.probability(score)
        allowed = same_category(a.landmarks, b.landmarks) if self.same_category else None
        pairs = mutual_best(score, self.threshold, allowed)
        return MatchResult(
            landmarks_a=a.landmarks,
            landmarks_b=b.landmarks,
            matches=tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs),
            score=score,
            probability=probability,
            threshold=self.threshold,
            frame_a=a.frame,
            frame_b=b.frame,
        )

    def _embeddings(self, frame: EmbeddedFrame) -> Embeddings:
        expected = (len(frame.landmarks), self.model.config.vertex.embedding_dim)
        if frame.vertex.shape != expected:
            raise InputError(
                f"embedding of shape {frame.vertex.shape}, but checkpoint '{self.name}' gives {expected} for this "
                "frame: it was embedded with another checkpoint; embed it again"
            )
        vertex, graph = (torch.from_numpy(it).to(self.device) for it in (frame.vertex, frame.graph))
        return Embeddings(vertex, graph)


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


def embed_boxes(model: RobustMat, image: NDArray[np.uint8], boxes: Sequence[Box], device: str = "cpu") -> Embeddings:
    """Crop, build the neighbourhood graphs and embed the landmarks of one frame."""
    config = model.config
    patches = torch.from_numpy(to_input(cut_patches(image, boxes, config.patch), config.patch))
    graphs = neighborhoods(boxes, config.graph.num_neighbors, config.graph.include_center)
    index, mask = torch.from_numpy(graphs.index), torch.from_numpy(graphs.mask)
    with torch.inference_mode():
        if not boxes:
            empty = torch.zeros(0, config.vertex.embedding_dim)
            return Embeddings(empty, empty)
        return model.embed(patches.to(device), index.to(device), mask.to(device))


def load(name: str | Path = "street", **options: Any) -> RobustMatcher:
    """A matcher from a shipped checkpoint's name, a checkpoint folder or a training run."""
    return RobustMatcher(load_checkpoint(name), **options)
