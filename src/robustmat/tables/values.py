"""The numbers of a table, from predictions alone: mean and spread over seeds, and who is clearly ahead of whom."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import NEGATIVES
from robustmat.errors import DataError
from robustmat.evaluation.bootstrap import Difference, Draws, draw_objects, interval_for_all, over_draws
from robustmat.evaluation.metrics import curve, measure, roc_auc_of
from robustmat.evaluation.report import match_shares
from robustmat.tables.packed import THRESHOLD, Entry
from robustmat.types import Array

HEADLINE = "roc_auc"  # the metric that methods are ranked and compared by
COLUMNS = ("precision", "recall", "f1", "auc_paper", "roc_auc", "fpr95", "match_f1")
LOWER_IS_BETTER = ("fpr95",)
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Line:
    """A row of a table: for each metric the values of all seeds."""

    label: str
    values: dict[str, tuple[float, ...]]
    is_reference: bool = False

    def mean(self, metric: str) -> float:
        return float(np.mean(self.values[metric]))

    def deviation(self, metric: str) -> float:
        """Over seeds; 0 where there is one."""
        return float(np.std(self.values[metric], ddof=1)) if len(self.values[metric]) > 1 else 0.0


@dataclass(frozen=True)
class Section:
    """What a table says about one test, condition and kind of negatives."""

    test: str
    condition: str
    negatives: str
    lines: tuple[Line, ...]
    differences: Mapping[str, tuple[str, Difference]]  # row -> its best rival, and how far it is above it
    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)  # what the lines were computed from
    mean_of: tuple[str, ...] = ()  # the tests, where this is their mean
    against: str | None = None  # the row that leads are over, where it is not each row's best rival


def make_section(
    test: str, condition: str, negatives: str, entries: Sequence[Entry], references: Collection[str]
) -> Section:
    """Entries of all rows and seeds, of the same test and condition."""
    labels = list(dict.fromkeys(entry.label for entry in entries))
    groups = {label: [entry for entry in entries if entry.label == label] for label in labels}
    lines = tuple(_line(label, group, negatives, label in references) for label, group in groups.items())
    return Section(test, condition, negatives, lines, Leads(lines, [groups], negatives), groups)


def mean_section(sections: Sequence[Section]) -> Section:
    """The mean over tests of one condition and kind of negatives, seed by seed; objects are drawn in each test."""
    first = sections[0]
    lines = []
    for number, line in enumerate(first.lines):
        same = [section.lines[number] for section in sections]
        values = {
            metric: tuple(np.mean([one.values[metric] for one in same], axis=0).tolist()) for metric in line.values
        }
        lines.append(Line(line.label, values, line.is_reference))
    tests = tuple(section.test for section in sections)
    groups = [section.entries for section in sections if section.entries]
    leads = Leads(lines, groups, first.negatives) if groups else {}
    return Section("mean", first.condition, first.negatives, tuple(lines), leads, mean_of=tests)


class Leads(Mapping[str, tuple[str, Difference]]):
    """Every row against its best rival, over the tests whose entries `groups` are.

    The best of many rivals is best by chance, too: its interval is one that holds for all of them at once (Bonferroni).
    Each is computed when it is asked for: a page shows few of them, and each is a bootstrap.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        groups: Sequence[Mapping[str, Sequence[Entry]]],
        negatives: str,
        against: str | None = None,
    ) -> None:
        one = [line for line in lines if line.label == against]
        rivals = {line.label: one if against else _rivals(line, lines) for line in lines}
        self.rivals = {label: known for label, known in rivals.items() if known and label != against}
        self.groups, self.negatives = groups, negatives
        self.known: dict[str, Difference] = {}

    def __getitem__(self, label: str) -> tuple[str, Difference]:
        rivals = self.rivals[label]
        best = max(rivals, key=lambda line: line.mean(HEADLINE)).label
        if label not in self.known:
            pairs = [(entries[label], entries[best]) for entries in self.groups]
            self.known[label] = compare_entries(pairs, self.negatives, len(rivals))
        return best, self.known[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rivals)

    def __len__(self) -> int:
        return len(self.rivals)


