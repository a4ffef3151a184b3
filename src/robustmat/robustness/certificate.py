"""A certificate for a match: how far a patch may change before the decision can change, proven.

A certified network (`models/certified.py`) moves its embeddings by at most `lipschitz` for each grey level (root mean
square over the patch) that a patch changes. The score is minus a distance of two embeddings, so a pair's decision
cannot change before one of its patches has changed by the margin between score and threshold over `lipschitz`.

From the image to the patch stands the crop: a resize, which is linear with a known norm, and rounding to whole grey
levels, which may add up to `ROUNDED` to every pixel of either patch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError
from robustmat.features.patches import PatchConfig, crop_window, resized_shape, resizing
from robustmat.matching.decision import Decision
from robustmat.matching.matcher import Matcher, existence, same_category
from robustmat.matching.network import NetworkMatcher
from robustmat.models.certified import CertifiedNetwork
from robustmat.types import Box, MatchResult

# Grey levels that OpenCV's resize of bytes may be off: it cuts two products to quarters (0.5) and the sum to a whole
# (0.25 downwards, 0.5 upwards), and its weights have eleven bits in both directions (0.06 each).
ROUNDED = 0.9
SLACK = 1e-3  # grey levels: what single precision may add to a distance
CHANNELS_AT_ONCE = 4  # as many as OpenCV averages


@dataclass(frozen=True)
class Certificate:
    """Root mean squares in grey levels below which a decision provably stays as it is; 0 where nothing is proven.

    Attributes:
        patch: of a change to either patch of the pair, the other left alone.
        image: of a change to the image inside either crop, before it is cut and rounded.
        all_patches: of changes to every patch of both frames at once, for the pair to stay a match of these frames.
    """

    patch: float
    image: float
    all_patches: float

    def to_json(self) -> dict[str, float | None]:
        level = psnr(self.patch)
        return {
            "patch": self.patch,
            "psnr": level if math.isfinite(level) else None,
            "image": self.image,
            "all_patches": self.all_patches,
        }


def psnr(grey_levels: float) -> float:
    """Decibels of a change with this root mean square; infinite for none."""
    return 20 * math.log10(255 / grey_levels) if grey_levels > 0 else math.inf


def certified_network(matcher: Matcher) -> CertifiedNetwork:
    """The network behind a matcher whose decisions can be certified; others are refused."""
    if isinstance(matcher, NetworkMatcher) and isinstance(matcher.network, CertifiedNetwork):
        return matcher.network
    raise ConfigError(
        f"'{matcher.name}' cannot be certified: its network normalises, so that no useful bound on it is known; use a "
        "certified one (checkpoints/street-certified of the repository, or `robustmat train certified`), with torch"
    )


def certify(matcher: Matcher, result: MatchResult) -> tuple[Certificate, ...]:
    """A certificate for each match of a result that this matcher made."""
    network = certified_network(matcher)
    exists = existence(result.landmarks_a, result.landmarks_b)
    allowed = np.ones(result.score.shape, np.bool_)
    if matcher.same_category:
        allowed = same_category(result.landmarks_a, result.landmarks_b)
    found = []
    shapes = [None if frame is None else frame.image.shape[:2] for frame in (result.frame_a, result.frame_b)]
    for match in result.matches:
        least = least_score(result, matcher.decision, exists[match.a, match.b])
        patch = radius(match.score, least, network.lipschitz)
        rivals = rival_scores(result.score, allowed, match.a, match.b)
        apart = (match.score - rivals.max()) / 2 if len(rivals) else math.inf  # either may move
        both = min(match.score - least, apart) / 2  # each distance has two ends
        marks = result.landmarks_a[match.a], result.landmarks_b[match.b]
        image = min(
            image_radius(patch, shape, mark.box, network.config.patch)
            for shape, mark in zip(shapes, marks, strict=True)
        )
        found.append(Certificate(patch, image, max(0.0, (both - SLACK) / network.lipschitz)))
    return tuple(found)


def radius(score: Any, least: float, lipschitz: float) -> Any:
    """How many grey levels a patch may change before a score crosses `least`, from either side."""
    return np.maximum(0.0, (np.abs(np.asarray(score) - least) - SLACK) / lipschitz)[()]


def least_score(result: MatchResult, decision: Decision, exists: float = 1.0) -> float:
    """The least score of a match in this result, by its threshold and its least probability."""
    least = result.threshold
    if result.min_probability is not None and decision.slope:
        wanted = result.min_probability / exists
        if not 0 < wanted < 1:
            return -math.inf if wanted <= 0 else math.inf
        least = max(least, (math.log(wanted / (1 - wanted)) - decision.intercept) / decision.slope)
    return least


def rival_scores(score: NDArray[Any], allowed: NDArray[np.bool_], row: int, column: int) -> NDArray[Any]:
    """Scores of all other pairs that either landmark of a pair could be matched in."""
    mine = np.zeros(score.shape, np.bool_)
    mine[row], mine[:, column] = True, True
    mine[row, column] = False
    return score[mine & allowed]


def image_radius(patch_radius: float, image: tuple[int, ...] | None, box: Box, config: PatchConfig) -> float:
    """The same change, inside the crop of an image with this height and width; 0 where they are not known, or where
    rounding alone may do it."""
    if image is None:
        return 0.0
    height, width = image
    left, top, right, bottom = crop_window(box, width, height, config)
    shape = bottom - top, right - left
    rows, columns = resized_shape(*shape, config.size)
    pixels = math.sqrt(3 * config.size**2)
    left_over = patch_radius * pixels - 2 * ROUNDED * math.sqrt(3 * rows * columns)
    stretch = resize_norm(*shape, rows, columns)
    return max(0.0, left_over / (stretch * math.sqrt(3 * shape[0] * shape[1])))


@lru_cache(maxsize=4096)
def resize_norm(height: int, width: int, rows: int, columns: int) -> float:
    """The operator norm of cutting and resizing a crop: the product of its two directions' norms."""
    down, across = (one_direction(height, width, rows, columns, axis) for axis in (0, 1))
    return float(np.linalg.norm(down, 2) * np.linalg.norm(across, 2)) * (1 + 1e-5)


def one_direction(height: int, width: int, rows: int, columns: int, axis: int) -> NDArray[np.float32]:
    """The matrix [new, old] of a resize along one axis: each row (or column) of a picture in a channel of its own."""
    length = (height, width)[axis]
    parts = []
    for start in range(0, length, CHANNELS_AT_ONCE):
        channels = range(start, min(start + CHANNELS_AT_ONCE, length))
        picture = np.zeros((height, width, len(channels)), np.float32)
        for number, place in enumerate(channels):
            picture[(place, slice(None)) if axis == 0 else (slice(None), place)][..., number] = 1
        small = cv2.resize(picture, (columns, rows), interpolation=resizing(height, rows))
        small = small.reshape(rows, columns, len(channels))  # OpenCV drops a single channel
        parts.append(small[:, 0] if axis == 0 else small[0])
    return np.concatenate(parts, axis=1)


def summary(certificates: Sequence[Certificate]) -> str:
    """What certificates say, in a sentence."""
    known = [one.patch for one in certificates]
    if not known:
        return "no matches to certify"
    useful = sum(radius >= 1 for radius in known)
    return (
        f"{useful} of {len(known)} matches hold against any change of a patch by 1 grey level (root mean square); "
        f"median {np.median(known):.1f} grey levels"
    )
