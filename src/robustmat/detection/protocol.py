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


LEAST_CONFIDENCE = 0.2  # what is less sure needs a partner surer than 0.37 for a match that is likelier than not


def detect_for_matching(detector: LandmarkDetector, frame: Frame) -> tuple[Landmark, ...]:
    """What is worth matching: what `detect` returns and, of a detector that tells them, doubtful candidates, too.

    A doubtful landmark that agrees with one in another frame is likely there; see `matching.matcher.existence`.
    """
    if not isinstance(detector, TellsCandidates):
        return detector.detect(frame)
    return tuple(
        mark
        for mark in detector.candidates(frame)
        if detector.is_sure(mark) or (mark.confidence or 0.0) >= LEAST_CONFIDENCE
    )
