"""A training run as a TOML file: which method, which network, which losses, how long."""

from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    field_validator,
)

from robustmat.config import Config, merged, nearest, parse, read_toml
from robustmat.denoising.registry import TRAINABLE
from robustmat.errors import ConfigError, brief
from robustmat.files import read_json
from robustmat.methods import Trainable, find_method, method_names
from robustmat.perturb import parse as parse_perturbation

PRESETS = ("paper", "street", "street-real")


class LoopConfig(Config):
    """How long and how fast something is trained, under which perturbations, whatever it is."""

    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: PositiveFloat = 1e-4
    weight_decay: NonNegativeFloat = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    gradient_clip: PositiveFloat = 1.0
    steps: NonNegativeInt = 1000  # none: only what comes before and after them
    validate_every: PositiveInt = 100
    perturbations: tuple[str, ...] = Field(default=("clean", "paper:19", "paper:16", "paper:13"), min_length=1)
    validation_perturbation: str = "paper:16"
    seed: NonNegativeInt = 0

    @field_validator("perturbations", "validation_perturbation")
    @classmethod
    def _known(cls, value: Any) -> Any:
        for name in (value,) if isinstance(value, str) else value:
            try:
                parse_perturbation(name)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return value


class RunConfig(LoopConfig):
    """On which views of the data a matcher is trained, and what it begins with."""

    frame_pairs_per_step: PositiveInt = 6
    views: PositiveInt = 4  # perturbed copies of each frame, cut before training
    jitter: float = Field(default=0.0, ge=0, lt=0.5)  # of box edges, as a share of the box
    flip: bool = False
    warm_start: bool = False  # from principal components and distances of the training patches, not from random numbers
    # Features of photographs, or of chance with a distance on top, match real streets better before they have learned
    # from simulated towns than after: tables then only initialise them there (`warm_start`).
    learns_from_towns: bool = True
    rate_after_first: float = Field(default=0.3, gt=0, le=1)  # of the learning rate, where tables go on from towns


class TrainingConfig(RunConfig):
    """Everything that decides the weights but the data: a run, a method, its network and its losses."""

    method: str
    model: SerializeAsAny[Config]
    objective: SerializeAsAny[Config]


def load_training_config(name: str | Path, changes: dict[str, Any] | None = None) -> TrainingConfig:
    """A shipped training configuration or a method by name, a TOML file or a run's `run.json`, under `changes`.

    In the file, `method` names the method (`robustmat` unless given), `preset` one of its named networks, `variant` one
    of its ablations; `[model]` changes single keys of the network, `[objective]` of the losses; all else are the run's
    own keys. What is not said is as the method has it.
    """
    values = merged(read_training_values(name), changes or {})
    for key in ("method", "preset", "variant"):
        if not isinstance(values.get(key, ""), str):
            raise ConfigError(f"{name}: {key} must be a name, found {brief(values[key])}")
    method = values.pop("method")
    learning = find_method(method).learning
    values = merged(dict(learning.run), values)
    model = _model_values(learning, method, values.pop("preset", None), values.pop("variant", None))
    sections = {key: values.pop(key, {}) for key in ("model", "objective")}
    for key, section in sections.items():
        if not isinstance(section, dict):
            raise ConfigError(f"{name}: [{key}] must be a table of keys, found {brief(section)}")
    parts = {
        "model": parse(learning.config, merged(model, sections["model"]), f"{name}: model"),
        "objective": parse(learning.settings, sections["objective"], f"{name}: objective"),
    }
    return parse(TrainingConfig, {**values, "method": method, **parts}, str(name))


def read_training_values(name: str | Path) -> dict[str, Any]:
    """What a configuration says before it is checked; `method`, a matcher's or a denoiser's name, is always there."""
    values = {"method": "robustmat", **_read(name)}
    if not isinstance(values["method"], str):
        raise ConfigError(f"{name}: method must be a name, found {values['method']!r}")
    return values


def _read(name: str | Path) -> dict[str, Any]:
    path = Path(name)
    known = (*method_names(), *TRAINABLE)
    if path.suffix == ".json" and path.is_file():  # the configuration of a run, as its run.json holds it
        values = read_json(path, "training run")
        return dict(values.get("config", values)) if isinstance(values, dict) else {}
    if str(name) in PRESETS:
        path = Path(str(resources.files(__package__))) / "presets" / f"{name}.toml"
    elif not path.is_file():
        if str(name) in known:
            return {"method": str(name)}
        hint = nearest(str(name), [*PRESETS, *known])
        raise ConfigError(f"no training configuration '{name}': neither a TOML file nor a name ({hint})")
    return read_toml(path)


def _model_values(learning: Trainable, method: str, preset: Any, variant: Any) -> dict[str, Any]:
    """The keys of a named network in one of its variants."""
    for kind, given, known in (("preset", preset, learning.presets), ("variant", variant, learning.variants)):
        if given is not None and given not in known:
            hint = nearest(str(given), list(known)) if known else "it has none"
            raise ConfigError(f"{method} has no {kind} '{given}' ({hint})")
    chosen = preset or next(iter(learning.presets), None)
    values = learning.presets[chosen]() if chosen else {}
    return merged(values, learning.variants[variant]) if variant else values
