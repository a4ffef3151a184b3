"""Leave one drive out: how far matches hold on a street that nothing was fitted on.

For every drive the weights of all evidence are fitted on the other drives, under all perturbations asked for and on
frame pairs that share nothing; then its own frame pairs are matched. `keypoints-in-boxes` stands beside it: whole-frame
keypoint matches voted into the boxes, which is what one would do without a landmark matcher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.checkpoints.store import Checkpoint, save_checkpoint
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.evaluation.bootstrap import RESAMPLES, percentile_interval, resampled
from robustmat.evaluation.metrics import roc_auc
from robustmat.evaluation.report import CALIBRATION_BINS, DISTANCES, SURE
from robustmat.evaluation.scoring import matchable_identities
from robustmat.files import write_json, write_text
from robustmat.fitting.evidence import KINDS, FramePairCase, collect_cases, fit_combinations
from robustmat.matching.assign import mutual_best
from robustmat.matching.combine import Combination
from robustmat.matching.combined import LogitMatcher
from robustmat.progress import Progress, silent
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Array

Chosen = NDArray[np.bool_]

KEYPOINTS = "keypoints-in-boxes"
CONDITIONS = ("clean", "paper:16", "paper:13")
LEAST_PROBABILITY = 0.5


@dataclass(frozen=True)
class Returned:
    """All mutual best candidates of a drive's frame pairs, [M] each, and what could have been found."""

    probability: Array
    label: Array
    distance: Array
    identity_a: Array
    identity_b: Array
    possible_distance: Array  # [K], of every match that a perfect matcher would return
    possible_identity: Array
    auc: float  # of all candidates of one category
    unrelated_pairs: int
    unrelated_matches: int


