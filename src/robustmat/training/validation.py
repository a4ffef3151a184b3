"""Judge a model in training on held-out drives, and fit how it decides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from robustmat.dataset.batches import Progress
from robustmat.dataset.pairs import PairSample, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.evaluation.metrics import measure
from robustmat.fitting.decision import embed_sample, fit_decision
from robustmat.matching.matcher import RobustMatcher
from robustmat.models.robustmat import RobustMat
from robustmat.models.weights import Checkpoint, Decision, Provenance
from robustmat.perturb import Perturbation, perturb_image
from robustmat.types import Frame, Image

UNDECIDED = Decision(threshold=0.0, match_threshold=0.0, slope=1.0, intercept=0.0)


@dataclass(frozen=True)
class ValidationSet:
    """Held-out drives, perturbed once and kept in memory, and the pairs that a model is judged by."""

    datasets: tuple[LandmarkDataset, ...]
    sample: PairSample


def build_validation(
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation,
    seed: int,
    progress: Progress = lambda items: items,
) -> ValidationSet:
    def held(frame: Frame, drive: str) -> Frame:
        pixels: Image = perturb_image(frame.image, perturbation, seed=seed, key=f"{drive}/{frame.name}")
        return replace(frame, load_image=lambda: pixels)

    frames = iter(progress([(frame, it.name) for it in datasets for frame in it.frames]))
    kept = tuple(replace(it, frames=tuple(held(*next(frames)) for _ in it.frames)) for it in datasets)
    for _ in frames:  # lets a progress bar reach its end
        pass
    return ValidationSet(kept, draw_pairs(kept, negatives="same-class", seed=seed))


def validate(model: RobustMat, validation: ValidationSet) -> tuple[dict[str, Decision], dict[str, float]]:
    """The best decision on the held-out drives for each kind of evidence, and the metrics there of the last kind."""
    sample = validation.sample
    device = str(next(model.parameters()).device)
    undecided = Checkpoint("in training", model, dict.fromkeys(model.config.evidence, UNDECIDED), Provenance())
    embedded = embed_sample(RobustMatcher(undecided, device=device), sample)
    fitted = {
        kind: fit_decision(
            RobustMatcher(undecided, evidence=kind, device=device),
            embedded,
            sample,
            certain=model.config.highest_score(kind),
        )
        for kind in model.config.evidence
    }
    model.train()
    last = fitted[model.config.evidence[-1]]
    metrics = measure(last.scores, sample.label, last.decision.threshold)
    return {kind: it.decision for kind, it in fitted.items()}, metrics
