"""Run matchers over drawn pairs: each frame is read, perturbed and embedded once, never once per pair."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import PairSample
from robustmat.dataset.truth import Indices, Truth, label_candidates
from robustmat.errors import ConfigError
from robustmat.evaluation.predictions import FrameTruths
from robustmat.matching.assign import mutual_best
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, same_category
from robustmat.perturb import CLEAN, Perturbation, perturb_image
from robustmat.progress import Progress, silent
from robustmat.types import MATCHED, Array, Frame, Image

PERTURBED_FRAMES = ("both", "second")  # of a pair

View = tuple[int, bool]  # a frame's index in the truth, and whether it is perturbed
Memory = dict[View, EmbeddedFrame]


def embed_frames(
    matchers: Sequence[Matcher],
    truth: Truth,
    views: Iterable[View],
    perturbation: Perturbation,
    seed: int,
    *,
    progress: Progress = silent,
) -> list[Memory]:
    """What each matcher remembers of each view."""
    memories: list[Memory] = [{} for _ in matchers]
    for view in progress(sorted(set(views)), "embedding frames"):
        pixels = _Pixels(truth, view, perturbation, seed)
        with pixels:
            frame = hide_truth(truth.frame(view[0]), pixels)
            for memory, matcher in zip(memories, matchers, strict=True):
                memory[view] = matcher.embed(frame)
    return memories


def embed_sample(
    matchers: Sequence[Matcher],
    sample: PairSample,
    perturbation: Perturbation = CLEAN,
    *,
    perturbed_frames: str = "both",
    progress: Progress = silent,
) -> list[Memory]:
    """All frames of the sample's landmark pairs and frame pairs."""
    views = [
        *landmark_pair_views(sample, perturbation, perturbed_frames),
        *views_of(sample.frame_pairs, perturbation, perturbed_frames),
    ]
    wanted = (view for both in views for view in both)
    return embed_frames(matchers, sample.truth, wanted, perturbation, sample.seed, progress=progress)


def landmark_pair_views(
    sample: PairSample, perturbation: Perturbation, perturbed_frames: str
) -> list[tuple[View, View]]:
    """The views of the two frames of each drawn landmark pair."""
    return views_of(np.stack([sample.frame_a, sample.frame_b], axis=1), perturbation, perturbed_frames)


def hide_truth(frame: Frame, load_image: Callable[[], Image]) -> Frame:
    """The frame as a user without LiDAR has it: pixels and boxes, no identities, places or poses."""
    return Frame(
        name=frame.name,
        load_image=load_image,
        landmarks=tuple(replace(mark, identity=None, position=None) for mark in frame.landmarks),
        camera=frame.camera,
    )


def views_of(pairs: Indices, perturbation: Perturbation, perturbed_frames: str) -> list[tuple[View, View]]:
    """Which view of either frame each pair [P, 2] is about."""
    if perturbed_frames not in PERTURBED_FRAMES:
        known = ", ".join(PERTURBED_FRAMES)
        raise ConfigError(f"unknown frames to perturb {perturbed_frames!r}: choose one of {known}")
    noisy = perturbation.level is not None
    return [((int(a), noisy and perturbed_frames == "both"), (int(b), noisy)) for a, b in pairs]


def score_pairs(
    matcher: Matcher,
    memory: Memory,
    views: Sequence[tuple[View, View]],
    landmark_a: Indices,
    landmark_b: Indices,
) -> Array:
    """The score of every drawn landmark pair [N]; each frame pair is scored once."""
    scores = np.zeros(len(views))
    rows_of: dict[tuple[View, View], list[int]] = {}
    for row, view in enumerate(views):
        rows_of.setdefault(view, []).append(row)
    for (a, b), rows in rows_of.items():
        scores[rows] = matcher.score_some(memory[a], memory[b], landmark_a[rows], landmark_b[rows])
    return scores


def match_frames(
    matcher: Matcher, memory: Memory, truth: Truth, views: Sequence[tuple[View, View]]
) -> dict[str, NDArray[Any]]:
    """The mutual best candidates of whole frame pairs, which of them were returned as matches, and what the ground
    truth says: columns of a MethodRow."""
    rows = []
    for number, (a, b) in enumerate(views):
        first, second = truth.frames[a[0]], truth.frames[b[0]]
        label = label_candidates(first, second)
        result = matcher.match(memory[a], memory[b])
        returned = {(match.a, match.b) for match in result.matches}
        allowed = same_category(result.landmarks_a, result.landmarks_b) if matcher.same_category else None
        for i, j in mutual_best(result.score, -np.inf, allowed):
            facts = (result.score[i, j], result.probability[i, j], (i, j) in returned, label[i, j])
            rows.append((number, i, j, *facts, first.identity[i], second.identity[j]))
    columns = np.array(rows, np.float64).reshape(-1, 9).T
    names = ("pair", "a", "b", "score", "probability", "returned", "label", "identity_a", "identity_b")
    kinds = {"score": np.float64, "probability": np.float64, "returned": np.bool_}
    return {
        f"match_{name}": column.astype(kinds.get(name, np.int64)) for name, column in zip(names, columns, strict=True)
    }


def possible_matches(truth: Truth, pairs: Indices) -> FrameTruths:
    """What a perfect matcher would find in the frame pairs; an object in two pieces counts once per piece."""
    numbers: list[int] = []
    identities: list[int] = []
    for number, (a, b) in enumerate(pairs):
        found = matchable_identities(label_candidates(truth.frames[a], truth.frames[b]), truth.frames[a].identity)
        numbers += [number] * len(found)
        identities += found
    apart = [np.linalg.norm(truth.frames[a].centre - truth.frames[b].centre) for a, b in pairs]
    return FrameTruths(pairs, np.array(numbers, np.int64), np.array(identities, np.int64), np.array(apart, np.float64))


def matchable_identities(label: NDArray[Any], identity_a: Indices) -> list[int]:
    """The objects that a perfect matcher would match in one frame pair, once for each piece that both frames show."""
    rows, columns = np.nonzero(label == MATCHED)
    seen = identity_a[rows]
    found: list[int] = []
    for identity in np.unique(seen):
        chosen = seen == identity
        found += [int(identity)] * min(len(np.unique(rows[chosen])), len(np.unique(columns[chosen])))
    return found


class _Pixels:
    """A frame's perturbed pixels, made once for all matchers and let go of afterwards.

    Embedded frames may keep the frame for drawing; it then makes its pixels anew.
    """

    def __init__(self, truth: Truth, view: View, perturbation: Perturbation, seed: int) -> None:
        dataset = truth.datasets[truth.frames[view[0]].dataset]
        self.frame = truth.frame(view[0])
        self.key = f"{dataset.name}/{self.frame.name}"  # drives number their frames alike
        self.perturbation, self.seed = perturbation if view[1] else CLEAN, seed
        self.held: Image | None = None

    def __call__(self) -> Image:
        if self.held is not None:
            return self.held
        return perturb_image(self.frame.load_image(), self.perturbation, self.seed, self.key)

    def __enter__(self) -> None:
        self.held = self()

    def __exit__(self, *_: object) -> None:
        self.held = None