def leave_one_out(
    inner: LogitMatcher,
    datasets: Sequence[LandmarkDataset],
    *,
    also: Sequence[LandmarkDataset] = (),
    conditions: Sequence[str] = CONDITIONS,
    frame_pairs: int = 200,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """condition -> row -> world -> numbers; rows are the kinds of evidence and the keypoints.

    Args:
        also: simulated towns, say, under several looks: fitted on whichever drive is left out, and never reported.
    """
    worlds = list(dict.fromkeys(dataset.world for dataset in datasets))
    if len(worlds) < 2:
        raise DataError(f"leaving one drive out needs drives of at least two worlds, found {', '.join(worlds)}")
    options = {"frame_pairs": frame_pairs, "seed": seed, "cache": cache, "progress": progress}
    cases = collect_all(inner, datasets, also, conditions, options)
    report: dict[str, Any] = {}
    for world in progress(worlds, "leaving one drive out"):
        fitted = fit_combinations([case for case in cases if world not in case.worlds])
        for condition in conditions:
            mine = [case for case in cases if world in case.worlds and case.perturbation == condition]
            for row in (*KINDS, KEYPOINTS):
                numbers = measure_drive(match_cases(mine, fitted.get(row)), seed)
                report.setdefault(condition, {}).setdefault(row, {})[world] = numbers
    return report


def collect_all(
    inner: LogitMatcher,
    datasets: Sequence[LandmarkDataset],
    also: Sequence[LandmarkDataset],
    conditions: Sequence[str],
    options: Mapping[str, Any],
) -> list[FramePairCase]:
    """Frame pairs of the drives under all conditions, and of what is fitted on besides."""
    groups = [group for group in (datasets, also) if group]
    return [
        case
        for condition in conditions
        for group in groups
        for case in collect_cases(inner, group, condition, **options)
    ]


def fit_checkpoint(
    checkpoint: Checkpoint,
    inner: LogitMatcher,
    datasets: Sequence[LandmarkDataset],
    folder: Path,
    *,
    also: Sequence[LandmarkDataset] = (),
    conditions: Sequence[str] = CONDITIONS,
    frame_pairs: int = 200,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """The checkpoint with its evidence weighed by all the data, whose drives then count as seen."""
    options = {"frame_pairs": frame_pairs, "seed": seed, "cache": cache, "progress": progress}
    cases = collect_all(inner, datasets, also, conditions, options)
    seen = {*checkpoint.provenance.validation_drives, *(dataset.name for dataset in (*datasets, *also))}
    provenance = checkpoint.provenance.model_copy(update={"validation_drives": tuple(sorted(seen))})
    return save_checkpoint(folder, replace(checkpoint, combinations=fit_combinations(cases), provenance=provenance))


def match_cases(cases: Sequence[FramePairCase], combination: Combination | None) -> Returned:
    """Match frame pairs by a combination of evidence, or by keypoint votes alone."""
    columns: list[tuple[float, float, float, float, float]] = []
    possible: list[tuple[float, float]] = []
    scores, right = [np.zeros(0)], [np.zeros(0, np.bool_)]
    pairs = matches = 0
    for one in cases:
        case = one.case
        if combination is None:
            probability = np.where(one.keypoint_votes > 0, 1 - 0.5 / (1 + one.keypoint_votes), 0.0)
        else:
            probability = combination.probability(dict(case.features), case.allowed)
        best = mutual_best(probability, -np.inf, case.allowed)
        if not one.related:
            pairs += 1
            matches += sum(probability[i, j] >= LEAST_PROBABILITY for i, j in best)
            continue
        for i, j in best:
            identities = float(one.identity_a[i]), float(one.identity_b[j])
            columns.append((float(probability[i, j]), float(case.label[i, j]), one.distance, *identities))
        possible += [(one.distance, float(identity)) for identity in matchable_identities(case.label, one.identity_a)]
        told = case.allowed & (case.label != AMBIGUOUS)
        scores.append(probability[told])
        right.append(case.label[told] == MATCHED)
    found = np.array(columns, np.float64).reshape(-1, 5).T
    apart, identity = np.array(possible, np.float64).reshape(-1, 2).T
    area = roc_auc(np.concatenate(scores), np.concatenate(right))
    probability, label, distance, identity_a, identity_b = found
    facts = (apart, identity, area, pairs, int(matches))
    return Returned(probability, label, distance, identity_a, identity_b, *facts)


def measure_drive(found: Returned, seed: int = 0) -> dict[str, Any]:
    """Precision, recall and F1 in all and by distance, calibration, and matches where nothing is shared."""
    told = np.isin(found.label, (MATCHED, UNMATCHED))
    said = told & (found.probability >= LEAST_PROBABILITY)
    right = found.label == MATCHED
    numbers: dict[str, Any] = {"all": _shares(said, right, len(found.possible_distance))}
    for low, high in pairwise(DISTANCES):
        near, possible = (
            (distance >= low) & ((distance < high) | (high == DISTANCES[-1]))
            for distance in (found.distance, found.possible_distance)
        )
        numbers[f"{low:g}-{high:g}"] = _shares(said & near, right, int(possible.sum()))
    sure = told & (found.probability >= SURE)
    numbers["f1_interval"] = list(f1_interval(found, said, seed))
    numbers["roc_auc"] = found.auc
    numbers["ece"] = _calibration_error(found.probability[told], right[told])
    numbers["right_above_0.9"] = float(right[sure].mean()) if sure.any() else None
    numbers["n_above_0.9"] = int(sure.sum())
    numbers["unrelated_pairs"], numbers["unrelated_matches"] = found.unrelated_pairs, found.unrelated_matches
    return numbers


def f1_interval(found: Returned, said: Chosen, seed: int) -> tuple[float, float]:
    """95 % over objects."""
    chosen = said
    right = found.label[chosen] == MATCHED
    first = np.concatenate([found.identity_a[chosen], found.possible_identity]).astype(np.int64)
    second = np.concatenate([found.identity_b[chosen], found.possible_identity]).astype(np.int64)
    if not len(first):
        return float("nan"), float("nan")
    count = len(right)

    def metrics(weights: Array) -> dict[str, Array]:
        returned, possible = weights[:, :count], weights[:, count:]
        whole = returned.sum(axis=1) + possible.sum(axis=1)
        return {"f1": 2 * (returned @ right) / np.maximum(whole, 1e-12)}

    return percentile_interval(resampled(first, second, metrics, RESAMPLES, seed)["f1"])


def _shares(said: Chosen, right: Chosen, possible: int) -> dict[str, float]:
    good, returned = int(np.sum(said & right)), int(np.sum(said))
    return {
        "precision": good / max(returned, 1),
        "recall": good / max(possible, 1),
        "f1": 2 * good / max(returned + possible, 1),
        "right": good,
        "wrong": returned - good,
        "possible": possible,
    }


def _calibration_error(probability: Array, right: Chosen) -> float | None:
    if not len(probability):
        return None
    bins = np.clip((probability * CALIBRATION_BINS).astype(np.int64), 0, CALIBRATION_BINS - 1)
    gaps = [
        (bins == number).mean() * abs(probability[bins == number].mean() - right[bins == number].mean())
        for number in np.unique(bins)
    ]
    return float(sum(gaps))


def write_report(folder: Path, report: Mapping[str, Any], command: str) -> Path:
    """One page to read, and all numbers as JSON."""
    write_json(folder / "leave-one-out.json", {"command": command, "report": report})
    write_text(folder / "leave-one-out.csv", _csv(report))
    path = folder / "leave-one-out.md"
    write_text(path, page(report, command))
    return path


def page(report: Mapping[str, Any], command: str) -> str:
    parts = [
        "# leave-one-out: matches on a drive that nothing was fitted on",
        "Weights of all evidence are fitted without the drive that is reported: on the other drives, under all "
        "conditions and on frame pairs that share nothing. Matches of whole frames with a probability of at least "
        "0.5. F1 is the mean over the drives, then by drive with its 95 % interval over objects.",
        _headline(report),
        "## By distance between the cameras",
        "Precision / recall / F1 of `scene`.",
        _by_distance(report),
        f"Command: `{command}`. It also writes all numbers as `leave-one-out.json`.",
    ]
    return "\n\n".join(parts) + "\n"


def _csv(report: Mapping[str, Any]) -> str:
    """One line for each condition, evidence, drive and distance."""
    lines = ["condition,evidence,drive,metres,precision,recall,f1,right,wrong,possible"]
    for condition, rows in report.items():
        for row, drives in rows.items():
            for world, numbers in drives.items():
                for band, values in numbers.items():
                    if isinstance(values, dict):
                        shares = [f"{values[key]:.4f}" for key in ("precision", "recall", "f1")]
                        counts = [str(values[key]) for key in ("right", "wrong", "possible")]
                        lines.append(",".join([condition, row, world, band, *shares, *counts]))
    return "\n".join(lines) + "\n"


def _headline(report: Mapping[str, Any]) -> str:
    head = ("condition", "evidence", "F1", "by drive", "precision", "ROC AUC", "right of p > 0.9", "ECE", "unrelated")
    lines = [_row(head), _row(["---"] * len(head))]
    for condition, rows in report.items():
        for row, drives in rows.items():
            every = list(drives.values())
            f1 = [one["all"]["f1"] for one in every]
            spans = ", ".join(
                f"{one['all']['f1']:.2f} ({one['f1_interval'][0]:.2f} to {one['f1_interval'][1]:.2f})" for one in every
            )
            sure = [one["right_above_0.9"] for one in every]
            errors = [one["ece"] for one in every]
            matches, pairs = (sum(one[key] for one in every) for key in ("unrelated_matches", "unrelated_pairs"))
            lines.append(
                _row(
                    [
                        condition,
                        row,
                        f"**{np.mean(f1):.3f}**" if row == "scene" else f"{np.mean(f1):.3f}",
                        spans,
                        f"{np.mean([one['all']['precision'] for one in every]):.3f}",
                        f"{np.mean([one['roc_auc'] for one in every]):.3f}",
                        " ".join("-" if value is None else f"{value:.2f}" for value in sure),
                        " ".join("-" if value is None else f"{value:.2f}" for value in errors),
                        f"{matches} in {pairs} pairs",
                    ]
                )
            )
    return "\n".join(lines)


def _by_distance(report: Mapping[str, Any]) -> str:
    bands = [f"{low:g}-{high:g}" for low, high in pairwise(DISTANCES)]
    lines = [_row(["condition", "drive", *(f"{band} m" for band in bands)]), _row(["---"] * (2 + len(bands)))]
    for condition, rows in report.items():
        for world, numbers in rows["scene"].items():
            cells = [" / ".join(f"{numbers[band][key]:.2f}" for key in ("precision", "recall", "f1")) for band in bands]
            lines.append(_row([condition, world, *cells]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
