"""The dense detector at work: onnxruntime, numpy and OpenCV; torch is neither needed nor imported."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.config import parse
from robustmat.detection.regions import ExtractionConfig, Probabilities, extract_landmarks
from robustmat.detection.weights import read_description
from robustmat.errors import InputError, WeightsError
from robustmat.features.scale import shrink
from robustmat.onnx_session import open_session, run_session
from robustmat.types import Frame, Image, Landmark

CELL = 32  # the network halves its image five times


class DenseLandmarkDetector:
    """A folder with `model.onnx` and `model.json`, as a detector.

    Args:
        folder: a checkpoint that `robustmat detect train` wrote.
        extraction: how sure to be; the checkpoint's own values unless given.
        threads: of onnxruntime; as many as there are cores, unless given.
    """

    def __init__(
        self, folder: Path | str, *, extraction: ExtractionConfig | None = None, threads: int | None = None
    ) -> None:
        self.folder = Path(folder)
        description = read_description(folder)
        self.name = str(description["name"])
        self.license = str(description["license"])
        own = parse(ExtractionConfig, description.get("extraction", {}), str(self.folder / "model.json"))
        self.extraction = extraction or own
        path = self.folder / "model.onnx"
        if not path.is_file():
            raise WeightsError(f"{self.folder} has no model.onnx: write it with `robustmat detect export {folder}`")
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if description.get("onnx_sha256", found) != found:
            raise WeightsError(f"{path} is broken or belongs to other weights: `robustmat detect export {folder}`")
        self._session = open_session(content, str(path), threads)

    def detect(self, frame: Frame) -> tuple[Landmark, ...]:
        return tuple(landmark for landmark in self.candidates(frame) if self.is_sure(landmark))

    def is_sure(self, landmark: Landmark) -> bool:
        """Whether a candidate is sure enough to be returned by `detect`."""
        return (landmark.confidence or 0.0) >= self.extraction.confidence[landmark.category]

    def candidates(self, frame: Frame) -> tuple[Landmark, ...]:
        """All that may be a landmark, however unsure."""
        (found,) = self.candidates_by(frame, [self.extraction])
        return found

    def candidates_by(self, frame: Frame, rules: Sequence[ExtractionConfig]) -> list[tuple[Landmark, ...]]:
        """The candidates by several rules of extraction, for one run of the network."""
        image = frame.image
        check_image(image, frame.name)
        probabilities, scale = self.probabilities(image)
        height, width = image.shape[:2]
        found = [extract_landmarks(probabilities, rule, all_candidates=True) for rule in rules]
        return [tuple(replace(it, box=_grown(it.box, scale, width, height)) for it in some) for some in found]

    def probabilities(self, image: Image) -> tuple[Probabilities, float]:
        """Probabilities [CHANNELS, H, W] of the image as the network sees it, and that image's scale."""
        shown, scale = shrink(image)
        height, width = shown.shape[:2]
        rows, columns = -height % CELL, -width % CELL
        padded = cv2.copyMakeBorder(shown, 0, rows, 0, columns, cv2.BORDER_REPLICATE)
        (halves,) = run_session(self._session, str(self.folder / "model.onnx"), {"image": padded[None]})[0]
        full = (padded.shape[1], padded.shape[0])
        planes = [cv2.resize(plane, full, interpolation=cv2.INTER_LINEAR)[:height, :width] for plane in halves]
        return np.stack(planes), scale


def check_image(image: NDArray[np.uint8], name: str) -> None:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
        raise InputError(f"image {name} must be uint8 [height, width, 3], found {image.dtype} {image.shape}")


def _grown(
    box: tuple[float, float, float, float], scale: float, width: int, height: int
) -> tuple[float, float, float, float]:
    if scale == 1.0:
        return box
    x0, y0, x1, y1 = (round(value / scale, 1) for value in box)
    return max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height))
