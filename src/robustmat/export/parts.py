"""The model cut into the parts that are exported, each a module with named arrays in and one array out.

Pixels go in as bytes: subtracting the mean colour and scaling are part of the first graph, so that a
deployment cannot get them wrong. Counts of landmarks stay open.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustmat.errors import ConfigError
from robustmat.features.placement import PLACEMENT_DIM
from robustmat.matching.manifest import Part
from robustmat.models.robustmat import Embeddings, ModelConfig, RobustMat
from robustmat.models.solvers import SolverConfig

Example = dict[str, Tensor]


@dataclass(frozen=True)
class Exportable:
    """A part of the model: a module, inputs to trace it with, and the names of their open axes."""

    name: str
    module: nn.Module
    example: Example
    open_axes: dict[str, str]  # of each input's first axis
    outputs: tuple[str, ...]
    output_axes: tuple[str, ...]  # the open ones, the same for all outputs

    def described(self) -> Part:
        shapes = {
            name: f"{_kind(one)}[{', '.join([self.open_axes[name], *map(str, one.shape[1:])])}]"
            for name, one in self.example.items()
        }
        with torch.no_grad():
            found = self.module(*self.example.values())
        tensors = found if isinstance(found, tuple) else (found,)
        outputs = {
            name: f"{_kind(one)}[{', '.join([*self.output_axes, *map(str, one.shape[len(self.output_axes) :])])}]"
            for name, one in zip(self.outputs, tensors, strict=True)
        }
        return Part(file=f"{self.name}.onnx", inputs=shapes, outputs=outputs)


class VertexPart(nn.Module):
    """Patches as bytes [N, S, S, C] to f [N, D + E]."""

    def __init__(self, model: RobustMat) -> None:
        super().__init__()
        self.vertex = model.vertex
        patch = model.config.patch
        self.mean: Tensor
        self.register_buffer("mean", torch.tensor(patch.mean_color).repeat(patch.channels // 3))
        self.scale = patch.scale

    def forward(self, patches: Tensor) -> Tensor:
        pixels = (patches.to(torch.float32) - self.mean) / self.scale
        embedding: Tensor = self.vertex(pixels.permute(0, 3, 1, 2))[0]
        return embedding


class GraphPart(nn.Module):
    """f [N, D + E] and the vertices of each graph [N, K] to g [N, D]."""

    def __init__(self, model: RobustMat) -> None:
        super().__init__()
        self.graph, self.dim = model.graph, model.config.vertex.embedding_dim

    def forward(self, vertex: Tensor, index: Tensor, mask: Tensor) -> Tensor:
        embedding: Tensor = self.graph(vertex[:, : self.dim][index], mask)[0]
        return embedding


class ScorePart(nn.Module):
    """What two frames know of their landmarks to score and log odds of all pairs, [A, B] each; inputs are named by
    `names`."""

    def __init__(self, model: RobustMat, evidence: str, names: list[str]) -> None:
        super().__init__()
        self.model, self.evidence, self.names = model, evidence, names

    def forward(self, *arrays: Tensor) -> tuple[Tensor, Tensor]:
        known = dict(zip(self.names, arrays, strict=True))
        a, b = (
            Embeddings(
                known[f"vertex_{side}"],
                # Where a score leaves something out, any array of the right kind will do.
                known.get(f"graph_{side}", known[f"vertex_{side}"]),
                known.get(f"placement_{side}"),
            )
            for side in "ab"
        )
        return self.model.match_score(a, b, self.evidence), self.model.match_logits(a, b, self.evidence)


def exportables(model: RobustMat) -> list[Exportable]:
    """All parts of the model, with made-up inputs of the right shapes."""
    config = model.config
    check_fixed_steps(config)
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    count, other, size = 5, 7, config.patch.size
    dim, graph_dim = config.vertex.descriptor_dim, config.vertex.embedding_dim
    patches = torch.randint(0, 256, (count, size, size, config.patch.channels), generator=generator, dtype=torch.uint8)
    parts = [Exportable("vertex", VertexPart(model), {"patches": patches}, {"patches": "N"}, ("vertex",), ("N",))]
    has_graph = config.score != "vertex"
    if has_graph:
        columns = config.graph.num_neighbors + int(config.graph.include_center)
        index = torch.randint(0, count, (count, columns), generator=generator)
        mask = torch.arange(columns) < torch.randint(1, columns + 1, (count, 1), generator=generator)
        example = {"vertex": numbers(count, dim), "index": index, "mask": mask}
        parts.append(Exportable("graph", GraphPart(model), example, dict.fromkeys(example, "N"), ("graph",), ("N",)))
    kinds: dict[str, Callable[[int], Tensor]] = {
        "vertex": lambda rows: numbers(rows, dim),
        "graph": lambda rows: numbers(rows, graph_dim),
        "placement": lambda rows: numbers(rows, PLACEMENT_DIM),
    }
    for evidence in config.evidence:
        uses = {"pair": ["graph"] if has_graph else [], "frames": [], "placement": ["placement"]}[evidence]
        rows = {"a": count, "b": other}
        example = {f"{name}_{side}": kinds[name](rows[side]) for side in "ab" for name in ("vertex", *uses)}
        module = ScorePart(model, evidence, list(example))
        axes = {name: name[-1].upper() for name in example}
        parts.append(Exportable(f"score_{evidence}", module, example, axes, ("score", "logits"), ("A", "B")))
    return parts


def check_fixed_steps(config: ModelConfig) -> None:
    """Refuse an adaptive solver: its steps depend on the data, and a graph has none of that."""
    solvers = _solvers(config)
    adaptive = [name for name, solver in solvers.items() if solver.adaptive]
    if adaptive:
        raise ConfigError(
            f"{', '.join(adaptive)} of this checkpoint takes adaptive steps (dopri5), which depend on the data and do "
            "not export: give --fixed-steps N to export with N steps of rk4 instead, and read in the parity report "
            "what that changes; or train with a fixed-step solver"
        )


def with_fixed_steps(model: RobustMat, steps: int) -> RobustMat:
    """The same weights, with rk4 wherever the solver was adaptive."""
    config = model.config
    changes = {
        part: getattr(config, part).model_copy(update={"solver": SolverConfig(name="rk4", steps=steps)})
        for part, solver in ((name.split(".")[0], value) for name, value in _solvers(config).items())
        if solver.adaptive
    }
    # Validated anew: steps may be too long for a contractive field.
    fixed = RobustMat(ModelConfig.model_validate(config.model_copy(update=changes).model_dump()))
    fixed.load_state_dict(model.state_dict())
    return fixed.eval()


def _solvers(config: ModelConfig) -> dict[str, SolverConfig]:
    """The solvers that this configuration really runs."""
    solvers = {}
    if config.vertex.evolution == "diffusion":
        solvers["vertex.solver"] = config.vertex.solver
    if config.score != "vertex" and config.graph.evolution == "diffusion":
        solvers["graph.solver"] = config.graph.solver
    if config.joint:
        solvers["joint.solver"] = config.joint.solver
    return solvers


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
