"""Single images with label maps, of no drive: CamVid, a folder of snapshots, every tenth frame of something."""

from pathlib import Path

import numpy as np

from robustmat.errors import DataError
from robustmat.geometry.relative_pose import ASSUMED_FOCAL_LENGTH
from robustmat.sources.drive import IMAGE_SUFFIXES, Drive, image_loader, semantics_loader
from robustmat.sources.folder import named_files
from robustmat.sources.folder_camera import read_camera
from robustmat.sources.images import image_size
from robustmat.types import Camera, Frame


def open_labelled_images(root: Path | str, *, semantics: Path | str | None = None, limit: int | None = None) -> Drive:
    """The images of ROOT/images, or of ROOT itself, that have a label map of the same name.

    Label maps are in `semantics`, by default ROOT/semantics. `limit` keeps so many images, evenly from the first
    to the last. A camera.json or intrinsics.txt in ROOT tells the camera; without one it is assumed.
    """
    root = Path(root)
    images = named_files(root / "images" if (root / "images").is_dir() else root, IMAGE_SUFFIXES, "images")
    folder = Path(semantics) if semantics else root / "semantics"
    if not folder.is_dir():
        raise DataError(f"label maps not found: expected the folder {folder}; name the right one with --semantics")
    labels = named_files(folder, (".png",), "label maps")
    names = [name for name in images if name in labels]
    if not names:
        raise DataError(
            f"label maps: none in {folder} is named as an image; expected {next(iter(images))}.png, "
            f"found {next(iter(labels.values())).name}"
        )
    if limit is not None and limit < len(names):
        names = [names[i] for i in np.linspace(0, len(names) - 1, limit).round().astype(int)]
    known, _ = read_camera(root, images[names[0]])

    def frame(name: str) -> Frame:
        path = images[name]
        return Frame(
            name=name,
            load_image=image_loader(path, known),
            camera=known or _assumed_camera(*image_size(path)),
            load_semantics=semantics_loader(labels[name], known, path),
        )

    title = root.resolve().name
    return Drive(
        name=title,
        world=title,
        frames=tuple(frame(name) for name in names),
        image_paths=tuple(images[name] for name in names),
        source={"layout": "labelled-images", "folder": title},
    )


def _assumed_camera(width: int, height: int) -> Camera:
    focal = ASSUMED_FOCAL_LENGTH * width
    return Camera(np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]]), width, height)
