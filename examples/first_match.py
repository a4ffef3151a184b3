"""The whole flow in a minute: draw small streets, prepare them, train on the spot, match two frames of a new one.

python examples/first_match.py [OUT]
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import open_dataset
from robustmat.matching import load
from robustmat.sources.kitti_raw import open_kitti_raw
from robustmat.training.config import load_training_config
from robustmat.training.run import train

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from scene import DATE, DRIVE, write_kitti_raw  # the tests' small street

TRAINING_STREETS, VALIDATION_STREET, NEW_STREET = (1, 2, 3, 4, 5, 6), 7, 8
FIRST_FRAME, SECOND_FRAME = 2, 8  # about six metres apart


def main(out: Path) -> None:
    console = Console()
    streets = {}
    for seed in track([*TRAINING_STREETS, VALIDATION_STREET, NEW_STREET], "drawing and preparing streets"):
        write_kitti_raw(out / f"street{seed}", seed=seed)
        drive = replace(open_kitti_raw(out / f"street{seed}", DATE, DRIVE), name=f"street{seed}", world=f"town{seed}")
        streets[seed] = open_dataset(prepare(drive, out / "data" / f"street{seed}"))
    config = load_training_config("street", {"steps": 120, "validate_every": 40, "views": 2, "frame_pairs_per_step": 4})
    training = [streets[seed] for seed in TRAINING_STREETS]
    run = out / "run"
    shutil.rmtree(run, ignore_errors=True)  # of an earlier demo
    best = train(config, training, [streets[VALIDATION_STREET]], run, progress=lambda it: track(it, "cutting patches"))

    frame_a, frame_b = (streets[NEW_STREET].frames[it] for it in (FIRST_FRAME, SECOND_FRAME))
    result = load(best).match(frame_a, frame_b)
    table = Table("A", "B", "category", "score", "probability", "truth", title="matches on a street never seen")
    for it in result.matches:
        a, b = frame_a.landmarks[it.a], frame_b.landmarks[it.b]
        known = a.identity is not None and b.identity is not None
        truth = ("right" if a.identity == b.identity else "wrong") if known else "unknown"
        table.add_row(str(it.a), str(it.b), a.category, f"{it.score:.2f}", f"{it.probability:.2f}", truth)
    console.print(table)
    console.print(f"picture: {result.draw(out / 'matches.png')}")
    console.print("next: `robustmat prepare --help` for your own drive, `robustmat match --help` for two images")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
