"""The one place that asks for landmarks of an image without boxes."""

from robustmat.detection.registry import DEFAULT_DETECTOR
from robustmat.errors import InputError
from robustmat.pipeline import read_frame
from robustmat.types import Image, Landmark
from robustmat.web.problems import HttpError


def detector_name() -> str:
    """What detects where no boxes are given."""
    return DEFAULT_DETECTOR


def detect(pixels: Image, name: str) -> tuple[Landmark, ...]:
    try:
        return read_frame(pixels, name=name).landmarks
    except InputError as problem:
        raise HttpError(422, str(problem)) from None
