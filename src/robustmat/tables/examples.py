"""A sheet of example pairs: what every method said, and the truth, as the paper's figures show."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robustmat.dataset.pairs import NEGATIVES
from robustmat.dataset.store import LandmarkDataset
from robustmat.evaluation.predictions import Predictions
from robustmat.features.patches import PatchConfig, cut_patches
from robustmat.files import replacing
from robustmat.perturb import parse, perturb_image
from robustmat.tables.labels import row_label
from robustmat.types import Box, Image

Said = NDArray[np.bool_]

CROP = PatchConfig(size=96, margin=15, max_aspect=2.0)
GAP, LABEL, LINE, TOP = 8, 230, 22, 40  # pixels
RIGHT_COLOR, WRONG_COLOR, TRUTH_COLOR, INK = (24, 128, 62), (190, 40, 32), (40, 40, 40), (30, 30, 30)


def draw_examples(
    predictions: Predictions, datasets: Sequence[LandmarkDataset], path: Path, count: int = 12, seed: int = 0
) -> Path:
    """What `choose_pairs` picks, as the methods saw it, and what each of them said.

    Args:
        predictions: of one test, condition and seed; its rows are named as in the table.
    """
    chosen = choose_pairs(predictions, count, seed)
    rows: list[tuple[str, Said, Said | None]] = [("ground truth", predictions.pairs.label[chosen], None)]
    rows += [
        (row_label(row.name), row.score[chosen] >= row.threshold, predictions.pairs.label[chosen])
        for row in predictions.rows
    ]
    width = LABEL + len(chosen) * (CROP.size + GAP) + GAP
    height = TOP + 2 * (CROP.size + GAP) + len(rows) * LINE + GAP
    sheet = PillowImage.new("RGB", (width, height), (255, 255, 255))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=14)
    meta = predictions.meta
    title = f"{', '.join(meta['datasets'])}, {meta['perturb']}, seed {meta['seed']}: 1 match, 0 no match; red is wrong"
    pen.text((GAP, 12), title, fill=INK, font=font)
    for column, pair in enumerate(chosen):
        x = LABEL + column * (CROP.size + GAP)
        for number, crop in enumerate(_crops(predictions, datasets, int(pair))):
            sheet.paste(PillowImage.fromarray(crop), (x, TOP + number * (CROP.size + GAP)))
    for line, (label, said, truth) in enumerate(rows):
        y = TOP + 2 * (CROP.size + GAP) + line * LINE + LINE / 2
        pen.text((LABEL - GAP, y), label, fill=INK, font=font, anchor="rm")
        for column, yes in enumerate(said):
            right = truth is None or truth[column] == yes
            color = TRUTH_COLOR if truth is None else RIGHT_COLOR if right else WRONG_COLOR
            middle = LABEL + column * (CROP.size + GAP) + CROP.size / 2
            pen.text((middle, y), "1" if yes else "0", fill=color, font=font, anchor="mm")
    with replacing(path) as temporary:
        sheet.save(temporary)
    return path


def choose_pairs(predictions: Predictions, count: int, seed: int) -> NDArray[np.int64]:
    """Rows of the pair protocol, half of them matched; of each half, one in three is what methods disagree about most,
    the others are drawn by chance. No two pairs show the same objects."""
    pairs = predictions.pairs
    share = np.mean([row.score >= row.threshold for row in predictions.rows], axis=0)
    chance = np.random.default_rng(seed).random(len(share))
    same_class = pairs.negatives == NEGATIVES.index("same-class")
    found: list[int] = []
    for label in (True, False):
        candidates = np.flatnonzero((pairs.label == label) & same_class)
        disputed = candidates[np.argsort(-(share * (1 - share) + 1e-3 * chance)[candidates])]
        by_chance = candidates[np.argsort(chance[candidates])]
        seen: set[tuple[int, int]] = set()
        for order, wanted in ((disputed, count // 6), (by_chance, count // 2)):
            for row in order:
                who = int(pairs.identity_a[row]), int(pairs.identity_b[row])
                if who not in seen and len(seen) < wanted:
                    seen.add(who)
                    found.append(int(row))
    return np.array(found, np.int64)


def _crops(predictions: Predictions, datasets: Sequence[LandmarkDataset], pair: int) -> list[Image]:
    """Both landmarks as the methods saw them: perturbed, then cut."""
    meta, pairs = predictions.meta, predictions.pairs
    frames = {f"{data.name}/{frame.name}": frame for data in datasets for frame in data.frames}
    crops = []
    for side in ("a", "b"):
        key = predictions.frames[int(getattr(pairs, f"frame_{side}")[pair])]
        noisy = perturb_image(frames[key].image, parse(meta["perturb"]), meta["seed"], key)
        x0, y0, x1, y1 = getattr(pairs, f"box_{side}")[pair].tolist()
        box: Box = (x0, y0, x1, y1)
        crops.append(np.asarray(cut_patches(noisy, [box], CROP)[0]))
    return crops
