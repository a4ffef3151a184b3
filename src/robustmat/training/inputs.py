"""What runs learn from and are measured by: patches and perturbed validation frames, made once for the same data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.dataset.batches import PatchBank, build_bank
from robustmat.dataset.store import LandmarkDataset
from robustmat.features.patches import PatchConfig, to_input
from robustmat.perturb import parse as parse_perturbation
from robustmat.progress import Progress
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.validation import ValidationSet, build_validation

KEPT = 2  # banks: rivals share one, RobustMat's crops are others; all are too large to keep


@dataclass
class Inputs:
    """Makes what runs need and keeps the newest: cutting takes as long as a short training."""

    banks: dict[Any, PatchBank] = field(default_factory=dict)
    validations: dict[Any, ValidationSet] = field(default_factory=dict)

    def bank(self, config: TrainingConfig, datasets: Sequence[LandmarkDataset], progress: Progress) -> PatchBank:
        patch, neighborhood = config.model.patch, config.model.neighborhood  # type: ignore[attr-defined]
        views = config.perturbations, config.views, config.jitter, config.seed
        key = patch, neighborhood, views, _facts(datasets)
        if key not in self.banks:
            made = build_bank(
                datasets,
                patch,
                neighborhood[0],
                neighborhood[1],
                [parse_perturbation(name) for name in config.perturbations],
                config.views,
                config.jitter,
                config.seed,
                progress,
            )
            _keep(self.banks, key, made)
        return self.banks[key]

    def validation(self, config: RunConfig, datasets: Sequence[LandmarkDataset], progress: Progress) -> ValidationSet:
        key = (config.validation_perturbation, config.seed, _facts(datasets))
        if key not in self.validations:
            perturbation = parse_perturbation(config.validation_perturbation)
            _keep(self.validations, key, build_validation(datasets, perturbation, config.seed, progress))
        return self.validations[key]


def some_patches(bank: PatchBank, patch: PatchConfig, seed: int, count: int = 1024) -> Tensor:
    """Patches of frames drawn at random, as a network wants them: [N, I, S, S]."""
    rng = np.random.default_rng(seed)
    drawn: list[NDArray[np.uint8]] = []
    for frame in rng.permutation(len(bank.patches)):
        views = bank.patches[frame]
        drawn.append(views[rng.integers(len(views))])
        if sum(map(len, drawn)) >= count:
            break
    return torch.from_numpy(to_input(np.concatenate(drawn)[:count], patch))


def _facts(datasets: Sequence[LandmarkDataset]) -> tuple[Any, ...]:
    """What tells data sets apart within one process, parts of a split drive included."""
    return tuple((one.path, one.name, tuple(frame.name for frame in one.frames)) for one in datasets)


def _keep(kept: dict[Any, Any], key: Any, made: Any) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]
    kept[key] = made
