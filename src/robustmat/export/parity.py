"""Do two matchers decide alike? The check that an export has to pass, and the measure of what int8 changes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robustmat.errors import InputError
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Frame, MatchResult

TOLERANCE = 1e-4  # of scores


@dataclass(frozen=True)
class EvidenceParity:
    """Two matchers that score by the same evidence, over all candidates of all frame pairs."""

    candidates: int
    largest_difference: float  # of a score
    decisions_changed: int  # candidates on the other side of the pair threshold
    matches_changed: int  # of whole frames, returned by one of the two alone
    matches: int  # that the reference returned
    f1_reference: float | None  # of the matches against known identities, where there are any
    f1_candidate: float | None

    @property
    def f1_drop(self) -> float | None:
        if self.f1_reference is None or self.f1_candidate is None:
            return None
        return self.f1_reference - self.f1_candidate

    @property
    def f1_change(self) -> str:
        """The F1 of both and what is lost or won, for tables; nothing where no identity is known."""
        if self.f1_drop is None:
            return ""
        return f"{self.f1_reference:.3f} -> {self.f1_candidate:.3f} ({0 - self.f1_drop:+.3f})"


@dataclass(frozen=True)
class ParityReport:
    """What a candidate does differently from its reference."""

    reference: str
    candidate: str
    frame_pairs: int
    fewest_landmarks: int
    most_landmarks: int
    vertex_difference: float  # the largest of any number of an embedding
    graph_difference: float
    evidence: dict[str, EvidenceParity]
    tolerance: float = TOLERANCE

    def problems(self) -> list[str]:
        """What differs more than it may, one line each; none is parity."""
        found = []
        for name, one in self.evidence.items():
            if not one.largest_difference <= self.tolerance:  # not a number is no parity either
                found.append(
                    f"evidence {name}: a score differs by {one.largest_difference:.2e}, allowed are {self.tolerance:g}"
                )
            if one.decisions_changed:
                found.append(f"evidence {name}: {one.decisions_changed} of {one.candidates} decisions differ")
            if one.matches_changed:
                found.append(f"evidence {name}: {one.matches_changed} matches differ from the {one.matches} of torch")
        return found

    def to_json(self) -> dict[str, Any]:
        rows = {name: {**asdict(one), "f1_drop": one.f1_drop} for name, one in self.evidence.items()}
        problems = self.problems()
        return {**asdict(self), "evidence": rows, "parity": not problems, "problems": problems}


def compare_matchers(
    references: Mapping[str, Matcher],
    candidates: Mapping[str, Matcher],
    pairs: Sequence[tuple[Frame, Frame]],
    tolerance: float = TOLERANCE,
) -> ParityReport:
    """Run both over the frame pairs, for each kind of evidence; a frame is embedded once by either.

    Args:
        references, candidates: by evidence; embeddings do not depend on it.
    """
    if not pairs:
        raise InputError("a parity check needs at least one frame pair")
    frames = {frame.name: frame for pair in pairs for frame in pair}
    first, second = next(iter(references.values())), next(iter(candidates.values()))
    ours: dict[str, EmbeddedFrame] = {name: first.embed(frame) for name, frame in frames.items()}
    theirs: dict[str, EmbeddedFrame] = {name: second.embed(frame) for name, frame in frames.items()}
    counts = [len(frame.landmarks) for frame in frames.values()]
    return ParityReport(
        reference=first.name,
        candidate=second.name,
        frame_pairs=len(pairs),
        fewest_landmarks=min(counts),
        most_landmarks=max(counts),
        vertex_difference=_largest_in("vertex", ours, theirs),
        graph_difference=_largest_in("graph", ours, theirs),
        evidence={
            name: _compare(references[name], candidates[name], ours, theirs, [(a.name, b.name) for a, b in pairs])
            for name in references
        },
        tolerance=tolerance,
    )


def _compare(
    reference: Matcher,
    candidate: Matcher,
    ours: Mapping[str, EmbeddedFrame],
    theirs: Mapping[str, EmbeddedFrame],
    pairs: Sequence[tuple[str, str]],
) -> EvidenceParity:
    difference, size, decisions, matches, changed = 0.0, 0, 0, 0, 0
    results: tuple[list[MatchResult], list[MatchResult]] = ([], [])
    for a, b in pairs:
        first, second = reference.match(ours[a], ours[b]), candidate.match(theirs[a], theirs[b])
        difference = max(difference, _largest(first.score, second.score))
        decisions += int(
            ((first.score >= reference.decision.threshold) != (second.score >= candidate.decision.threshold)).sum()
        )
        chosen = [{(match.a, match.b) for match in result.matches} for result in (first, second)]
        changed += len(chosen[0] ^ chosen[1])
        matches += len(chosen[0])
        size += first.score.size
        results[0].append(first)
        results[1].append(second)
    f1s = [match_f1(one_result) for one_result in results]
    return EvidenceParity(size, difference, decisions, changed, matches, f1s[0], f1s[1])


def match_f1(results: Sequence[MatchResult]) -> float | None:
    """F1 of the matches of several frame pairs by their landmarks' identities; a match of a landmark without
    identity counts for nothing."""
    right = returned = possible = 0
    for result in results:
        a, b = ([one.identity for one in side] for side in (result.landmarks_a, result.landmarks_b))
        judged = [
            (a[match.a], b[match.b]) for match in result.matches if a[match.a] is not None and b[match.b] is not None
        ]
        right += sum(x == y for x, y in judged)
        returned += len(judged)
        possible += sum(min(a.count(one), b.count(one)) for one in set(a) & set(b) - {None})
    return 2 * right / (returned + possible) if possible else None


def _largest_in(array: str, ours: Mapping[str, EmbeddedFrame], theirs: Mapping[str, EmbeddedFrame]) -> float:
    return max(_largest(ours[name].arrays[array], theirs[name].arrays[array]) for name in ours)


def _largest(a: Array | Any, b: Array | Any) -> float:
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(np.asarray(a, np.float64) - b).max(initial=0.0))
