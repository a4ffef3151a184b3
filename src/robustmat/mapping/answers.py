"""What a map answers: keyframes, candidates that were compared with a frame, places and poses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustmat.mapping.pose import PoseEstimate
from robustmat.mapping.scene import ScenePose
from robustmat.types import Array, Camera, MatchResult


@dataclass(frozen=True)
class KeyframeInfo:
    """What is known of a keyframe without its landmarks."""

    name: str
    dataset: str
    travelled: float
    T_world_camera: Array
    camera: Camera

    @property
    def position(self) -> Array:
        return self.T_world_camera[:3, 3]

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> "KeyframeInfo":
        """From a row of the table."""
        camera = Camera(np.array(row["camera"]).reshape(3, 3), row["width"], row["height"])
        pose = np.array(row["pose"]).reshape(4, 4)
        return KeyframeInfo(row["keyframe"], row["dataset"], row["travelled"], pose, camera)


def apart(a: KeyframeInfo, b: KeyframeInfo) -> float:
    """Metres between two keyframes."""
    return float(np.linalg.norm(a.position - b.position))


@dataclass(frozen=True)
class Candidate:
    """A keyframe that was compared with the frame landmark by landmark."""

    keyframe: KeyframeInfo
    result: MatchResult
    pose: PoseEstimate | None
    scene: ScenePose | None  # by keypoints
    features: Array  # what the place model goes by
    log_ratio: float
    probability: float = 0.0


@dataclass(frozen=True)
class PlaceAnswer:
    """Where a frame was taken: the likeliest keyframe, unless the place is unknown."""

    frame: str
    unknown: bool
    probability: float  # of the likeliest keyframe, also where that is too little for an answer
    candidates: tuple[Candidate, ...]  # likeliest first
    nearest: KeyframeInfo | None  # to where the likeliest candidate says the camera was
    seconds: float

    @property
    def keyframe(self) -> KeyframeInfo | None:
        return None if self.unknown else self.nearest

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract."""
        found = self.keyframe
        return {
            "image": self.frame,
            "unknown": self.unknown,
            "keyframe": None if found is None else found.name,
            "position": None if found is None else found.position.tolist(),
            "probability": self.probability,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Location:
    """The camera's pose in the map, with its covariance in metres and radians of the camera's own axes."""

    place: PlaceAnswer
    pose: PoseEstimate | None
    seconds: float

    @property
    def T_world_camera(self) -> Array | None:  # noqa: N802  (a transform names both frames)
        return None if self.pose is None else self.pose.T_world_camera

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract."""
        pose = self.pose
        told = self.place.to_json()
        if pose is not None:
            told["position"] = pose.T_world_camera[:3, 3].tolist()
        return {
            **told,
            "T_world_camera": None if pose is None else pose.T_world_camera.tolist(),
            "covariance": None if pose is None else pose.covariance.tolist(),
            "landmarks_used": 0 if pose is None else len(pose.agreeing),
            "keypoints_used": 0 if pose is None else pose.keypoints,
            "seconds": self.seconds,
        }
