"""One short simulated drive, and how to write it in each layout, read it back and get the town's coordinates."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import (
    StreetDrive,
    Town,
    build_town,
    drive_town,
    kitti_camera,
    write_boreas,
    write_folder,
    write_kitti_odometry,
    write_kitti_raw,
    write_oxford,
)
from robustmat.simulation.write_kitti import ORIGIN as KITTI_ORIGIN
from robustmat.simulation.write_kitti import T_ODOMETRY_TOWN
from robustmat.simulation.write_oxford import DOWN, T_NED_TOWN
from robustmat.simulation.write_oxford import ORIGIN as OXFORD_ORIGIN
from robustmat.sources import (
    Drive,
    open_boreas,
    open_folder,
    open_kitti_odometry,
    open_kitti_raw,
    open_oxford,
)
from robustmat.types import Array


@dataclass(frozen=True)
class Layout:
    """How to write a drive into a folder and what to open then; T_world_town is None where the world floats."""

    write: Callable[[StreetDrive, Path], Path]
    open: Callable[[Path], Drive]
    T_world_town: Array | None
    T_lidar_ours: Array  # from our LiDAR's axes to the layout's
    exact_image: bool = True
    exact_points: bool = True


SAME = np.eye(4)
LAYOUTS = {
    "kitti-raw": Layout(
        write_kitti_raw,
        lambda folder: open_kitti_raw(folder.parents[1], "2011_09_26", "0001", origin=KITTI_ORIGIN),
        SAME,
        SAME,
    ),
    "kitti-odometry": Layout(
        write_kitti_odometry, lambda folder: open_kitti_odometry(folder.parents[1], "00"), T_ODOMETRY_TOWN, SAME
    ),
    "oxford": Layout(
        write_oxford, lambda folder: open_oxford(folder, origin=OXFORD_ORIGIN), T_NED_TOWN, DOWN, exact_image=False
    ),
    "oxford by radar odometry": Layout(
        write_oxford, lambda folder: open_oxford(folder, poses="radar"), None, DOWN, exact_image=False
    ),
    "oxford, rear camera": Layout(
        lambda drive, root: write_oxford(drive, root, camera="mono_rear"),
        lambda folder: open_oxford(folder, camera="mono_rear", origin=OXFORD_ORIGIN),
        T_NED_TOWN,
        DOWN,
        exact_image=False,
    ),
    "oxford, raw scans": Layout(
        lambda drive, root: write_oxford(drive, root, raw_scans=True),
        lambda folder: open_oxford(folder, origin=OXFORD_ORIGIN),
        T_NED_TOWN,
        DOWN,
        exact_image=False,
        exact_points=False,
    ),
    "boreas": Layout(write_boreas, open_boreas, SAME, SAME),
    "folder": Layout(write_folder, open_folder, SAME, SAME),
}


@lru_cache(maxsize=1)
def short_drive() -> StreetDrive:
    """Three frames round a bend, in small; seen and scanned once, for many layouts to write."""
    drive = drive_town(small_town(), 3, spacing=2.0, start=20.0, camera=kitti_camera(0.3))
    views = [drive.view(i) for i in range(len(drive.frames))]
    return replace(
        drive,
        view=views.__getitem__,
        frames=tuple(
            replace(
                frame,
                load_image=_always(view.image),
                load_semantics=_always(view.semantics),
                load_points=_always(frame.load_points()),
            )
            for frame, view in zip(drive.frames, views, strict=True)
        ),
    )


@lru_cache(maxsize=1)
def small_town() -> Town:
    return build_town(3, 80.0)


def _always(array: NDArray[Any]) -> Callable[[], NDArray[Any]]:
    return array.copy
