"""Structured pruning: narrower layers inside h_DS, inside the field and in r; no state changes its width.

torch-pruning finds what hangs together and how much each channel matters (the norms of all weights that belong to it).
The widths of the ODE's state, of its start and of the embeddings are protected. Channels that are normalised together
(`GROUP_SIZE`) go or stay together, so that what stays is normalised as before. What is left is an ordinary checkpoint
with `vertex.inner_channels` in its configuration: it matches, trains and exports like any other.
"""

import copy
import math
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.checkpoints.store import Checkpoint
from robustmat.config import merged
from robustmat.errors import ConfigError
from robustmat.export.write import robustmat_of
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.vertex import GROUP_SIZE, ContractiveField, ConvField, DownBlock, VertexDiffusion


def prune_checkpoint(checkpoint: Checkpoint, share: float) -> Checkpoint:
    """The checkpoint with `share` of its inner channels; its decisions are the old ones until it is trained again."""
    network = prune_network(robustmat_of(checkpoint), share)
    notes = f"{checkpoint.provenance.notes} Pruned to {share:g} of the inner channels.".strip()
    provenance = checkpoint.provenance.model_copy(update={"notes": notes})
    name = f"{checkpoint.name}-pruned"
    return replace(checkpoint, name=name, network=network, provenance=provenance, folder=None, fingerprint="")


def prune_network(network: RobustMat, share: float) -> RobustMat:
    """A copy with narrower inner layers, the least important channels left out."""
    if not 0 < share <= 1:
        raise ConfigError(f"a model is pruned to a share of its channels between 0 and 1, found {share:g}")
    if network.config.vertex.evolution == "residual":
        raise ConfigError("models whose ODE is replaced by residual blocks are for ablations and cannot be pruned")
    vertex = copy.deepcopy(network.vertex).cpu().requires_grad_(True)
    layers = 3 if network.config.vertex.evolution == "diffusion" else 2
    widths = [_prune_vertex(vertex, layer, share, network.config.patch.size) for layer in range(layers)]
    widths += network.config.vertex.inner[layers:]
    changes: dict[str, Any] = {"vertex": {"inner_channels": widths}}
    weights = dict(network.state_dict()) | {f"vertex.{name}": value for name, value in vertex.state_dict().items()}
    if network.config.score != "graph":
        similarity = copy.deepcopy(network.vertex_similarity).cpu().requires_grad_(True)
        changes["similarity_hidden"] = _prune_similarity(similarity, share)
        weights |= {f"vertex_similarity.{name}": value for name, value in similarity.state_dict().items()}
    config = ModelConfig.model_validate(merged(network.config.model_dump(), changes))
    pruned = RobustMat(config)
    pruned.load_state_dict(weights)
    return pruned.eval()


class Traced(nn.Module):
    """The vertex diffusion with its layers called one after the other, as torch-pruning wants to see them."""

    def __init__(self, vertex: VertexDiffusion) -> None:
        super().__init__()
        self.vertex = vertex

    def forward(self, patches: Tensor) -> Tensor:
        vertex = self.vertex
        state = patches
        for layer in vertex.downsample:
            state = layer(state) if not isinstance(layer, DownBlock) else _down(layer, state)
        if hasattr(vertex, "field"):
            block = _field_layers(vertex)
            inner = block.conv1(state)
            inner = block.norm1(inner) if hasattr(block, "norm1") else inner
            state = state + block.conv2(F.elu(inner))
        return cast(Tensor, vertex.project(vertex.pool(state).flatten(1)))


def _down(block: DownBlock, maps: Tensor) -> Tensor:
    """As `DownBlock.forward`, not in place."""
    active = F.relu(block.norm1(maps))
    return cast(Tensor, block.shortcut(active) + block.conv2(F.relu(block.norm2(block.conv1(active)))))


def _field_layers(vertex: VertexDiffusion) -> Any:
    """Where the two convolutions of the field are."""
    field = vertex.field
    return field.block if isinstance(field, ConvField) else field


def _prune_vertex(vertex: VertexDiffusion, layer: int, share: float, size: int) -> int:
    """Narrow the inside of the first or second block of h_DS (0, 1) or of the field (2); gives the new width."""
    import torch_pruning

    block: Any = vertex.downsample[1 + layer] if layer < 2 else _field_layers(vertex)
    norm = getattr(block, "norm2" if layer < 2 else "norm1", None)
    width = block.conv1.out_channels
    kept_width = min(width, GROUP_SIZE * math.ceil(share * width / GROUP_SIZE))
    if kept_width == width:
        return int(width)
    graph = torch_pruning.DependencyGraph()
    example = torch.zeros(1, cast(nn.Conv2d, vertex.downsample[0]).in_channels, size, size)
    graph.build_dependency(Traced(vertex), example_inputs=example, verbose=False)
    everyone = graph.get_pruning_group(block.conv1, torch_pruning.prune_conv_out_channels, list(range(width)))
    touched = [part for dependency, _ in everyone if list((part := dependency.target.module).parameters())]
    if {id(part) for part in touched} - {id(part) for part in (block.conv1, norm, block.conv2)}:
        raise ConfigError("pruning would change the width of a state: this model's layers are coupled in another way")
    importance = torch_pruning.importance.GroupMagnitudeImportance(p=2)(everyone).detach()
    together = GROUP_SIZE if norm is not None else 1
    ranked = importance.view(-1, together).sum(dim=1).argsort()
    least = sorted(int(one) for one in ranked[: (width - kept_width) // together])
    dropped = [number * together + place for number in least for place in range(together)]
    graph.get_pruning_group(block.conv1, torch_pruning.prune_conv_out_channels, dropped).prune()
    if norm is not None:
        norm.num_groups = kept_width // GROUP_SIZE
    if layer == 2:
        kept = torch.tensor([place for place in range(width) if place not in set(dropped)])
        _keep_time_shifts(vertex.field, kept)
    return int(kept_width)


def _keep_time_shifts(field: nn.Module, kept: Tensor) -> None:
    """What time adds to the inner channels belongs to no layer that torch-pruning knows."""
    if isinstance(field, ContractiveField):
        field.time_shift = nn.Parameter(field.time_shift.detach()[kept])
    elif isinstance(field, ConvField):
        before = field.time_shift if field.inner_shift is None else field.inner_shift
        field.inner_shift = nn.Parameter(before.detach()[kept])


def _prune_similarity(similarity: nn.Sequential, share: float) -> list[int]:
    """Narrow the hidden layers of r; gives their new widths."""
    import torch_pruning

    layers = [layer for layer in similarity if isinstance(layer, nn.Linear)]
    widths = []
    for layer in layers[:-1]:
        kept = max(1, math.ceil(share * layer.out_features))
        if kept < layer.out_features:
            graph = torch_pruning.DependencyGraph()
            graph.build_dependency(similarity, example_inputs=torch.zeros(1, layers[0].in_features), verbose=False)
            whole = list(range(layer.out_features))
            everyone = graph.get_pruning_group(layer, torch_pruning.prune_linear_out_channels, whole)
            importance = torch_pruning.importance.GroupMagnitudeImportance(p=2)(everyone)
            dropped = importance.argsort()[: layer.out_features - kept].tolist()
            graph.get_pruning_group(layer, torch_pruning.prune_linear_out_channels, dropped).prune()
        widths.append(kept)
    return widths
