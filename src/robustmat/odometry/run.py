"""Odometry on one page.

    frames -> embeddings                  matcher.embed: landmarks and keypoints, once a frame
    two frames -> a step                  steps.Walk: keypoints assisted by matched landmarks, metres by scale.py
    steps, landmark matches -> tracks     tracks.join_tracks
    steps, tracks -> poses                window.adjusted (or steps laid end to end)
    poses, tracks -> places               tracks.placed_tracks, by triangulation

The same walk measures a baseline without landmarks. What was measured is kept line by line, so that an interrupted run
goes on where it was.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.files import write_text
from robustmat.matching.matcher import Matcher
from robustmat.odometry.config import DEFAULT, OdometryConfig
from robustmat.odometry.lidar import LidarOdometry, camera_poses
from robustmat.odometry.steps import Measured, Walk, walk
from robustmat.odometry.tracks import Track, join_tracks, placed_tracks, sightings_of
from robustmat.odometry.trajectory import trajectory_errors
from robustmat.odometry.window import adjusted, chained
from robustmat.progress import Progress, silent
from robustmat.types import Array, Frame, Landmark, plural

ASSISTED, BASELINE = "assisted", "baseline"
FOCAL_DOUBT = 3.0  # nats a step that another focal length must be better by
USUAL_INTERVAL = 0.1  # seconds between frames where no times are known


@dataclass(frozen=True)
class Odometry:
    """Poses T_world_camera [N, 4, 4] of every arm (the world is the first camera), tracks, and what went wrong."""

    frames: tuple[Frame, ...]
    poses: Mapping[str, Array]
    measured: tuple[Measured, ...]
    tracks: tuple[Track, ...]
    notes: tuple[str, ...]
    truth: Array | None  # [N, 4, 4], in the axes of the first camera
    seconds: float
    drive_seconds: float
    lidar: LidarOdometry | None = None

    @property
    def best(self) -> Array:
        """The poses with assistance, where it was asked for."""
        return self.poses.get(ASSISTED, self.poses[BASELINE])

    def metrics(self) -> dict[str, Any]:
        """ATE and RPE where the truth is known, and how the steps were measured."""
        told: dict[str, Any] = {"frames": len(self.frames), "tracks": len(self.tracks), "notes": list(self.notes)}
        if self.truth is not None and len(self.frames) > 1:
            told = {
                **trajectory_errors(self.best, self.truth).to_json(),
                "baseline": trajectory_errors(self.poses[BASELINE], self.truth).to_json(),
                **told,
            }
        if self.lidar is not None:
            told["lidar"] = self._lidar_metrics(self.lidar)
        by = {arm: Counter(done.steps[arm].by for done in self.measured) for arm in self.poses}
        metres = Counter(step.metres_by for done in self.measured for step in done.steps.values() if step.metres_by)
        told |= {"steps": {arm: dict(count) for arm, count in by.items()}, "metres_by": dict(metres)}
        return {**told, "seconds": round(self.seconds, 3), "real_time_factor": round(self.real_time_factor, 3)}

    @property
    def lidar_poses(self) -> Array | None:
        """T_world_camera [N, 4, 4] by LiDAR alone, where it was asked for."""
        mount = self.frames[0].T_camera_lidar
        return None if self.lidar is None or mount is None else camera_poses(self.lidar, mount)

    def _lidar_metrics(self, lidar: LidarOdometry) -> dict[str, Any]:
        told = {"points": round(lidar.points, 1), "registered": int(lidar.registered.sum())}
        if self.truth is None or self.lidar_poses is None:
            return told
        return {**trajectory_errors(self.lidar_poses, self.truth).to_json(), **told}

    @property
    def real_time_factor(self) -> float:
        """Seconds of driving for each second of work: above 1 it keeps up."""
        return self.drive_seconds / max(self.seconds, 1e-9)


def run_odometry(
    frames: Sequence[Frame],
    matcher: Matcher,
    landmarks_of: Callable[[Frame], tuple[Landmark, ...]],
    config: OdometryConfig = DEFAULT,
    *,
    keep: Path | None = None,
    truth: Sequence[Array | None] | None = None,
    progress: Progress = silent,
) -> Odometry:
    """Odometry of a drive with the assistance that `config` asks for, and without any.

    Args:
        matcher: of evidence `scene`, whose embeddings hold keypoints.
        landmarks_of: the landmarks of a frame, whose pixels are in memory.
        keep: a file for the measured steps of an unfinished run; removed by the caller when all is written.
        truth: T_world_camera of every frame, where known.
    """
    configs = {BASELINE: config.model_copy(update={"assist": ()})}
    if config.assist:
        configs = {ASSISTED: config, **configs}
    measured = measure(frames, matcher, landmarks_of, configs, keep, progress)
    return assemble(frames, measured, configs, truth)


def measure(
    frames: Sequence[Frame],
    matcher: Matcher,
    landmarks_of: Callable[[Frame], tuple[Landmark, ...]],
    configs: Mapping[str, OdometryConfig],
    keep: Path | None = None,
    progress: Progress = silent,
) -> list[Measured]:
    """The long part: every frame's step in every arm."""
    start = Walk(frames, matcher, configs, landmarks_of)
    plan = _plan(frames, matcher, configs)
    done = _read_kept(keep, plan) if keep is not None else []
    start.replay(done)
    if keep is not None:
        write_text(keep, "".join(json.dumps(line) + "\n" for line in (plan, *(one.to_json() for one in done))))
    left = range(len(done), len(frames))
    for one in walk(frames, start, progress(left, "odometry" if not done else f"odometry, from frame {len(done)} on")):
        done.append(one)
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(one.to_json()) + "\n")
    return done


