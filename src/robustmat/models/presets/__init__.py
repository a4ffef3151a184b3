"""The named model configurations, as TOML, and the ablation variants as changes to them."""

from importlib import resources
from pathlib import Path
from typing import Any

from robustmat.config import merged, nearest, parse, read_toml
from robustmat.errors import ConfigError
from robustmat.models.robustmat import ModelConfig

PRESETS = ("paper", "street")

VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "gcn": {"graph": {"field": "convolution"}},
    "resnet-gat": {"vertex": {"evolution": "residual"}, "graph": {"evolution": "single"}},
    "ode-only": {"score": "vertex"},
    "pde-only": {"vertex": {"evolution": "none"}, "score": "graph"},
}


def preset(
    name: str, variant: str = "full", changes: dict[str, Any] | None = None, where: str | None = None
) -> ModelConfig:
    """A named configuration, in one of the ablation's variants, with `changes` laid over it; errors name `where`."""
    for kind, given, known in (("model", name, PRESETS), ("variant", variant, tuple(VARIANTS))):
        if given not in known:
            raise ConfigError(f"unknown {kind} '{given}' ({nearest(given, list(known))})")
    with resources.as_file(resources.files(__package__) / f"{name}.toml") as path:
        values = read_toml(Path(path))
    return parse(ModelConfig, merged(merged(values, VARIANTS[variant]), changes or {}), where or f"model '{name}'")
