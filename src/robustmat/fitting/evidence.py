"""Frame pairs with their answers, and the weights of all evidence that fit them best.

Every frame is embedded once per perturbation and every frame pair compared once; what was found is kept on disk, so
that fitting again, or leaving another drive out, takes seconds.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.pairs import draw_frame_pairs, draw_unrelated_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import UNKNOWN, FrameTruth, Indices, Truth, label_candidates, read_truth
from robustmat.evaluation.scoring import Memory, embed_frames, views_of
from robustmat.files import replacing
from robustmat.fitting.combination import Case, fit_combination
from robustmat.matching.combine import BESIDE_SCENE, EVIDENCE_FEATURES, CategoryPair, Combination, pairs_of
from robustmat.matching.combined import CombinedMatcher, LogitMatcher
from robustmat.matching.keypoints_in_boxes import keypoint_votes
from robustmat.perturb import Perturbation, parse
from robustmat.progress import Progress, silent
from robustmat.types import MATCHED, UNMATCHED, Array

KINDS = tuple(EVIDENCE_FEATURES)
UNRELATED_SHARE = 0.25  # what frame pairs that share nothing weigh beside the others
# What may only speak for a match, and what only against: three drives are too few to learn that from.
FOR = ("pair", "frames", "placement", "diffusion", "scene_guided_share")
AGAINST = ("scene_column", "scene_edges", "scene_width", "scene_misfit", "scene_parted")
# Real drives do not label windows, so towns alone tell how to weigh them. Rows of equal windows agree on many motions.
LEFT_OUT: dict[str, tuple[str, ...]] = {"window": ("diffusion", BESIDE_SCENE["diffusion"])}
OWN_WEIGHTS = tuple(LEFT_OUT)
FEWEST_OWN = 300  # matched candidates
SIGNS = dict.fromkeys(FOR, 1) | dict.fromkeys(AGAINST, -1)
BLANK = Combination(weights={name: 0.0 for names in EVIDENCE_FEATURES.values() for name in names}, intercept=0.0)


@dataclass(frozen=True)
class FramePairCase:
    """One frame pair under one perturbation, with everything that is known of it."""

    worlds: tuple[str, str]
    perturbation: str
    distance: float  # metres between the cameras; inf where the frames share nothing
    case: Case
    identity_a: Indices  # [A]
    identity_b: Indices  # [B]
    keypoint_votes: Array  # [A, B], of the reference row keypoints-in-boxes
    category: CategoryPair  # [A], [B]
    drives: tuple[str, str]  # names of the data sets
    share: float = 1.0  # how much its world counts beside the others

    @property
    def related(self) -> bool:
        return bool(np.isfinite(self.distance))


def evidence_matcher(inner: LogitMatcher) -> CombinedMatcher:
    """A matcher that knows every feature and weighs none."""
    return CombinedMatcher(inner, {"scene": BLANK}, "scene")


def by_world(datasets: Sequence[LandmarkDataset]) -> dict[str, list[LandmarkDataset]]:
    """The data sets of each world, in their order."""
    groups: dict[str, list[LandmarkDataset]] = {}
    for dataset in datasets:
        groups.setdefault(dataset.world, []).append(dataset)
    return groups


def collect_cases(
    matcher: CombinedMatcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: str,
    *,
    frame_pairs: int = 200,
    unrelated: int = 60,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress = silent,
) -> list[FramePairCase]:
    """The frame pairs of each world, as the frame protocol draws them, and pairs of any of them that share nothing.

    Args:
        matcher: whose features are collected; see `evidence_matcher`.

    Data sets of one world are judged together, so that drives of several days give pairs across days.
    """
    groups = list(by_world(datasets).values())
    cases: list[FramePairCase] = []
    jobs = [(group, frame_pairs, True) for group in groups]
    jobs += [(group, unrelated, False) for group in groups]
    if len(groups) > 1:
        jobs.append((list(datasets), unrelated * len(groups) // 2, False))
    for group, count, related in jobs:
        cases += _kept(matcher, group, parse(perturbation), count, related, seed, cache, progress)
    return cases


def fit_combinations(
    cases: Sequence[FramePairCase], features: Mapping[str, Sequence[str]] = EVIDENCE_FEATURES
) -> dict[str, Combination]:
    """The weights for each kind of evidence; every world and perturbation counts alike.

    Categories of OWN_WEIGHTS get weights of their own, where the data shows enough of them.
    """
    weighted = weigh(cases)
    own = {
        category: [_only(case, pairs_of(category, one.category)) for case, one in zip(weighted, cases, strict=True)]
        for category in OWN_WEIGHTS
    }
    own = {category: kept for category, kept in own.items() if _matched(kept) >= FEWEST_OWN}
    shared = [
        _only(case, ~np.any([pairs_of(category, one.category) for category in OWN_WEIGHTS], axis=0))
        for case, one in zip(weighted, cases, strict=True)
    ]
    fitted = {}
    for kind, names in features.items():
        special = {
            category: fit_combination(kept, [name for name in names if name not in LEFT_OUT[category]], signs=SIGNS)
            for category, kept in own.items()
        }
        fitted[kind] = fit_combination(shared, names, signs=SIGNS).model_copy(update={"categories": special})
    return fitted


def _only(case: Case, chosen: NDArray[np.bool_]) -> Case:
    """The case as if nothing but the chosen candidates [A, B] were there."""
    allowed = case.allowed & chosen
    # A landmark all of whose candidates are of another kind has no part in it; one without any candidate says nothing.
    known_a, known_b = case.known_a & allowed.any(axis=1), case.known_b & allowed.any(axis=0)
    return replace(case, allowed=allowed, known_a=known_a, known_b=known_b)


def _matched(cases: Sequence[Case]) -> int:
    return sum(int(np.sum(case.allowed & (case.label == MATCHED))) for case in cases)


def weigh(cases: Sequence[FramePairCase]) -> list[Case]:
    """The cases, weighted so that every pair of worlds and every perturbation counts alike, up to their shares."""
    keys = [(case.worlds, case.perturbation, case.related) for case in cases]
    counts = Counter(keys)
    shares = [
        case.share * (1.0 if case.related else UNRELATED_SHARE) / counts[key]
        for case, key in zip(cases, keys, strict=True)
    ]
    total = len(cases) / sum(shares)
    return [replace(one.case, weight=total * share) for one, share in zip(cases, shares, strict=True)]


def write_cases(path: Path, cases: Sequence[FramePairCase]) -> None:
    """One .npz file of plain arrays, a few for each frame pair."""
    arrays: dict[str, NDArray[Any]] = {"count": np.array(len(cases))}
    for number, one in enumerate(cases):
        arrays[f"{number}/facts"] = np.array([*one.worlds, *one.drives, one.perturbation])
        arrays[f"{number}/distance"] = np.array(one.distance)
        arrays[f"{number}/votes"] = one.keypoint_votes.astype(np.float32)
        arrays |= {f"{number}/{name}": getattr(one, name) for name in ("identity_a", "identity_b")}
        arrays |= {f"{number}/category_{side}": of_it for side, of_it in zip("ab", one.category, strict=True)}
        arrays |= {f"{number}/{name}": getattr(one.case, name) for name in ("label", "allowed", "known_a", "known_b")}
        arrays |= {f"{number}/feature/{name}": array.astype(np.float32) for name, array in one.case.features.items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_cases(path: Path) -> list[FramePairCase]:
    """What `write_cases` wrote; nothing in the file is executed."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    names = [name.removeprefix("0/feature/") for name in arrays if name.startswith("0/feature/")]
    cases = []
    for number in range(int(arrays["count"])):
        first, second, drive_a, drive_b, perturbation = arrays[f"{number}/facts"].tolist()
        features = {name: arrays[f"{number}/feature/{name}"].astype(np.float64) for name in names}
        answers = (arrays[f"{number}/{name}"] for name in ("label", "allowed", "known_a", "known_b"))
        identity_a, identity_b = (arrays[f"{number}/{name}"] for name in ("identity_a", "identity_b"))
        distance, votes = float(arrays[f"{number}/distance"]), arrays[f"{number}/votes"].astype(np.float64)
        category = arrays[f"{number}/category_a"], arrays[f"{number}/category_b"]
        facts = (distance, Case(features, *answers), identity_a, identity_b, votes, category, (drive_a, drive_b))
        cases.append(FramePairCase((first, second), perturbation, *facts))
    return cases


