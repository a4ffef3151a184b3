"""The named model configurations, as TOML, and the ablation variants as changes to them."""

from importlib import resources
from pathlib import Path
from typing import Any

from robustmat.config import merged, nearest, parse, read_toml
from robustmat.errors import ConfigError
from robustmat.models.robustmat import ModelConfig

PRESETS = ("street", "paper")  # the first is the default

ODE = {"vertex": {"evolution": "diffusion"}}
# Ablations ask the paper's questions of a model with its ODE: `ode` is what they are compared with, `full` what ships.
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "ode": ODE,
    "gcn": merged(ODE, {"graph": {"field": "convolution"}}),
    "resnet-gat": {"vertex": {"evolution": "residual"}, "graph": {"evolution": "single"}},
    "ode-only": merged(ODE, {"score": "vertex"}),
    "pde-only": {"vertex": {"evolution": "none"}, "score": "graph"},
}
# The paper's network sees the crop alone, and has nothing hand-crafted beside what it learns; `street` has more.
LEARNED: dict[str, Any] = {"vertex": {"orientations": 0, "colours": False}, "patch": {"context": None}}


def preset_values(name: str) -> dict[str, Any]:
    """The keys of a named configuration, as its file has them."""
    with resources.as_file(resources.files(__package__) / f"{name}.toml") as path:
        return read_toml(Path(path))


def preset(
    name: str, variant: str = "full", changes: dict[str, Any] | None = None, where: str | None = None
) -> ModelConfig:
    """A named configuration, in one of the ablation's variants, with `changes` laid over it; errors name `where`."""
    for kind, given, known in (("model", name, PRESETS), ("variant", variant, tuple(VARIANTS))):
        if given not in known:
            raise ConfigError(f"unknown {kind} '{given}' ({nearest(given, list(known))})")
    values = merged(merged(preset_values(name), VARIANTS[variant]), changes or {})
    return parse(ModelConfig, values, where or f"model '{name}'")
