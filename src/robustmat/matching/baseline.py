"""The paper's rivals as matchers: single patches compared."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from robustmat.features.patches import cut_patches, to_input
from robustmat.matching.assign import mutual_best
from robustmat.matching.matcher import same_category, usable_pixels
from robustmat.models.baselines.protocol import PatchMatcher
from robustmat.models.weights import Decision, Provenance
from robustmat.types import Array, Frame, Landmark, Match, MatchResult


@dataclass(frozen=True)
class EmbeddedPatches:
    """What a patch matcher remembers of a frame: [landmarks, ...]."""

    landmarks: tuple[Landmark, ...]
    values: NDArray[np.float32]
    frame: Frame | None = None


class BaselineMatcher:
    """Embed a frame's patches once, score and match two frames.

    Args:
        same_category: match signs with signs and poles with poles only; scores are not changed by it.
    """

    def __init__(
        self,
        name: str,
        model: PatchMatcher,
        decision: Decision,
        provenance: Provenance,
        *,
        same_category: bool = True,
        device: str = "cpu",
    ) -> None:
        self.name = name
        self.model = model.to(device).eval()
        self.decision = decision
        self.threshold, self.match_threshold = decision.threshold, decision.match_threshold
        self.provenance, self.trained_on = provenance, provenance.drives
        self.same_category = same_category
        self.device = device

    def embed(self, frame: Frame) -> EmbeddedPatches:
        boxes = [landmark.box for landmark in frame.landmarks]
        if not boxes:
            return EmbeddedPatches((), np.zeros((0, 0), np.float32), frame)
        patch = self.model.config.patch
        patches = torch.from_numpy(to_input(cut_patches(usable_pixels(frame), boxes, patch), patch))
        with torch.inference_mode():
            values = self.model.embed(patches.to(self.device)).cpu().numpy()
        return EmbeddedPatches(frame.landmarks, values, frame)

    def score(self, a: EmbeddedPatches, b: EmbeddedPatches) -> Array:
        """[A, B], higher is likelier."""
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        with torch.inference_mode():
            first, second = (torch.from_numpy(it.values).to(self.device) for it in (a, b))
            return self.model.compare(first, second).cpu().numpy().astype(np.float64)

    def match(self, a: Frame | EmbeddedPatches, b: Frame | EmbeddedPatches) -> MatchResult:
        """One-to-one matches by mutual best score at or above the match threshold."""
        a = self.embed(a) if isinstance(a, Frame) else a
        b = self.embed(b) if isinstance(b, Frame) else b
        score = self.score(a, b)
        probability = self.decision.probability(score)
        allowed = same_category(a.landmarks, b.landmarks) if self.same_category else None
        pairs = mutual_best(score, self.match_threshold, allowed)
        matches = tuple(Match(i, j, float(score[i, j]), float(probability[i, j])) for i, j in pairs)
        return MatchResult(
            a.landmarks, b.landmarks, matches, score, probability, self.match_threshold, a.frame, b.frame
        )