def answers(first: FrameTruth, second: FrameTruth, related: bool) -> Case:
    """What is known of a frame pair, without any features; in frames that share nothing no landmark has a partner."""
    allowed = first.category[:, None] == second.category
    label = label_candidates(first, second) if related else np.full(allowed.shape, UNMATCHED)
    known_a, known_b = ((frame.identity != UNKNOWN) | (not related) for frame in (first, second))
    return Case({}, label, allowed, known_a, known_b)


def _kept(
    matcher: CombinedMatcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation,
    count: int,
    related: bool,
    seed: int,
    cache: Path | None,
    progress: Progress,
) -> list[FramePairCase]:
    if cache is None:
        return list(_collect(matcher, datasets, perturbation, count, related, seed, progress))
    frames = [[frame.name, repr(frame.landmarks)] for dataset in datasets for frame in dataset.frames]
    weighed = [matcher.fingerprint, sorted(matcher.combinations["scene"].weights)]
    facts = [weighed, [dataset.name for dataset in datasets], frames, str(perturbation), count, related, seed]
    path = cache / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:20]}.npz"
    if not path.is_file():
        write_cases(path, list(_collect(matcher, datasets, perturbation, count, related, seed, progress)))
    return read_cases(path)


def _collect(
    matcher: CombinedMatcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation,
    count: int,
    related: bool,
    seed: int,
    progress: Progress,
) -> Iterator[FramePairCase]:
    truth = read_truth(datasets)
    pairs = draw_frame_pairs(truth, count, seed) if related else draw_unrelated_pairs(truth, count, seed)
    views = views_of(pairs, perturbation, "both")
    wanted = (view for both in views for view in both)
    (memory,) = embed_frames([matcher], truth, wanted, perturbation, seed, progress=progress)
    for number in progress(range(len(pairs)), "comparing frames"):
        yield _case(matcher, memory, truth, pairs[number], views[number], perturbation, related)


def _case(
    matcher: CombinedMatcher,
    memory: Memory,
    truth: Truth,
    pair: Indices,
    views: tuple[tuple[int, bool], tuple[int, bool]],
    perturbation: Perturbation,
    related: bool,
) -> FramePairCase:
    first, second = truth.frames[pair[0]], truth.frames[pair[1]]
    a, b = memory[views[0]], memory[views[1]]
    distance = float(np.linalg.norm(first.centre - second.centre)) if related else np.inf
    case = replace(answers(first, second, related), features=matcher.features(a, b)[0])
    votes = keypoint_votes(*matcher.views(a, b))
    worlds, identities = (first.world, second.world), (first.identity, second.identity)
    category = first.category, second.category
    drives = truth.datasets[first.dataset].name, truth.datasets[second.dataset].name
    return FramePairCase(worlds, str(perturbation), distance, case, *identities, votes, category, drives)
