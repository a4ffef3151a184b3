"""Judge a model in training on held-out drives, and fit how it decides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from robustmat.dataset.batches import PatchBank, Progress, build_bank
from robustmat.dataset.pairs import PairSample, draw_pairs
from robustmat.dataset.patches import to_input
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import AMBIGUOUS, MATCHED, label_candidates
from robustmat.evaluation.calibration import fit_calibration
from robustmat.evaluation.metrics import best_threshold, measure
from robustmat.models.robustmat import Embeddings, ModelConfig, RobustMat
from robustmat.models.weights import Decision
from robustmat.perturb import Perturbation
from robustmat.types import Array


@dataclass(frozen=True)
class ValidationSet:
    """Held-out patches, cut once, and the pairs they are judged by."""

    bank: PatchBank
    sample: PairSample


def build_validation(
    datasets: Sequence[LandmarkDataset],
    model: ModelConfig,
    perturbation: Perturbation,
    seed: int,
    progress: Progress = lambda items: items,
) -> ValidationSet:
    bank = build_bank(
        datasets,
        model.patch,
        model.graph.num_neighbors,
        model.graph.include_center,
        [perturbation],
        views=1,
        jitter=0.0,
        seed=seed,
        progress=progress,
    )
    return ValidationSet(bank, draw_pairs(datasets, negatives="same-class", seed=seed))


def validate(model: RobustMat, validation: ValidationSet) -> tuple[Decision, dict[str, float]]:
    """The best threshold and calibration on the held-out drives, and the metrics there at that threshold."""
    bank, sample = validation.bank, validation.sample
    embedded = [embed_frame(model, bank, index) for index in range(len(bank.truth.frames))]

    def matrix(a: int, b: int) -> Array:
        with torch.inference_mode():
            score = model.score(model.compare(embedded[a], embedded[b]))
        return score.cpu().numpy().astype(np.float64)

    scores = np.empty(len(sample.label))
    pairs = np.stack([sample.frame_a, sample.frame_b], axis=1)
    for a, b in np.unique(pairs, axis=0):
        rows = (pairs == (a, b)).all(axis=1)
        scores[rows] = matrix(a, b)[sample.landmark_a[rows], sample.landmark_b[rows]]
    candidates = [
        (matrix(a, b), label_candidates(bank.truth.frames[a], bank.truth.frames[b])) for a, b in sample.frame_pairs
    ]
    all_scores, all_labels = _judged(candidates)
    threshold = best_threshold(scores, sample.label)
    slope, intercept = fit_calibration(all_scores, all_labels)
    return Decision(threshold=threshold, slope=slope, intercept=intercept), measure(scores, sample.label, threshold)


def embed_frame(model: RobustMat, bank: PatchBank, index: int) -> Embeddings:
    device = next(model.parameters()).device
    patches = torch.from_numpy(to_input(bank.patches[index][0], model.config.patch))
    graph = bank.graphs[index]
    with torch.inference_mode():
        return model.embed(
            patches.to(device),
            torch.from_numpy(graph.index).to(device),
            torch.from_numpy(graph.mask).to(device),
        )


def _judged(candidates: list[tuple[Array, NDArray[np.int8]]]) -> tuple[Array, NDArray[np.bool_]]:
    """Scores and labels of all candidates that are not ambiguous."""
    scores = np.concatenate([score.ravel() for score, _ in candidates])
    labels = np.concatenate([label.ravel() for _, label in candidates])
    clear = labels != AMBIGUOUS
    return scores[clear], labels[clear] == MATCHED
