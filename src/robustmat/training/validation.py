"""Measure a network in training on held-out drives, and fit how it decides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robustmat.dataset.pairs import PairSample, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.evaluation.metrics import measure
from robustmat.evaluation.scoring import Memory, embed_sample
from robustmat.fitting.decision import fit_decision
from robustmat.matching.cached import CachedMatcher
from robustmat.matching.decision import UNDECIDED, Decision
from robustmat.matching.network import NetworkMatcher, inference
from robustmat.perturb import Perturbation, perturb_image
from robustmat.progress import Progress, silent
from robustmat.types import Frame, Image

if TYPE_CHECKING:
    from robustmat.models.network import Network


@dataclass(frozen=True)
class ValidationSet:
    """Held-out drives, perturbed once and kept in memory, and the pairs that a network is measured by."""

    datasets: tuple[LandmarkDataset, ...]
    sample: PairSample


def build_validation(
    datasets: Sequence[LandmarkDataset], perturbation: Perturbation, seed: int, progress: Progress = silent
) -> ValidationSet:
    def held(frame: Frame, drive: str) -> Frame:
        pixels: Image = perturb_image(frame.image, perturbation, seed=seed, key=f"{drive}/{frame.name}")
        return frame.with_image(pixels)

    drives = [(frame, dataset.name) for dataset in datasets for frame in dataset.frames]
    frames = iter([held(frame, drive) for frame, drive in progress(drives, "perturbing validation frames")])
    kept = tuple(replace(dataset, frames=tuple(next(frames) for _ in dataset.frames)) for dataset in datasets)
    return ValidationSet(kept, draw_pairs(kept, negatives="same-class", seed=seed))


@dataclass(frozen=True)
class Validated:
    """The best decision on the held-out drives for each kind of evidence, and what it was found with.

    The matcher is that of the last kind and remembers its scores; `memory` holds the frames as it embedded them.
    """

    decisions: dict[str, Decision]
    matcher: CachedMatcher
    memory: Memory


def validate(network: "Network", validation: ValidationSet) -> tuple[Validated, dict[str, float]]:
    """What is fitted on the held-out drives, and the metrics there of the last kind of evidence."""
    sample = validation.sample
    matchers = {
        kind: CachedMatcher(NetworkMatcher("in training", network, UNDECIDED, evidence=kind))
        for kind in network.evidence
    }
    with inference(network):  # once for all frame pairs
        (memory,) = embed_sample([next(iter(matchers.values()))], sample)
        fitted = {
            kind: fit_decision(matcher, memory, sample, max_score=network.max_score(kind))
            for kind, matcher in matchers.items()
        }
    last = fitted[network.evidence[-1]]
    metrics = measure(last.scores, sample.label, last.decision.threshold)
    decisions = {kind: found.decision for kind, found in fitted.items()}
    return Validated(decisions, matchers[network.evidence[-1]], memory), metrics
