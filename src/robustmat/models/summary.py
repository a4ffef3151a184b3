"""What a model is made of: output shapes, parameters and multiply-adds of each part."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustmat.features.placement import PLACEMENT_DIM
from robustmat.models.network import Network
from robustmat.models.robustmat import ModelConfig, RobustMat


@dataclass(frozen=True)
class PartSummary:
    """One part of the model, for one landmark (or one pair of them)."""

    name: str
    output: tuple[int, ...]  # shape without the batch
    parameters: int
    multiply_adds: int
    evaluations: int | None = None  # of the field, where the part is a diffusion


def summarize(config: ModelConfig) -> list[PartSummary]:
    """Run one neighbourhood of noise through a fresh model and note what each part does for a single patch."""
    with torch.random.fork_rng():
        torch.manual_seed(0)  # an adaptive solver's evaluations depend on the weights
        model = RobustMat(config).eval()
    vertices = config.graph.num_neighbors + int(config.graph.include_center)
    dim = config.vertex.embedding_dim
    patch = torch.randn(
        1, config.patch.channels, config.patch.size, config.patch.size, generator=torch.Generator().manual_seed(0)
    )
    parts = []
    with torch.inference_mode():
        with counting() as operations:
            maps = model.vertex.downsample(patch)
        parts.append(_part("downsample (h_DS)", maps, [model.vertex.downsample], operations))
        with counting() as operations:
            evolved = model.vertex.evolve(maps)
        field = [module for name, module in model.vertex.named_children() if name in ("field", "blocks")]
        if config.vertex.evolution != "none":
            parts.append(_part("vertex diffusion (F_CNN)", evolved.final, field, operations, evolved.evaluations))
        with counting() as operations:
            embedding = model.vertex.project(model.vertex.pool(evolved.final).flatten(1))
        parts.append(_part("vertex embedding f", embedding, [model.vertex.project], operations))
        whole = embedding
        if config.vertex.handcrafted:
            with counting() as operations:
                handcrafted = model.vertex.handcrafted(patch)
            likeness = [module for name, module in model.named_children() if name == "likeness"]
            parts.append(_part(" and ".join(config.vertex.handcrafted), handcrafted, likeness, operations))
            whole = torch.cat([embedding, handcrafted], dim=1)
        if config.score != "vertex":
            with counting() as operations:
                graph, evolved = model.graph(embedding.expand(1, vertices, dim), torch.ones(1, vertices).bool())
            parts.append(_part("graph diffusion g", graph, [model.graph], operations, evolved.evaluations))
        if config.score != "graph":
            with counting() as operations:
                hidden = model.vertex_similarity[:-1](embedding)
            parts.append(_part("similarity r, hidden", hidden, [model.vertex_similarity[:-1]], operations))
            with counting() as operations:
                logit = model.vertex_similarity[-1](hidden)
            beside = nn.ParameterList([model.trust] if config.vertex.handcrafted else [])
            parts.append(_part("similarity r", logit, [model.vertex_similarity[-1], beside], operations))
        if config.score != "vertex":
            size = model.graph_matrix.numel()
            parts.append(PartSummary("discriminator d", (1,), size, 2 * (size + dim)))
        if config.joint:
            placement = torch.zeros(1, PLACEMENT_DIM)
            with counting() as operations:
                joint = model.joint(whole, whole, placement, placement)
            parts.append(_part("joint diffusion", joint.logits, [model.joint], operations))
    return parts


BATCH, REPEATS = 24, 5


def seconds_a_patch(model: Network) -> float:
    """How long this machine embeds a patch, neighbourhood included, in a batch of 24: the median of a few."""
    config = model.config
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(BATCH, config.patch.channels, config.patch.size, config.patch.size, generator=generator)
    neighbors, center = config.neighborhood
    vertices = neighbors + int(center)
    placement = torch.zeros(BATCH, PLACEMENT_DIM)
    index = torch.randint(BATCH, (BATCH, vertices), generator=generator)
    times = []
    with torch.inference_mode():
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            model.describe(patches, index, torch.ones_like(index, dtype=torch.bool), placement)
            times.append(time.perf_counter() - start)
    return statistics.median(times[1:]) / BATCH


def _part(
    name: str, output: Tensor, modules: list[nn.Module], operations: list[int], evaluations: int | None = None
) -> PartSummary:
    parameters = sum(parameter.numel() for module in modules for parameter in module.parameters())
    return PartSummary(name, tuple(output.shape[1:]), parameters, sum(operations), evaluations)


@contextmanager
def counting() -> Iterator[list[int]]:
    """Collect the multiply-adds of every convolution and matrix product inside the block."""
    from torch.utils.flop_counter import FlopCounterMode  # slow to import

    counts: list[int] = []
    with FlopCounterMode(display=False) as counter:
        yield counts
    counts.append(counter.get_total_flops() // 2)
