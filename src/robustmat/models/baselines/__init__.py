"""The nine patch matchers that the paper compares with, behind one protocol; one file each.

Their networks come from the extra `baselines`; nothing of it is imported before a model is made.
"""

from dataclasses import dataclass

from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.models.baselines.cvnet import CVNet, CVNetConfig
from robustmat.models.baselines.delg import Delg, DelgConfig
from robustmat.models.baselines.exp_tloss import ExpTLoss
from robustmat.models.baselines.hardnet import HardNet
from robustmat.models.baselines.hynet import HyNet
from robustmat.models.baselines.matchnet import MatchNet, MatchNetConfig
from robustmat.models.baselines.protocol import BaselineConfig, PatchMatcher
from robustmat.models.baselines.siamesenet import SiameseNet, SiameseNetConfig
from robustmat.models.baselines.solar import Solar
from robustmat.models.baselines.sosnet import SOSNet


@dataclass(frozen=True)
class Baseline:
    """A method: how its configuration is read, how its model is made, whether simulated streets teach it something.

    Features of photographs, or of nothing but chance with a distance on top, match real streets better before they have
    learned from towns than after: what begins so is suited to towns (`PatchMatcher.warm_start`), not trained on them.
    """

    config: type[BaselineConfig]
    model: type[PatchMatcher]
    learns_from_towns: bool = True


BASELINES: dict[str, Baseline] = {
    "siamesenet": Baseline(SiameseNetConfig, SiameseNet),
    "matchnet": Baseline(MatchNetConfig, MatchNet, learns_from_towns=False),
    "hardnet": Baseline(BaselineConfig, HardNet),
    "sosnet": Baseline(BaselineConfig, SOSNet),
    "exp-tloss": Baseline(BaselineConfig, ExpTLoss),
    "hynet": Baseline(BaselineConfig, HyNet),
    "solar": Baseline(BaselineConfig, Solar, learns_from_towns=False),
    "delg": Baseline(DelgConfig, Delg, learns_from_towns=False),
    "cvnet": Baseline(CVNetConfig, CVNet, learns_from_towns=False),
}


def make_baseline(name: str, config: BaselineConfig) -> PatchMatcher:
    """An untrained model of the method."""
    if name not in BASELINES:
        raise ConfigError(f"unknown method '{name}' ({nearest(name, list(BASELINES))})")
    try:
        return BASELINES[name].model(config)
    except ModuleNotFoundError as missing:
        raise ConfigError(f"{name} needs '{missing.name}': pip install 'robustmat[baselines]'") from None
