"""The way of computing that the paper describes, for comparison: every pair of landmarks embedded anew.

For one pair the two landmarks and their K neighbours each, 2 (1 + K) patches, go through the vertex diffusion,
the two neighbourhoods through the graph diffusion, and the pair is scored. Two frames of 12 landmarks have
144 pairs. The weights are the model's own; only the order of computing differs, and on demand the solver. With the
paper's solver the maps also lie in memory as torch lays them out unless told otherwise, as in the released code.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustmat.errors import ConfigError
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches, to_input
from robustmat.models.robustmat import Embeddings, RobustMat
from robustmat.models.vertex import rms_normalize
from robustmat.types import Frame

VERTEX_TOLERANCE, GRAPH_TOLERANCE = 1e-2, 1e-3  # the paper's


@dataclass(frozen=True)
class AuthorsWay:
    """Scores landmark pairs one by one. With `adaptive`, dopri5 of torchdiffeq integrates, as in the released code:
    give it a model in `default_layout` then."""

    model: RobustMat
    adaptive: bool = False

    def score(self, a: Frame, b: Frame, i: int, j: int) -> float:
        """S_match of landmark `i` of `a` and landmark `j` of `b`."""
        with torch.inference_mode():
            patches = torch.cat([self._patches(a, i), self._patches(b, j)])  # [2 (1 + K), 3, S, S]
            vertex = self._vertex(patches)
            count = len(vertex) // 2
            around = self.model.learned(vertex).view(2, count, -1)  # [2, 1 + K, D]
            graph = self._graph(around if self.model.config.graph.include_center else around[:, 1:])  # [2, D]
            x, y = Embeddings(vertex[:1], graph[:1]), Embeddings(vertex[count : count + 1], graph[1:])
            return float(self.model.score(self.model.compare(x, y)))

    def _patches(self, frame: Frame, landmark: int) -> Tensor:
        config = self.model.config
        boxes = [mark.box for mark in frame.landmarks]
        around = neighborhoods(boxes, config.graph.num_neighbors, include_center=False).index[landmark]
        chosen = [boxes[landmark], *(boxes[one] for one in around)]
        return torch.from_numpy(to_input(cut_patches(frame.image, chosen, config.patch), config.patch))

    def _vertex(self, patches: Tensor) -> Tensor:
        return adaptive_vertex(self.model, patches) if self.adaptive else self.model.vertex(patches)[0]

    def _graph(self, vertices: Tensor) -> Tensor:
        mask = torch.ones(vertices.shape[:2], dtype=torch.bool)
        return adaptive_graph(self.model, vertices, mask) if self.adaptive else self.model.graph(vertices, mask)[0]


def default_layout(model: RobustMat) -> RobustMat:
    """A copy of the model whose convolutions compute in torch's default memory layout, channels first."""
    return copy.deepcopy(model).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload, no-any-return]


def adaptive_vertex(model: RobustMat, patches: Tensor) -> Tensor:
    """f by dopri5 of torchdiffeq, one step size for the whole batch."""
    vertex = model.vertex
    maps = vertex.downsample(patches.contiguous())
    final = maps
    if vertex.config.evolution == "diffusion":
        final = odeint(vertex.field.dynamics(), maps, vertex.config.end_time, VERTEX_TOLERANCE)  # type: ignore[operator]
    embedding: Tensor = vertex.project(vertex.pool(final).flatten(1))
    if vertex.config.normalize:
        embedding = rms_normalize(embedding)
    return torch.cat([embedding, vertex.handcrafted(patches)], dim=1) if vertex.config.handcrafted else embedding


def adaptive_graph(model: RobustMat, vertices: Tensor, mask: Tensor) -> Tensor:
    """g by dopri5 of torchdiffeq."""
    field = model.graph.field.dynamics(mask)
    present = mask[..., None].to(vertices.dtype)
    final = odeint(lambda t, z: field(t, z) * present, vertices * present, model.graph.config.end_time, GRAPH_TOLERANCE)
    return model.graph.pool(final, mask)


def odeint(dynamics: Callable[[Tensor, Tensor], Tensor], initial: Tensor, end_time: float, tolerance: float) -> Tensor:
    try:
        import torchdiffeq
    except ModuleNotFoundError:
        raise ConfigError("this benchmark needs torchdiffeq: pip install 'robustmat[bench]'") from None
    times = torch.tensor([0.0, end_time])
    final: Tensor = torchdiffeq.odeint(dynamics, initial, times, rtol=tolerance, atol=tolerance, method="dopri5")[-1]
    return final
