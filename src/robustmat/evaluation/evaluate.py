"""Evaluate a matcher on landmark data sets: draw pairs, predict once, compute the table from that."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from robustmat.dataset.pairs import NEGATIVES, PairSample, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.evaluation.bootstrap import RESAMPLES
from robustmat.evaluation.predictions import MethodRow, PairTruth, Predictions
from robustmat.evaluation.report import make_report
from robustmat.evaluation.scoring import (
    embed_frames,
    match_frames,
    possible_matches,
    score_pairs,
    views_of,
)
from robustmat.matching.matcher import Matcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.progress import Progress, silent
from robustmat.types import Array


def evaluate(
    matcher: Matcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation = CLEAN,
    negatives: str = "same-class",
    seed: int = 0,
    *,
    perturbed_frames: str = "both",
    references: Sequence[Matcher] = (),
    references_omitted: dict[str, str] | None = None,
    method: str | None = None,
    checkpoint: str | None = None,
    evidence: str | None = None,
    most_frame_pairs: int = 300,
    resamples: int = RESAMPLES,
    progress: Progress = silent,
) -> tuple[dict[str, Any], Predictions]:
    """The report (keys of `robustmat evaluate --json`) and the predictions that it was computed from.

    Args:
        negatives: which kind the report is about; the other kind is predicted and reported beside it.
        perturbed_frames: perturb `both` frames of a pair, each in its own way, or only the `second`.
        method: what to call the matcher in the table; its own name unless given.
        evidence: what the matcher's scores may know, for the record.
        references: further rows for the table, from `fitting.references.make_references`.
        most_frame_pairs: the frame protocol draws so many frame pairs at most.
        progress: called as progress(items, what); must yield the items.
    """
    start = time.perf_counter()
    sample = draw_pairs(datasets, negatives, seed, most_frame_pairs)
    truth, pairs = sample.truth, _pair_truth([sample, *_other_kinds(sample)])
    pair_views = views_of(np.stack([pairs.frame_a, pairs.frame_b], axis=1), perturbation, perturbed_frames)
    frame_views = views_of(sample.frame_pairs, perturbation, perturbed_frames)
    matchers = [matcher, *references]
    unrelated_views = views_of(sample.unrelated_pairs, perturbation, perturbed_frames)
    wanted = (view for both in (*pair_views, *frame_views, *unrelated_views) for view in both)
    memories = embed_frames(matchers, truth, wanted, perturbation, seed, progress=progress)
    rows = [
        MethodRow(
            name=method if row is matcher and method else row.name,
            threshold=float(row.decision.threshold),
            score=score_pairs(row, memory, pair_views, pairs.landmark_a, pairs.landmark_b),
            **match_frames(row, memory, truth, frame_views),
            unrelated_matches=np.array(
                [len(row.match(memory[a], memory[b]).matches) for a, b in unrelated_views], np.int64
            ),
        )
        for row, memory in progress(list(zip(matchers, memories, strict=True)), "matching")
    ]
    predictions = Predictions(
        meta={
            "checkpoint": checkpoint,
            "evidence": evidence,
            "datasets": [dataset.name for dataset in datasets],
            "perturb": str(perturbation),
            "perturb_side": perturbed_frames,
            "negatives": negatives,
            "seed": seed,
            "n_frame_pairs_found": sample.n_frame_pairs_found,
            "references_omitted": references_omitted or {},
        },
        frames=tuple(f"{datasets[frame.dataset].name}/{truth.frame(n).name}" for n, frame in enumerate(truth.frames)),
        pairs=pairs,
        frame_pairs=possible_matches(truth, sample.frame_pairs),
        rows=tuple(rows),
    )
    report = make_report(predictions, resamples)
    return report | {"seconds": round(time.perf_counter() - start, 3)}, predictions


def _other_kinds(sample: PairSample) -> list[PairSample]:
    """Pairs with the other kind of negatives, if there are any (a street of poles only has one kind)."""
    samples = []
    for kind in NEGATIVES:
        if kind != sample.negatives:
            try:
                samples.append(draw_pairs(sample.truth.datasets, kind, sample.seed, 0))
            except DataError:
                continue
    return samples


def _pair_truth(samples: Sequence[PairSample]) -> PairTruth:
    """The samples' pairs, one after the other; all samples speak of the same frames."""

    def boxes(sample: PairSample, side: str) -> Array:
        frames, landmarks = getattr(sample, f"frame_{side}"), getattr(sample, f"landmark_{side}")
        drawn = zip(frames.tolist(), landmarks.tolist(), strict=True)
        return np.array([sample.truth.frame(frame).landmarks[one].box for frame, one in drawn], np.float64)

    same = ["label", "frame_a", "frame_b", "landmark_a", "landmark_b"]
    same += ["identity_a", "identity_b", "category_a", "category_b"]
    kinds = [np.full(len(one_sample.label), NEGATIVES.index(one_sample.negatives), np.int64) for one_sample in samples]
    return PairTruth(
        negatives=np.concatenate(kinds),
        box_a=np.concatenate([boxes(one_sample, "a") for one_sample in samples]),
        box_b=np.concatenate([boxes(one_sample, "b") for one_sample in samples]),
        **{name: np.concatenate([getattr(one_sample, name) for one_sample in samples]) for name in same},
    )
