"""What a detector is: the extension point. `registry.DETECTORS` names the ones that are here."""

from typing import Protocol

from robustmat.types import Frame, Landmark


class LandmarkDetector(Protocol):
    """Finds the landmarks of a frame."""

    @property
    def name(self) -> str:
        """What reports and data sets call it."""
        ...

    def detect(self, frame: Frame) -> tuple[Landmark, ...]:
        """Landmarks with tight boxes inside the frame's image, a category and a confidence each; none is fine."""
        ...
