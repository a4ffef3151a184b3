"""What a detector is: the extension point. `registry.DETECTORS` names the ones that are here."""

from typing import Protocol, runtime_checkable

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


@runtime_checkable
class TellsCandidates(Protocol):
    """A detector that also tells what it is not sure enough of to return; average precision ranks that, too."""

    def candidates(self, frame: Frame) -> tuple[Landmark, ...]: ...

    def is_sure(self, landmark: Landmark) -> bool: ...
