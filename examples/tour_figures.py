"""Make the pictures of docs/tour.md, small enough for a page: python examples/tour_figures.py docs/figures"""

import io
import sys
import tempfile
from pathlib import Path

import PIL.Image

import robustmat
from robustmat.detection.drawing import draw_landmarks
from robustmat.detection.registry import load_detector
from robustmat.files import replacing

SAMPLES = Path(robustmat.__file__).parent / "web" / "samples"
WIDEST, LARGEST = 1440, 145_000  # pixels, bytes


def main(folder: Path) -> None:
    a, b = (robustmat.read_frame(SAMPLES / f"evening-{side}.jpg") for side in "ab")
    snow = robustmat.read_frame(robustmat.perturb_image(b.image, "snow:3", key="b.jpg"))
    matcher = robustmat.load("street")
    with tempfile.TemporaryDirectory() as place:
        for name, write in {
            "tour-boxes": lambda path: draw_landmarks(a.image, load_detector().detect(a), path),
            "tour-matches": matcher.match(a, b).draw,
            "tour-snow": matcher.match(a, snow).draw,
        }.items():
            made = write(Path(place) / f"{name}.png")
            with replacing(folder / f"{name}.jpg") as temporary:
                temporary.write_bytes(small(PIL.Image.open(made)))


def small(picture: PIL.Image.Image) -> bytes:
    """A JPEG of at most `LARGEST` bytes."""
    picture = picture.convert("RGB")
    picture.thumbnail((WIDEST, WIDEST), PIL.Image.Resampling.LANCZOS)
    for quality in range(90, 30, -3):
        buffer = io.BytesIO()
        picture.save(buffer, "jpeg", quality=quality, optimize=True, progressive=True)
        if buffer.tell() <= LARGEST:
            break
    return buffer.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
