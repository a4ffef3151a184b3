"""A training run as a TOML file: which model, which losses, which data, how long."""

from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

from robustmat.config import Config, nearest, parse, read_toml
from robustmat.errors import ConfigError
from robustmat.models.presets import preset
from robustmat.models.robustmat import ModelConfig
from robustmat.perturb import parse as parse_perturbation

PRESETS = ("paper", "street", "street-real")
MODEL_KEYS: dict[str, Any] = {"model": "street", "variant": "full", "changes": {}}


class RunConfig(Config):
    """How long, how fast and on which views of the data a model is trained, whatever the model."""

    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: PositiveFloat = 1e-4
    weight_decay: NonNegativeFloat = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    gradient_clip: PositiveFloat = 1.0
    steps: NonNegativeInt = 1000  # none: only what comes before and after them
    validate_every: PositiveInt = 100
    frame_pairs_per_step: PositiveInt = 6
    perturbations: tuple[str, ...] = Field(default=("clean", "paper:19", "paper:16", "paper:13"), min_length=1)
    views: PositiveInt = 4  # perturbed copies of each frame, cut before training
    jitter: float = Field(default=0.0, ge=0, lt=0.5)  # of box edges, as a share of the box
    flip: bool = False
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


class TrainingConfig(RunConfig):
    """Everything that decides the weights but the data. Defaults are the paper's where it speaks."""

    model: ModelConfig
    warm_start: bool = False  # from principal components and a distance, not from random numbers
    graph_loss_weight: float = Field(default=0.5, ge=0, le=1)  # lambda
    vertex_regularizer: NonNegativeFloat = 0.0  # weight of the ODE's output-input quotient
    graph_regularizer: NonNegativeFloat = 0.0  # weight of the PDE's
    triplet_weight: NonNegativeFloat = 0.0
    triplet_margin: PositiveFloat = 0.5
    contrastive_weight: NonNegativeFloat = 0.0
    temperature: PositiveFloat = 0.1  # of the contrastive term
    # Heads: all that compares vertex embeddings, which stay as they are. Weights: how much each evidence counts.
    learns: Literal["all", "heads", "weights"] = "all"
    weighs_unlearned: bool = True  # false where embeddings are at home and would always be trusted more
    joint_weight: NonNegativeFloat = 1.0  # of the joint diffusion's loss, where the model has one
    unplaced_share: float = Field(default=0.25, ge=0, le=1)  # of frame pairs whose joint diffusion sees pixels alone
    matched_share: float = Field(default=0.5, gt=0, lt=1)  # of the loss's total weight, whatever the counts

    @property
    def effective_graph_loss_weight(self) -> float:
        """Lambda, but a comparison that the model's score leaves out is not trained either."""
        return {"both": self.graph_loss_weight, "vertex": 0.0, "graph": 1.0}[self.model.score]


def load_training_config(name: str | Path, changes: dict[str, Any] | None = None) -> TrainingConfig:
    """A shipped training configuration by name, or a TOML file.

    In the file, `model` names a preset, `variant` one of the ablation's, and `[changes]` overrides single
    model keys; all else are `TrainingConfig`'s own keys.
    """
    path = Path(name)
    if str(name) in PRESETS:
        path = Path(str(resources.files(__package__))) / "presets" / f"{name}.toml"
    elif not path.is_file():
        raise ConfigError(
            f"no training configuration '{name}': neither a TOML file nor a name ({nearest(str(name), list(PRESETS))})"
        )
    values = read_toml(path) | (changes or {})
    name, variant, changed = (values.pop(it, default) for it, default in MODEL_KEYS.items())
    if not (isinstance(name, str) and isinstance(variant, str) and isinstance(changed, dict)):
        raise ConfigError(f"{path}: model and variant are names, changes is a table such as [changes.vertex]")
    model = preset(name, variant, changed, str(path))
    return parse(TrainingConfig, {"model": model, **values}, str(path))
