"""Judge a model in training on held-out drives, and fit how it decides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustmat.dataset.batches import Progress
from robustmat.dataset.pairs import PairSample, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.evaluation.calibration import fit_calibration
from robustmat.evaluation.metrics import best_threshold, measure
from robustmat.evaluation.scoring import embed_frames, score_candidates, score_pairs, views_of
from robustmat.matching.matcher import RobustMatcher
from robustmat.models.robustmat import RobustMat
from robustmat.models.weights import Checkpoint, Decision, Provenance
from robustmat.perturb import CLEAN, Perturbation, perturb_image
from robustmat.types import Frame, Image

UNDECIDED = Decision(threshold=0.0, slope=1.0, intercept=0.0)


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


def validate(model: RobustMat, validation: ValidationSet) -> tuple[Decision, dict[str, float]]:
    """The best threshold and calibration on the held-out drives, and the metrics there at that threshold."""
    sample = validation.sample
    device = next(model.parameters()).device
    matcher = RobustMatcher(Checkpoint("in training", model, UNDECIDED, Provenance()), device=str(device))
    views = views_of(np.stack([sample.frame_a, sample.frame_b], axis=1), CLEAN, "both")
    wanted = (view for both in views for view in both)
    (embedded,) = embed_frames([matcher], sample.truth, wanted, CLEAN, sample.seed)
    scores = score_pairs(matcher, embedded, views, sample.landmark_a, sample.landmark_b)
    threshold = best_threshold(scores, sample.label)
    slope, intercept = fit_calibration(*score_candidates(matcher, validation.datasets, seed=sample.seed))
    model.train()
    return Decision(threshold=threshold, slope=slope, intercept=intercept), measure(scores, sample.label, threshold)
