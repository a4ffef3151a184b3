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
from robustmat.fitting.references import geometry_examples
from robustmat.matching.cached import CachedByContent
from robustmat.matching.matcher import Matcher
from robustmat.methods.box_geometry import GeometryExamples, fit_box_geometry
from robustmat.perturb import Perturbation, perturb_image
from robustmat.perturb import parse as parse_perturbation
from robustmat.progress import Progress
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.validation import ValidationSet, build_validation
from robustmat.types import Image

KEPT = 3  # banks, validation sets and box geometries: methods share them, folds take turns
KEPT_IMAGES = 1500  # perturbed frames, two gigabytes of KITTI: methods crop the same views to sizes of their own


@dataclass
class Inputs:
    """Makes what runs need and keeps the newest: cutting takes as long as a short training."""

    banks: dict[Any, PatchBank] = field(default_factory=dict)
    validations: dict[Any, ValidationSet] = field(default_factory=dict)
    geometries: dict[Any, tuple[GeometryExamples, Matcher]] = field(default_factory=dict)
    images: dict[Any, Image] = field(default_factory=dict)

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
                self.perturb,
            )
            _keep(self.banks, key, made)
        return self.banks[key]

    def validation(self, config: RunConfig, datasets: Sequence[LandmarkDataset], progress: Progress) -> ValidationSet:
        key = (config.validation_perturbation, config.seed, _facts(datasets))
        if key not in self.validations:
            perturbation = parse_perturbation(config.validation_perturbation)
            _keep(self.validations, key, build_validation(datasets, perturbation, config.seed, progress))
        return self.validations[key]

    def geometry(self, datasets: Sequence[LandmarkDataset], seed: int) -> tuple[GeometryExamples, Matcher]:
        """Box geometry of the training side: its examples, and the matcher that is fitted to them."""
        key = seed, _facts(datasets)
        if key not in self.geometries:
            examples = geometry_examples(datasets, seed)
            _keep(self.geometries, key, (examples, CachedByContent(fit_box_geometry(examples, seed))))
        return self.geometries[key]

    def perturb(self, image: Image, perturbation: Perturbation, seed: int, key: str) -> Image:
        """A perturbed frame, made once; `key` names the frame."""
        what = image.shape, str(perturbation), seed, key
        if what not in self.images:
            _keep(self.images, what, perturb_image(image, perturbation, seed, key), KEPT_IMAGES)
        return self.images[what]


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


def _keep(kept: dict[Any, Any], key: Any, made: Any, most: int = KEPT) -> None:
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = made
