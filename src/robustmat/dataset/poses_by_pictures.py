"""A drive's poses, refined by its pictures where there is no LiDAR.

GPS/IMU headings are off by a degree or more, and what is triangulated from them is bent. Keypoints of frames two metres
apart tell how the camera turned and in which direction it moved, to hundredths of a degree; how far it moved, the
given poses tell. From there on it goes as with registered scans (`geometry/registration.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from robustmat.features.keypoints import Keypoints, detect_keypoints, match_keypoints
from robustmat.geometry.pose_graph import angle_between
from robustmat.geometry.projection import pixel_index
from robustmat.geometry.registration import DEFAULT, Refined, RegistrationConfig, refine_by_steps
from robustmat.geometry.relative_pose import MotionPrior, focal_and_center, rays, refined_pose
from robustmat.geometry.transforms import invert, rigid
from robustmat.landmarks.better_poses import PoseReport, kept_poses, report_of
from robustmat.landmarks.reference_map import MOVABLE_LABELS
from robustmat.types import Array, Camera, Frame

STATION = 2.0  # metres between frames whose pictures are compared; those between follow them
FARTHEST = 10.0  # metres; frames farther apart are not compared
KEYPOINTS = 2000
MARGIN = 4  # pixels around what may drive away
FEWEST = 40  # keypoints that must agree on a motion
HEADING = np.radians(2.0)  # how far the given turn between two frames may be off, one standard deviation
DIRECTION = 0.1  # the same of the direction of travel, share of the distance

Progress = Callable[[Sequence[Frame]], Iterable[Frame]]


def with_poses_by_pictures(
    frames: Sequence[Frame],
    keep: Path | None = None,
    config: RegistrationConfig = DEFAULT,
    progress: Progress = lambda frames: frames,
) -> tuple[list[Frame], PoseReport]:
    """The frames with refined T_world_camera, and how far they moved; as given where pictures tell nothing.

    Poses that are in the file `keep` already are taken from there; otherwise they are written to it.
    """
    posed = [i for i, frame in enumerate(frames) if frame.T_world_camera is not None and frame.camera is not None]
    given = np.array([frames[i].T_world_camera for i in posed]).reshape(-1, 4, 4)
    if not config.refine or not posed:
        return list(frames), PoseReport(refined=False)
    poses, measured = kept_poses(keep, lambda: refine_by_pictures([frames[i] for i in posed], given, config, progress))
    if not measured:
        return list(frames), PoseReport(refined=False)
    better = list(frames)
    for i, pose in zip(posed, poses, strict=True):
        better[i] = replace(frames[i], T_world_camera=pose)
    return better, report_of(given, poses, measured, "pictures")


def refine_by_pictures(
    frames: Sequence[Frame],
    given: Array,
    config: RegistrationConfig = DEFAULT,
    progress: Progress = lambda frames: frames,
) -> Refined:
    """Better T_world_camera [N, 4, 4] than the given ones."""
    travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(given[:, :3, 3], axis=0), axis=1))])
    stations = _stations(travelled)
    steps, measured = picture_steps([frames[i] for i in stations], given[stations], config, progress)
    found = refine_by_steps(given[stations], steps, measured, config)
    return Refined(_carried(given, travelled, stations, found.poses), found.registered)


def picture_steps(
    frames: Sequence[Frame], given: Array, config: RegistrationConfig, progress: Progress
) -> tuple[Array, NDArray[np.bool_]]:
    """Steps T_i_next [N - 1, 4, 4] between neighbours, and whether each was measured or is the given one."""
    steps = np.array([invert(a) @ b for a, b in pairwise(given)]).reshape(-1, 4, 4)
    measured = np.zeros(len(steps), dtype=bool)
    before: Keypoints | None = None
    for i, frame in enumerate(progress(frames)):
        seen = _still_keypoints(frame)
        if before is not None:
            step = _step(before, seen, (frames[i - 1].camera, frame.camera), steps[i - 1])
            if step is not None and _is_near(steps[i - 1], step, config):
                steps[i - 1], measured[i - 1] = step, True
        before = seen
    return steps, measured


def _still_keypoints(frame: Frame) -> Keypoints:
    """Keypoints that are not on traffic and people, where the frame has labels."""
    seen = detect_keypoints(frame.image, most=KEYPOINTS)
    semantics = frame.semantics
    if semantics is None:
        return seen
    mask = ndimage.binary_dilation(np.isin(semantics, MOVABLE_LABELS), iterations=MARGIN)
    still = ~mask[pixel_index(np.asarray(seen["keypoint_place"], np.float64) - 0.5)]
    return {name: array[still] for name, array in seen.items() if len(array) == len(still)}


def _step(a: Keypoints, b: Keypoints, cameras: tuple[Camera | None, Camera | None], given: Array) -> Array | None:
    """T_a_b by matched keypoints, its length as given; None where too few agree."""
    distance = float(np.linalg.norm(given[:3, 3]))
    if None in cameras or not 0 < distance < FARTHEST:
        return None
    pairs, _ = match_keypoints(a, b)
    focal, focal_b = (focal_and_center(camera, 0, 0) for camera in cameras)
    rays_a = rays(np.asarray(a["keypoint_place"], np.float64)[pairs[:, 0]], focal)
    rays_b = rays(np.asarray(b["keypoint_place"], np.float64)[pairs[:, 1]], focal_b)
    prior = MotionPrior(given, HEADING, DIRECTION)
    found = refined_pose((given[:3, :3], given[:3, 3]), rays_b, rays_a, focal[0], prior, fewest=FEWEST)
    return None if found.abstains else rigid(found.R_b_a, distance * found.direction)


def _is_near(given: Array, found: Array, config: RegistrationConfig) -> bool:
    """Whether pictures tell about the same motion as the poses."""
    return float(angle_between(given[None], found[None])[0]) <= config.largest_turn


def _stations(travelled: Array) -> list[int]:
    """Frames far enough apart."""
    chosen = [0]
    for i, metres in enumerate(travelled):
        if metres - travelled[chosen[-1]] >= STATION:
            chosen.append(i)
    return chosen


def _carried(given: Array, travelled: Array, stations: Sequence[int], refined: Array) -> Array:
    """Poses of all frames: each moves, in its own axes, as the stations before and after it do.

    Roll stays as given: a straight drive does not tell it, and inertial sensors do.
    """
    change = np.linalg.inv(given[stations]) @ refined
    turns = Rotation.from_matrix(change[:, :3, :3]).as_rotvec()
    motion = np.concatenate([change[:, :3, 3], turns * [1, 1, 0]], axis=1)  # [S, 6]
    between = np.stack([np.interp(travelled, travelled[stations], column) for column in motion.T], axis=1)
    moved = np.tile(np.eye(4), (len(given), 1, 1))
    moved[:, :3, :3] = Rotation.from_rotvec(between[:, 3:]).as_matrix()
    moved[:, :3, 3] = between[:, :3]
    return np.asarray(given @ moved)
