"""Training and test frames of simulated towns: many towns, every look, many cameras, a label for every pixel."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from robustmat.files import replacing
from robustmat.simulation import LANES, LOOKS, View, build_town, drive_town, kitti_camera
from robustmat.sources.images import write_image
from robustmat.types import Camera

SPACING = 40.0  # metres between two frames of a town: neighbours show other things
KITTI_SHARE = 0.5  # of the towns are seen by KITTI's camera, the rest by any other


def write_town_frames(
    out: Path | str,
    seeds: Sequence[int],
    frames: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Render `frames` frames of each town into OUT/images, OUT/semantics and OUT/instances.

    `instances` numbers the landmarks of a frame (16 bits, 0 is none), so that two windows that touch stay two.
    Frames that are there already are kept: a run that was stopped goes on.
    """
    out = Path(out)
    for number, seed in enumerate(seeds):
        rng = np.random.default_rng([seed, 23])
        names = [f"town-{seed:05d}-{i:03d}" for i in range(frames)]
        if not all((out / "instances" / f"{name}.png").is_file() for name in names):
            drive = drive_town(
                build_town(seed),
                frames,
                look=str(rng.choice(list(LOOKS))),
                lane=str(rng.choice(list(LANES))),
                start=float(rng.uniform(0, 500)),
                spacing=SPACING,
                drive_seed=seed,
                camera=draw_camera(rng),
            )
            for i, name in enumerate(names):
                _write(out, name, drive.view(i))
        if progress is not None:
            progress(number + 1, len(seeds))


def draw_camera(rng: np.random.Generator) -> Camera:
    """KITTI's camera, or one of another format, field of view and tilt."""
    if rng.random() < KITTI_SHARE:
        return kitti_camera()
    width = int(rng.integers(640, 1100))
    height = round(width * rng.uniform(0.5, 0.8))
    focal = width * rng.uniform(0.5, 1.2)
    matrix = np.array(
        [[focal, 0, width * rng.uniform(0.4, 0.6)], [0, focal, height * rng.uniform(0.4, 0.8)], [0, 0, 1]]
    )
    return Camera(matrix, width, height)


def _write(out: Path, name: str, view: View) -> None:
    _, instances = np.unique(view.identities, return_inverse=True)  # a frame shows fewer than 65,536
    if view.identities.min() > 0:
        instances = instances + 1
    write_image(out / "images" / f"{name}.jpg", view.image)
    with replacing(out / "semantics" / f"{name}.png") as temporary:
        PIL.Image.fromarray(view.semantics).save(temporary)
    with replacing(out / "instances" / f"{name}.png") as temporary:
        PIL.Image.fromarray(instances.reshape(view.identities.shape).astype(np.uint16)).save(temporary)
