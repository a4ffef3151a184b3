"""A known motion between two frames, from a file: what odometry or poses say, and how sure they are."""

from pathlib import Path

import numpy as np

from robustmat.errors import InputError
from robustmat.files import read_json
from robustmat.geometry.relative_pose import MotionPrior

EXAMPLE = '{"T_b_a": [[...], [...], [...], [0, 0, 0, 1]], "rotation_deviation": 1.0, "translation_deviation": 0.2}'


def read_motion(path: Path | str) -> MotionPrior:
    """A JSON file: `T_b_a`, 4 x 4, takes points of the first camera (x right, y down, z ahead, metres) to the second;
    `rotation_deviation` in degrees and `translation_deviation` as a share of the distance may be left out."""
    values = read_json(path, "motion", InputError)
    if not isinstance(values, dict) or "T_b_a" not in values:
        raise InputError(f"not a motion: {path} lacks T_b_a; expected {EXAMPLE}")
    try:
        T_b_a = np.array(values["T_b_a"], np.float64)
        rotation = float(values.get("rotation_deviation", 1.0))
        share = float(values.get("translation_deviation", 0.2))
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"motion {path} holds something that is no number ({problem}): expected {EXAMPLE}") from None
    if T_b_a.shape != (4, 4) or not np.isfinite(T_b_a).all():
        raise InputError(f"T_b_a of {path} must be 4 x 4 finite numbers, found shape {T_b_a.shape}")
    turn = T_b_a[:3, :3]
    if not np.allclose(turn @ turn.T, np.eye(3), atol=1e-3) or np.linalg.det(turn) < 0:
        raise InputError(f"T_b_a of {path} does not turn rigidly: its upper left 3 x 3 must be a rotation")
    if not (0 < rotation < 180 and 0 < share < 10):
        raise InputError(f"deviations of {path} must be positive, found {rotation} degrees and {share}")
    return MotionPrior(T_b_a, float(np.radians(rotation)), share)
