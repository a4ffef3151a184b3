"""What a run leaves on disk.

trajectory.txt      KITTI format: T_world_camera, 3 x 4, one line a frame; the world is the first camera
trajectory_tum.txt  the same with times
trajectory_lidar.txt  by LiDAR alone, in the same axes and format, where it was asked for
tracks.json         one entry a track: identity, category, place, frames, boxes
metrics.json        ATE and RPE with and without assistance, where the truth is known; how steps were measured
trajectory.png      from above
tracks.png          contact sheet
dataset/            a data set: odometry's poses, tracks as identities; `map build` and `evaluate` take it
"""

from pathlib import Path
from typing import Any

from robustmat.dataset.store import write_dataset
from robustmat.files import write_json
from robustmat.odometry.drawing import draw_tracks, plot_trajectory
from robustmat.odometry.run import USUAL_INTERVAL, Odometry
from robustmat.odometry.tracks import tracks_table, with_tracks
from robustmat.odometry.trajectory import write_kitti, write_tum
from robustmat.sources.drive import Drive
from robustmat.types import plural


def write_odometry(done: Odometry, drive: Drive, out: Path) -> dict[str, Any]:
    """Write everything; returns the metrics."""
    out.mkdir(parents=True, exist_ok=True)
    write_kitti(out / "trajectory.txt", done.best)
    times = [USUAL_INTERVAL * i if frame.time is None else frame.time for i, frame in enumerate(done.frames)]
    write_tum(out / "trajectory_tum.txt", done.best, times)
    if done.lidar_poses is not None:
        write_kitti(out / "trajectory_lidar.txt", done.lidar_poses)
    write_json(out / "tracks.json", tracks_table(done.tracks, done.measured))
    plot_trajectory(done, out / "trajectory.png", f"{drive.name}: {plural(len(done.frames), 'frame')}")
    draw_tracks(done, out / "tracks.png")
    frames = with_tracks(done.frames, done.best, done.measured, done.tracks)
    readable = [i for i, one in enumerate(done.measured) if not any(note.startswith("no image") for note in one.notes)]
    write_dataset(
        out / "dataset",
        drive.name,
        f"{drive.name} by odometry",
        [(frames[i], drive.image_paths[i]) for i in readable],
        source={**drive.source, "identities": "tracks of odometry", "poses": "odometry"},
    )
    metrics = done.metrics()
    write_json(out / "metrics.json", metrics)
    return metrics
