"""Evidence carried along a drive: a discrete Bayes filter over keyframes, and a pose as the prior of the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from robustmat.mapping.pose import PoseEstimate, Prior, difference
from robustmat.types import Array

GETS_LOST = 0.02  # how likely the camera leaves the map from one frame to the next
COMES_BACK = 0.02  # or enters it
NOTHING = -0.3  # the log likelihood ratio of all keyframes when a frame shows nothing known
LEAST = -1.0  # of keyframes that were not compared with the frame, at most; less than of those that were
ALIKE = 0.5  # how much of a frame's evidence is new: the next frame sees nearly the same


class DriveFilter:
    """A belief is [K + 1]: how likely the frame was taken at each keyframe, and at an unknown place."""

    def __init__(self, names: Sequence[str], positions: Array, step: float) -> None:
        self.index = {name: i for i, name in enumerate(names)}
        self.names, self.positions = list(names), positions
        tree = cKDTree(positions) if len(positions) else None
        reach = 3 * step
        self._near = [np.array(near) for near in tree.query_ball_point(positions, reach)] if tree else []
        self._share = []
        for i, near in enumerate(self._near):
            apart = np.linalg.norm(positions[near] - positions[i], axis=1)
            weight = np.exp(-0.5 * (apart / step) ** 2)
            self._share.append(weight / weight.sum())

    def start(self) -> Array:
        """Half unknown, half anywhere."""
        count = len(self.names)
        return np.append(np.full(count, 0.5 / max(count, 1)), 0.5)

    def predict(self, belief: Array) -> Array:
        """The camera moved on by about a step, along the drive or against it."""
        count = len(self.names)
        moved = np.zeros(count)
        for i in np.flatnonzero(belief[:-1] > 1e-9):
            moved[self._near[i]] += belief[i] * self._share[i]
        if moved.sum() > 0:
            moved *= belief[:-1].sum() / moved.sum()
        stay = moved * (1 - GETS_LOST) + belief[-1] * COMES_BACK / max(count, 1)
        return np.append(stay, belief[-1] * (1 - COMES_BACK) + moved.sum() * GETS_LOST)

    def update(self, belief: Array, log_ratio: Mapping[str, float]) -> Array:
        """Weigh the belief with what was seen; keyframes that votes did not propose count as less likely than those."""
        unseen = min(LEAST, *log_ratio.values(), 0.0) if log_ratio else NOTHING
        evidence = np.append(np.full(len(self.names), unseen), 0.0)
        for name, value in log_ratio.items():
            evidence[self.index[name]] = value
        evidence *= ALIKE
        weighed = belief * np.exp(evidence - evidence.max())
        return np.asarray(weighed / weighed.sum())

    def likeliest(self, belief: Array, count: int) -> list[str]:
        order = np.argsort(-belief[:-1], kind="stable")[:count]
        return [self.names[i] for i in order if belief[i] > 1 / (2 * len(belief))]

    def around(self, belief: Array, radius: float) -> Array:
        """The belief in the neighbourhood of each keyframe: [K]."""
        near = [np.linalg.norm(self.positions - place, axis=1) < radius for place in self.positions]
        return np.array([belief[:-1][rows].sum() for rows in near])


@dataclass(frozen=True)
class Belief:
    """A pose that is carried from frame to frame, and how it moved last."""

    T_world_camera: Array
    covariance: Array  # [6, 6]
    T_before_now: Array  # [4, 4], the last step

    @staticmethod
    def of(pose: PoseEstimate, before: "Belief | None") -> "Belief":
        """After a measurement; the step is what lies between the two poses."""
        if before is None:
            return Belief(pose.T_world_camera, pose.covariance, np.eye(4))
        last = before.T_world_camera @ np.linalg.inv(before.T_before_now)
        return Belief(pose.T_world_camera, pose.covariance, np.linalg.inv(last) @ pose.T_world_camera)

    def as_prior(self, ground: Prior) -> Prior:
        """This belief, as long as it does not contradict what a keyframe says of the ground."""
        off = difference(ground.T_world_camera, self.T_world_camera)
        if off @ ground.information @ off > 25:
            return ground
        return Prior(self.T_world_camera, np.asarray(np.linalg.inv(self.covariance), float), shares_errors=True)


def carried(track: Belief, step: float) -> Belief:
    """One frame on: the last step is taken again, and nobody knows quite how long it was."""
    doubt = np.array([0.15, 0.05, step / 3, *np.radians([0.5, 2.0, 0.5])]) ** 2
    turn = np.eye(6)
    turn[:3, :3] = turn[3:, 3:] = track.T_before_now[:3, :3].T
    covariance = turn @ track.covariance @ turn.T + np.diag(doubt)
    return Belief(track.T_world_camera @ track.T_before_now, covariance, track.T_before_now)
