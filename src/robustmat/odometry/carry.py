"""The motion that matched landmarks agree on, where keypoints say nothing: boxes alone (`matching/motion.py`)."""

import numpy as np

from robustmat.geometry.relative_pose import MotionPrior, planar
from robustmat.matching.combined import told_motions
from robustmat.matching.motion import car_motions, motion_likelihood, tangent_boxes
from robustmat.matching.scene import SceneView
from robustmat.odometry.keypoints import Pairs
from robustmat.types import Array

FEWEST = 3  # landmarks that make a motion
LOOSE = 3.0  # times the prior's own deviations: landmarks are to decide


def landmark_motion(
    a: SceneView, b: SceneView, landmarks: Pairs, prior: MotionPrior
) -> tuple[Array, Array, Array] | None:
    """Rotation [3, 3], direction [3] and their covariance [5, 5] by the boxes of matched landmarks, with a prior."""
    if len(landmarks) < FEWEST:
        return None
    pairs = np.array(landmarks, np.int64)
    boxes_a, boxes_b = (tangent_boxes(view.boxes, view.intrinsics, view.width, view.height) for view in (a, b))
    loose = MotionPrior(prior.T_b_a, LOOSE * prior.rotation_deviation, LOOSE * prior.translation_deviation)
    motions = told_motions(car_motions(), loose)
    total = motion_likelihood(boxes_a, boxes_b, a.category, pairs, motions).sum(axis=0) + motions.log_prior  # [T]
    belief = np.exp(total - total.max())
    belief = belief / belief.sum()
    yaw = float(belief @ motions.yaw)
    heading = np.arctan2(motions.aside, motions.ahead)
    at = float(np.angle(belief @ np.exp(1j * heading)))
    R, direction = planar(np.array([yaw]), np.array([at - yaw / 2]), np.zeros(1))
    turn = float(belief @ (motions.yaw - yaw) ** 2) + np.radians(0.3) ** 2
    aside = float(belief @ np.angle(np.exp(1j * (heading - at))) ** 2) + np.radians(1.0) ** 2
    return R[0], direction[0], np.diag([np.radians(0.5) ** 2, turn, np.radians(0.5) ** 2, aside, aside])
