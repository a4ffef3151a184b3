"""Drives without labels: a detector stands in for the person who would draw the boxes."""

from dataclasses import replace
from functools import partial

from robustmat.detection.protocol import LandmarkDetector
from robustmat.sources.drive import Drive
from robustmat.types import Frame, Landmark


def has_labels(drive: Drive) -> bool:
    return any(frame.load_semantics is not None or frame.load_boxes is not None for frame in drive.frames)


def with_detections(drive: Drive, detector: LandmarkDetector) -> Drive:
    """The drive with boxes that the detector finds when they are asked for; its source names the detector."""
    frames = tuple(replace(frame, load_boxes=partial(_detect, detector, frame)) for frame in drive.frames)
    return replace(drive, frames=frames, source={**drive.source, "detector": detector.name})


def _detect(detector: LandmarkDetector, frame: Frame) -> tuple[Landmark, ...]:
    return detector.detect(frame)
