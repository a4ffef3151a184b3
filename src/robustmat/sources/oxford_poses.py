"""Oxford RobotCar's pose files as trajectories, as its development kit reads them.

`gps/ins.csv` and `gps/rtk.csv` tell northing, easting, down and roll, pitch, yaw of the INS. `gt/radar_odometry.csv`
and `vo/vo.csv` tell steps: the pose of the source (the later moment) seen from the destination (the earlier one), of
the radar and of the vehicle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import DataError, InputError
from robustmat.geometry.poses import Trajectory, chain
from robustmat.geometry.transforms import invert
from robustmat.sources.oxford_calibration import read_extrinsics, xyzrpy
from robustmat.sources.tables import read_columns
from robustmat.types import Array

Origin = tuple[float, float, float]  # northing, easting, down in metres

LONGEST_GAP = 2_000_000  # microseconds; between farther poses nobody knows the way


@dataclass(frozen=True)
class PoseSource:
    """A pose file: its place in a drive, whose poses it tells (the extrinsics' name; none is the vehicle itself)."""

    file: str
    sensor: str | None
    read: Callable[[Path, Origin | None], tuple[Trajectory, Origin | None]]


def read_ins(path: Path, origin: Origin | None = None) -> tuple[Trajectory, Origin]:
    """Poses north-east-down from `origin`, by default the file's first position."""
    names = ("timestamp", "northing", "easting", "down", "roll", "pitch", "yaw")
    rows = read_columns(path, names, "Oxford INS poses")
    start = origin or (float(rows[0, 1]), float(rows[0, 2]), float(rows[0, 3]))
    rows[:, 1:4] -= start
    return _trajectory(rows[:, 0], np.stack([xyzrpy(row[1:]) for row in rows]), path), start


def read_steps(path: Path, origin: Origin | None = None) -> tuple[Trajectory, None]:
    """Poses from the first moment on; a file with a hole in its chain is refused."""
    if origin is not None:
        raise InputError(f"odometry has no origin: {path} starts at its own first pose; leave --origin out")
    names = ("source_timestamp", "destination_timestamp", "x", "y", "z", "roll", "pitch", "yaw")
    rows = read_columns(path, names, "Oxford odometry")
    broken = np.flatnonzero(rows[1:, 1] != rows[:-1, 0])
    if len(broken):
        raise DataError(
            f"Oxford odometry: line {broken[0] + 3} does not start at {rows[broken[0], 0]:.0f}, where the line before "
            f"it ends: {path}; cut the file there and prepare the parts as drives of their own"
        )
    times = np.concatenate([rows[:1, 1], rows[:, 0]])
    return _trajectory(times, chain(np.stack([xyzrpy(row[2:]) for row in rows])), path), None


POSE_SOURCES = {  # the first that a drive has is taken
    "rtk": PoseSource("gps/rtk.csv", "ins", read_ins),
    "ins": PoseSource("gps/ins.csv", "ins", read_ins),
    "radar": PoseSource("gt/radar_odometry.csv", "radar", read_steps),
    "vo": PoseSource("vo/vo.csv", None, read_steps),
}


@dataclass(frozen=True)
class VehiclePoses:
    """Where the vehicle was: the trajectory of a sensor, read from `path`, and where the vehicle is from it."""

    path: Path
    trajectory: Trajectory
    T_sensor_vehicle: Array

    def at(self, times: NDArray[np.int64]) -> Array:
        """T_world_vehicle [M, 4, 4]. As in the kit it is the sensor's poses that are interpolated."""
        return np.asarray(self.trajectory.at(times) @ self.T_sensor_vehicle)

    def covered(self, times: list[int]) -> list[int]:
        asked = np.array(times, dtype=np.int64)
        return [int(time) for time in asked[self.trajectory.covers(asked, LONGEST_GAP)]]

    def by_time(self, times: list[int]) -> dict[int, Array]:
        """T_world_vehicle at each of the times, or an error if the file does not cover one."""
        missing = set(times) - set(self.covered(times))
        if missing:
            first, last = self.trajectory.times[[0, -1]]
            raise DataError(
                f"no pose for time {min(missing)}: {self.path} covers {first} to {last} with gaps of at most "
                f"{LONGEST_GAP / 1e6:g} s; give --first and --last to leave frames out, or another --poses"
            )
        return dict(zip(times, self.at(np.array(times, dtype=np.int64)), strict=True))


def read_vehicle_poses(
    root: Path, name: str, origin: Origin | None, extrinsics: Path
) -> tuple[VehiclePoses, Origin | None]:
    """The vehicle's poses by the named source, and the origin they are counted from, if they have one."""
    source = POSE_SOURCES[name]
    trajectory, start = source.read(root / source.file, origin)
    T_sensor_vehicle = invert(read_extrinsics(extrinsics, source.sensor)) if source.sensor else np.eye(4)
    return VehiclePoses(root / source.file, trajectory, T_sensor_vehicle), start


def find_poses(root: Path, name: str | None) -> str | None:
    """The pose source to use: the named one, or the first that is there, or none."""
    if name is None:
        return next((one for one, source in POSE_SOURCES.items() if (root / source.file).exists()), None)
    if name not in POSE_SOURCES:
        raise InputError(f"unknown pose source '{name}': choose one of {', '.join(POSE_SOURCES)}")
    return name


def _trajectory(times: Array, poses: Array, path: Path) -> Trajectory:
    whole = np.round(times).astype(np.int64)
    falls = np.flatnonzero(np.diff(whole) <= 0)
    if len(falls):
        raise DataError(f"times do not rise after {whole[falls[0]]}: {path}; sort its lines and remove doubles")
    return Trajectory(whole, poses)
