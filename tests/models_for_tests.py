"""Small models of every kind, for tests that hold for all of them."""

from typing import Any

import torch

from robustmat.checkpoints.store import Checkpoint, Provenance
from robustmat.matching.decision import Decision
from robustmat.models.graph import GRAPH_FIELDS
from robustmat.models.presets import VARIANTS, preset
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.solvers import SOLVERS
from robustmat.models.vertex import VERTEX_FIELDS

SMALL: dict[str, Any] = {
    "patch": {"size": 16},
    "vertex": {"stem_channels": 8, "channels": 8, "embedding_dim": 16, "pooling_grid": 2},
    "similarity_hidden": [16, 8],
}
UNDECIDED = Decision(threshold=0.0, match_threshold=0.0, slope=1.0, intercept=0.0)


def small(variant: str = "ode", **changes: Any) -> ModelConfig:
    vertex = {**SMALL["vertex"], **changes.pop("vertex", {})}
    return preset("street", variant, {**SMALL, "joint": {"width": 16}, "vertex": vertex, **changes})


ALL_CONFIGS: dict[str, ModelConfig] = {
    **{f"variant {name}": small(name) for name in VARIANTS},
    **{
        f"solver {name}": small(
            vertex={"solver": {"name": name, "steps": 2}}, graph={"solver": {"name": name, "steps": 2}}
        )
        for name in SOLVERS
    },
    **{f"vertex field {name}": small(vertex={"field": name}) for name in VERTEX_FIELDS},
    **{f"graph field {name}": small(graph={"field": name}) for name in GRAPH_FIELDS},
    "without center": small(graph={"include_center": False, "pooling": "mean"}),
    **{f"{name} pooling": small(graph={"pooling": name}) for name in ("mean", "max", "center")},
    "paper, small": preset("paper", changes=SMALL),
    "not normalised": small(vertex={"normalize": False}),
    "five neighbours": small(graph={"num_neighbors": 5}),
    "longer times": small(vertex={"end_time": 2.0}, graph={"end_time": 2.0}),
    "without context": small(patch={"size": 16, "context": None}),
    "without oriented energy": small(vertex={"orientations": 0}),
    "learned alone": small(vertex={"orientations": 0, "colours": False}),
    "without motion": small(joint={"width": 16, "motion": 0}),
    "adaptive joint diffusion": small(joint={"width": 16, "solver": {"name": "dopri5"}}),
}


def untrained(
    config: ModelConfig | None = None, decision: Decision = UNDECIDED, provenance: Provenance | None = None
) -> Checkpoint:
    """A checkpoint with random weights that decides the same way whatever the evidence."""
    config = config or small()
    decisions = dict.fromkeys(config.evidence, decision)
    return Checkpoint("test", "robustmat", seeded(config), decisions, provenance or Provenance())


def seeded(config: ModelConfig, seed: int = 0) -> RobustMat:
    torch.manual_seed(seed)
    model = RobustMat(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "time_shift" in name:  # zero at the start of training: a test would not see them
                parameter.normal_()
    return model
