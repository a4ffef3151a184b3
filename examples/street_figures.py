"""Draw the simulated street's figures: towns in several looks, LiDAR on pixels, matched and unmatched patches.

    python examples/street_figures.py docs/figures [--data DATASET ...]

The patch figures need a prepared data set (see examples/street_data.py).
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from robustmat.dataset.pairs import draw_pairs
from robustmat.dataset.store import open_dataset
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.files import replacing
from robustmat.geometry.transforms import transform
from robustmat.simulation import build_town, drive_town

TOWNS, LOOKS = (11, 12, 13, 14), ("noon", "evening", "winter", "dusk")
PATCH = PatchConfig(size=96, max_aspect=2.0)
PAIRS = 20


def towns() -> np.ndarray:
    """Four towns side by side, one look a row."""
    rows = []
    for look in LOOKS:
        views = [drive_town(build_town(seed), 1, look=look, start=30.0 * seed).frames[0].image for seed in TOWNS]
        small = [cv2.resize(view, None, fx=0.4, fy=0.4, interpolation=cv2.INTER_AREA) for view in views]
        rows.append(np.hstack([np.pad(it, ((2, 2), (2, 2), (0, 0))) for it in small]))
    return np.vstack(rows)


def lidar() -> np.ndarray:
    """A scan's points on the pixels of its frame, near ones red, far ones blue."""
    frame = drive_town(build_town(TOWNS[0]), 1, start=200.0).frames[0]
    image = frame.image.copy()
    points = frame.points_lidar
    assert points is not None
    assert frame.camera is not None
    assert frame.T_camera_lidar is not None
    in_camera = transform(frame.T_camera_lidar, points[:, :3].astype(np.float64))
    in_camera = in_camera[in_camera[:, 2] > 0.5]
    pixels = in_camera @ frame.camera.matrix.T
    hues = np.clip(in_camera[:, 2] / 50 * 120, 0, 120).astype(np.uint8)
    hsv = np.stack([hues, np.full_like(hues, 255), np.full_like(hues, 255)], axis=1)[None]
    colors = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0]
    for (x, y), color in zip(pixels[:, :2] / pixels[:, 2:], colors.tolist(), strict=True):
        cv2.circle(image, (round(x), round(y)), 1, color, -1)
    return image


def patches(data: list[Path], matched: bool) -> np.ndarray:
    """Twenty pairs of patches of other drives or places, labelled."""
    sample = draw_pairs([open_dataset(it) for it in data], "same-class", seed=0)
    rows = np.flatnonzero(sample.label == matched)[:PAIRS]
    cells = []
    for row in rows:
        cut = []
        for frame, landmark in ((sample.frame_a, sample.landmark_a), (sample.frame_b, sample.landmark_b)):
            seen = sample.truth.frame(int(frame[row]))
            cut.append(cut_patches(seen.image, [seen.landmarks[int(landmark[row])].box], PATCH)[0])
        cells.append(np.pad(np.hstack(cut), ((2, 2), (2, 6), (0, 0)), constant_values=255))
    grid = np.vstack([np.hstack(cells[i : i + 5]) for i in range(0, len(cells) // 5 * 5, 5)])
    picture = Image.fromarray(np.pad(grid, ((26, 0), (0, 0), (0, 0)), constant_values=255))
    title = f"{len(rows)} {'matched' if matched else 'unmatched'} pairs, same class"
    ImageDraw.Draw(picture).text((6, 4), title, fill=(20, 20, 20), font=ImageFont.load_default(size=16))
    return np.asarray(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the simulated street's figures.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    figures = {"towns": towns(), "lidar": lidar()}
    if given.data:
        figures |= {"matched": patches(given.data, True), "unmatched": patches(given.data, False)}
    for name, picture in figures.items():
        with replacing(given.out / f"{name}.jpg") as temporary:
            Image.fromarray(picture).save(temporary, quality=88)
        print(f"wrote {given.out / name}.jpg")


if __name__ == "__main__":
    main()
