"""The registry of methods: every file of this folder is one method, under the name of the file.

A file sets `METHOD`. Nothing else has to be told: `robustmat train NAME`, `robustmat evaluate --method NAME`,
`robustmat.load` and the tables find it here. A file is imported when its method is asked for, so that a missing library
only concerns those who need it.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from robustmat.config import Config, nearest
from robustmat.errors import ConfigError
from robustmat.matching.matcher import Matcher

if TYPE_CHECKING:
    from torch import Tensor

    from robustmat.models.batch import TrainingBatch
    from robustmat.models.network import Network


class Objective(Protocol):
    """Every term of a method's loss for one batch; `loss` is what is minimised.

    One with weights of its own (a torch module, such as DELG's classifier) is trained along and left behind when a
    checkpoint is written.
    """

    def __call__(self, network: Any, batch: "TrainingBatch") -> "dict[str, Tensor]": ...


@dataclass(frozen=True)
class Trainable:
    """How a method learns.

    Attributes:
        network: makes an untrained network from its configuration.
        objective: makes the objective from its settings, the network and the number of objects to be told apart.
        run: the keys of a training run, laid over `RunConfig`'s defaults.
        presets: named model configurations, the first of them the default; none: the configuration's own defaults.
        variants: ablations, as changes to the model configuration.
        evidence: all that scores of its networks can know.
        steps: what can be put on top of its scores once it is trained (`matching/steps.py`).
        extra: what has to be installed for it: `pip install 'robustmat[EXTRA]'`.
    """

    config: type[Config]
    network: "Callable[[Any], Network]"
    settings: type[Config]
    objective: "Callable[[Any, Any, int], Objective]"
    run: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    variants: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    evidence: tuple[str, ...] = ("pair",)
    steps: tuple[str, ...] = ("neighbors", "competition", "placement")
    extra: str = "train"


@dataclass(frozen=True)
class Method:
    """A way to match landmarks.

    Attributes:
        label: what tables call it.
        trainable: how it learns; None for a method that needs no training.
        matcher: makes the matcher of a method that needs no training.
        in_paper: it is one of the patch matchers that the paper compares with.
        steps: what can be put on top of a matcher that needs no training and no fitting.
        fetched: it needs weights that do not come with any package; its error says where from.
    """

    label: str
    trainable: Trainable | None = None
    matcher: Callable[[], Matcher] | None = None
    in_paper: bool = False
    steps: tuple[str, ...] = ()
    fetched: bool = False

    @property
    def learning(self) -> Trainable:
        if self.trainable is None:
            raise ConfigError(f"{self.label} needs no training")
        return self.trainable

    def make_network(self, config: Any) -> "Network":
        """An untrained network; says what to install where a library is missing."""
        learning = self.learning
        try:
            return learning.network(config)
        except ModuleNotFoundError as missing:
            raise ConfigError(
                f"{self.label} needs '{missing.name}': pip install 'robustmat[{learning.extra}]'"
            ) from None


# What all rivals' trainings have in common: enough for minutes on one core.
RIVAL_RUN: dict[str, Any] = {
    "optimizer": "adamw",
    "schedule": "cosine",
    "weight_decay": 1e-4,
    "views": 4,
    "jitter": 0.05,
    "flip": True,
    "warm_start": True,
    "frame_pairs_per_step": 4,
    "steps": 400,
    "validate_every": 100,
    "learning_rate": 1e-3,
}


def method_names() -> tuple[str, ...]:
    """All registered methods, without importing any."""
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)))


def find_method(name: str) -> Method:
    """A method by its name."""
    if name not in method_names():
        raise ConfigError(f"unknown method '{name}' ({nearest(name, list(method_names()))})")
    try:
        method: Method = import_module(f"{__name__}.{name.replace('-', '_')}").METHOD
    except ModuleNotFoundError as missing:
        raise ConfigError(f"{name} needs '{missing.name}': pip install 'robustmat[train]'") from None
    return method


def rivals() -> tuple[str, ...]:
    """The methods that the paper compares with."""
    return tuple(name for name in method_names() if find_method(name).in_paper)


def split_name(name: str, evidence: str | None = None) -> tuple[str, str | None]:
    """`hardnet+neighbors` as the method and what its scores know; `evidence` may be given beside the name instead."""
    method, plus, step = name.partition("+")
    found = find_method(method)
    if plus and evidence not in (None, step):
        raise ConfigError(f"evidence '{evidence}' does not go with '{name}': say it once")
    step = step or evidence or ""
    known = ("pair", *found.steps) if found.trainable is None else (*found.trainable.evidence, *found.trainable.steps)
    if (plus or evidence) and step not in known:
        raise ConfigError(f"{method} cannot score by evidence '{step}' ({nearest(step, list(known))})")
    return method, step or None
