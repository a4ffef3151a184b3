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
from robustmat.perturb import CLEAN
from robustmat.training.config import TrainingConfig
from robustmat.training.module import TrainingModule

FEWEST, MOST = 20, 20_000
TIMED = 4  # steps, after one to warm up


def steps_within(config: TrainingConfig, datasets: Sequence[LandmarkDataset], minutes: float) -> int:
    """The steps that fit; validations and cutting the patches come on top, alike for all methods."""
    seconds = seconds_a_step(config, datasets)
    return int(np.clip(10 * round(6 * minutes / seconds), FEWEST, MOST))


def seconds_a_step(config: TrainingConfig, datasets: Sequence[LandmarkDataset]) -> float:
    """Of one core: the median of a few steps on unperturbed patches."""
    few = [replace(dataset, frames=dataset.frames[:60]) for dataset in datasets[:2]]
    patch, neighborhood = config.model.patch, config.model.neighborhood  # type: ignore[attr-defined]
    bank = build_bank(few, patch, neighborhood[0], neighborhood[1], [CLEAN], 1, 0.0, config.seed)
    with torch.random.fork_rng():
        module = TrainingModule(config, bank)
        times = []
        for step in range(1 + TIMED):
            batch = draw_batch(bank, config.frame_pairs_per_step, config.flip, np.random.default_rng(step))
            start = time.process_time()
            torch.autograd.backward([module.losses(batch, step)["loss"]])
            times.append(time.process_time() - start)
    return max(float(np.median(times[1:])), 1e-6)
