"""A rival's training run as a TOML file: which method, its sizes, its loss, how long."""

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import SerializeAsAny

from robustmat.config import merged, nearest, parse, read_toml
from robustmat.errors import ConfigError
from robustmat.models.baselines import BASELINES
from robustmat.models.baselines.protocol import BaselineConfig
from robustmat.training.baseline_objectives import ObjectiveConfig
from robustmat.training.config import RunConfig


class BaselineTrainingConfig(RunConfig):
    """Everything that decides a rival's weights but the data."""

    method: str
    model: SerializeAsAny[BaselineConfig]
    objective: ObjectiveConfig


def is_baseline_config(name: str | Path) -> bool:
    """A rival's name, or a TOML file that names one with `method`."""
    path = Path(name)
    return str(name) in BASELINES or (path.is_file() and "method" in read_toml(path))


def load_baseline_config(name: str | Path, changes: dict[str, Any] | None = None) -> BaselineTrainingConfig:
    """The shipped configuration of a method, or a TOML file with `method`, `[model]`, `[objective]` and the run's keys.

    A file starts from the method's shipped configuration and needs to say only what differs.
    """
    given = {"method": str(name)} if str(name) in BASELINES else read_toml(name)
    given = merged(given, changes or {})
    method = given.get("method")
    if method not in BASELINES:
        raise ConfigError(f"{name}: unknown method {method!r} ({nearest(str(method), list(BASELINES))})")
    path = Path(str(resources.files(__package__))) / "presets" / f"{method}.toml"
    values = merged(read_toml(path), given)
    model = parse(BASELINES[method].config, values.pop("model", {}), f"{name}: model")
    objective = parse(ObjectiveConfig, values.pop("objective", {}), f"{name}: objective")
    return parse(BaselineTrainingConfig, {**values, "model": model, "objective": objective}, str(name))
