"""A ROS 1 or ROS 2 bag as a table of contents and single messages, read by `rosbags`, without ROS."""

import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from robustmat.errors import DataError

BAG_SUFFIXES = (".bag", ".mcap", ".db3")
CONTENTS = "metadata.yaml"  # of a ROS 2 bag, which is a folder

_one_at_a_time = threading.Lock()  # a reader has one place in its file


def is_rosbag(path: Path | str) -> bool:
    """Whether a file or folder is named like a bag."""
    path = Path(path)
    return (path / CONTENTS).is_file() if path.is_dir() else path.suffix.lower() in BAG_SUFFIXES


@dataclass(frozen=True)
class Stamp:
    """One message of a topic: when it was recorded, which of those recorded then it is, and what its header says.

    Times are nanoseconds. A header's time is when a sensor measured, the bag's when the message was written down.
    """

    recorded: int
    place: int
    measured: int


class Bag:
    """An open bag. Only what is asked for is read; whoever reads many messages walks through `messages`."""

    def __init__(self, path: Path) -> None:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore

        self.path = path
        if not path.exists():
            raise DataError(f"ROS bag not found: {path}")
        if not is_rosbag(path):
            raise DataError(f"not a ROS bag: {path}; expected a .bag, .mcap or .db3 file, or a folder with {CONTENTS}")
        try:
            # Bags of older ROS 2 releases do not say what their messages look like; images and poses never changed.
            self._reader = AnyReader([path], default_typestore=get_typestore(Stores.ROS2_HUMBLE))
            self._reader.open()
        except Exception as problem:  # readers raise all sorts of things over broken files
            raise DataError(f"ROS bag cannot be read: {path}: {problem}; was its recording ended properly?") from None
        self.topics = {name: str(info.msgtype).split("/")[-1] for name, info in self._reader.topics.items()}
        self._types = {name: str(info.msgtype) for name, info in self._reader.topics.items()}

    def of_type(self, *types: str) -> list[str]:
        """The topics whose messages are of one of these types, such as `Image`, and that are not empty."""
        counts = self._reader.topics
        return [name for name, kind in self.topics.items() if kind in types and counts[name].msgcount]

    def messages(self, topic: str) -> Iterator[Any]:
        """All messages of a topic, in the order of their recording."""
        for _, data in self._raw(topic):
            yield self._decoded(topic, data)

    def first(self, topic: str) -> Any:
        return next(self.messages(topic))

    def stamps(self, topic: str) -> list[Stamp]:
        """Where each message of a topic is; their pixels are passed by, not decoded."""
        found: list[Stamp] = []
        for recorded, data in self._raw(topic):
            place = found[-1].place + 1 if found and found[-1].recorded == recorded else 0
            found.append(Stamp(recorded, place, _measured(data, self._reader.is2)))
        return found

    def message(self, topic: str, stamp: Stamp) -> Any:
        """The message of that stamp."""
        for place, (_, data) in enumerate(self._raw(topic, stamp.recorded, stamp.recorded + 1)):
            if place == stamp.place:
                return self._decoded(topic, data)
        raise DataError(f"ROS bag changed while it was read: {self.path} has no message of {topic} at {stamp.recorded}")

    def _raw(self, topic: str, start: int | None = None, stop: int | None = None) -> Iterator[tuple[int, bytes]]:
        connections = [connection for connection in self._reader.connections if connection.topic == topic]
        if not connections:
            raise DataError(f"{self.path} has no topic {topic}; {self.contents()}")
        try:
            for _, recorded, data in self._reader.messages(connections, start, stop):
                yield recorded, data
        except Exception as problem:
            raise DataError(f"ROS bag is broken: {self.path}, topic {topic}: {problem}") from None

    def _decoded(self, topic: str, data: bytes) -> Any:
        try:
            return self._reader.deserialize(data, self._types[topic])
        except Exception as problem:
            raise DataError(f"ROS bag is broken: {self.path}, topic {topic}: {problem}") from None

    def contents(self) -> str:
        """What there is, for messages to people."""
        listed = [f"{name} ({kind}, {self._reader.topics[name].msgcount})" for name, kind in self.topics.items()]
        return f"its topics: {', '.join(listed) or 'none'}"


def open_bag(path: Path | str) -> Bag:
    """The bag, opened once for each process: opening reads its whole index."""
    resolved = Path(path).resolve()
    with _one_at_a_time:
        return _opened(resolved, os.getpid())  # a forked process must not share a place in a file


@lru_cache(maxsize=2)
def _opened(path: Path, process: int) -> Bag:
    return Bag(path)


def read_message(path: Path, topic: str, stamp: Stamp) -> Any:
    """One message, from any thread."""
    bag = open_bag(path)
    with _one_at_a_time:
        return bag.message(topic, stamp)


def _measured(data: bytes, is_ros2: bool) -> int:
    """Nanoseconds of a header, which comes first in a message: behind a counter (ROS 1) or the encoding (ROS 2)."""
    order = ">" if is_ros2 and data[1] == 0 else "<"
    seconds, rest = struct.unpack_from(f"{order}iI", data, 4)
    return int(seconds) * 1_000_000_000 + int(rest)
