"""What a frame costs to simulate and to prepare, and whether long drives cost more memory."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from robustmat.bench.runs import CLOCKS, Clock, Report, Run, in_fresh_process
from robustmat.errors import ConfigError
from robustmat.types import Frame

Tell = Callable[[str], None]  # is told what is being done


def bench_prepare(
    lengths: Sequence[int], *, seed: int = 0, scale: float = 1.0, clock: str = "wall", tell: Tell = lambda _: None
) -> Report:
    """Prepare the first frames of one simulated drive, as many as each of `lengths` says."""
    _check(lengths, clock)
    with tempfile.TemporaryDirectory(prefix="robustmat-bench-") as folder:
        tell(f"simulating {max(lengths)} frames")
        in_fresh_process(_simulate, folder, max(lengths), seed, scale, "noon", clock)
        runs = []
        for frames in lengths:
            tell(f"preparing {frames} frames")
            runs.append(in_fresh_process(_prepare, folder, frames, clock))
    return Report("prepare", tuple(runs), {"seed": seed, "scale": scale, "clock": clock})


def bench_simulate(
    lengths: Sequence[int],
    *,
    seed: int = 0,
    scale: float = 1.0,
    look: str = "noon",
    clock: str = "wall",
    tell: Tell = lambda _: None,
) -> Report:
    """Drive a simulated town and write it as KITTI odometry, as many frames as each of `lengths` says."""
    _check(lengths, clock)
    runs = []
    for frames in lengths:
        tell(f"simulating {frames} frames")
        with tempfile.TemporaryDirectory(prefix="robustmat-bench-") as folder:
            runs.append(in_fresh_process(_simulate, folder, frames, seed, scale, look, clock))
    return Report("simulate", tuple(runs), {"seed": seed, "scale": scale, "look": look, "clock": clock})


def _check(lengths: Sequence[int], clock: str) -> None:
    if clock not in CLOCKS:
        raise ConfigError(f"unknown clock {clock!r}: choose one of {', '.join(CLOCKS)}")
    if not lengths or min(lengths) < 1:
        raise ConfigError(f"a benchmark needs numbers of frames such as 50,100,200, found {list(lengths)}")


def _simulate(folder: str, frames: int, seed: int, scale: float, look: str, by: str) -> Run:
    from robustmat.simulation import build_town, drive_town, kitti_camera, write_kitti_odometry

    clock = Clock(by)
    drive = drive_town(build_town(seed), frames, look=look, camera=kitti_camera(scale))
    timed = replace(drive, frames=tuple(_timed(frame, clock, "render") for frame in drive.frames))
    write_kitti_odometry(timed, folder, progress=clock.walk)
    return clock.run(frames, rest="write")


def _prepare(folder: str, frames: int, by: str) -> Run:
    from robustmat.dataset.prepare import prepare
    from robustmat.sources import open_kitti_odometry

    drive = open_kitti_odometry(Path(folder), "00")
    clock = Clock(by)
    short = replace(
        drive,
        frames=tuple(_timed(frame, clock, "decode") for frame in drive.frames[:frames]),
        image_paths=drive.image_paths[:frames],
    )
    prepare(short, Path(folder) / f"prepared-{frames}", progress=lambda walked, _: clock.walk(walked))
    return clock.run(frames, rest="compute")


def _timed(frame: Frame, clock: Clock, part: str) -> Frame:
    """The frame, with the seconds of its loaders counted."""
    return replace(
        frame,
        load_image=clock.timed(frame.load_image, part),
        load_points=clock.timed(frame.load_points, part) if frame.load_points else None,
        load_semantics=clock.timed(frame.load_semantics, part) if frame.load_semantics else None,
    )
