"""Landmarks that move by themselves: a sign on a truck agrees with its own keypoints, and with nothing else."""

from dataclasses import replace

import numpy as np

from robustmat.geometry.relative_pose import RelativePose
from robustmat.odometry.keypoints import Pairs, PointMatches

FEWEST = 5  # keypoint matches on a landmark that can accuse it
AGREEING = 0.4  # share of them that must agree with the motion


def without_moving(
    points: PointMatches, landmarks: Pairs, pose: RelativePose
) -> tuple[PointMatches, list[tuple[int, int]]]:
    """The matches without those on landmarks most of whose keypoints contradict the motion, and these landmarks."""
    weight = points.weight.copy()
    moving = []
    for number, pair in enumerate(landmarks):
        on = (points.on == number) & (points.weight > 0)
        if on.sum() >= FEWEST and pose.inliers[on].mean() < AGREEING:
            moving.append(pair)
            weight[on] = 0.0
    return (points, []) if not moving else (replace(points, weight=np.asarray(weight)), moving)
