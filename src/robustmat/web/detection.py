"""The one place that asks for landmarks of an image without boxes."""

from importlib import import_module
from importlib.util import find_spec

from robustmat.errors import InputError
from robustmat.landmarks.reading import read_frame
from robustmat.types import Image, Landmark
from robustmat.web.problems import HttpError

REGISTRY = "robustmat.detection.registry"


def detector_name() -> str | None:
    """What detects where no boxes are given; None where nothing does."""
    if find_spec(REGISTRY.rpartition(".")[0]) is None:
        return None
    return str(import_module(REGISTRY).DEFAULT_DETECTOR)


def detect(pixels: Image, name: str) -> tuple[Landmark, ...]:
    if detector_name() is None:
        raise HttpError(501, f"no detector installed yet: give the boxes of '{name}', or draw them on the page")
    try:
        return read_frame(pixels, name=name).landmarks
    except InputError as problem:
        raise HttpError(422, str(problem)) from None
