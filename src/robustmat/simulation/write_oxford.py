"""Writes simulated drives in the layout of Oxford Radar RobotCar: raw mosaics through a bending lens, and all.

The car is ours with Oxford's axes (x ahead, y right, z down); camera models and extrinsics stand in the drive's folder.
INS positions are the town's, turned to north, east, down and counted from `ORIGIN`.
"""

import math
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from robustmat.files import write_text
from robustmat.folders import filling
from robustmat.geometry.poses import Trajectory, relative
from robustmat.geometry.transforms import invert, rigid
from robustmat.simulation.drive import StreetDrive
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.simulation.write_files import (
    Progress,
    camera_of,
    numbers,
    points_of,
    pose_of,
    rows,
    write_floats,
    write_frames,
    write_labels,
    write_picture,
)
from robustmat.simulation.write_oxford_sensors import distortion_table, fired, mosaic, raw_readings, through_lens
from robustmat.sources.oxford_calibration import Lens, find_lens, image_from_vehicle, xyzrpy
from robustmat.types import Array, Camera, Frame

ORIGIN = (5_735_000.0, 619_500.0, -110.0)  # northing, easting, down of the town's (0, 0, 0)
FIRST_TIME = round(datetime(2019, 1, 10, 11, 46, 21, tzinfo=UTC).timestamp() * 1e6)
DRIVE = "2019-01-10-11-46-21-radar-oxford-10k"

T_NED_TOWN: Array = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]])
DOWN: Array = np.diag([1.0, -1.0, -1.0, 1.0])  # from x ahead, y left, z up to Oxford's axes, and back

# Where things sit on the car. No number is zero or round, so that nothing works by accident.
T_CAMERA_VEHICLE: Array = xyzrpy(np.array([0.021, -0.013, 0.034, 0.011, -0.017, 0.023]))
T_CAMERA_IMAGE: Array = rigid(np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.array([0.0, 0.119987, 0.0]))
T_VEHICLE_INS: Array = xyzrpy(np.array([-1.7132, 0.1181, 1.1948, -0.0125, 0.0400, 0.0050]))
T_VEHICLE_RADAR: Array = xyzrpy(np.array([-0.71813, 0.12, -0.54479, 0.0, 0.05, 0.0]))
T_VEHICLE_IMAGE: Array = invert(image_from_vehicle(T_CAMERA_VEHICLE, T_CAMERA_IMAGE))
T_VEHICLE_LIDAR: Array = T_VEHICLE_IMAGE @ T_CAMERA_LIDAR @ DOWN


def write_oxford(
    drive: StreetDrive,
    root: Path | str,
    name: str = DRIVE,
    camera: str = "stereo/centre",
    raw_scans: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a drive and return its folder. Read it with `origin=ORIGIN` to get the town's coordinates.

    `raw_scans` writes the Velodyne's readings (`.png`, 32 beams) instead of the drive's points (`.bin`).
    """
    folder, lens = Path(root) / name, find_lens(camera)
    times = [FIRST_TIME + round((frame.time or 0.0) * 1e6) for frame in drive.frames]
    poses = np.stack([T_NED_TOWN @ pose_of(frame) @ invert(T_VEHICLE_IMAGE) for frame in drive.frames])
    with filling(folder):
        _write_calibration(folder, lens, camera_of(drive))
        _write_ins(folder / "gps/ins.csv", times, poses @ T_VEHICLE_INS)
        _write_steps(folder / "gt/radar_odometry.csv", times, poses @ T_VEHICLE_RADAR)
        stamps = "".join(f"{time} 1\n" for time in times)
        for sensor in (lens.extrinsics, "velodyne_left"):
            write_text(folder / f"{sensor}.timestamps", stamps)

        def write(i: int, frame: Frame, stamp: str) -> None:
            write_picture(
                folder / f"{camera}/{stamp}.png", mosaic(through_lens(frame.image, camera_of(drive)), lens.bayer)
            )
            write_labels(folder / f"semantics/{camera}/{stamp}.png", frame)
            if raw_scans:
                write_picture(folder / f"velodyne_left/{stamp}.png", raw_readings(fired(drive, i), times[i]))
            else:
                points = points_of(frame) * np.array([1, -1, -1, 1], np.float32)
                write_floats(folder / f"velodyne_left/{stamp}.bin", points.T)

        write_frames(drive, folder, [str(time) for time in times], write, progress)
    return folder


def _write_calibration(folder: Path, lens: Lens, camera: Camera) -> None:
    (fx, _, cx), (_, fy, cy) = camera.matrix[:2]
    write_text(folder / f"models/{lens.model}.txt", numbers(np.array([fx, fy, cx, cy])) + "\n" + rows(T_CAMERA_IMAGE))
    write_floats(folder / f"models/{lens.model}_distortion_lut.bin", distortion_table(camera), "<f8")
    places = {lens.extrinsics: T_CAMERA_VEHICLE, "velodyne_left": T_VEHICLE_LIDAR}
    for name, T in {**places, "ins": T_VEHICLE_INS, "radar": T_VEHICLE_RADAR}.items():
        write_text(folder / f"extrinsics/{name}.txt", numbers(components(T)) + "\n")


def components(T: Array) -> Array:
    """x, y, z, roll, pitch, yaw of a transform."""
    turn = T[:3, :3]
    roll, yaw = math.atan2(turn[2, 1], turn[2, 2]), math.atan2(turn[1, 0], turn[0, 0])
    return np.array([*T[:3, 3], roll, math.atan2(-turn[2, 0], math.hypot(turn[2, 1], turn[2, 2])), yaw])


def _write_ins(path: Path, times: list[int], poses: Array) -> None:
    """A reading at each frame and one halfway to the next."""
    way = Trajectory(np.array(times), poses)
    moments = sorted({*times, *((a + b) // 2 for a, b in pairwise(times))})
    lines = [
        "timestamp,ins_status,latitude,longitude,altitude,northing,easting,down,utm_zone,"
        "velocity_north,velocity_east,velocity_down,roll,pitch,yaw"
    ]
    for time, pose in zip(moments, way.at(np.array(moments)), strict=True):
        x, y, z, roll, pitch, yaw = components(pose)
        place = ",".join(f"{value:.9f}" for value in (x + ORIGIN[0], y + ORIGIN[1], z + ORIGIN[2]))
        turn = ",".join(f"{value:.12f}" for value in (roll, pitch, yaw))
        lines.append(f"{time},INS_SOLUTION_GOOD,51.76,-1.25,110.0,{place},30U,0,0,0,{turn}")
    write_text(path, "\n".join(lines) + "\n")


def _write_steps(path: Path, times: list[int], poses: Array) -> None:
    lines = [
        "source_timestamp,destination_timestamp,x,y,z,roll,pitch,yaw,source_radar_timestamp,destination_radar_timestamp"
    ]
    for i in range(1, len(times)):
        step = ",".join(f"{value:.12f}" for value in components(relative(poses[i - 1], poses[i])))
        lines.append(f"{times[i]},{times[i - 1]},{step},{times[i]},{times[i - 1]}")
    write_text(path, "\n".join(lines) + "\n")
