"""One's own frames in a plain folder: images/, and as much beside them as there is.

    images/NAME.png or .jpg        needed; frames are in the order of their names
    boxes/NAME.json or boxes.json  boxes of one image, or of all as COCO
    masks/NAME.png                 or label maps (Cityscapes train ids, 19 window)
    camera.json or intrinsics.txt  the rectified camera
    poses.txt                      T_world_camera, TUM or KITTI; times.txt: seconds, one line an image
    lidar/NAME.bin                 float32 x, y, z, reflectance; with T_camera_lidar.txt or in camera.json

Without camera or poses landmarks have no identities; without LiDAR they come from bearings. Camera axes are
x right, y down, z ahead.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from robustmat.errors import DataError, InputError
from robustmat.sources.boxes import CocoImage, check_drawn_boxes, check_drawn_size, read_boxes, read_coco
from robustmat.sources.drive import (
    IMAGE_SUFFIXES,
    Drive,
    image_loader,
    points_loader,
    refuse_unfinished,
    semantics_loader,
)
from robustmat.sources.folder_camera import read_camera
from robustmat.sources.folder_poses import read_folder_poses
from robustmat.sources.images import image_size
from robustmat.sources.tables import read_table
from robustmat.types import Frame, Landmark


def open_folder(root: Path | str, *, semantics: Path | str | None = None) -> Drive:
    """Your own frames: images/ and as much beside it as you have.

    boxes/NAME.json, boxes.json (COCO) or masks/NAME.png say where the landmarks are. camera.json (fx, fy, cx, cy,
    T_camera_lidar), poses.txt (TUM or KITTI, camera to world) and lidar/NAME.bin (float32 x, y, z, reflectance) give
    them identities; without these they can be matched, not evaluated or trained on.

    Args:
        root: The folder that holds images/.
        semantics: Folder of label maps named as the images; masks/ if there.
    """
    root = Path(root)
    images = named_files(root / "images", IMAGE_SUFFIXES, "images")
    masks = _optional(Path(semantics) if semantics else root / "masks", ".png", "masks", images, bool(semantics))
    scans = _optional(root / "lidar", ".bin", "LiDAR scans", images)
    boxes = _box_loaders(root, images)
    camera, T_camera_lidar = read_camera(root, next(iter(images.values())))
    if scans and (camera is None or T_camera_lidar is None):
        lacking = "camera.json or intrinsics.txt" if camera is None else "T_camera_lidar.txt (or a key of camera.json)"
        raise DataError(f"{root / 'lidar'} needs {lacking} in {root}, or its points have no place in the images")
    times = _read_times(root / "times.txt", images)
    poses = None
    if (root / "poses.txt").exists():
        poses, known = read_folder_poses(root / "poses.txt", list(images.values()), times)
        times = times or known or None

    def frame(index: int, name: str, path: Path) -> Frame:
        return Frame(
            name=name,
            load_image=image_loader(path, camera),
            camera=camera,
            T_world_camera=poses[index] if poses is not None else None,
            T_camera_lidar=T_camera_lidar,
            load_points=points_loader(scans[name]) if name in scans else None,
            load_semantics=semantics_loader(masks[name], camera, path) if name in masks else None,
            time=times[index] if times else None,
            load_boxes=boxes.get(name),
        )

    name = root.resolve().name
    return Drive(
        name=name,
        world=name,
        frames=tuple(frame(index, stem, path) for index, (stem, path) in enumerate(images.items())),
        image_paths=tuple(images.values()),
        source={"layout": "folder", "folder": name},
    )


def named_files(folder: Path, suffixes: tuple[str, ...], what: str) -> dict[str, Path]:
    """Files by their name without suffix, in its order."""
    if not folder.is_dir():
        raise DataError(f"{what} not found: expected the folder {folder}")
    refuse_unfinished(folder)
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in suffixes and not path.name.startswith("."):
            if path.stem in found:
                raise DataError(f"{what}: {path.stem} is there twice: {found[path.stem]} and {path}; remove one")
            found[path.stem] = path
    if not found:
        raise DataError(f"{what}: none in {folder}; expected files that end with {' or '.join(suffixes)}")
    return found


def _optional(folder: Path, suffix: str, what: str, images: dict[str, Path], needed: bool = False) -> dict[str, Path]:
    """Files that go with an image by their name; if the folder is there, at least one must."""
    if not folder.is_dir() and not needed:
        return {}
    files = named_files(folder, (suffix,), what)
    if not files.keys() & images.keys():
        raise DataError(
            f"{what}: none in {folder} is named as an image; expected {next(iter(images))}{suffix}, "
            f"found {next(iter(files.values())).name}"
        )
    return files


Boxes = Callable[[], tuple[Landmark, ...]]


def _box_loaders(root: Path, images: dict[str, Path]) -> dict[str, Boxes]:
    """How to get the boxes of each image that something is said about, be it that there are none."""
    path = root / "boxes.json"
    if path.exists():
        coco = read_coco(path)
        known = {name: image for name, image in images.items() if image.name in coco}
        if not known:
            raise DataError(f"{path} describes none of the images in {root / 'images'} by its file name")
        return {name: partial(_checked_coco, coco[image.name], image, path) for name, image in known.items()}
    files = _optional(root / "boxes", ".json", "boxes", images)
    return {name: partial(_read_checked, path, images[name]) for name, path in files.items() if name in images}


def _read_checked(path: Path, image: Path) -> tuple[Landmark, ...]:
    return _checked(read_boxes(path, image.name, image_size(image)), image, path)


def _checked_coco(known: CocoImage, image: Path, path: Path) -> tuple[Landmark, ...]:
    check_drawn_size(known.size, image_size(image), path)
    return _checked(known.landmarks, image, path)


def _checked(landmarks: tuple[Landmark, ...], image: Path, path: Path) -> tuple[Landmark, ...]:
    try:
        return check_drawn_boxes(landmarks, *image_size(image))
    except InputError as problem:
        raise InputError(f"{path}, boxes of {image.name}: {problem}") from None


def _read_times(path: Path, images: dict[str, Path]) -> list[float] | None:
    if not path.exists():
        return None
    times = [float(row[0]) for row in read_table(path, (1,), "times")]
    if len(times) != len(images):
        raise DataError(f"{len(times)} times for {len(images)} images: {path} needs one line for each image")
    return times
