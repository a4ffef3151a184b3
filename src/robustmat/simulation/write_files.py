"""What the writers of all layouts share: pictures, points, numbers, and the simulator's truth beside them."""

import errno
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.files import replacing, write_text
from robustmat.simulation.drive import StreetDrive
from robustmat.types import Array, Camera, Frame

Progress = Callable[[Iterable[int]], Iterable[int]]


def write_frames(
    drive: StreetDrive,
    folder: Path,
    names: list[str],
    write: Callable[[int, Frame, str], None],
    progress: Progress | None,
) -> None:
    """Write each frame by `write(number, frame, name)`, then `identities.json` with what each one shows."""
    truth = []
    for i in (progress or iter)(range(len(drive.frames))):
        frame = drive.frames[i]
        write(i, frame, names[i])
        landmarks = [landmark.to_json() for landmark in drive.truth(i)]
        pose = np.round(pose_of(frame), 9).tolist()
        truth.append({"name": names[i], "T_world_camera": pose, "landmarks": landmarks})
    head = {"format": "robustmat-street-identities", "version": 1, "world": drive.world, "name": drive.name}
    head["source"] = drive.source
    lines = ",\n".join("  " + json.dumps(frame) for frame in truth)  # one frame a line: people and line tools read it
    write_text(folder / "identities.json", json.dumps(head)[:-1] + f', "frames": [\n{lines}\n]}}\n')


def camera_of(drive: StreetDrive) -> Camera:
    camera = drive.frames[0].camera
    assert camera is not None
    return camera


def pose_of(frame: Frame) -> Array:
    assert frame.T_world_camera is not None
    return frame.T_world_camera


def points_of(frame: Frame) -> NDArray[np.float32]:
    points = frame.points_lidar
    assert points is not None
    return points


def write_picture(path: Path, picture: NDArray[np.uint8]) -> None:
    """RGB or one channel, as PNG; quickly rather than small."""
    stored = picture[:, :, ::-1] if picture.ndim == 3 else picture
    with replacing(path) as temporary:
        if not cv2.imwrite(str(temporary), stored, [cv2.IMWRITE_PNG_COMPRESSION, 1]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what it was OpenCV does not tell


def write_labels(path: Path, frame: Frame) -> None:
    labels = frame.semantics
    assert labels is not None
    write_picture(path, labels)


def write_floats(path: Path, values: NDArray[Any], kind: str = "<f4") -> None:
    with replacing(path) as temporary:
        np.ascontiguousarray(values, dtype=kind).tofile(temporary)


def numbers(values: Array) -> str:
    return " ".join(f"{value:.12e}" for value in np.asarray(values).ravel())


def rows(matrix: Array) -> str:
    return "".join(numbers(row) + "\n" for row in matrix)
