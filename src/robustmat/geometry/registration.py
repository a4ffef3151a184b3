"""Poses made better by LiDAR: each scan is registered to the map of the scans before it.

GPS/IMU poses are off by a degree or two of heading and jump by decimetres; a map built from them is smeared.
Registration measures the *steps* between scans, to centimetres, but its errors add up along the drive. So both are
kept for what they are good at: a pose graph takes the registered steps and holds on to the given poses, the more the
better those agree with the steps. Given poses that agree within the noise of registration stay where they are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustmat.config import Config
from robustmat.geometry.pose_graph import Spread, angle_between, solve_chain
from robustmat.geometry.transforms import invert
from robustmat.types import Array

Scan = Callable[[], NDArray[np.float64]]  # points [N, 3] in the LiDAR's axes


class RegistrationConfig(Config):
    """How poses are refined; metres, radians where not said otherwise."""

    refine: bool = True
    thin: float = Field(default=0.25, gt=0)  # points of a scan are thinned to this grid
    voxel: float = Field(default=1.0, gt=0)  # of the map; each voxel is a normal distribution
    horizon: int = Field(default=100, ge=1)  # voxels that no scan of the last so many met are forgotten
    fewest_points: int = 200  # of a thinned scan; fewer fix no pose
    fewest_inliers: float = 0.5  # share of the points that must find their place in the map
    largest_move: float = 1.5  # metres between the given step and the registered one; more is a failure
    largest_turn: float = 0.15  # radians, likewise
    # What a registered step is good for, and a given one where registration says nothing.
    step_metres: float = 0.015
    step_radians: float = 0.0006
    unregistered: float = 5.0  # times these
    unregistered_growth: float = 0.02  # and, for each metre of the step, so many metres more; a tenth of it in radians
    # Given poses are compared with the registered steps over stretches of this length.
    stretch: float = 12.0  # metres
    most_frames: int = 60  # a stretch of a car that stands still ends here
    agreement_metres: float = 0.05  # below this a disagreement is registration's own
    agreement_radians: float = 0.003
    # How much less given poses are trusted than they disagree: errors of GPS last long. Headings are doubted more than
    # positions, which the whole drive averages.
    doubt_metres: float = 3.0
    doubt_radians: float = 30.0


DEFAULT = RegistrationConfig()


@dataclass(frozen=True)
class Refined:
    """Refined poses T_world_lidar [N, 4, 4], and how many steps were registered."""

    poses: Array
    registered: int


def refine_poses(
    given: Array,
    scans: Sequence[Scan | None],
    config: RegistrationConfig = DEFAULT,
    progress: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
) -> Refined:
    """Better T_world_lidar [N, 4, 4] than the given ones, by the scans taken there; None where there is none.

    Where a scan is missing, holds too little, or fits nowhere near, the given step stands.
    """
    steps, measured = register_steps(given, scans, config, progress)
    return refine_by_steps(given, steps, measured, config)


def refine_by_steps(
    given: Array, steps: Array, measured: NDArray[np.bool_], config: RegistrationConfig = DEFAULT
) -> Refined:
    """Poses [N, 4, 4] that agree with steps T_i_next [N - 1, 4, 4] as far as these were measured, not given."""
    if not measured.any():
        return Refined(given.copy(), 0)
    spread = np.where(measured, 1.0, config.unregistered)
    growth = np.where(measured, 0.0, config.unregistered_growth * np.linalg.norm(steps[:, :3, 3], axis=1))
    step = Spread(config.step_metres * spread + growth, config.step_radians * spread + growth / 10)
    return Refined(solve_chain(given, _trust(given, steps, config), steps, step), int(measured.sum()))


def register_steps(
    given: Array,
    scans: Sequence[Scan | None],
    config: RegistrationConfig,
    progress: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
) -> tuple[Array, NDArray[np.bool_]]:
    """Steps T_i_next [N - 1, 4, 4] between neighbours, and whether each was registered or is the given one."""
    import small_gicp

    steps = np.array([invert(a) @ b for a, b in pairwise(given)]).reshape(-1, 4, 4)
    measured = np.zeros(len(steps), dtype=bool)
    voxels = small_gicp.GaussianVoxelMap(config.voxel)
    voxels.set_lru(config.horizon, 10)
    T_map_lidar = np.eye(4)  # the map's axes are those of the first scan
    known = False  # whether the frame before has its place in the map
    for i in progress(range(len(scans))):
        if i:
            T_map_lidar = T_map_lidar @ steps[i - 1]
        scan = scans[i]
        points = np.zeros((0, 3)) if scan is None else scan()
        cloud = None
        if len(points) >= config.fewest_points:
            cloud, _ = small_gicp.preprocess_points(points, config.thin)
        if cloud is None or cloud.size() < config.fewest_points:
            known = False
            continue
        if len(voxels):
            found = small_gicp.align(voxels, cloud, T_map_lidar)
            T_found = np.asarray(found.T_target_source)
            fits = found.num_inliers >= config.fewest_inliers * cloud.size()
            if fits and np.isfinite(T_found).all() and _is_near(T_map_lidar, T_found, config):
                if known:
                    steps[i - 1] = steps[i - 1] @ invert(T_map_lidar) @ T_found
                    measured[i - 1] = True
                T_map_lidar = T_found
        voxels.insert(cloud, T_map_lidar)
        known = True
    return steps, measured


def _is_near(T_map_guess: Array, T_map_found: Array, config: RegistrationConfig) -> bool:
    move = float(np.linalg.norm(T_map_found[:3, 3] - T_map_guess[:3, 3]))
    turn = float(angle_between(T_map_guess[None], T_map_found[None])[0])
    return move <= config.largest_move and turn <= config.largest_turn


def _trust(given: Array, steps: Array, config: RegistrationConfig) -> Spread:
    """How far the given poses may be off: as far as stretches of them disagree with the registered steps.

    A heading that is off by a constant shows in the direction of travel and not in the turns, so the rotation is
    doubted by both.
    """
    chained = [np.eye(4)]
    for step in steps:
        chained.append(chained[-1] @ step)
    chain = np.stack(chained)
    travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(given[:, :3, 3], axis=0), axis=1))])
    metres, radians = np.zeros(len(given)), np.zeros(len(given))
    for i in range(len(given)):
        first, last = _stretch(travelled, i, config)
        by_scans, by_given = invert(chain[first]) @ chain[last], invert(given[first]) @ given[last]
        off = float(np.linalg.norm(by_scans[:3, 3] - by_given[:3, 3]))
        turn = float(angle_between(by_scans[None], by_given[None])[0])
        metres[i] = off
        radians[i] = np.hypot(turn, off / max(travelled[last] - travelled[first], 1.0))
    return Spread(
        _doubt(_largest_nearby(metres, travelled, config), config.agreement_metres, config.doubt_metres),
        _doubt(_largest_nearby(radians, travelled, config), config.agreement_radians, config.doubt_radians),
    )


def _doubt(disagreement: Array, agreement: float, doubt: float) -> Array:
    """Standard deviations: a tenth of the agreement where it holds, growing fast beyond it."""
    return np.asarray(agreement / 10 + doubt * np.maximum(disagreement - agreement, 0))


def _stretch(travelled: Array, i: int, config: RegistrationConfig) -> tuple[int, int]:
    half = config.stretch / 2
    first = max(int(np.searchsorted(travelled, travelled[i] - half)), i - config.most_frames // 2)
    last = min(int(np.searchsorted(travelled, travelled[i] + half, side="right")) - 1, i + config.most_frames // 2)
    return max(first, 0), max(last, i)


def _largest_nearby(values: Array, travelled: Array, config: RegistrationConfig) -> Array:
    """The largest value of each frame's stretch: trust returns only well after a disagreement."""
    found = []
    for i in range(len(values)):
        first, last = _stretch(travelled, i, config)
        found.append(values[first : last + 1].max())
    return np.array(found)
