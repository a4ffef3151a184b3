"""Small ROS bags, written by `rosbags` itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

START = 1_700_000_000_000_000_000  # nanoseconds
KINDS = ("ros1", "sqlite", "mcap")

Entry = tuple[str, Any, int]  # topic, message, when it was recorded


def types(kind: str) -> Any:
    """The message types of ROS 1 or ROS 2."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if kind == "ros1" else Stores.ROS2_HUMBLE)
    if kind == "ros1":  # its collection leaves this one out
        store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", "tf2_msgs/msg/TFMessage"))
    return store


class Messages:
    """Makes messages of one kind of bag."""

    def __init__(self, kind: str) -> None:
        self.kind, self.store = kind, types(kind)

    def _make(self, name: str, *values: Any) -> Any:
        return self.store.types[name](*values)

    def header(self, time: int, frame: str) -> Any:
        stamp = self._make("builtin_interfaces/msg/Time", time // 10**9, time % 10**9)
        first = (0,) if self.kind == "ros1" else ()
        return self._make("std_msgs/msg/Header", *first, stamp, frame)

    def image(
        self, pixels: np.ndarray, time: int, encoding: str = "rgb8", frame: str = "camera", padding: int = 0
    ) -> Any:
        rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(len(pixels), -1)
        data = np.pad(rows, ((0, 0), (0, padding)))
        header, size = self.header(time, frame), (pixels.shape[0], pixels.shape[1])
        return self._make("sensor_msgs/msg/Image", header, *size, encoding, 0, data.shape[1], data.reshape(-1))

    def compressed(self, data: bytes, time: int, form: str, frame: str = "camera") -> Any:
        header = self.header(time, frame)
        return self._make("sensor_msgs/msg/CompressedImage", header, form, np.frombuffer(data, np.uint8))

    def camera_info(
        self, size: tuple[int, int], matrix: np.ndarray, distortion: Sequence[float] = (0.0,) * 5, model: str = ""
    ) -> Any:
        width, height = size
        projection = np.hstack([matrix * [[2.0], [2.0], [1.0]], np.zeros((3, 1))])  # not the same, on purpose
        region = self._make("sensor_msgs/msg/RegionOfInterest", 0, 0, 0, 0, False)
        numbers = (np.array(distortion, float), matrix.reshape(-1), np.eye(3).reshape(-1), projection.reshape(-1))
        head = (self.header(START, "camera"), height, width, model or "plumb_bob")
        return self._make("sensor_msgs/msg/CameraInfo", *head, *numbers, 0, 0, region)

    def _pose(self, T: np.ndarray) -> tuple[Any, Any]:
        from scipy.spatial.transform import Rotation

        return [float(value) for value in T[:3, 3]], [float(v) for v in Rotation.from_matrix(T[:3, :3]).as_quat()]

    def odometry(self, T: np.ndarray, time: int, body: str) -> Any:
        place, turn = self._pose(T)
        make = self._make
        pose = make(
            "geometry_msgs/msg/Pose",
            make("geometry_msgs/msg/Point", *place),
            make("geometry_msgs/msg/Quaternion", *turn),
        )
        zero = make("geometry_msgs/msg/Vector3", 0.0, 0.0, 0.0)
        blank = np.zeros(36)
        moving = make("geometry_msgs/msg/TwistWithCovariance", make("geometry_msgs/msg/Twist", zero, zero), blank)
        placed = make("geometry_msgs/msg/PoseWithCovariance", pose, blank)
        return make("nav_msgs/msg/Odometry", self.header(time, "odom"), body, placed, moving)

    def static(self, parent: str, child: str, T: np.ndarray) -> Any:
        place, turn = self._pose(T)
        make = self._make
        moved = make(
            "geometry_msgs/msg/Transform",
            make("geometry_msgs/msg/Vector3", *place),
            make("geometry_msgs/msg/Quaternion", *turn),
        )
        one = make("geometry_msgs/msg/TransformStamped", self.header(START, parent), child, moved)
        return make("tf2_msgs/msg/TFMessage", [one])

    def write(self, folder: Path, entries: Sequence[Entry]) -> Path:
        """A bag of these messages."""
        from rosbags.rosbag1 import Writer as Writer1
        from rosbags.rosbag2 import StoragePlugin
        from rosbags.rosbag2 import Writer as Writer2

        path = folder / ("drive.bag" if self.kind == "ros1" else "drive")
        plugin = StoragePlugin.MCAP if self.kind == "mcap" else StoragePlugin.SQLITE3
        writer: Any = Writer1(path) if self.kind == "ros1" else Writer2(path, version=9, storage_plugin=plugin)
        serialize = self.store.serialize_ros1 if self.kind == "ros1" else self.store.serialize_cdr
        with writer:
            known: dict[str, Any] = {}
            for topic, message, recorded in entries:
                name = message.__msgtype__
                if topic not in known:
                    known[topic] = writer.add_connection(topic, name, typestore=self.store)
                writer.write(known[topic], recorded, serialize(message, name))
        return path
