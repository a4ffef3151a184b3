"""What the next step will be like: cars turn and drive as they did a moment ago."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from robustmat.geometry.relative_pose import MotionPrior
from robustmat.geometry.transforms import rigid
from robustmat.odometry.config import OdometryConfig
from robustmat.types import Array

MOUNT = 0.03  # radians: how far a camera may look past the direction of travel, before anything is measured
WANDER = 0.002  # radians a step by which that may change
FIRST_TURN = np.radians(3.0)  # standard deviation of a turn before anything is measured
OUTLIER = 2.0  # standard deviations beyond which a step says no more about `ahead`
SPEED_FORGET = 0.5


@dataclass(frozen=True)
class Prediction:
    """A turn and a speed as of the last step, and the direction of travel, which a camera need not look into.

    Directions are taken at the middle of the turn, where an arc leads straight ahead.
    """

    turn: Array  # [3], rotation vector of R_b_a a step
    ahead: Array  # [3], where camera b stands, seen from halfway between
    metres: float | None = None  # a step; None before the first measured one
    doubt: float = MOUNT  # radians, standard deviation of `ahead`
    begun: bool = False  # whether a step was measured

    def step(self, interval: float = 1.0) -> tuple[Array, Array]:
        """R_b_a [3, 3] and direction of the translation [3] of a step that takes `interval` usual ones."""
        turn = self.turn * interval
        half = Rotation.from_rotvec(turn / 2).as_matrix()
        return np.asarray(half @ half), np.asarray(-half @ self.ahead)

    def prior(self, interval: float, config: OdometryConfig) -> MotionPrior:
        R, direction = self.step(interval)
        length = max((self.metres or 1.0) * interval, 0.1)
        turn = config.turn_deviation * max(interval, 1.0) if self.begun else FIRST_TURN
        return MotionPrior(rigid(R, length * direction), turn, float(np.hypot(self.doubt, config.heading_deviation)))

    def after(
        self, R_b_a: Array, direction: Array, deviation: float, metres: float | None, interval: float, jitter: float
    ) -> "Prediction":
        """The prediction once a step was measured.

        The direction of each step differs from `ahead` by `jitter` radians; what a step says of `ahead` counts as far
        as it is sure itself (a Kalman filter), so that one bad step at the start does not mislead all those after it.

        Args:
            deviation: radians, of the step's direction, given all that is known.
        """
        turn = Rotation.from_matrix(R_b_a).as_rotvec()
        half = Rotation.from_rotvec(turn / 2).as_matrix()
        seen = -half.T @ direction
        # A change from forward to backward is one of sign, not of direction.
        before = self.ahead if seen @ self.ahead > 0 else -self.ahead
        predicted = self.doubt**2 + jitter**2
        gain = self.doubt**2 / predicted
        off = seen - before
        off = off * min(1.0, OUTLIER * np.sqrt(predicted) / max(float(np.linalg.norm(off)), 1e-9))
        ahead = before + gain * off
        left = self.doubt**2 - gain**2 * max(predicted - deviation**2, 0.0)
        kept = self.metres
        if metres is not None:
            each = metres / interval
            kept = each if kept is None else (1 - SPEED_FORGET) * kept + SPEED_FORGET * each
        doubt = float(np.hypot(np.sqrt(left), WANDER))
        return Prediction(turn / interval, ahead / np.linalg.norm(ahead), kept, doubt, True)

    def standing(self) -> "Prediction":
        """The prediction of a car that stands: it will start as slowly as it stopped."""
        return replace(self, turn=np.zeros(3), metres=0.0)


START = Prediction(np.zeros(3), np.array([0.0, 0.0, 1.0]))
