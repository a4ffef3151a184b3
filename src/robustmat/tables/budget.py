"""How many steps a number of minutes is worth, measured here: every method gets the same time.

Time is processor time, so that whatever else runs on the machine takes nothing away from a method.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from robustmat.dataset.batches import build_bank, draw_batch
from robustmat.dataset.store import LandmarkDataset
from robustmat.matching.steps import NUM_NEIGHBORS
from robustmat.perturb import CLEAN
from robustmat.training.baseline_batches import label_batch
from robustmat.training.baseline_config import BaselineTrainingConfig
from robustmat.training.baseline_run import BaselineModule
from robustmat.training.config import RunConfig, TrainingConfig
from robustmat.training.module import TrainingModule, batch_losses

FEWEST, MOST = 20, 20_000
TIMED = 4  # steps, after one to warm up


def steps_within(config: RunConfig, datasets: Sequence[LandmarkDataset], minutes: float) -> int:
    """The steps that fit; validations and cutting the patches come on top, alike for all methods."""
    seconds = seconds_a_step(config, datasets)
    return int(np.clip(10 * round(6 * minutes / seconds), FEWEST, MOST))


def seconds_a_step(config: RunConfig, datasets: Sequence[LandmarkDataset]) -> float:
    """Of one core: the median of a few steps on unperturbed patches."""
    patch = config.model.patch  # type: ignore[attr-defined]
    neighbors, center = NUM_NEIGHBORS, False
    if isinstance(config, TrainingConfig):
        neighbors, center = config.model.graph.num_neighbors, config.model.graph.include_center
    some = [replace(it, frames=it.frames[:60]) for it in datasets[:2]]
    bank = build_bank(some, patch, neighbors, center, [CLEAN], 1, 0.0, config.seed)
    with torch.random.fork_rng():
        module = BaselineModule(config, bank) if isinstance(config, BaselineTrainingConfig) else None
        other = TrainingModule(config) if isinstance(config, TrainingConfig) else None
        times = []
        for step in range(1 + TIMED):
            batch = draw_batch(bank, config.frame_pairs_per_step, config.flip, np.random.default_rng(step))
            start = time.process_time()
            if module is not None:
                losses = module.objective(module.model, label_batch(batch, bank, patch))
            elif other is not None:
                losses = batch_losses(other.model, batch, other.config)
            torch.autograd.backward([losses["loss"]])
            times.append(time.process_time() - start)
    return max(float(np.median(times[1:])), 1e-6)
