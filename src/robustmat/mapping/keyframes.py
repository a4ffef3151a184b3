"""Which frames of a drive become keyframes, and how the drive is cut into stretches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustmat.errors import DataError
from robustmat.mapping.settings import MapSettings
from robustmat.types import Array, Frame

JUMP = 30.0  # metres between two frames: the recording was interrupted there


@dataclass(frozen=True)
class Keyframe:
    """A frame that the map keeps, and how far along its drive it was taken."""

    frame: Frame
    T_world_camera: Array
    travelled: float


def choose_keyframes(frames: Sequence[Frame], settings: MapSettings, where: str) -> list[Keyframe]:
    """Frames with landmarks, one each time the camera has moved or turned far enough."""
    if not any(frame.T_world_camera is not None for frame in frames):
        raise DataError(f"{where} has no poses: a map needs to know where its frames were taken")
    chosen: list[Keyframe] = []
    travelled, before, last = 0.0, None, None
    for frame in frames:
        pose = frame.T_world_camera
        if pose is None:
            continue
        if before is not None:
            step = float(np.linalg.norm(pose[:3, 3] - before[:3, 3]))
            travelled += step if step < JUMP else 0.0
        before = pose
        far = last is None or _moved(last, pose) >= settings.keyframe_spacing
        turned = last is not None and _turned(last, pose) >= settings.keyframe_turn
        if (far or turned) and (frame.landmarks or settings.keypoints):
            chosen.append(Keyframe(frame, pose, travelled))
            last = pose
    return chosen


def stretches(keyframes: Sequence[Keyframe], settings: MapSettings) -> list[list[Keyframe]]:
    """The drive in pieces of at most `settings.stretch` keyframes."""
    return [list(keyframes[i : i + settings.stretch]) for i in range(0, len(keyframes), settings.stretch)]


def _moved(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a[:3, 3] - b[:3, 3]))


def _turned(a: Array, b: Array) -> float:
    """Degrees between two directions of view."""
    return float(np.degrees(np.arccos(np.clip(a[:3, 2] @ b[:3, 2], -1.0, 1.0))))
