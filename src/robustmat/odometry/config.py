"""What odometry may do, and the few numbers that cars and cameras give."""

import numpy as np
from pydantic import Field, field_validator

from robustmat.config import Config, nearest

# The parts of the assistance, in the order in which they act; results/odometry.md tells what each brings.
ASSISTANCE = {
    "guided": "keypoints of two matched landmarks are matched once more, among themselves",
    "agree": "keypoint matches that lead from a matched landmark past its partner are dropped",
    "weigh": "keypoint matches in and around matched landmarks count more",
    "static": "landmarks that disagree with the motion (a sign on a truck) are dropped, with their keypoints",
    "carry": "where keypoints are few, the motion that the landmarks agree on carries on",
    "tracks": "bearings of landmarks over several frames hold the poses together",
}
USUAL = ("agree", "static", "carry", "tracks")
SCALES = ("auto", "lidar", "poses", "height", "none")


class OdometryConfig(Config):
    """Settings of a run; metres, radians and pixels."""

    assist: tuple[str, ...] = USUAL
    scale: str = "auto"  # where metres come from: LiDAR, given poses, the camera's height, or nowhere
    camera_height: float = Field(default=1.65, gt=0)  # above the road
    keypoints: str = "sift"
    seed: int = Field(default=0, ge=0)  # of the robust sample

    # A car ten times a second: how far a step may differ from the one before.
    turn_deviation: float = Field(default=float(np.radians(0.5)), gt=0)  # radians
    heading_deviation: float = Field(default=0.015, gt=0)  # of the direction of travel, radians
    speed_deviation: float = Field(default=0.08, gt=0)  # share of the distance
    independent: float = Field(default=0.1, gt=0, le=1)  # worth of a keypoint match beside it: their errors go together
    # What is too little to say anything.
    fewest_inliers: int = Field(default=25, ge=8)
    still: float = Field(default=0.8, gt=0)  # pixels that keypoints move, beyond a turn, when the car stands
    longest_wait: int = Field(default=50, ge=1)  # frames that a standing car's reference frame serves

    grown: float = 15.0  # pixels around a landmark that belong to it
    beside_weight: float = Field(default=0.5, gt=0, le=1)  # of keypoints away from matched landmarks
    link_probability: float = Field(default=0.7, ge=0.5, le=1)  # of matches that become tracks
    longest_gap: int = Field(default=4, ge=1)  # frames that a track may miss
    window: int = Field(default=12, ge=2)  # frames whose poses are adjusted together
    box_pixels: float = 1.5  # how far a box is off, and the share of its own size
    box_share: float = 0.05

    @field_validator("assist")
    @classmethod
    def _known_parts(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        for part in parts:
            if part not in ASSISTANCE:
                raise ValueError(f"unknown assistance '{part}' ({nearest(part, list(ASSISTANCE))})")
        return parts

    @field_validator("scale")
    @classmethod
    def _known_scale(cls, scale: str) -> str:
        if scale not in SCALES:
            raise ValueError(f"unknown scale '{scale}' ({nearest(scale, list(SCALES))})")
        return scale


DEFAULT = OdometryConfig()
BASELINE = OdometryConfig(assist=())