def over_row(section: Section, against: str) -> Section:
    """The section with leads over one row instead of each row's best rival."""
    leads = section.differences
    if not isinstance(leads, Leads) or against not in {line.label for line in section.lines}:
        known = ", ".join(line.label for line in section.lines)
        raise DataError(f"no row '{against}' to compare with: the table has {known}")
    over = Leads(section.lines, leads.groups, leads.negatives, against)
    return replace(section, differences=over, against=against)


def compare_entries(
    tests: Sequence[tuple[Sequence[Entry], Sequence[Entry]]], negatives: str, rivals: int = 1
) -> Difference:
    """How far the first is above the second by ROC AUC: a paired bootstrap over objects, mean of seeds and tests.

    All seeds and both methods of a test share the drawn objects; tests are different streets and are drawn apart. Where
    the second was chosen among `rivals`, the interval is wide enough for every one of them.
    """
    found, drawn = [], []
    for number, (ours, theirs) in enumerate(tests):
        by_seed = {entry.seed: entry for entry in theirs}
        both = [(entry, by_seed[entry.seed]) for entry in ours if entry.seed in by_seed]
        if not both:
            return Difference(float("nan"), float("nan"), float("nan"))
        draws = draw_objects(_objects([entry for entry, _ in both], negatives), BOOTSTRAPS, seed=number)
        found.append(np.mean([_area(a, negatives, None) - _area(b, negatives, None) for a, b in both]))
        drawn.append(np.mean([_resampled_difference(a, b, negatives, draws) for a, b in both], axis=0))
    mean = np.mean(drawn, axis=0)  # [resamples]
    known = mean[np.isfinite(mean)]  # a resample may hold no unmatched pair
    ahead = float(np.mean(known > 0)) if len(known) else float("nan")
    return Difference(float(np.mean(found)), *interval_for_all(known, rivals), ahead)


def _resampled_difference(ours: Entry, theirs: Entry, negatives: str, draws: Draws) -> Array:
    """[resamples]"""

    def difference(weights: Array) -> dict[str, Array]:
        return {HEADLINE: _area(ours, negatives, weights) - _area(theirs, negatives, weights)}

    identity_a, identity_b = _objects([ours], negatives)
    return over_draws(draws, identity_a, identity_b, difference)[HEADLINE]


def _objects(entries: Sequence[Entry], negatives: str) -> list[NDArray[np.int64]]:
    """The objects of both sides of the drawn pairs, entry by entry."""
    columns = []
    for entry in entries:
        chosen = _chosen(entry, negatives)
        columns += [entry.judged.identity_a[chosen], entry.judged.identity_b[chosen]]
    return columns


def _area(entry: Entry, negatives: str, weights: Array | None) -> Array:
    chosen = _chosen(entry, negatives)
    return roc_auc_of(curve(entry.score[chosen], entry.judged.label[chosen], weights))


def _line(label: str, group: Sequence[Entry], negatives: str, is_reference: bool) -> Line:
    values: dict[str, list[float]] = {metric: [] for metric in COLUMNS}
    for entry in group:
        chosen = _chosen(entry, negatives)
        found = measure(entry.score[chosen], entry.judged.label[chosen], THRESHOLD)
        counts = (np.array([one]) for one in (entry.right, entry.wrong, entry.judged.possible))
        found |= {metric: float(value[0]) for metric, value in match_shares(*counts).items()}
        for metric in COLUMNS:
            values[metric].append(found[metric])
    return Line(label, {metric: tuple(known) for metric, known in values.items()}, is_reference)


def _chosen(entry: Entry, negatives: str) -> NDArray[np.int64]:
    """The drawn pairs with that kind of negatives."""
    return np.flatnonzero(entry.judged.negatives == NEGATIVES.index(negatives)).astype(np.int64)


def _rivals(line: Line, lines: Sequence[Line]) -> list[Line]:
    """The rows of other methods whose scores know as much: single pairs, all landmarks, or boxes as well."""
    name, knows = _method_and_knowledge(line.label)
    others = []
    for other in lines:
        other_name, other_knows = _method_and_knowledge(other.label)
        if other_name != name and other_knows == knows and np.isfinite(other.mean(HEADLINE)):
            others.append(other)
    return others


def _method_and_knowledge(label: str) -> tuple[str, str]:
    """RobustMat's `frames` is what `competition` is to the others, and neighbours are part of its single pairs."""
    name, *steps = label.split("+")
    same = {"frames": "competition", "neighbors": ""}
    return name, "+".join(filter(None, (same.get(step, step) for step in steps)))
