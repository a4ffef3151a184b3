"""A server for tests: the sample frames, and clients of it."""

import threading
import time
from pathlib import Path
from typing import Any

import robustmat

SAMPLES = Path(robustmat.__file__).parent / "web" / "samples"
CAMERA = "640,640,480,270"
File = tuple[str, bytes]


def sample_frames(name: str = "evening") -> dict[str, File]:
    """The parts of a request about a sample pair."""
    parts = {}
    for side in "ab":
        parts[side] = (f"{name}-{side}.jpg", (SAMPLES / f"{name}-{side}.jpg").read_bytes())
        parts[f"boxes_{side}"] = (f"{name}-{side}.json", (SAMPLES / f"{name}-{side}.json").read_bytes())
    return parts


def sample_frame(name: str = "evening") -> dict[str, File]:
    parts = sample_frames(name)
    return {"image": parts["a"], "boxes": parts["boxes_a"]}


class TownMap:
    """A map of a street that always finds the same place."""

    name = "town"

    def overview(self) -> dict[str, Any]:
        landmarks = [[float(x), 4.0 if x % 20 else -4.0, "pole" if x % 20 else "window"] for x in range(0, 100, 10)]
        return {"landmarks": landmarks, "keyframes": [[float(x), 0.0, f"{x:06d}"] for x in range(0, 100, 5)]}

    def locate(self, frame: robustmat.Frame) -> dict[str, Any]:
        return {
            "image": frame.name,
            "unknown": not frame.landmarks,
            "keyframe": "000040",
            "position": [41.0, 0.5, 1.7],
            "ground": {"position": [41.0, 0.5], "covariance": [[0.5, 0.1], [0.1, 0.2]]},
            "probability": 0.93,
            "covariance": [[0.5, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.1]],
        }


class Server:
    """A real server on a free port, in a thread."""

    def __init__(self, **settings: Any) -> None:
        import uvicorn

        from robustmat.web.app import create_app
        from robustmat.web.models import Models
        from robustmat.web.settings import Settings

        models = Models("street")
        models.warm()
        app = create_app(Settings(**settings), TownMap(), models)
        self.server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.05)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://localhost:{port}/"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
