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
    """A method: how its configuration is read, how its model is made, whether it begins with ImageNet weights."""

    config: type[BaselineConfig]
    model: type[PatchMatcher]
    pretrained: bool = False


BASELINES: dict[str, Baseline] = {
    "siamesenet": Baseline(SiameseNetConfig, SiameseNet),
    "matchnet": Baseline(MatchNetConfig, MatchNet),
    "hardnet": Baseline(BaselineConfig, HardNet),
    "sosnet": Baseline(BaselineConfig, SOSNet),
    "exp-tloss": Baseline(BaselineConfig, ExpTLoss),
    "hynet": Baseline(BaselineConfig, HyNet),
    "solar": Baseline(BaselineConfig, Solar, pretrained=True),
    "delg": Baseline(DelgConfig, Delg, pretrained=True),
    "cvnet": Baseline(CVNetConfig, CVNet, pretrained=True),
}


def make_baseline(name: str, config: BaselineConfig) -> PatchMatcher:
    """An untrained model of the method."""
    if name not in BASELINES:
        raise ConfigError(f"unknown method '{name}' ({nearest(name, list(BASELINES))})")
    try:
        return BASELINES[name].model(config)
    except ModuleNotFoundError as missing:
        raise ConfigError(f"{name} needs '{missing.name}': pip install 'robustmat[baselines]'") from None
