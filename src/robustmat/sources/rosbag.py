"""Drives in ROS 1 and ROS 2 bags: images, their camera and, where a topic tells, poses.

image topic    sensor_msgs/Image or CompressedImage; frames are named by their time in nanoseconds
camera topic   sensor_msgs/CameraInfo; beside the image topic by default. Lens distortion is taken out
pose topic     nav_msgs/Odometry, geometry_msgs/PoseStamped (with or without covariance), TransformStamped
/tf_static     how the camera is mounted on the body that poses belong to
"""

import warnings
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from robustmat.errors import DataError, InputWarning
from robustmat.geometry.poses import Trajectory
from robustmat.sources.drive import Drive, check_size, semantics_files, semantics_loader
from robustmat.sources.rosbag_file import Bag, Stamp, open_bag, read_message
from robustmat.sources.rosbag_messages import (
    IMAGES,
    POSES,
    Calibration,
    calibration_of,
    chain_between,
    frame_of,
    image_pixels,
    mountings,
    pose_of,
)
from robustmat.sources.tables import read_transform
from robustmat.types import Array, Frame, Image

LONGEST_GAP = 2_000_000_000  # nanoseconds; between farther poses nobody knows the way
NONE = "none"


def open_rosbag(
    bag: Path | str,
    *,
    image_topic: str | None = None,
    camera_topic: str | None = None,
    pose_topic: str | None = None,
    body_frame: str | None = None,
    extrinsics: Path | str | None = None,
    rectified: bool = False,
    semantics: Path | str | None = None,
    every: int = 1,
) -> Drive:
    """A ROS 1 or ROS 2 bag: images, their camera and poses, without ROS.

    Args:
        bag: The .bag, .mcap or .db3 file, or the folder with metadata.yaml.
        image_topic: Topic of the images, raw or compressed; needed where there are several.
        camera_topic: Topic of their CameraInfo; the one beside the images by default, `none` for no camera.
        pose_topic: Topic of Odometry, PoseStamped or TransformStamped messages; `none` for no poses.
        body_frame: The frame that poses belong to, where the messages do not tell.
        extrinsics: File with the 12 or 16 numbers of T_body_camera, where /tf_static does not tell how the camera is
            mounted.
        rectified: The images are free of lens distortion already; known by itself where the topic's name says "rect".
        semantics: Folder of label maps, named as the frames (`--rectify-to` writes the images to label).
        every: Take every Nth image.
    """
    path = Path(bag)
    opened = open_bag(path)
    topic = _choose(opened, image_topic, IMAGES, "image topic", "--image-topic")
    first = opened.first(topic)
    calibration = _calibration(opened, topic, camera_topic, rectified)
    if calibration is not None:
        shape = image_pixels(first, f"{path}, {topic}").shape
        check_size(path, shape, (calibration.width, calibration.height), "its CameraInfo")
    stamps = opened.stamps(topic)
    times = _times(stamps)
    chosen: Sequence[int] = range(0, len(stamps), max(every, 1))
    poses = _poses(opened, pose_topic, body_frame, extrinsics, frame_of(first), times)
    if poses is not None:
        chosen = _placed(chosen, poses, path)
    labels = semantics_files(Path(semantics), path) if semantics else {}
    camera = calibration.camera if calibration else None

    def frame(index: int) -> Frame:
        time = times[index]
        return Frame(
            name=str(time),
            load_image=partial(_load_image, path.resolve(), topic, stamps[index], calibration),
            camera=camera,
            T_world_camera=poses[index] if poses is not None else None,
            load_semantics=semantics_loader(labels[time], camera) if time in labels else None,
            time=time / 1e9,
        )

    name = path.resolve().stem
    frames = tuple(frame(index) for index in chosen)
    source = {"layout": "rosbag", "bag": path.name, "image_topic": topic}
    return Drive(name, name, frames, (None,) * len(frames), source)


def _load_image(path: Path, topic: str, stamp: Stamp, calibration: Calibration | None) -> Image:
    where = f"{path}, {topic} at {stamp.recorded}"
    image = image_pixels(read_message(path, topic, stamp), where)
    if calibration is None:
        return image
    check_size(path, image.shape, (calibration.width, calibration.height), "its CameraInfo")
    return calibration.rectify(image)


def _times(stamps: list[Stamp]) -> list[int]:
    """When each image was taken: by its header, unless headers were left empty or repeat themselves."""
    measured = [stamp.measured for stamp in stamps]
    rising = all(before < after for before, after in pairwise(measured))
    if rising and measured[0] > 0:
        return measured
    return [stamp.recorded + stamp.place for stamp in stamps]


