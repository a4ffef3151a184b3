"""Pairs from single photographs: each labelled image is seen by several virtual cameras.

What stands in the street is lifted off, grows faster than the background the nearer it is, and hides another part
of it in every view. So all pixels are real, and identities are certain: a landmark is found once, in the
photograph, and its pixels are followed into the views.

Poses and positions are *nominal*: image i stands at x = 1000 i metres with its views a few metres apart, so that
only views of one image are paired; the landmarks of one thing (a sign and its own pole) share a place, which makes
them ambiguous to each other as in a real drive, and things are ten metres from each other.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from robustmat.dataset.store import refuse_to_overwrite, write_dataset
from robustmat.errors import DataError
from robustmat.files import writing
from robustmat.folders import locked
from robustmat.geometry.transforms import rigid
from robustmat.landmarks.config import DEFAULT, RegionConfig
from robustmat.simulation.layers import BACKGROUND, Layers, take_apart
from robustmat.simulation.seeing import see
from robustmat.simulation.views import draw_views
from robustmat.sources.drive import Drive
from robustmat.types import Camera, Frame, InMemory, Landmark

Progress = Callable[[Sequence[Frame]], Iterable[Frame]]

MOST_VIEWS = 10
FARTHEST_VIEWS = 20.0  # metres between the first and the last, at most
BETWEEN_VIEWS, BETWEEN_THINGS, BETWEEN_IMAGES = 5.0, 10.0, 1000.0  # metres
FEWEST_LANDMARKS = 2  # that a view must show: one alone has no rival, and teaches nothing
MOST_NEARNESS = 1.5  # the background grows by up to 2, the nearest things by up to 2.8


def prepare_warped(
    drive: Drive,
    out: Path | str,
    *,
    views: int = 3,
    seed: int = 0,
    config: RegionConfig = DEFAULT.regions,
    progress: Progress = lambda frames: frames,
) -> Path:
    """Write the data set of `views` views of every image; those that show fewer than two landmarks are left out."""
    out = Path(out)
    refuse_to_overwrite(out)
    if not 2 <= views <= MOST_VIEWS:
        raise DataError(
            f"an image can be seen in 2 to {MOST_VIEWS} views, not {views}: pairs need two, 2 to 25 m apart"
        )
    source = {**drive.source, "warped": {"views": views, "seed": seed}, "poses": "nominal", "positions": "nominal"}
    with locked(out), writing(out), tempfile.TemporaryDirectory() as scratch:
        frames = (
            (frame, _write(frame, Path(scratch) / "view.jpg"))
            for frame in _all_views(drive, views, seed, config, progress)
        )
        return write_dataset(out, drive.name, drive.world, frames, source=source, copy_images=True)


def _all_views(drive: Drive, views: int, seed: int, config: RegionConfig, progress: Progress) -> Iterator[Frame]:
    identities = 0
    for number, frame in enumerate(progress(drive.frames)):
        semantics = frame.semantics
        if frame.camera is None or semantics is None:
            raise DataError(f"frame {frame.name} of '{drive.name}' needs a camera and a label map to be warped")
        layers = take_apart(frame.image, semantics, config)
        if not layers.regions:
            continue
        rng = np.random.default_rng([seed, *frame.name.encode()])
        yield from _views_of(frame.name, number, frame.camera, layers, views, identities, rng, config)
        identities += len(layers.regions)


def _views_of(
    name: str,
    number: int,
    camera: Camera,
    layers: Layers,
    count: int,
    first_identity: int,
    rng: np.random.Generator,
    config: RegionConfig,
) -> Iterator[Frame]:
    nearness = np.concatenate([[1.0], rng.uniform(1.0, MOST_NEARNESS, layers.count)])
    step = min(BETWEEN_VIEWS, FARTHEST_VIEWS / (count - 1))
    for turn, view in enumerate(draw_views(camera, count, rng)):
        seen = see(layers, view, nearness, config)
        if len(seen.boxes) < FEWEST_LANDMARKS:
            continue
        landmarks = tuple(
            Landmark(box, layers.regions[i].category, first_identity + i, _nominal_position(number, layers, i))
            for i, box in seen.boxes.items()
        )
        yield Frame(
            name=f"{name}_{turn}",
            load_image=InMemory(seen.image),
            landmarks=landmarks,
            camera=view.camera,
            T_world_camera=rigid(np.eye(3), np.array([BETWEEN_IMAGES * number, 0.0, step * turn])),
        )


def _write(frame: Frame, path: Path) -> Path:
    """JPEG, as fine as it gets: a quarter of a PNG's bytes and, for hundreds of images, of its time."""
    PIL.Image.fromarray(frame.image).save(path, quality=95, subsampling=0)
    return path


def _nominal_position(number: int, layers: Layers, region: int) -> tuple[float, float, float]:
    """One place for each thing, and for each window; behind the cameras, where no picture shows them."""
    thing = layers.region_thing[region]
    place = thing if thing != BACKGROUND else layers.count + 1 + region
    return BETWEEN_IMAGES * number, 0.0, -BETWEEN_THINGS * place
