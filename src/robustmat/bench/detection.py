"""Milliseconds a frame of a detector, on a simulated street as KITTI's camera sees it."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robustmat.detection.protocol import LandmarkDetector
from robustmat.simulation import build_town, drive_town
from robustmat.types import Frame, InMemory

TOWN = 2026


@dataclass(frozen=True)
class DetectionTime:
    """Of one frame; `processor` is the time that all threads took together."""

    detector: str
    width: int
    height: int
    frames: int
    landmarks: int  # of all frames
    wall: float  # seconds, median
    processor: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_detect(detector: LandmarkDetector, frames: int = 5, repeats: int = 3) -> DetectionTime:
    """Detect in each of some frames several times, after one that warms up."""
    drive = drive_town(build_town(TOWN), frames, spacing=20.0)
    loaded = [Frame(frame.name, InMemory(frame.image)) for frame in drive.frames]
    detector.detect(loaded[0])
    wall, processor, landmarks = [], [], 0
    for frame in loaded:
        for _ in range(repeats):
            clocks = time.perf_counter(), time.process_time()
            found = detector.detect(frame)
            wall.append(time.perf_counter() - clocks[0])
            processor.append(time.process_time() - clocks[1])
        landmarks += len(found)
    height, width = loaded[0].image.shape[:2]
    times = float(np.median(wall)), float(np.median(processor))
    return DetectionTime(detector.name, width, height, frames, landmarks, *times)
