"""Make the sample pairs of the web page: simulated frames, so that anyone may use them for anything.

python examples/web_samples.py src/robustmat/web/samples
"""

import io
import json
import sys
from pathlib import Path

import numpy as np
import PIL.Image

from robustmat.files import replacing, write_json
from robustmat.landmarks.boxes import landmarks_from_mask
from robustmat.simulation import build_town, drive_town
from robustmat.types import Camera

FOCAL, WIDTH, HEIGHT = 640.0, 960, 540
CAMERA = Camera(
    np.array([[FOCAL, 0.0, WIDTH / 2], [0.0, FOCAL, HEIGHT / 2], [0.0, 0.0, 1.0]]),
    WIDTH,
    HEIGHT,
)
LARGEST = 66_000  # bytes of one picture: the first pair and the page itself stay under 200 KB

# name: (title, town, looks of both frames, lanes of both frames, metres along the street of both frames)
PAIRS = {
    "evening": ("Noon and evening, another lane", 2026, ("noon", "evening"), ("right", "left"), (40.0, 45.0)),
    "winter": ("Overcast and winter, another lane", 3031, ("overcast", "winter"), ("right", "left"), (20.0, 25.0)),
    "dusk": ("Autumn and dusk, the same lane", 4040, ("autumn", "dusk"), ("right", "right"), (0.0, 5.0)),
}


def main(folder: Path) -> None:
    listed = []
    for name, (title, number, looks, lanes, places) in PAIRS.items():
        town = build_town(number)
        for side, look, lane, place, seed in zip("ab", looks, lanes, places, (1, 2), strict=True):
            drive = drive_town(town, 1, look=look, lane=lane, start=place, drive_seed=seed, camera=CAMERA)
            frame = drive.frames[0]
            semantics = frame.semantics
            assert semantics is not None
            with replacing(folder / f"{name}-{side}.jpg") as temporary:
                temporary.write_bytes(small_jpeg(frame.image))
            marks = [{"box": list(mark.box), "category": mark.category} for mark in landmarks_from_mask(semantics)]
            boxes = {"width": WIDTH, "height": HEIGHT, "landmarks": marks}
            with replacing(folder / f"{name}-{side}.json") as temporary:
                temporary.write_text(json.dumps(boxes, default=float))
        camera = [FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2]
        listed.append({"name": name, "title": title, "camera": camera})
    write_json(folder / "index.json", listed)


def small_jpeg(pixels: np.ndarray) -> bytes:
    """The best quality that stays below `LARGEST` bytes."""
    for quality in range(92, 20, -2):
        buffer = io.BytesIO()
        PIL.Image.fromarray(pixels).save(buffer, "jpeg", quality=quality, optimize=True, progressive=True)
        if buffer.tell() <= LARGEST:
            return buffer.getvalue()
    raise AssertionError("no quality is low enough")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
