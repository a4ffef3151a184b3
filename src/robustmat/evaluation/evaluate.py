"""Evaluate a matcher on landmark data sets: draw pairs, predict once, compute the table from that."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from robustmat.dataset.pairs import PairSample, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.evaluation.bootstrap import RESAMPLES
from robustmat.evaluation.predictions import PairTruth, Predictions
from robustmat.evaluation.references import NO_REFERENCES, References
from robustmat.evaluation.report import make_report
from robustmat.evaluation.scoring import Progress, embed_frames, possible_matches, predict, silent, views_of
from robustmat.matching.protocol import Matcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.types import Array


def evaluate(
    matcher: Matcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation = CLEAN,
    negatives: str = "same-class",
    seed: int = 0,
    *,
    side: str = "both",
    references: References = NO_REFERENCES,
    checkpoint: str | None = None,
    most_frame_pairs: int = 300,
    resamples: int = RESAMPLES,
    progress: Progress = silent,
) -> tuple[dict[str, Any], Predictions]:
    """The report (keys of `robustmat evaluate --json`) and the predictions that it was computed from.

    Args:
        side: perturb `both` frames of a pair, each in its own way, or only the `second`.
        references: further rows for the table, from `make_references`.
        most_frame_pairs: the frame protocol draws so many frame pairs at most.
        progress: called as progress(items, what); must yield the items.
    """
    start = time.perf_counter()
    sample = draw_pairs(datasets, negatives, seed, most_frame_pairs)
    pair_views = views_of(np.stack([sample.frame_a, sample.frame_b], axis=1), perturbation, side)
    frame_views = views_of(sample.frame_pairs, perturbation, side)
    matchers = [matcher, *references.rows]
    wanted = (view for both in (*pair_views, *frame_views) for view in both)
    embedded = embed_frames(matchers, sample.truth, wanted, perturbation, seed, progress=progress)
    rows = [
        predict(it, memory, sample, pair_views, frame_views)
        for it, memory in progress(list(zip(matchers, embedded, strict=True)), "matching")
    ]
    predictions = Predictions(
        meta={
            "checkpoint": checkpoint,
            "datasets": [dataset.name for dataset in datasets],
            "perturb": str(perturbation),
            "perturb_side": side,
            "negatives": negatives,
            "seed": seed,
            "n_frame_pairs_found": sample.n_frame_pairs_found,
            "references_omitted": dict(references.omitted),
        },
        frames=tuple(_frame_name(sample, index) for index in range(len(sample.truth.frames))),
        pairs=_pair_truth(sample),
        frame_pairs=possible_matches(sample.truth, sample.frame_pairs),
        rows=tuple(rows),
    )
    report = make_report(predictions, resamples)
    return report | {"seconds": round(time.perf_counter() - start, 3)}, predictions


def _frame_name(sample: PairSample, index: int) -> str:
    dataset = sample.truth.datasets[sample.truth.frames[index].dataset]
    return f"{dataset.name}/{sample.truth.frame(index).name}"


def _pair_truth(sample: PairSample) -> PairTruth:
    def boxes(frames: Sequence[int], landmarks: Sequence[int]) -> Array:
        pairs = zip(frames, landmarks, strict=True)
        return np.array([sample.truth.frame(frame).landmarks[it].box for frame, it in pairs], np.float64)

    return PairTruth(
        label=sample.label,
        frame_a=sample.frame_a,
        frame_b=sample.frame_b,
        landmark_a=sample.landmark_a,
        landmark_b=sample.landmark_b,
        identity_a=sample.identity_a,
        identity_b=sample.identity_b,
        category_a=sample.category_a,
        category_b=sample.category_b,
        box_a=boxes(sample.frame_a.tolist(), sample.landmark_a.tolist()),
        box_b=boxes(sample.frame_b.tolist(), sample.landmark_b.tolist()),
    )
