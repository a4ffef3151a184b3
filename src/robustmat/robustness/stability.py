"""Stability: how far the embeddings of a perturbed landmark are from those of the clean one, stage by stage.

The paper draws the norms of these differences for h_DS, f and g. A norm alone says little: a stage that halves
everything halves the noise, too. Beside it stands what counts, the same norm over the distance between *different*
landmarks at that stage, and how often a perturbed landmark is still nearest to its own clean copy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from robustmat.checkpoints.load import load
from robustmat.config import nearest
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError, DataError
from robustmat.features.frame import frame_features
from robustmat.features.patches import cut_patches, to_input
from robustmat.matching.decision import UNDECIDED
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.matching.network import NetworkMatcher, inference
from robustmat.models.bounds import flow_bound
from robustmat.models.certified import CertifiedNetwork
from robustmat.models.presets import PRESETS, preset
from robustmat.models.robustmat import RobustMat
from robustmat.models.solvers import SolverConfig
from robustmat.perturb import Perturbation, perturb_image
from robustmat.progress import Progress, silent
from robustmat.types import Array, Frame

NOISE = ("paper:19", "paper:16", "paper:13")
UNTRAINED = "untrained:"
MAPS, EVOLVED, VERTEX, GRAPH = "h_DS", "z(T_f)", "f", "g"
GRAPH_START, GRAPH_END = "Z(0)", "Z(T_g)"
DESCRIPTOR = "descriptor"
STAGES = (MAPS, EVOLVED, VERTEX, GRAPH, DESCRIPTOR)  # those that tables show
AT_ONCE = 8  # patches
SAME = 1e-5  # of an embedding's length: what float32 leaves between two that are the same


@dataclass(frozen=True)
class Norms:
    """One number for each landmark, [N]: the difference between its perturbed and its clean embedding."""

    absolute: Array
    relative: Array  # over the norm of the clean embedding
    to_signal: Array  # over the median distance to other landmarks of its category in its frame; nan where alone,
    # inf where these have the same embedding, as graphs of the same few landmarks have
    found: Array  # 1 where the nearest clean embedding of its frame and category is its own; nan where alone


@dataclass(frozen=True)
class Stability:
    """What one model does to noise: norms by stage and perturbation, and proven bounds of its flows."""

    model: str
    norms: dict[tuple[str, str], Norms]  # (stage, perturbation)
    bounds: dict[tuple[str, str], float]  # (stage before, stage after) -> the most that a difference may grow

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(stage for stage in STAGES if any(stage == known for known, _ in self.norms))


Describe = Callable[[Frame], dict[str, Array]]  # stage -> [N, F]


def measure_stability(
    model: str,
    datasets: Sequence[LandmarkDataset],
    perturbations: Sequence[Perturbation],
    *,
    frames: int = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> Stability:
    """Embed some frames clean and perturbed.

    Args:
        model: what `load` takes, or `untrained:street`, `untrained:paper:resnet-gat`: a preset with random weights.
        frames: so many of all data sets together, evenly spread.
    """
    describe, bounds = open_model(model, seed)
    chosen = spread_frames(datasets, frames)
    found: dict[tuple[str, str], list[Norms]] = {}
    for drive, frame in progress(chosen, f"embedding for {model}"):
        clean = describe(frame)
        pixels = frame.image
        for perturbation in perturbations:
            noisy = perturb_image(pixels, perturbation, seed=seed, key=f"{drive}/{frame.name}")
            for stage, rows in describe(frame.with_image(noisy)).items():
                norms = difference_norms(clean[stage], rows, [mark.category for mark in frame.landmarks])
                found.setdefault((stage, str(perturbation)), []).append(norms)
    return Stability(model, {key: _joined(parts) for key, parts in found.items()}, bounds)


def spread_frames(datasets: Sequence[LandmarkDataset], count: int) -> list[tuple[str, Frame]]:
    """Frames with landmarks, evenly spread over all data sets, with the names of their drives."""
    known = [(dataset.name, frame) for dataset in datasets for frame in dataset.frames if len(frame.landmarks) > 1]
    if not known:
        raise DataError("no frame with two landmarks in the given data sets: nothing to compare")
    chosen = np.unique(np.linspace(0, len(known) - 1, min(count, len(known))).round().astype(int))
    return [known[number] for number in chosen]


def difference_norms(clean: Array, noisy: Array, categories: Sequence[str]) -> Norms:
    """Norms for the landmarks of one frame, whose embeddings are `clean` and `noisy` [N, F]."""
    clean, noisy = np.asarray(clean, np.float64), np.asarray(noisy, np.float64)
    absolute = np.linalg.norm(noisy - clean, axis=1)
    relative = absolute / np.maximum(np.linalg.norm(clean, axis=1), 1e-12)
    to_signal, found = np.full(len(clean), np.nan), np.full(len(clean), np.nan)
    for number, category in enumerate(categories):
        others = [i for i, other in enumerate(categories) if other == category and i != number]
        if others:
            apart = np.linalg.norm(clean[others] - clean[number], axis=1)
            signal, scale = float(np.median(apart)), float(np.linalg.norm(clean[number]))
            to_signal[number] = absolute[number] / signal if signal > SAME * scale else np.inf
            wrong = np.linalg.norm(clean[others] - noisy[number], axis=1).min()
            found[number] = float(absolute[number] < wrong)
    return Norms(absolute, relative, to_signal, found)


def open_model(name: str, seed: int = 0) -> tuple[Describe, dict[tuple[str, str], float]]:
    """How a model describes a frame at each of its stages, and the proven bounds of its flows."""
    matcher = (
        untrained_model(name, seed) if name.startswith(UNTRAINED) else load(name, runtime="torch", evidence="pair")
    )
    if isinstance(matcher, NetworkMatcher) and isinstance(matcher.network, RobustMat):
        network = matcher.network
        return lambda frame: robustmat_stages(network, frame), proven_bounds(network)
    if isinstance(matcher, NetworkMatcher) and isinstance(matcher.network, CertifiedNetwork):
        certified = matcher.network
        return lambda frame: certified_stages(certified, frame), {(MAPS, EVOLVED): certified.flow_bound}
    return lambda frame: {DESCRIPTOR: descriptors(matcher, frame)}, {}


def untrained_model(name: str, seed: int) -> Matcher:
    kind, _, variant = name.removeprefix(UNTRAINED).partition(":")
    if kind not in PRESETS:
        raise ConfigError(f"unknown model '{name}' ({nearest(kind, list(PRESETS))} after {UNTRAINED})")
    # Tolerances of the paper's solver ask for about as much as one step of RK4, and cost three times that.
    fixed = {"solver": SolverConfig(name="rk4", steps=1).model_dump()}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = RobustMat(preset(kind, variant or "full", {"vertex": fixed, "graph": fixed}))
    return NetworkMatcher(name, network, UNDECIDED)


def robustmat_stages(network: RobustMat, frame: Frame) -> dict[str, Array]:
    """Every stage of RobustMat for all landmarks of a frame, flattened."""
    config = network.config
    found = frame_features(frame, checked_pixels(frame), config.patch, config.neighborhood)
    stages: dict[str, list[torch.Tensor]] = {MAPS: [], EVOLVED: [], VERTEX: []}
    with inference(network) as device:
        index, mask = (torch.from_numpy(array).to(device) for array in (found.index, found.mask))
        for some in torch.split(torch.from_numpy(to_input(found.patches, config.patch)).to(device), AT_ONCE):
            vertex, evolved = network.vertex(some)
            for stage, part in ((MAPS, evolved.initial), (EVOLVED, evolved.final), (VERTEX, network.learned(vertex))):
                stages[stage].append(part.flatten(1).cpu())
        joined = {stage: torch.cat(parts) for stage, parts in stages.items()}
        if config.vertex.evolution == "none":
            del joined[EVOLVED]  # nothing happens between the two
        if config.score != "vertex":
            graph, evolved = network.graph(joined[VERTEX].to(device)[index], mask)
            joined |= {GRAPH: graph, GRAPH_START: evolved.initial.flatten(1), GRAPH_END: evolved.final.flatten(1)}
        return {stage: rows.cpu().numpy() for stage, rows in joined.items()}


def certified_stages(network: CertifiedNetwork, frame: Frame) -> dict[str, Array]:
    """Every stage of the certified network, which has no graphs."""
    patches = cut_patches(checked_pixels(frame), [mark.box for mark in frame.landmarks], network.config.patch)
    with inference(network) as device:
        numbers = torch.from_numpy(to_input(patches, network.config.patch)).to(device)
        evolved = network.evolve(numbers)
        stages = {MAPS: evolved.initial, EVOLVED: evolved.final, VERTEX: network.embed(numbers)}
        return {stage: rows.flatten(1).cpu().numpy() for stage, rows in stages.items()}


def descriptors(matcher: Matcher, frame: Frame) -> Array:
    """What any other matcher remembers of each landmark, as one row."""
    arrays = [np.asarray(array, np.float64) for array in matcher.embed(frame).arrays.values()]
    return np.concatenate([array.reshape(len(frame.landmarks), -1) for array in arrays], axis=1)


def proven_bounds(network: RobustMat) -> dict[tuple[str, str], float]:
    """For contractive flows, as they are solved: the most that the difference of two states can grow."""
    bounds = {}
    for config, stages in ((network.config.vertex, (MAPS, EVOLVED)), (network.config.graph, (GRAPH_START, GRAPH_END))):
        if config.evolution == "diffusion" and config.field == "contractive":
            decay = config.contraction_rate + config.lipschitz
            bounds[stages] = flow_bound(decay, config.lipschitz, config.end_time, config.solver)
    return bounds


def _joined(parts: Sequence[Norms]) -> Norms:
    names = ("absolute", "relative", "to_signal", "found")
    return Norms(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
