"""Whole-frame matches under every named corruption at every severity, counted by category; resumable.

A report is a folder: `cells/` holds the counts of one condition and method a file, so that an interrupted command goes
on where it was and a method that is added later costs only itself.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import draw_frame_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import Indices, Truth, read_truth
from robustmat.errors import ConfigError, DataError
from robustmat.evaluation.predictions import FrameTruths
from robustmat.evaluation.scoring import embed_frames, match_frames, possible_matches, views_of
from robustmat.files import read_json, write_json
from robustmat.matching.matcher import Matcher
from robustmat.perturb import CLEAN, PERTURBATIONS, Perturbation
from robustmat.perturb.gallery import levels
from robustmat.progress import Progress, silent
from robustmat.types import CATEGORIES, MATCHED, UNMATCHED

ALL = "all"  # beside the categories
SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Count:
    """Returned matches that are right and wrong, and those that a perfect matcher would find."""

    right: int = 0
    wrong: int = 0
    possible: int = 0

    @property
    def f1(self) -> float:
        """0 where nothing right was returned; not a number where nothing can be found."""
        if not self.possible:
            return float("nan")
        return 2 * self.right / (self.right + self.wrong + self.possible)


Counts = dict[str, Count]  # by category, and ALL


@dataclass(frozen=True)
class Condition:
    """A corruption at a severity from 1 to 5; severity 0 of `clean` is none at all."""

    corruption: str
    severity: int

    @property
    def perturbation(self) -> Perturbation:
        """`awgn` and `paper` are set by their PSNR: 22, 19, 16, 13 and 10 dB stand for severities 1 to 5."""
        if self.corruption == CLEAN.name:
            return CLEAN
        return Perturbation(self.corruption, levels(self.corruption)[self.severity - 1])


def conditions(corruptions: Sequence[str] | None = None, severities: Sequence[int] = SEVERITIES) -> list[Condition]:
    """Clean first, then every corruption at every severity."""
    names = list(corruptions or PERTURBATIONS)
    unknown = [name for name in names if name not in PERTURBATIONS]
    if unknown:
        raise ConfigError(f"unknown corruption '{unknown[0]}': choose from {', '.join(PERTURBATIONS)}")
    if not set(severities) <= set(SEVERITIES) or not severities:
        raise ConfigError(f"severities are 1 to 5, found {', '.join(map(str, severities))}")
    return [Condition(CLEAN.name, 0), *(Condition(name, severity) for name in names for severity in severities)]


def measure_corruptions(
    matchers: Mapping[str, Matcher],
    datasets: Sequence[LandmarkDataset],
    wanted: Sequence[Condition],
    folder: Path | str,
    *,
    frame_pairs: int = 60,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, dict[Condition, Counts]]:
    """Counts of every matcher under every condition, on the same frame pairs and the same noise.

    Both frames of a pair are corrupted, each in its own way. `folder` keeps what was counted before.
    """
    folder, truth = Path(folder), read_truth(datasets)
    pairs = draw_frame_pairs(truth, frame_pairs, seed)
    if not len(pairs):
        names = ", ".join(dataset.name for dataset in datasets)
        raise DataError(f"no two frames of {names} are 2 to 25 m apart with known landmarks in both: nothing to count")
    found: dict[str, dict[Condition, Counts]] = {name: {} for name in matchers}
    truths, drawn = possible_matches(truth, pairs), _drawn(truth, pairs, seed)
    for condition in progress(wanted, "corrupting and matching"):
        paths = {name: _cell(folder, name, matcher, condition, drawn) for name, matcher in matchers.items()}
        missing = [name for name in matchers if not paths[name].is_file()]
        if missing:
            views = views_of(pairs, condition.perturbation, "both")
            chosen = [matchers[name] for name in missing]
            seen = (view for both in views for view in both)
            memories = embed_frames(chosen, truth, seen, condition.perturbation, seed)
            for name, matcher, memory in zip(missing, chosen, memories, strict=True):
                counts = count_by_category(truth, truths, match_frames(matcher, memory, truth, views))
                write_json(paths[name], {key: asdict(count) for key, count in counts.items()})
        for name, path in paths.items():
            kept = read_json(path, "counts of a corruption report")
            found[name][condition] = {key: Count(**count) for key, count in kept.items()}
    return found


def count_by_category(truth: Truth, possible: FrameTruths, columns: Mapping[str, NDArray[Any]]) -> Counts:
    """Right, wrong and possible matches of frame pairs; a match belongs to the category of its first landmark."""
    returned, label = columns["match_returned"], columns["match_label"]
    pairs = possible.pairs
    category = np.array(
        [
            truth.frames[pairs[pair, 0]].category[a]
            for pair, a in zip(columns["match_pair"], columns["match_a"], strict=True)
        ],
        np.int64,
    )
    known = {
        int(identity): int(kind)
        for frame in truth.frames
        for identity, kind in zip(frame.identity, frame.category, strict=True)
    }
    findable = np.array([known[int(identity)] for identity in possible.partner_identity], np.int64)
    right, wrong = (returned & (label == judged) for judged in (MATCHED, UNMATCHED))
    counts = {ALL: Count(int(right.sum()), int(wrong.sum()), len(findable))}
    for number, name in enumerate(CATEGORIES):
        mine = category == number
        counts[name] = Count(int((right & mine).sum()), int((wrong & mine).sum()), int((findable == number).sum()))
    return counts


def _cell(folder: Path, name: str, matcher: Matcher, condition: Condition, drawn: str) -> Path:
    """The file of one method's counts under one condition; its digest holds everything that decides them."""
    decision = [matcher.decision.model_dump(mode="json"), matcher.min_probability, matcher.evidence]
    facts = json.dumps([matcher.fingerprint, decision, str(condition.perturbation), drawn], sort_keys=True)
    mark = hashlib.sha256(facts.encode()).hexdigest()[:12]
    plain = "".join(letter if letter.isalnum() or letter in "-+_." else "_" for letter in Path(name).name)
    return folder / "cells" / f"{condition.corruption}-{condition.severity}--{plain}--{mark}.json"


def _drawn(truth: Truth, pairs: Indices, seed: int) -> str:
    """Names the frame pairs, their landmarks and the noise."""
    names = [
        f"{truth.datasets[frame.dataset].name}/{truth.frame(number).name}/{len(frame.identity)}"
        for number, frame in enumerate(truth.frames)
    ]
    boxes = [list(mark.box) for number in np.unique(pairs).tolist() for mark in truth.frame(number).landmarks]
    facts = json.dumps([names, boxes, pairs.tolist(), seed])
    return hashlib.sha256(facts.encode()).hexdigest()
