"""What ROS messages say: pixels of images, cameras, poses, and how sensors are mounted.

Messages are those of `sensor_msgs`, `nav_msgs`, `geometry_msgs` and `tf2_msgs`, which ROS 1 and ROS 2 share.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import cv2
import numpy as np

from robustmat.errors import DataError
from robustmat.geometry.poses import from_quaternion
from robustmat.geometry.transforms import invert
from robustmat.geometry.undistortion import Table, undistort
from robustmat.sources.images import decode_image
from robustmat.types import Array, Camera, Image

IMAGES = ("Image", "CompressedImage")
POSES = ("Odometry", "PoseStamped", "PoseWithCovarianceStamped", "TransformStamped")

CHANNELS = {"mono8": 1, "8UC1": 1, "rgb8": 3, "bgr8": 3, "8UC3": 3, "rgba8": 4, "bgra8": 4, "8UC4": 4}
DEEP = ("mono16", "16UC1")
# To RGB. OpenCV names a Bayer pattern by the second row's second and third pixel.
CONVERSIONS = {
    "bgr8": cv2.COLOR_BGR2RGB,
    "8UC3": cv2.COLOR_BGR2RGB,
    "rgba8": cv2.COLOR_RGBA2RGB,
    "bgra8": cv2.COLOR_BGRA2RGB,
    "8UC4": cv2.COLOR_BGRA2RGB,
    "mono8": cv2.COLOR_GRAY2RGB,
    "8UC1": cv2.COLOR_GRAY2RGB,
    "bayer_rggb8": cv2.COLOR_BayerBG2RGB,
    "bayer_bggr8": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGR2RGB,
    "bayer_grbg8": cv2.COLOR_BayerGB2RGB,
    "yuv422": cv2.COLOR_YUV2RGB_UYVY,
    "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUYV,
    "yuyv": cv2.COLOR_YUV2RGB_YUYV,
}


def image_pixels(message: Any, where: str) -> Image:
    """RGB [H, W, 3] of an `Image` or a `CompressedImage`."""
    if hasattr(message, "format"):
        if "compressedDepth" in message.format:
            raise DataError(f"{where} holds depths, not pictures ({message.format}): choose another image topic")
        return decode_image(bytes(message.data), where)
    encoding, height, width = message.encoding, message.height, message.width
    if encoding in DEEP:
        deep = _rows(message, 2, where).view(">u2" if message.is_bigendian else "<u2")
        return cast(Image, cv2.cvtColor((deep // 256).astype(np.uint8), cv2.COLOR_GRAY2RGB))
    if encoding != "rgb8" and encoding not in CONVERSIONS:
        known = ", ".join(("rgb8", *CONVERSIONS, *DEEP))
        raise DataError(f"{where} is encoded as '{encoding}', which is not read; known are {known}")
    channels = 2 if "yuv" in encoding or "yuy" in encoding or encoding == "uyvy" else CHANNELS.get(encoding, 1)
    pixels = _rows(message, channels, where).reshape(height, width, channels)
    if encoding == "rgb8":
        return np.ascontiguousarray(pixels)
    return cast(Image, cv2.cvtColor(np.ascontiguousarray(pixels), CONVERSIONS[encoding]))


def _rows(message: Any, bytes_per_pixel: int, where: str) -> Image:
    """[H, bytes of a row] without the padding at the ends of rows."""
    data = np.frombuffer(message.data, np.uint8)
    wanted = message.width * bytes_per_pixel
    if message.step < wanted or len(data) < message.height * message.step:
        raise DataError(
            f"{where} is {message.width}x{message.height} pixels of '{message.encoding}' in rows of {message.step} "
            f"bytes, but has {len(data)} bytes: the message is broken"
        )
    rows = data[: message.height * message.step].reshape(message.height, message.step)[:, :wanted]
    return np.ascontiguousarray(rows)


@dataclass(frozen=True)
class Calibration:
    """A `CameraInfo`, as numbers that can be compared and pickled."""

    width: int
    height: int
    matrix: tuple[float, ...]  # nine, row by row
    distortion: tuple[float, ...] = ()
    model: str = "plumb_bob"

    @property
    def camera(self) -> Camera:
        """The camera of undistorted images."""
        return Camera(np.array(self.matrix).reshape(3, 3), self.width, self.height)

    def rectify(self, image: Image) -> Image:
        """The image as a camera without lens distortion would see it, with the same focal lengths."""
        return undistort(image, _table(self)) if any(self.distortion) else image


def calibration_of(message: Any, rectified: bool, where: str) -> Calibration | None:
    """The calibration of a `CameraInfo`; None where it holds none, as that of a camera which nobody calibrated."""
    upper, lower = ("K", "k"), ("D", "d")  # ROS 1 and ROS 2 write them differently
    matrix = tuple(float(value) for value in _either(message, *upper))
    distortion = tuple(float(value) for value in _either(message, *lower))
    if rectified:
        projection = [float(value) for value in _either(message, "P", "p")]
        distortion = ()
        if projection[0] > 0:
            matrix = (*projection[:3], *projection[4:7], *projection[8:11])
    if matrix[0] <= 0 or matrix[4] <= 0:
        return None
    if any(distortion) and message.distortion_model not in ("plumb_bob", "rational_polynomial", "equidistant"):
        raise DataError(
            f"{where}: distortion model '{message.distortion_model}' is not known (plumb_bob, rational_polynomial, "
            "equidistant): record rectified images, or say with --rectified that these are"
        )
    return Calibration(message.width, message.height, matrix, distortion, message.distortion_model)


def _either(message: Any, first: str, second: str) -> Any:
    return getattr(message, first) if hasattr(message, first) else getattr(message, second)


@lru_cache(maxsize=4)
def _table(calibration: Calibration) -> Table:
    matrix, distortion = calibration.camera.matrix, np.array(calibration.distortion)
    size = calibration.width, calibration.height
    make: Any = cv2.initUndistortRectifyMap
    if calibration.model == "equidistant":
        make, distortion = cv2.fisheye.initUndistortRectifyMap, distortion[:4]
    return np.stack(make(matrix, distortion, np.eye(3), matrix, size, cv2.CV_32FC1), axis=-1)


def pose_of(message: Any) -> tuple[str, Array]:
    """The frame that a pose belongs to, where the message tells, and T_world_frame."""
    body = _frame_name(getattr(message, "child_frame_id", ""))
    if hasattr(message, "transform"):
        return body, _transform(message.transform.translation, message.transform.rotation)
    pose = message.pose
    while hasattr(pose, "pose"):
        pose = pose.pose  # with a covariance, which is left alone
    return body, _transform(pose.position, pose.orientation)


def mountings(messages: Iterable[Any]) -> dict[tuple[str, str], Array]:
    """T_parent_child of every pair of frames that `/tf_static` names, and its inverse."""
    known: dict[tuple[str, str], Array] = {}
    for message in messages:
        for one in message.transforms:
            parent, child = _frame_name(one.header.frame_id), _frame_name(one.child_frame_id)
            T_parent_child = _transform(one.transform.translation, one.transform.rotation)
            known[parent, child], known[child, parent] = T_parent_child, invert(T_parent_child)
    return known


def chain_between(known: dict[tuple[str, str], Array], start: str, end: str) -> Array | None:
    """T_start_end over any number of mountings; None where no chain of them joins the two."""
    reached, waiting = {start: np.eye(4)}, [start]
    while waiting:
        here = waiting.pop(0)
        for (parent, child), T_parent_child in known.items():
            if parent == here and child not in reached:
                reached[child] = reached[here] @ T_parent_child
                waiting.append(child)
    return reached.get(end)


def frame_of(message: Any) -> str:
    """Which of the vehicle's frames a message is given in."""
    return _frame_name(message.header.frame_id)


def _frame_name(name: str) -> str:
    return name.lstrip("/")  # ROS 1 wrote some of them as paths


def _transform(position: Any, turn: Any) -> Array:
    quaternion = np.array([turn.x, turn.y, turn.z, turn.w])
    translation = np.array([position.x, position.y, position.z])
    if not np.isfinite(translation).all() or not np.isfinite(quaternion).all() or np.linalg.norm(quaternion) < 1e-6:
        raise DataError("a pose in the bag is not finite or has no rotation: choose another --pose-topic, or none")
    return from_quaternion(translation, quaternion)
