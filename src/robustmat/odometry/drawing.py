"""A drive seen from above, with and without assistance, and a contact sheet of its tracks."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont

from robustmat.dataset.drawing import draw_frame, grid
from robustmat.dataset.store import sheet_frames
from robustmat.drawing import write_picture
from robustmat.odometry.run import ASSISTED, BASELINE, Odometry
from robustmat.odometry.tracks import with_tracks
from robustmat.types import Array

WIDTH, HEIGHT, MARGIN, TOP = 1200, 800, 60, 110
TRUTH, LIDAR = "truth", "lidar"
STYLES: Mapping[str, tuple[str, tuple[int, int, int], int]] = {  # label, colour (Okabe and Ito's), width
    TRUTH: ("truth", (110, 110, 110), 7),
    BASELINE: ("without landmarks", (213, 94, 0), 3),
    ASSISTED: ("with landmarks", (0, 114, 178), 3),
    LIDAR: ("LiDAR", (204, 121, 167), 3),
}
LANDMARK = (0, 158, 115)


def plot_trajectory(done: Odometry, path: Path, title: str) -> Path:
    """Trajectories from above (x to the right, z ahead of the first camera) and the landmarks that have a place."""
    lines = {} if done.truth is None else {TRUTH: done.truth[:, [0, 2], 3]}
    lines |= {arm: done.poses[arm][:, [0, 2], 3] for arm in (BASELINE, ASSISTED) if arm in done.poses}
    lines |= {} if done.lidar_poses is None else {LIDAR: done.lidar_poses[:, [0, 2], 3]}
    places = np.array([track.position for track in done.tracks if track.position is not None]).reshape(-1, 3)[:, [0, 2]]
    return write_picture(path, picture(lines, places, title))


def picture(lines: Mapping[str, Array], places: Array, title: str) -> PIL.Image.Image:
    """Lines [N, 2] by name and places [K, 2] on the ground, in metres, with a ruler and a legend."""
    canvas = PIL.Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255))
    pen = ImageDraw.Draw(canvas)
    font, small = ImageFont.load_default(size=22), ImageFont.load_default(size=16)
    every = np.concatenate(list(lines.values()))
    near = places[(np.abs(places - np.clip(places, every.min(0), every.max(0))) < 25).all(axis=1)]
    every = np.concatenate([every, near])
    low, high = every.min(0) - 1, every.max(0) + 1
    scale = float(min((WIDTH - 2 * MARGIN) / (high[0] - low[0]), (HEIGHT - TOP - MARGIN) / (high[1] - low[1])))
    middle = (low + high) / 2

    def at(point: Array) -> tuple[float, float]:
        x, y = (point - middle) * scale
        return WIDTH / 2 + float(x), (HEIGHT + TOP - MARGIN) / 2 - float(y)

    for point in near:
        x, y = at(point)
        pen.ellipse((x - 4, y - 4, x + 4, y + 4), outline=LANDMARK, width=2)
    x = float(MARGIN)
    for name, line in lines.items():
        label, color, width = STYLES[name]
        pen.line([at(point) for point in line], fill=color, width=width, joint="curve")
        pen.line([(x, 72), (x + 30, 72)], fill=color, width=width)
        pen.text((x + 38, 62), label, fill=(20, 20, 20), font=small)
        x += 70 + pen.textlength(label, font=small)
    if len(near):
        pen.ellipse((x, 68, x + 8, 76), outline=LANDMARK, width=2)
        pen.text((x + 16, 62), f"{len(near)} tracked landmarks", fill=(20, 20, 20), font=small)
    first = next(iter(lines.values()))[0]
    start = at(first)
    pen.ellipse((start[0] - 6, start[1] - 6, start[0] + 6, start[1] + 6), fill=(20, 20, 20))
    pen.text((start[0] + 10, start[1] - 8), "start", fill=(20, 20, 20), font=small)
    pen.text((MARGIN, 18), title, fill=(20, 20, 20), font=font)
    metres = next(one for one in (500, 200, 100, 50, 20, 10, 5, 1) if one * scale < WIDTH / 4 or one == 1)
    y = HEIGHT - 28
    pen.line([(MARGIN, y), (MARGIN + metres * scale, y)], fill=(20, 20, 20), width=3)
    pen.text((MARGIN + metres * scale + 8, y - 10), f"{metres} m", fill=(20, 20, 20), font=small)
    return canvas


def draw_tracks(done: Odometry, path: Path) -> Path:
    """Some frames of the drive, landmarks coloured by track; a cross where the track's place falls in the frame."""
    frames = with_tracks(done.frames, done.best, done.measured, done.tracks)
    places = {track.identity: np.array(track.position) for track in done.tracks if track.position is not None}
    chosen: Sequence[int] = [i for i in sheet_frames(len(frames)) if "image" not in " ".join(done.measured[i].notes)]
    sheet = grid([draw_frame(frames[i], places) for i in chosen], columns=2)
    return write_picture(path, PIL.Image.fromarray(sheet))
