"""Patches a second in training: our step against a plain loop with torchdiffeq's dopri5, at equal model size."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.bench.inference_authors import adaptive_graph, adaptive_vertex, default_layout
from robustmat.bench.inference_contest import BenchReport, Contestant, Figure, Section, Tell, hold
from robustmat.checkpoints.store import load_checkpoint
from robustmat.export.frames import street_frames
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches
from robustmat.features.placement import placements
from robustmat.methods.robustmat import RobustMatObjective, RobustMatSettings
from robustmat.models.batch import LabelledPair, TrainingBatch
from robustmat.models.losses import total_loss
from robustmat.models.mining import pair_weights
from robustmat.models.presets import preset
from robustmat.models.robustmat import Embeddings, ModelConfig, PairLogits, RobustMat
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Frame

COMPARISONS = ("vertex", "graph_ab", "graph_ba")
MATCHED_SHARE = GRAPH_LOSS_WEIGHT = 0.5


@dataclass(frozen=True)
class TrainingSettings:
    """What is measured, and how often. `model` is a preset; `street` starts from the shipped weights."""

    model: str = "street"
    frame_pairs: int = 2
    rounds: int = 10
    scale: float = 1.0  # of the frames; 1 is 1242 x 375
    clock: str = "wall"
    seed: int = 0


def bench_training(settings: TrainingSettings, tell: Tell = lambda _: None) -> BenchReport:
    """Forward, backward and an optimiser's step on the same batch of real-looking patches."""
    tell("rendering frames")
    frames = street_frames(settings.frame_pairs, scale=settings.scale)
    batch = make_batch(frames, settings)
    # Without the joint diffusion, which the plain loop has not: both compute the paper's loss.
    ours = _model(settings)
    terms = RobustMatSettings(matched_share=MATCHED_SHARE, graph_loss_weight=GRAPH_LOSS_WEIGHT)
    objective = RobustMatObjective(terms, ours)
    plain = default_layout(ours)
    steps = {
        # A copy of the batch makes its numbers from pixels anew, as every step of a training does.
        "our step, rk4": _stepper(ours, lambda: objective(ours, replace(batch))["loss"]),
        "plain loop, torchdiffeq dopri5": _stepper(plain, lambda: plain_loss(plain, batch)),
    }
    contest = hold(
        [Contestant(name, step) for name, step in steps.items()],
        settings.rounds,
        lambda what: tell(f"training: {what}"),
        clock=settings.clock,
    )
    fast, slow = steps
    count = len(batch.pixels)
    section = Section(
        f"training '{settings.model}', {count} patches of {len(batch.pairs)} frame pairs a step",
        contest.rows(),
        (Figure("{} times as many patches a second as a plain loop with dopri5", contest.ratio(slow, fast), 3),),
        {"patches_a_second": {name: count / float(np.median(second)) for name, second in contest.seconds.items()}},
    )
    shown = {key: getattr(settings, key) for key in settings.__dataclass_fields__}
    return BenchReport("training", shown, (section,))


def plain_loss(model: RobustMat, batch: TrainingBatch) -> Tensor:
    """The paper's loss with both diffusions solved by dopri5, gradients through the solver."""
    vertex = adaptive_vertex(model, batch.patches_of(slice(None)))
    graph = adaptive_graph(model, model.learned(vertex)[batch.index], batch.mask)
    logits = [
        model.compare(
            Embeddings(vertex[one_pair.a], graph[one_pair.a]), Embeddings(vertex[one_pair.b], graph[one_pair.b])
        )
        for one_pair in batch.pairs
    ]
    label = torch.cat([pair.label.flatten() for pair in batch.pairs])
    flat = PairLogits(*(torch.cat([getattr(logit, name).flatten() for logit in logits]) for name in COMPARISONS))
    return total_loss(flat, label == MATCHED, pair_weights(label, MATCHED_SHARE), GRAPH_LOSS_WEIGHT)


def make_batch(frames: list[Frame], settings: TrainingSettings) -> TrainingBatch:
    """Each frame of the first drive with one of the second, all their landmarks."""
    config = _config(settings)
    half = len(frames) // 2
    ordered = [frame for pair in zip(frames[:half], frames[half:], strict=True) for frame in pair]
    boxes = [[mark.box for mark in frame.landmarks] for frame in ordered]
    starts = np.cumsum([0, *map(len, boxes)])
    around = [neighborhoods(one_box, config.graph.num_neighbors, config.graph.include_center) for one_box in boxes]
    slices = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    pairs = [
        LabelledPair(slices[i], slices[i + 1], torch.from_numpy(_label(ordered[i], ordered[i + 1])))
        for i in range(0, len(ordered), 2)
    ]
    shapes = [frame.image.shape for frame in ordered]
    pixels = [cut_patches(frame.image, box, config.patch) for frame, box in zip(ordered, boxes, strict=True)]
    placed = [
        placements(frame.landmarks, frame.camera, size[1], size[0]) for frame, size in zip(ordered, shapes, strict=True)
    ]
    index = [graph.index + start for graph, start in zip(around, starts[:-1], strict=True)]
    count = int(starts[-1])
    return TrainingBatch(
        pixels=np.concatenate(pixels),
        patch=config.patch,
        index=torch.from_numpy(np.concatenate(index)),
        mask=torch.from_numpy(np.concatenate([graph.mask for graph in around])),
        placement=torch.from_numpy(np.concatenate(placed)),
        pairs=tuple(pairs),
        views=tuple((number, 0, False) for number in range(len(ordered))),
        label=torch.full((count, count), AMBIGUOUS),
        identity=torch.full((count,), -1),
    )


def _label(a: Frame, b: Frame) -> NDArray[np.int8]:
    known = [[-1 if mark.identity is None else mark.identity for mark in frame.landmarks] for frame in (a, b)]
    first, second = (np.array(one, np.int64) for one in known)
    label = np.where(first[:, None] == second, MATCHED, UNMATCHED)
    label[(first[:, None] < 0) | (second < 0)] = AMBIGUOUS
    return label.astype(np.int8)


def _config(settings: TrainingSettings) -> ModelConfig:
    rk4 = {"solver": {"name": "rk4", "steps": 1}}
    return preset(settings.model, "ode", changes={"joint": None, "vertex": rk4, "graph": rk4})


def _model(settings: TrainingSettings) -> RobustMat:
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = RobustMat(_config(settings))
    if settings.model == "street":  # trained weights: the number of adaptive steps depends on them
        trained = load_checkpoint("street").network.state_dict()
        model.load_state_dict({name: one for name, one in trained.items() if not name.startswith("joint.")})
    return model.train()


def _stepper(model: RobustMat, loss_of: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss_of())
        optimizer.step()

    return step
