"""Match street landmarks between camera frames, in any weather, with neural diffusion.

    import robustmat
    matcher = robustmat.load("street")
    a = robustmat.read_frame("a.png", boxes="a.json")
    b = robustmat.read_frame("b.png", boxes="b.json")
    result = matcher.match(a, b)
    result.draw("matches.png")

Importing does nothing else: each name brings its libraries along when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustmat.checkpoints.load import load
    from robustmat.dataset.store import LandmarkDataset, open_dataset
    from robustmat.errors import RobustMatError
    from robustmat.evaluation.evaluate import evaluate
    from robustmat.mapping.landmark_map import LandmarkMap, open_map
    from robustmat.matching.embedded import EmbeddedFrame, load_embedded
    from robustmat.matching.matcher import Matcher
    from robustmat.models.robustmat import ModelConfig, RobustMat
    from robustmat.perturb import perturb_image
    from robustmat.pipeline import match_frames, match_sequence, read_frame, read_sequence
    from robustmat.types import Camera, Frame, Landmark, Match, MatchResult

__version__ = "0.2.0"

_HOMES = {
    "Camera": "robustmat.types",
    "EmbeddedFrame": "robustmat.matching.embedded",
    "Frame": "robustmat.types",
    "Landmark": "robustmat.types",
    "LandmarkDataset": "robustmat.dataset.store",
    "LandmarkMap": "robustmat.mapping.landmark_map",
    "Match": "robustmat.types",
    "MatchResult": "robustmat.types",
    "Matcher": "robustmat.matching.matcher",
    "ModelConfig": "robustmat.models.robustmat",
    "RobustMat": "robustmat.models.robustmat",
    "RobustMatError": "robustmat.errors",
    "evaluate": "robustmat.evaluation.evaluate",
    "load": "robustmat.checkpoints.load",
    "load_embedded": "robustmat.matching.embedded",
    "match_frames": "robustmat.pipeline",
    "match_sequence": "robustmat.pipeline",
    "open_dataset": "robustmat.dataset.store",
    "open_map": "robustmat.mapping.landmark_map",
    "perturb_image": "robustmat.perturb",
    "read_frame": "robustmat.pipeline",
    "read_sequence": "robustmat.pipeline",
}

__all__ = [
    "Camera",
    "EmbeddedFrame",
    "Frame",
    "Landmark",
    "LandmarkDataset",
    "LandmarkMap",
    "Match",
    "MatchResult",
    "Matcher",
    "ModelConfig",
    "RobustMat",
    "RobustMatError",
    "evaluate",
    "load",
    "load_embedded",
    "match_frames",
    "match_sequence",
    "open_dataset",
    "open_map",
    "perturb_image",
    "read_frame",
    "read_sequence",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'robustmat' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
