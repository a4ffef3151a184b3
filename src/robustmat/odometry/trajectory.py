"""Trajectories in the field's two formats, and how far one is from the truth: ATE and RPE, by `evo`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from robustmat.files import write_text
from robustmat.geometry.transforms import invert
from robustmat.types import Array

STRETCH = 10.0  # metres of the longer RPE


def write_kitti(path: Path, poses: Array) -> None:
    """One line a frame: the upper 3 x 4 of T_world_camera, row by row."""
    lines = (" ".join(f"{value:.9g}" for value in pose[:3].ravel()) for pose in poses)
    write_text(path, "".join(line + "\n" for line in lines))


def write_tum(path: Path, poses: Array, times: Sequence[float]) -> None:
    """One line a frame: time, position, quaternion x, y, z, w."""
    turns = Rotation.from_matrix(poses[:, :3, :3]).as_quat()
    rows = (
        f"{time:.6f} " + " ".join(f"{value:.9g}" for value in (*pose[:3, 3], *turn))
        for time, pose, turn in zip(times, poses, turns, strict=True)
    )
    write_text(path, "".join(row + "\n" for row in rows))


@dataclass(frozen=True)
class Errors:
    """How far a trajectory is from the truth. All are root mean squares but `rpe_steps`, which are the single ones."""

    ate: float  # metres, after one rigid alignment
    rpe: float  # metres a step
    rpe_degrees: float  # a step
    stretch: float | None  # share of the way that is off after STRETCH metres
    stretch_degrees: float | None  # degrees a metre, likewise
    rpe_steps: Array  # [N - 1], metres
    rpe_turns: Array  # [N - 1], degrees

    def to_json(self) -> dict[str, Any]:
        names = ("ate", "rpe", "rpe_degrees", "stretch", "stretch_degrees")
        return {name: None if (value := getattr(self, name)) is None else round(value, 6) for name in names}


def trajectory_errors(poses: Array, truth: Array) -> Errors:
    """ATE and RPE of T_world_camera [N, 4, 4] against the truth [N, 4, 4], by evo; stretches by our own few lines."""
    from evo.core import metrics
    from evo.core.trajectory import PosePath3D

    found, wanted = (PosePath3D(poses_se3=list(one.astype(np.float64))) for one in (_rigid(poses), _rigid(truth)))
    steps, turns = (
        metrics.RPE(relation, delta=1, delta_unit=metrics.Unit.frames, all_pairs=False)
        for relation in (metrics.PoseRelation.translation_part, metrics.PoseRelation.rotation_angle_deg)
    )
    for one in (steps, turns):
        one.process_data((wanted, found))
    try:
        found.align(wanted, correct_scale=False)
    except Exception:  # evo refuses what does not move at all: the first poses are laid on each other instead
        found.align_origin(wanted)
    apart = metrics.APE(metrics.PoseRelation.translation_part)
    apart.process_data((wanted, found))
    share, degrees = _stretches(poses, truth)
    rms = metrics.StatisticsType.rmse
    return Errors(
        float(apart.get_statistic(rms)),
        float(steps.get_statistic(rms)),
        float(turns.get_statistic(rms)),
        share,
        degrees,
        np.asarray(steps.error, np.float64),
        np.asarray(turns.error, np.float64),
    )


def _rigid(poses: Array) -> Array:
    """Rotations of files are rounded; evo wants them exact."""
    u, _, v = np.linalg.svd(poses[:, :3, :3])
    exact = poses.copy()
    exact[:, :3, :3] = u @ v
    return exact


def stretch_errors(poses: Array, truth: Array, metres: float = STRETCH) -> Array:
    """[K, 3]: first frame, share of the way off and degrees off of every stretch of so many metres, as KITTI's kit."""
    way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(truth[:, :3, 3], axis=0), axis=1))])
    rows = []
    for first in range(len(way)):
        last = int(np.searchsorted(way, way[first] + metres))
        if last >= len(way):
            break
        off = invert(invert(truth[first]) @ truth[last]) @ (invert(poses[first]) @ poses[last])
        turn = float(np.degrees(Rotation.from_matrix(off[:3, :3]).magnitude()))
        rows.append((first, float(np.linalg.norm(off[:3, 3])) / (way[last] - way[first]), turn))
    return np.array(rows).reshape(-1, 3)


def _stretches(poses: Array, truth: Array) -> tuple[float | None, float | None]:
    rows = stretch_errors(poses, truth)
    if not len(rows):
        return None, None
    return float(np.sqrt((rows[:, 1] ** 2).mean())), float(np.sqrt((rows[:, 2] ** 2).mean()) / STRETCH)
