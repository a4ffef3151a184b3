"""What a map is told when it is made, and what it says about itself ever after."""

from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from robustmat.config import Config
from robustmat.errors import InputError
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array

FORMAT = "robustmat-map"
VERSION = 3  # 2 had other vectors of whole frames; 1 did not say which arrays its keyframes have

# How far poses of a drive are off, in metres and degrees, by what refined them; whoever did not let `prepare` refine
# them is believed as much. KITTI raw 0002, 0005 and 0013 by pictures against LiDAR over 12 m: docs/maps.md.
POSE_ERROR = {"LiDAR": (0.03, 0.1), "pictures": (0.07, 0.1), "nothing": (0.07, 0.1)}

Precision = Literal["float32", "float16", "int8"]


class MapSettings(Config):
    """What a map keeps. It is set once: all that is added later is kept in the same way."""

    keyframe_spacing: PositiveFloat = 2.0  # metres travelled from one keyframe to the next
    keyframe_turn: PositiveFloat = 15.0  # degrees; turning this far makes a keyframe, too
    precision: Precision = "float16"  # of stored embeddings
    min_height: float = Field(default=0.0, ge=0)  # pixels; lower boxes are left out
    min_sightings: PositiveInt = 1  # frames of the drive that an object must be seen in
    max_landmarks: PositiveInt | None = None  # of a keyframe: those that look rarest
    keypoints: int = Field(default=0, ge=0)  # of a keyframe, at most: a second witness that takes many more bytes
    pose_error: tuple[float, float] | None = None  # metres, degrees: of its drives' poses; None: by what refined them
    views: PositiveInt = 3  # representative embeddings of an object for each stretch of a drive
    stretch: PositiveInt = 25  # keyframes of one batch


def error_of_poses(metres: float, degrees: float) -> Array:
    """The covariance [6, 6] of poses that are known so well."""
    return np.diag([metres**2] * 3 + [np.radians(degrees) ** 2] * 3)


class MapHeader(Config):
    """Which matcher made the map, for which world; stored with it, and all that is asked of it must agree."""

    format: str = FORMAT
    version: int = VERSION
    world: str
    checkpoint: str  # a shipped name or a folder: what the matcher is loaded by
    evidence: str
    fingerprint: str
    dimension: PositiveInt  # of search vectors, padded
    arrays: tuple[str, ...]  # that its matcher keeps of a frame
    settings: MapSettings = Field(default_factory=MapSettings)

    @property
    def error_of_poses(self) -> Array:
        """The covariance [6, 6] of the map's own poses."""
        return error_of_poses(*(self.settings.pose_error or POSE_ERROR["LiDAR"]))


def refuse_other_matcher(header: MapHeader, matcher: Matcher, where: str) -> None:
    """Numbers of another model fit by shape, perhaps, and mean something else."""
    if (matcher.fingerprint, matcher.evidence) != (header.fingerprint, header.evidence):
        raise InputError(
            f"map {where} was made by '{header.checkpoint}' with evidence '{header.evidence}' (fingerprint "
            f"{header.fingerprint}), not by '{matcher.name}' with '{matcher.evidence}' ({matcher.fingerprint}): load "
            f"'{header.checkpoint}', or build the map again"
        )


def refuse_missing_arrays(header: MapHeader, frame: EmbeddedFrame, where: str) -> None:
    """A model of the same weights may remember more of a frame today than it did when the map was made."""
    missing = sorted(set(frame.arrays) - set(header.arrays))
    if missing:
        raise InputError(
            f"map {where} keeps {', '.join(header.arrays)} of each keyframe, but '{header.checkpoint}' as it is now "
            f"also needs {', '.join(missing)}: build the map again"
        )
