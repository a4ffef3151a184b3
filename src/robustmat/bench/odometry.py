"""Odometry with and without landmarks on the same frames, in any weather; tracks against the truth; LiDAR by points.

Every data set and weather is one line of `odometry.jsonl`, written when it is done: an interrupted run goes on there.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from robustmat.dataset.store import LandmarkDataset
from robustmat.geometry.poses import chain
from robustmat.geometry.relative_pose import rays, sampled_pose
from robustmat.geometry.transforms import invert, rigid
from robustmat.matching.combined import whole_frame
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.odometry.config import USUAL, OdometryConfig
from robustmat.odometry.keypoints import plain_matches
from robustmat.odometry.lidar import LANDMARK_SHARE, lidar_odometry, scans_of
from robustmat.odometry.run import ASSISTED, BASELINE, assemble, measure
from robustmat.odometry.steps import Measured
from robustmat.odometry.tracks import judge_tracks
from robustmat.odometry.trajectory import Errors, trajectory_errors
from robustmat.perturb.named import parse, perturb_frame
from robustmat.progress import Progress, silent
from robustmat.sources import open_kitti_odometry, open_kitti_raw
from robustmat.types import Array, Frame

BLOCK = 8  # frames that are drawn together: errors of neighbours go together
RESAMPLES = 1000
BUDGETS = (1000, 500, 250, 125)  # LiDAR points of a scan
DRAWS = 3  # seeds of the points


class _Remembering:
    """A matcher that keeps its embeddings, so that the plain rival sees the same keypoints."""

    def __init__(self, inner: Matcher) -> None:
        self.inner, self.fingerprint = inner, inner.fingerprint
        self.seen: dict[str, EmbeddedFrame] = {}

    def embed(self, frame: Frame) -> EmbeddedFrame:
        if frame.name not in self.seen:
            self.seen[frame.name] = replace(self.inner.embed(frame), frame=None)
        return self.seen[frame.name]

    def match(self, *arguments: Any, **options: Any) -> Any:
        return self.inner.match(*arguments, **options)


def bench_odometry(
    data: LandmarkDataset,
    weather: str,
    matcher: Matcher,
    *,
    frames: Sequence[int],
    parts: Sequence[str] = (),
    samples: int = 1,
    seed: int = 0,
    lidar: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """One data set in one weather: errors of every arm, differences with intervals, tracks.

    Args:
        frames: which frames, by number.
        parts: parts of the assistance that are also measured alone.
        samples: seeds of the robust sample; errors are root mean squares over all of them.
    """
    begun = process_time()
    chosen = [data.frames[i] for i in frames]
    noisy = [perturb_frame(frame, parse(weather), seed, f"{data.name}/{frame.name}") for frame in chosen]
    alike = OdometryConfig(assist=(), scale="poses")
    arms = {ASSISTED: USUAL, BASELINE: (), **{part: (part,) for part in parts}}
    # The first seed goes by the arm's own name.
    configs = {
        f"{arm}-{one}" if one else arm: alike.model_copy(update={"assist": assist, "seed": one})
        for one in range(samples)
        for arm, assist in arms.items()
    }
    remembering = _Remembering(matcher)
    measured = measure(noisy, remembering, lambda frame: frame.landmarks, configs, progress=progress)  # type: ignore[arg-type]
    done = assemble(noisy, measured, configs, [frame.T_world_camera for frame in chosen])
    assert done.truth is not None
    truth = done.truth
    errors = {
        arm: [trajectory_errors(done.poses[f"{arm}-{one}" if one else arm], truth) for one in range(samples)]
        for arm in arms
    }
    errors["opencv"] = [
        trajectory_errors(plain_opencv([remembering.seen[frame.name] for frame in chosen], truth), truth)
    ]
    told: dict[str, Any] = {
        "data": data.name,
        "perturb": weather,
        "frames": len(chosen),
        "seed": seed,
        "samples": samples,
        "errors": {arm: mean_errors(some) for arm, some in errors.items()},
        "against_baseline": {arm: compare(one, errors[BASELINE]) for arm, one in errors.items() if arm != BASELINE},
        "tracks": judge_tracks(done.tracks, [frame.landmarks for frame in chosen]).to_json(),
        "steps": done.metrics()["steps"],
        "processor_seconds": round(process_time() - begun, 1),
    }
    if lidar:
        told["lidar"] = bench_lidar(with_scans(data, chosen), measured, truth, seed)
    return told


def plain_opencv(seen: Sequence[EmbeddedFrame], truth: Array) -> Array:
    """The field's plain visual odometry: RootSIFT, MAGSAC, frame to frame; lengths of steps are the truth's."""
    steps = []
    for i in range(1, len(seen)):
        a, b = whole_frame(seen[i - 1]), whole_frame(seen[i])
        points = plain_matches(a, b)
        metres = float(np.linalg.norm((invert(truth[i - 1]) @ truth[i])[:3, 3]))
        found = sampled_pose(rays(points.a, a.intrinsics), rays(points.b, b.intrinsics), float(a.intrinsics[0]))
        R, direction = found[0] if found else (np.eye(3), np.array([0.0, 0, -1]))
        steps.append(invert(rigid(R, metres * direction)))
    return chain(np.array(steps))


def mean_errors(some: Sequence[Errors]) -> dict[str, Any]:
    """Root mean squares over seeds."""
    told = [one.to_json() for one in some]
    return {
        name: None if told[0][name] is None else round(_rms(np.array([one[name] for one in told])), 6)
        for name in told[0]
    }


def compare(some: Sequence[Errors], others: Sequence[Errors], seed: int = 0) -> dict[str, Any]:
    """Relative change of RPE (metres, degrees) against another arm, with intervals by drawing blocks of frames.

    All seeds of a frame are drawn together.
    """
    rng = np.random.default_rng(seed)
    count = len(some[0].rpe_steps)
    blocks = [np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    drawn = [np.concatenate([blocks[k] for k in rng.integers(len(blocks), size=len(blocks))]) for _ in range(RESAMPLES)]
    told = {}
    for name, steps in (("rpe", "rpe_steps"), ("rpe_degrees", "rpe_turns")):
        mine, theirs = (np.stack([getattr(one, steps) for one in arm]) for arm in (some, others))  # [S, N]
        change = [_rms(mine[:, index]) / max(_rms(theirs[:, index]), 1e-12) - 1 for index in (np.arange(count), *drawn)]
        low, high = np.quantile(change[1:], [0.025, 0.975])
        told[name] = [round(float(one), 4) for one in (change[0], low, high)]
    return told


def _rms(values: Array) -> float:
    return float(np.sqrt((values**2).mean()))


def with_scans(data: LandmarkDataset, frames: Sequence[Frame]) -> list[Frame]:
    """The frames with the LiDAR scans that lie beside their images in a KITTI layout."""
    image = data.image_paths[0].resolve()
    if data.source.get("layout") == "kitti-raw":
        drive = open_kitti_raw(image.parents[4], data.source["date"], data.source["drive"])
    else:
        drive = open_kitti_odometry(image.parents[3], data.source["sequence"], camera=data.source["camera"])
    by_name = {frame.name: frame for frame in drive.frames}
    return [
        replace(frame, load_points=by_name[frame.name].load_points, T_camera_lidar=by_name[frame.name].T_camera_lidar)
        for frame in frames
    ]


def bench_lidar(frames: Sequence[Frame], measured: Sequence[Measured], truth: Array, seed: int) -> dict[str, Any]:
    """RPE by the number of points, drawn evenly and with more on matched landmarks; KISS-ICP with all points."""
    scans = list(scans_of(frames, measured))
    mount = frames[0].T_camera_lidar
    assert mount is not None

    def judged(poses_lidar: Array) -> Errors:
        return trajectory_errors(mount @ poses_lidar @ invert(mount), truth)

    rows = []
    for budget in BUDGETS:
        for name, share in (("even", 0.0), ("landmarks", LANDMARK_SHARE)):
            found = [lidar_odometry(scans, budget, share, one) for one in range(seed, seed + DRAWS)]
            told = mean_errors([judged(one.poses) for one in found])
            rows.append({"points": budget, "chosen": name, "kept": round(found[0].points, 1), **told})
    return {
        "points_of_a_scan": float(np.mean([len(points) for points, _ in scans])),
        "on_landmarks": float(np.mean([on.sum() for _, on in scans])),
        "rows": rows,
        "kiss_icp": None if (rival := kiss_icp([points for points, _ in scans])) is None else judged(rival).to_json(),
    }


def kiss_icp(scans: Sequence[Array]) -> Array | None:
    """KISS-ICP's poses of the whole scans, or None where it is not installed."""
    try:
        from kiss_icp.config import KISSConfig
        from kiss_icp.kiss_icp import KissICP
    except ImportError:
        return None
    config = KISSConfig()
    config.data.deskew = False
    config.mapping.voxel_size = 1.0
    rival = KissICP(config)
    poses = []
    for points in scans:
        rival.register_frame(points, np.zeros(len(points)))
        poses.append(np.array(rival.last_pose))
    return np.stack(poses)


def run_bench(
    jobs: Sequence[tuple[LandmarkDataset, Sequence[int], bool]],
    weathers: Sequence[str],
    matcher: Matcher,
    out: Path,
    *,
    parts: Sequence[str] = (),
    samples: int = 1,
    seed: int = 0,
    progress: Progress = silent,
    tell: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """All data sets in all weathers; what `out` holds already is not measured again."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "odometry.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    for weather in weathers:
        for data, frames, lidar in jobs:
            if any((row["data"], row["perturb"], row["seed"]) == (data.name, weather, seed) for row in rows):
                continue
            tell(f"{data.name}, {weather}, {len(frames)} frames")
            row = bench_odometry(
                data,
                weather,
                matcher,
                frames=frames,
                parts=parts,
                samples=samples,
                seed=seed,
                lidar=lidar and weather == "clean",
                progress=progress,
            )
            rows.append(row)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return rows
