"""From a score matrix to one-to-one matches."""

import numpy as np
from numpy.typing import NDArray

from robustmat.types import Array


def mutual_best(score: Array, threshold: float, allowed: NDArray[np.bool_] | None = None) -> list[tuple[int, int]]:
    """Pairs that prefer each other over all rivals and score at least `threshold`, in order of the rows.

    Args:
        score: [A, B], higher is likelier.
        allowed: [A, B], False where a pair is out of the question and is no rival either.

    Of equal scores the first counts as best, so that every row and column is used at most once.
    """
    if score.size == 0:
        return []
    if allowed is not None:
        score = np.where(allowed, score, -np.inf)
    best_column = score.argmax(axis=1)  # [A]
    best_row = score.argmax(axis=0)  # [B]
    rows = np.arange(len(score))
    best = score[rows, best_column]
    chosen = (best_row[best_column] == rows) & (best >= threshold) & (best > -np.inf)
    return [(int(row), int(best_column[row])) for row in rows[chosen]]
