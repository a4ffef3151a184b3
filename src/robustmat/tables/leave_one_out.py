"""Leave one drive out: how far matches hold on a street that nothing was fitted on.

For every drive the weights of all evidence are fitted on the other drives, under all perturbations asked for and on
frame pairs that share nothing; then its own frame pairs are matched. `keypoints-in-boxes` stands beside it: whole-frame
keypoint matches voted into the boxes, which is what one would do without a landmark matcher. Test worlds, towns under
two looks, say, are matched by weights that are fitted on all drives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from robustmat.checkpoints.store import Checkpoint, save_checkpoint
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.fitting.evidence import KINDS, FramePairCase, by_world, collect_cases, fit_combinations
from robustmat.matching.combined import CombinedMatcher
from robustmat.progress import Progress, silent
from robustmat.tables.plan import refuse_learned
from robustmat.tables.returned import match_cases, measure_drive

KEYPOINTS = "keypoints-in-boxes"
UNRELATED = 60  # frame pairs of each world that share nothing, and half as many between worlds
CONDITIONS = ("clean", "paper:16", "paper:13")
SAME_DRIVE, ACROSS_DRIVES = "within one drive", "between two drives"


@dataclass(frozen=True)
class Experiment:
    """Frame pairs under all conditions: of the drives that are left out in turn, and of what helps to fit."""

    matcher: CombinedMatcher
    drives: Sequence[LandmarkDataset]
    also: Sequence[LandmarkDataset] = ()  # fitted on whichever drive is left out, and never reported
    tests: Sequence[LandmarkDataset] = ()  # reported, and never fitted on
    conditions: Sequence[str] = CONDITIONS
    frame_pairs: int = 200
    seed: int = 0
    cache: Path | None = None
    progress: Progress = silent

    def __post_init__(self) -> None:
        refuse_learned(self.tests, (*self.drives, *self.also))

    @property
    def worlds(self) -> list[str]:
        found = list(by_world(self.drives))
        if len(found) < 2:
            raise DataError(f"leaving one drive out needs drives of at least two worlds, found {', '.join(found)}")
        return found

    @cached_property
    def cases(self) -> list[FramePairCase]:
        """All that may be fitted on; the other data together has as many frame pairs, and counts as much, as a
        drive."""
        count = max(len(by_world(self.also)), 1)
        others = self.collect(self.also, max(1, self.frame_pairs // count), UNRELATED // count)
        return self.collect(self.drives, self.frame_pairs, UNRELATED) + [
            replace(case, share=1 / count) for case in others
        ]

    def test_cases(self) -> list[FramePairCase]:
        return self.collect(self.tests, self.frame_pairs, 0)

    def collect(self, datasets: Sequence[LandmarkDataset], frame_pairs: int, unrelated: int) -> list[FramePairCase]:
        if not datasets:
            return []
        drawn: dict[str, Any] = {"frame_pairs": frame_pairs, "unrelated": unrelated, "seed": self.seed}
        return [
            case
            for condition in self.conditions
            for case in collect_cases(
                self.matcher, datasets, condition, **drawn, cache=self.cache, progress=self.progress
            )
        ]


def leave_one_out(experiment: Experiment) -> dict[str, Any]:
    """condition -> row -> world -> numbers; rows are the kinds of evidence and the keypoints."""
    worlds, cases = experiment.worlds, experiment.cases
    report: dict[str, Any] = {}
    for world in experiment.progress(worlds, "leaving one drive out"):
        fitted = fit_combinations([case for case in cases if world not in case.worlds])
        for condition in experiment.conditions:
            mine = [case for case in cases if world in case.worlds and case.perturbation == condition]
            for row in (*KINDS, KEYPOINTS):
                numbers = measure_drive(match_cases(mine, fitted.get(row)), experiment.seed)
                report.setdefault(condition, {}).setdefault(row, {})[world] = numbers
    return report


def measure_tests(experiment: Experiment) -> dict[str, Any]:
    """condition -> row -> within one drive, between two -> numbers over all test worlds; fitted on all the rest."""
    if not experiment.tests:
        return {}
    fitted, cases = fit_combinations(experiment.cases), experiment.test_cases()
    report: dict[str, Any] = {}
    for condition in experiment.conditions:
        for row in (*KINDS, KEYPOINTS):
            for name, across in ((SAME_DRIVE, False), (ACROSS_DRIVES, True)):
                mine = [
                    case
                    for case in cases
                    if case.perturbation == condition and case.related and (len(set(case.drives)) > 1) == across
                ]
                if mine:
                    numbers = measure_drive(match_cases(mine, fitted.get(row)), experiment.seed)
                    report.setdefault(condition, {}).setdefault(row, {})[name] = numbers
    return report


def fit_checkpoint(checkpoint: Checkpoint, experiment: Experiment, folder: Path) -> Path:
    """The checkpoint with its evidence weighed by all the data, whose drives then count as seen."""
    seen = {dataset.name for dataset in (*experiment.drives, *experiment.also)}
    drives = tuple(sorted({*checkpoint.provenance.validation_drives, *seen}))
    provenance = checkpoint.provenance.model_copy(update={"validation_drives": drives})
    combinations = fit_combinations(experiment.cases)
    return save_checkpoint(folder, replace(checkpoint, combinations=combinations, provenance=provenance))
