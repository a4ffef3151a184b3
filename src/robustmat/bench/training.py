"""Patches a second in training: our step against a plain loop with torchdiffeq's dopri5, at equal model size."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustmat.bench.inference_authors import adaptive_graph, adaptive_vertex, default_layout
from robustmat.bench.inference_contest import BenchReport, Contestant, Figure, Section, Tell, hold
from robustmat.dataset.batches import Batch, FramePair
from robustmat.dataset.truth import AMBIGUOUS, MATCHED, UNMATCHED
from robustmat.export.frames import street_frames
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches, to_input
from robustmat.features.placement import placements
from robustmat.models.presets import preset
from robustmat.models.robustmat import Embeddings, ModelConfig, PairLogits, RobustMat
from robustmat.models.weights import load_checkpoint
from robustmat.training.config import TrainingConfig
from robustmat.training.losses import total_loss
from robustmat.training.module import batch_losses, pair_weights
from robustmat.types import Frame

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
    config = TrainingConfig(model=_config(settings), matched_share=MATCHED_SHARE, graph_loss_weight=GRAPH_LOSS_WEIGHT)
    ours = _model(settings)
    plain = default_layout(ours)
    steps = {
        "our step, rk4": _stepper(ours, lambda: batch_losses(ours, batch, config)["loss"]),
        "plain loop, torchdiffeq dopri5": _stepper(plain, lambda: plain_loss(plain, batch)),
    }
    contest = hold(
        [Contestant(name, step) for name, step in steps.items()],
        settings.rounds,
        lambda what: tell(f"training: {what}"),
        clock=settings.clock,
    )
    fast, slow = steps
    count = len(batch.patches)
    section = Section(
        f"training '{settings.model}', {count} patches of {len(batch.pairs)} frame pairs a step",
        contest.rows(),
        (Figure("{} times as many patches a second as a plain loop with dopri5", contest.ratio(slow, fast), 3),),
        {"patches_a_second": {name: count / float(np.median(it)) for name, it in contest.seconds.items()}},
    )
    shown = {key: getattr(settings, key) for key in settings.__dataclass_fields__}
    return BenchReport("training", shown, (section,))


def plain_loss(model: RobustMat, batch: Batch) -> Tensor:
    """The paper's loss with both diffusions solved by dopri5, gradients through the solver."""
    patches = torch.from_numpy(to_input(batch.patches, model.config.patch))
    index, mask = torch.from_numpy(batch.index), torch.from_numpy(batch.mask)
    vertex = adaptive_vertex(model, patches)
    graph = adaptive_graph(model, model.learned(vertex)[index], mask)
    logits = [
        model.compare(Embeddings(vertex[it.a], graph[it.a]), Embeddings(vertex[it.b], graph[it.b]))
        for it in batch.pairs
    ]
    label = torch.cat([torch.from_numpy(it.label).flatten() for it in batch.pairs])
    flat = PairLogits(*(torch.cat([getattr(it, name).flatten() for it in logits]) for name in COMPARISONS))
    return total_loss(flat, label == MATCHED, pair_weights(label, MATCHED_SHARE), GRAPH_LOSS_WEIGHT)


def make_batch(frames: list[Frame], settings: TrainingSettings) -> Batch:
    """Each frame of the first drive with one of the second, all their landmarks."""
    config = _config(settings)
    half = len(frames) // 2
    ordered = [frame for pair in zip(frames[:half], frames[half:], strict=True) for frame in pair]
    boxes = [[it.box for it in frame.landmarks] for frame in ordered]
    starts = np.cumsum([0, *map(len, boxes)])
    around = [neighborhoods(it, config.graph.num_neighbors, config.graph.include_center) for it in boxes]
    slices = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    pairs = [FramePair(slices[i], slices[i + 1], _label(ordered[i], ordered[i + 1])) for i in range(0, len(ordered), 2)]
    shapes = [frame.image.shape for frame in ordered]
    return Batch(
        patches=np.concatenate(
            [cut_patches(it.image, box, config.patch) for it, box in zip(ordered, boxes, strict=True)]
        ),
        placement=np.concatenate(
            [placements(it.landmarks, it.camera, size[1], size[0]) for it, size in zip(ordered, shapes, strict=True)]
        ),
        index=np.concatenate([it.index + start for it, start in zip(around, starts[:-1], strict=True)]),
        mask=np.concatenate([it.mask for it in around]),
        pairs=tuple(pairs),
        frames=tuple(range(len(ordered))),
        views=((0, False),) * len(ordered),
    )


def _label(a: Frame, b: Frame) -> NDArray[np.int8]:
    known = [[-1 if it.identity is None else it.identity for it in frame.landmarks] for frame in (a, b)]
    first, second = (np.array(it, np.int64) for it in known)
    label = np.where(first[:, None] == second, MATCHED, UNMATCHED)
    label[(first[:, None] < 0) | (second < 0)] = AMBIGUOUS
    return label.astype(np.int8)


def _config(settings: TrainingSettings) -> ModelConfig:
    rk4 = {"solver": {"name": "rk4", "steps": 1}}
    return preset(settings.model, changes={"joint": None, "vertex": rk4, "graph": rk4})


def _model(settings: TrainingSettings) -> RobustMat:
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = RobustMat(_config(settings))
    if settings.model == "street":  # trained weights: the number of adaptive steps depends on them
        trained = load_checkpoint("street").model.state_dict()
        model.load_state_dict({name: it for name, it in trained.items() if not name.startswith("joint.")})
    return model.train()


def _stepper(model: RobustMat, loss_of: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss_of())
        optimizer.step()

    return step