def _choose(bag: Bag, asked: str | None, types: tuple[str, ...], what: str, option: str) -> str:
    there = bag.of_type(*types)
    if asked is not None:
        if asked in there:
            return asked
        kinds = " or ".join(types)
        raise DataError(f"{bag.path} has no messages of type {kinds} on {asked}; {bag.contents()}")
    if len(there) == 1:
        return there[0]
    if not there:
        raise DataError(f"{bag.path} has no {what} ({' or '.join(types)}); {bag.contents()}")
    raise DataError(f"{bag.path} has several topics of that kind: say which with {option}: {', '.join(there)}")


def _calibration(bag: Bag, image_topic: str, asked: str | None, rectified: bool) -> Calibration | None:
    if asked == NONE:
        return None
    if asked is None:
        there = bag.of_type("CameraInfo")
        beside = [topic for topic in there if _is_beside(topic, image_topic)]
        chosen = max(beside, key=len) if beside else there[0] if len(there) == 1 else None
    else:
        chosen = _choose(bag, asked, ("CameraInfo",), "camera topic", "--camera-topic")
    if chosen is None:
        return None
    is_rectified = rectified or any("rect" in part for part in image_topic.split("/")[-2:])
    return calibration_of(bag.first(chosen), is_rectified, f"{bag.path}, {chosen}")


def _is_beside(camera_topic: str, image_topic: str) -> bool:
    """/front/camera_info is beside /front/image_raw and /front/image_raw/compressed."""
    return image_topic.startswith(camera_topic.rsplit("/", 1)[0] + "/")


def _poses(
    bag: Bag,
    asked: str | None,
    body_frame: str | None,
    extrinsics: Path | str | None,
    camera_frame: str,
    times: list[int],
) -> Array | None:
    """T_world_camera [N, 4, 4], NaN where no pose is near; None where the bag tells no poses."""
    if asked == NONE or (asked is None and not bag.of_type(*POSES)):
        return None
    topic = _choose(bag, asked, POSES, "pose topic", "--pose-topic (or --pose-topic none)")
    read = [pose_of(message) for message in bag.messages(topic)]
    measured = np.array([stamp.measured or stamp.recorded for stamp in bag.stamps(topic)], np.int64)
    kept = np.unique(measured, return_index=True)[1]  # in the order of time, the first of equal ones
    body = body_frame or read[0][0]
    T_body_camera = _mounted(bag, body, camera_frame, extrinsics)
    if T_body_camera is None:
        text = (
            f"{bag.path}: poses of {topic} belong to {f'the frame {body!r}' if body else 'a frame that is not named'}, "
            f"the images to {camera_frame!r}, and /tf_static does not join them: give --body-frame, or the mounting by "
            "--extrinsics FILE (T_body_camera, 12 or 16 numbers)"
        )
        if asked is not None:
            raise DataError(text + ", or --pose-topic none")
        warnings.warn(text + "; poses are left out", InputWarning, stacklevel=3)
        return None
    trajectory = Trajectory(measured[kept], np.stack([read[index][1] for index in kept]))
    wanted = np.array(times, np.int64)
    poses = trajectory.at(wanted) @ T_body_camera
    poses[~trajectory.covers(wanted, LONGEST_GAP)] = np.nan
    return np.asarray(poses)


def _mounted(bag: Bag, body: str, camera_frame: str, extrinsics: Path | str | None) -> Array | None:
    """T_body_camera, where something tells."""
    if extrinsics is not None:
        return read_transform(Path(extrinsics), "T_body_camera")
    if not body:
        return None
    topics = [topic for topic in bag.of_type("TFMessage") if topic.endswith("tf_static")]
    known = mountings(message for topic in topics for message in bag.messages(topic))
    return chain_between(known, body.lstrip("/"), camera_frame)


def _placed(chosen: Sequence[int], poses: Array, path: Path) -> list[int]:
    """The frames whose pose is known; poses often start a little later than images."""
    there = [index for index in chosen if np.isfinite(poses[index]).all()]
    if not there:
        raise DataError(f"{path}: no pose is within {LONGEST_GAP / 1e9:g} s of an image: give another --pose-topic")
    if len(there) < len(chosen):
        text = f"{path}: {len(chosen) - len(there)} of {len(chosen)} images have no pose near them and are left out"
        warnings.warn(text, InputWarning, stacklevel=3)
    return there
