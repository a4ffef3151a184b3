"""Make the simulated training data of the shipped `street` checkpoint: towns, each driven twice on different days.

    python examples/street_data.py OUT --first 1000 --towns 24 --frames 40 --workers 2

Writes OUT/street-SEED-0 and OUT/street-SEED-1, landmark data sets of one world each, through the same KITTI layout and
the same LiDAR ground truth as a real drive. What is already there is kept, so that an interrupted run goes on.
"""

import argparse
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from rich.progress import track

from robustmat.dataset.prepare import prepare
from robustmat.simulation import LOOKS, build_town, drive_town, write_kitti_odometry
from robustmat.sources.kitti_odometry import open_kitti_odometry

LANES = ("right", "left", "middle")
DRIVES_PER_TOWN = 2


def make_drive(out: Path, seed: int, number: int, frames: int) -> None:
    """One drive of one town; looks, lanes and the stretch of street are drawn from the seed."""
    cv2.setNumThreads(1)
    data = out / f"street-{seed}-{number}"
    if (data / "dataset.json").exists():
        return
    rng = np.random.default_rng(seed)
    looks, lanes = rng.permutation(sorted(LOOKS)), rng.permutation(LANES)
    start, spacing = float(rng.uniform(0, 150)), float(rng.choice([1.0, 1.5]))
    town = build_town(seed)
    drive = drive_town(
        town, frames, look=looks[number], lane=lanes[number], start=start, spacing=spacing, drive_seed=number
    )
    layout = out / "layouts" / f"{seed}-{number}"
    shutil.rmtree(layout, ignore_errors=True)
    write_kitti_odometry(drive, layout)
    written = open_kitti_odometry(layout, "00")
    prepare(replace(written, name=f"street-{seed}-{number}", world=town.world), data)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make simulated training data.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--first", type=int, default=1000, help="seed of the first town")
    parser.add_argument("--towns", type=int, default=24)
    parser.add_argument("--frames", type=int, default=40, help="of each of a town's two drives")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.towns)
    jobs = [(given.out, seed, number, given.frames) for seed in seeds for number in range(DRIVES_PER_TOWN)]
    with ProcessPoolExecutor(given.workers) as pool:
        for done in track([pool.submit(make_drive, *job) for job in jobs], "driving and preparing towns"):
            done.result()


if __name__ == "__main__":
    main()
