"""The detectors by name. A checkpoint's folder is as good as a name."""

from collections.abc import Callable
from pathlib import Path

from robustmat.config import nearest
from robustmat.detection.protocol import LandmarkDetector
from robustmat.errors import ConfigError, WeightsError

SHIPPED = Path(__file__).parent / "checkpoints"
DEFAULT_DETECTOR = "street-detector"


def _street() -> LandmarkDetector:
    from robustmat.detection.runtime import DenseLandmarkDetector

    return DenseLandmarkDetector(SHIPPED / "street-detector")


def _classic() -> LandmarkDetector:
    from robustmat.detection.classic import ClassicDetector

    return ClassicDetector()


DETECTORS: dict[str, Callable[[], LandmarkDetector]] = {DEFAULT_DETECTOR: _street, "classic": _classic}


def load_detector(detector: str | Path = DEFAULT_DETECTOR) -> LandmarkDetector:
    """A detector by its name in `DETECTORS`, or by the folder of a checkpoint."""
    if str(detector) in DETECTORS:
        return DETECTORS[str(detector)]()
    folder = Path(detector)
    if (folder / "model.json").is_file():
        return _load_folder(folder)
    if folder.exists():
        raise WeightsError(f"no detector checkpoint in {folder}: expected model.json in it")
    raise ConfigError(f"unknown detector '{detector}' ({nearest(str(detector), list(DETECTORS))}), and no such folder")


def _load_folder(folder: Path) -> LandmarkDetector:
    from robustmat.detection.weights import read_description

    if read_description(folder)["kind"] == "faster-rcnn":
        from robustmat.detection.faster_rcnn import FasterRcnnDetector

        return FasterRcnnDetector(folder)
    from robustmat.detection.runtime import DenseLandmarkDetector

    return DenseLandmarkDetector(folder)