def _plan(frames: Sequence[Frame], matcher: Matcher, configs: Mapping[str, OdometryConfig]) -> dict[str, Any]:
    return {
        "format": "robustmat-odometry-unfinished",
        "matcher": matcher.fingerprint,
        "arms": {name: config.model_dump(mode="json") for name, config in configs.items()},
        "frames": [frame.name for frame in frames],
    }


def _read_kept(path: Path, plan: Mapping[str, Any]) -> list[Measured]:
    """Measured frames of the same plan; a line that was being written when the run stopped is left out."""
    if not path.is_file():
        return []
    done: list[Measured] = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            try:
                told = json.loads(line)
            except json.JSONDecodeError:
                break
            if number == 0:
                if told != json.loads(json.dumps(plan)):
                    return []
                continue
            done.append(Measured.from_json(told))
    return done


def assemble(
    frames: Sequence[Frame],
    measured: Sequence[Measured],
    configs: Mapping[str, OdometryConfig],
    truth: Sequence[Array | None] | None = None,
) -> Odometry:
    """The quick part: poses and tracks from measured steps."""
    tracks: Sequence[Track] = join_tracks(measured)
    poses = {arm: chained([done.steps[arm] for done in measured]) for arm in configs}
    for arm, config in configs.items():
        if "tracks" in config.assist and frames[0].camera is not None:
            steps = [done.steps[arm] for done in measured]
            poses[arm] = adjusted(steps, sightings_of(frames, poses[arm], measured), tracks, config)
    best = poses.get(ASSISTED, poses[BASELINE])
    tracks = placed_tracks(sightings_of(frames, best, measured), tracks)
    known = None
    if truth is not None and all(one is not None for one in truth):
        world = np.stack([one for one in truth if one is not None])
        known = np.linalg.inv(world[0]) @ world
    times = [frame.time for frame in frames if frame.time is not None]
    length = times[-1] - times[0] if len(times) == len(frames) else USUAL_INTERVAL * (len(frames) - 1)
    seconds = float(sum(done.seconds for done in measured))
    notes = tell(frames, measured, configs)
    return Odometry(tuple(frames), poses, tuple(measured), tuple(tracks), notes, known, seconds, float(length))


def tell(
    frames: Sequence[Frame], measured: Sequence[Measured], configs: Mapping[str, OdometryConfig]
) -> tuple[str, ...]:
    """What a user should know about this run, in a few sentences."""
    notes = []
    arm = ASSISTED if ASSISTED in configs else BASELINE
    by = Counter(done.steps[arm].by for done in measured)
    if frames[0].camera is None:
        notes.append("no intrinsics: a field of view of 81 degrees is assumed, turns may be off; give --camera")
    sentences = {
        "prediction": "steps are guesses from the motion before: too few keypoints agreed",
        "landmarks": "steps were carried by landmarks alone: too few keypoints agreed",
        "still": "frames show a camera that does not move",
    }
    notes += [f"{by[kind]} of {len(measured)} {words}" for kind, words in sentences.items() if by[kind]]
    metres = Counter(done.steps[arm].metres_by for done in measured)
    unknown = sum(count for word, count in metres.items() if word.startswith("nothing"))
    if unknown:
        notes.append(f"no scale for {plural(unknown, 'step')}: the shape is right, the metres are not")
    if metres["the speed before"]:
        notes.append(f"the speed before gave the length of {plural(metres['the speed before'], 'step')}")
    if ASSISTED in configs:
        alone = longest_run([not done.links for done in measured[1:]])
        if alone >= 10:
            notes.append(f"no landmark was matched in up to {alone} frames in a row: these steps had no assistance")
    focal = np.array([done.focal for done in measured if done.focal]).reshape(-1, 2)
    if len(focal) >= 5:
        for better, word in zip(np.median(focal, axis=0), ("shorter", "longer"), strict=True):
            if better > FOCAL_DOUBT:
                notes.append(f"a focal length a fifth {word} than given fits better: check the intrinsics")
    missing = [done.name for done in measured if any(note.startswith("no image") for note in done.notes)]
    if missing:
        notes.append(f"{plural(len(missing), 'image')} could not be read, such as {missing[0]}")
    return tuple(notes)


def longest_run(flags: Sequence[bool]) -> int:
    best = now = 0
    for flag in flags:
        now = now + 1 if flag else 0
        best = max(best, now)
    return best
