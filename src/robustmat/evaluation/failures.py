"""Pictures of what a matcher does worst: wrong matches crossed out, missed ones dotted."""

from pathlib import Path

import numpy as np

from robustmat.dataset.truth import FrameTruth, Indices, Truth, label_candidates
from robustmat.evaluation.predictions import FrameTruths, MethodRow, Predictions
from robustmat.evaluation.scoring import embed_frames, matchable_identities, views_of
from robustmat.matching.matcher import Matcher
from robustmat.perturb import Perturbation
from robustmat.progress import Progress, silent
from robustmat.types import MATCHED, UNMATCHED, MatchResult

MOST_PICTURES = 12
VERDICT = {MATCHED: True, UNMATCHED: False}  # nothing is known of ambiguous ones


def worst_pairs(row: MethodRow, truths: FrameTruths, most: int = MOST_PICTURES) -> Indices:
    """The frame pairs, as indices into `truths.pairs`, with most wrong and missed matches; none without an error."""
    count = len(truths.pairs)
    said = row.returned
    right, wrong = (
        np.bincount(said.match_pair[said.match_label == kind], minlength=count) for kind in (MATCHED, UNMATCHED)
    )
    errors = wrong + np.maximum(np.bincount(truths.partner_pair, minlength=count) - right, 0)
    order = np.argsort(-errors, kind="stable")
    return np.asarray(order[errors[order] > 0][:most], np.int64)


def missed_matches(result: MatchResult, first: FrameTruth, second: FrameTruth) -> list[tuple[int, int]]:
    """One pair of landmarks for every object that both frames show and no right match joins."""
    label = label_candidates(first, second)
    found = {int(first.identity[match.a]) for match in result.matches if label[match.a, match.b] == MATCHED}
    missed = []
    for identity in dict.fromkeys(matchable_identities(label, first.identity)):
        if identity not in found:
            i, j = np.argwhere((label == MATCHED) & (first.identity == identity)[:, None])[0].tolist()
            missed.append((i, j))
    return missed


def draw_failures(
    matcher: Matcher,
    truth: Truth,
    predictions: Predictions,
    perturbation: Perturbation,
    out: Path,
    *,
    most: int = MOST_PICTURES,
    progress: Progress = silent,
) -> list[Path]:
    """A picture for each of the worst frame pairs of the first row, worst first: OUT/01-FRAME-FRAME.jpg, ..."""
    from robustmat.drawing import picture_of_matches, write_picture

    pairs = predictions.frame_pairs.pairs[worst_pairs(predictions.rows[0], predictions.frame_pairs, most)]
    views = views_of(pairs, perturbation, str(predictions.meta["perturb_side"]))
    wanted = (view for both in views for view in both)
    (memory,) = embed_frames([matcher], truth, wanted, perturbation, int(predictions.meta["seed"]), progress=progress)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for number, (a, b) in enumerate(views, start=1):
        first, second = truth.frames[a[0]], truth.frames[b[0]]
        result = matcher.match(memory[a], memory[b])
        label = label_candidates(first, second)
        correct = [VERDICT.get(int(label[match.a, match.b])) for match in result.matches]
        picture = picture_of_matches(result, correct, missed=missed_matches(result, first, second))
        name = f"{number:02d}-{truth.frame(a[0]).name}-{truth.frame(b[0]).name}.jpg".replace("/", "-")
        written.append(write_picture(out / name, picture))
    return written
