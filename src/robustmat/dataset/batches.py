"""What training eats: patches of every frame cut and perturbed once, and frame pairs drawn from them by seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import Truth, frame_pairs, label_candidates, read_truth
from robustmat.errors import DataError
from robustmat.features.neighborhoods import Neighborhoods, neighborhoods
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.features.placement import mirrored_placements, placements
from robustmat.perturb import Perturbation, perturb_image
from robustmat.progress import Progress, silent
from robustmat.types import MATCHED, Box, Frame, Image

Perturb = Callable[[Image, Perturbation, int, str], Image]  # of a frame by its key, with a seed


@dataclass(frozen=True)
class PatchBank:
    """Frames with a known pose, each cut into patches under several views: perturbed copies with jittered boxes."""

    truth: Truth
    pairs: tuple[NDArray[np.int64], ...]  # per world [P, 2], frames 2 to 25 m apart
    patches: tuple[NDArray[np.uint8], ...]  # per frame [V, N, S, S, C]
    placements: tuple[NDArray[np.float32], ...]  # per frame [V, N, P]
    graphs: tuple[Neighborhoods, ...]


@dataclass(frozen=True)
class FramePair:
    """Where the landmarks of two frames stand in a batch, and who is who: MATCHED, UNMATCHED, AMBIGUOUS."""

    a: slice
    b: slice
    label: NDArray[np.int8]  # [A, B]


@dataclass(frozen=True)
class Batch:
    """Several frame pairs, all their landmarks side by side."""

    patches: NDArray[np.uint8]  # [N, S, S, C]
    placement: NDArray[np.float32]  # [N, P]
    index: NDArray[np.int64]  # [N, K], vertices of each graph, within the batch
    mask: NDArray[np.bool_]  # [N, K]
    pairs: tuple[FramePair, ...]
    frames: tuple[int, ...]  # of the bank's truth, two a pair, in the order of their landmarks
    views: tuple[tuple[int, bool], ...]  # of each frame: which one, and whether it is mirrored


def build_bank(
    datasets: Sequence[LandmarkDataset],
    config: PatchConfig,
    num_neighbors: int,
    include_center: bool,
    perturbations: Sequence[Perturbation],
    views: int,
    jitter: float,
    seed: int,
    progress: Progress = silent,
    perturb: Perturb = perturb_image,
) -> PatchBank:
    """Cut all patches of `datasets` once; views and frames take turns through the perturbations."""
    truth = read_truth(datasets)
    pairs = frame_pairs(truth)
    if not len(pairs):
        names = ", ".join(dataset.name for dataset in datasets)
        raise DataError(f"no two frames of {names} are 2 to 25 m apart with landmarks in both: nothing to train on")
    patches, placed, graphs = [], [], []
    for number in progress(range(len(truth.frames)), "cutting patches"):
        frame = truth.frame(number)
        drive = datasets[truth.frames[number].dataset].name  # drives number their frames alike
        key = f"{drive}/{frame.name}"
        turn = number * views
        cut, placement = _cut_views(frame, key, config, perturbations, views, turn, jitter, seed, perturb)
        patches.append(cut)
        placed.append(placement)
        boxes = [landmark.box for landmark in frame.landmarks]
        graphs.append(neighborhoods(boxes, num_neighbors, include_center))
    worlds = np.array([frame.world for frame in truth.frames])[pairs[:, 0]]
    grouped = tuple(pairs[worlds == one] for one in np.unique(worlds))
    return PatchBank(truth, grouped, tuple(patches), tuple(placed), tuple(graphs))


def _cut_views(
    frame: Frame,
    key: str,
    config: PatchConfig,
    perturbations: Sequence[Perturbation],
    views: int,
    turn: int,
    jitter: float,
    seed: int,
    perturb: Perturb,
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    image = frame.image
    height, width = image.shape[:2]
    boxes = np.array([landmark.box for landmark in frame.landmarks])  # [N, 4]
    size = boxes[:, 2:] - boxes[:, :2]
    cut, placed = [], []
    for view in range(views):
        perturbation = perturbations[(turn + view) % len(perturbations)]
        noisy = perturb(image, perturbation, seed + view, key)
        rng = np.random.default_rng([seed, view, *key.encode()])
        moved = boxes + rng.uniform(-jitter, jitter, boxes.shape) * np.tile(size, 2)
        seen = [replace(mark, box=_as_box(one)) for mark, one in zip(frame.landmarks, moved, strict=True)]
        cut.append(cut_patches(noisy, [one.box for one in seen], config))
        placed.append(placements(seen, frame.camera, width, height))
    return np.stack(cut), np.stack(placed)


def _as_box(corners: NDArray[np.float64]) -> Box:
    x0, y0, x1, y1 = corners.tolist()
    return x0, y0, x1, y1


def draw_batch(bank: PatchBank, count: int, flip: bool, rng: np.random.Generator) -> Batch:
    """`count` frame pairs with something to match, each frame in a random view; the same `rng`, the same batch.

    Every world comes equally often, so that one short real drive is not drowned by many simulated towns.
    With `flip`, half of the pairs are mirrored, both frames alike: a mirrored street is a street.
    """
    patches, placed, index, mask, chosen, frames, seen = [], [], [], [], [], [], []
    start = 0
    for _ in range(count):
        (first, second), label = _draw_pair(bank, rng)
        mirrored = flip and rng.random() < 0.5
        slices = []
        for frame in (first, second):
            views = bank.patches[frame]
            view = rng.integers(len(views))
            cut, placement = views[view], bank.placements[frame][view]
            graph = bank.graphs[frame]
            patches.append(cut[:, :, ::-1] if mirrored else cut)
            placed.append(mirrored_placements(placement) if mirrored else placement)
            index.append(graph.index + start)
            mask.append(graph.mask)
            frames.append(int(frame))
            seen.append((int(view), bool(mirrored)))
            slices.append(slice(start, start + len(cut)))
            start += len(cut)
        chosen.append(FramePair(slices[0], slices[1], label))
    return Batch(
        patches=np.concatenate(patches),
        placement=np.concatenate(placed),
        index=np.concatenate(index),
        mask=np.concatenate(mask),
        pairs=tuple(chosen),
        frames=tuple(frames),
        views=tuple(seen),
    )


def _draw_pair(bank: PatchBank, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    for _ in range(1000):
        pairs = bank.pairs[rng.integers(len(bank.pairs))]
        pair = rng.permuted(pairs[rng.integers(len(pairs))])
        label = label_candidates(bank.truth.frames[pair[0]], bank.truth.frames[pair[1]])
        if (label == MATCHED).any():
            return pair, label
    raise DataError("frame pairs without a single matched landmark only: there is nothing to learn from this data")
