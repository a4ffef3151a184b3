"""Why two landmarks were matched: each kind of evidence as a number, and the numbers add up to the log odds.

A matcher that can take its own probability apart offers `explain`; what is left to the log odds is the competition with
other candidates. Of any other matcher, the kinds of evidence are asked one after the other, and each is credited with
what it changed. Where landmarks were detected, the doubt whether they are there at all is taken off at the end.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from robustmat.errors import InputError
from robustmat.features.neighborhoods import neighborhoods
from robustmat.matching.combined import VIEW, CombinedMatcher
from robustmat.matching.decision import CLIP, log_odds
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, existence, same_category
from robustmat.types import Array
from robustmat.web.jobs import StillWanted
from robustmat.web.models import Models
from robustmat.web.service import ExplainOptions, Sent, perturbed, prepare
from robustmat.web.settings import Settings

NUM_NEIGHBORS = 3  # K of the paper, and of every shipped checkpoint
COMPETITION, DETECTION, SCENE = "competition", "detection", "scene"
Parts = list[tuple[str, float]]  # a kind of evidence, and its log odds


@runtime_checkable
class Explains(Protocol):
    """A matcher that says where the log odds of a pair come from."""

    def explain(self, a: EmbeddedFrame, b: EmbeddedFrame, i: int, j: int) -> Parts:
        """Kinds of evidence and their log odds, before the pair competes with its rivals."""
        ...


def explain(
    sent: list[Sent], options: ExplainOptions, models: Models, settings: Settings, still_wanted: StillWanted
) -> dict[str, Any]:
    """The chosen pair, its runners-up, and what each kind of evidence says about them."""
    name, same = options.checkpoint or models.default, not options.any_category
    matcher = models.matcher(name, options.evidence, same)
    ready = prepare(sent, options.camera, settings, still_wanted)
    i, j = options.index_a, options.index_b
    for side, index, frame in zip("ab", (i, j), ready.frames, strict=True):
        if index >= len(frame.landmarks):
            raise InputError(
                f"index_{side} is {index}, but frame {side} has {len(frame.landmarks)} landmarks, counted from 0"
            )
    a, b = (_embedded(matcher, frame, still_wanted) for frame in perturbed(ready.frames, options, settings))
    kinds = models.evidence[name]
    ladder = [matcher]
    if not isinstance(matcher, Explains):
        ladder = [models.matcher(name, kind, same) for kind in kinds[: kinds.index(matcher.evidence) + 1]]
    probabilities = []
    for step in ladder:
        still_wanted()
        probabilities.append(step.decision.probability(step.score(a, b)))
    there = existence(a.landmarks, b.landmarks)
    odds = [log_odds(one, CLIP) for one in probabilities]
    final = log_odds(probabilities[-1] * there, CLIP)
    allowed = same_category(a.landmarks, b.landmarks) if same else np.ones(final.shape, np.bool_)

    def told(row: int, column: int) -> dict[str, Any]:
        total, matched = float(final[row, column]), float(odds[-1][row, column])
        parts: Parts
        if isinstance(matcher, Explains):
            parts = matcher.explain(a, b, row, column)
            parts = [*parts, (COMPETITION, matched - sum(value for _, value in parts))]
        else:
            steps = [float(one[row, column]) for one in odds]
            parts = [(kind, value - before) for kind, value, before in zip(kinds, steps, [0.0, *steps], strict=False)]
        if (there < 1).any():
            parts = [*parts, (DETECTION, total - matched)]
        return {
            "a": row,
            "b": column,
            "log_odds": total,
            "probability": float(1 / (1 + np.exp(-total))),
            "contributions": by_kind(parts),
        }

    chosen = told(i, j)
    rivals = [told(*place) for place in _runners_up(final, allowed, i, j)]
    motion = _motion(matcher, a, b)
    return {
        "pair": chosen,
        "rivals": [rival | {"why": why_lost(chosen, rival)} for rival in rivals],
        "neighbors": {side: _neighbors(frame, index) for side, frame, index in (("a", a, i), ("b", b, j))},
        "epipolar": None if motion is None else _epipolar(motion, a, b, i, j),
        "checkpoint": matcher.name,
        "evidence": matcher.evidence,
    }


def by_kind(parts: Parts) -> list[dict[str, Any]]:
    """One entry for each kind of evidence; where several numbers make it up (`scene_length`), they are listed in it."""
    kinds: dict[str, Parts] = {}
    for name, value in parts:
        kinds.setdefault(name.split("_")[0], []).append((name, value))
    return [
        {"name": kind, "log_odds": float(sum(value for _, value in inner))}
        | ({"parts": [{"name": name, "log_odds": float(value)} for name, value in inner]} if len(inner) > 1 else {})
        for kind, inner in kinds.items()
    ]


def _embedded(matcher: Matcher, frame: Any, still_wanted: StillWanted) -> EmbeddedFrame:
    still_wanted()
    return matcher.embed(frame)


def _runners_up(odds: Array, allowed: Any, i: int, j: int) -> list[tuple[int, int]]:
    """The likeliest other partner of either landmark."""
    rivals = np.where(allowed, odds, -np.inf)
    rivals[i, j] = -np.inf
    row, column = rivals[i], rivals[:, j]
    found = []
    if np.isfinite(row).any():
        found.append((i, int(row.argmax())))
    if np.isfinite(column).any():
        found.append((int(column.argmax()), j))
    return found


def why_lost(chosen: dict[str, Any], rival: dict[str, Any]) -> str:
    """One sentence: by how much the rival is behind, and which kind of evidence made most of it."""
    behind = chosen["log_odds"] - rival["log_odds"]
    side = f"B{rival['b']}" if rival["a"] == chosen["a"] else f"A{rival['a']}"
    if abs(behind) < 0.05:
        return f"{side} is just as likely"
    others = {one["name"]: one["log_odds"] for one in rival["contributions"]}
    gaps = {one["name"]: one["log_odds"] - others.get(one["name"], 0.0) for one in chosen["contributions"]}
    if behind < 0:
        name = min(gaps, key=lambda kind: gaps[kind])
        return f"{side} is likelier by {-behind:.1f} log odds, most of it from '{name}' ({-gaps[name]:+.1f})"
    name = max(gaps, key=lambda kind: gaps[kind])
    return f"{side} is behind by {behind:.1f} log odds, most of it from '{name}' ({gaps[name]:+.1f})"


def _neighbors(frame: EmbeddedFrame, index: int) -> list[int]:
    graph = neighborhoods([mark.box for mark in frame.landmarks], NUM_NEIGHBORS, include_center=False)
    return [
        int(one) for one, there in zip(graph.index[index], graph.mask[index], strict=True) if there and one != index
    ]


def _motion(matcher: Matcher, a: EmbeddedFrame, b: EmbeddedFrame) -> Array | None:
    """The fundamental matrix of two frames whose keypoints tell how the camera moved."""
    if not isinstance(matcher, CombinedMatcher) or matcher.evidence != SCENE:
        return None
    pose = matcher.scene(a, b).pose
    if pose.abstains:
        return None
    return fundamental(pose.R_b_a, pose.direction, *(frame.arrays[f"{VIEW}camera"][:4] for frame in (a, b)))


def fundamental(R_b_a: Array, direction: Array, intrinsics_a: Array, intrinsics_b: Array) -> Array:
    """F [3, 3] with x_b F x_a = 0 for pixels of one point, where points_b = R_b_a @ points_a + direction.

    Args:
        intrinsics_a: fx, fy, cx, cy of the first frame; `intrinsics_b` of the second.
    """
    x, y, z = direction
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    to_ray_a, to_ray_b = (
        np.array([[1 / fx, 0.0, -cx / fx], [0.0, 1 / fy, -cy / fy], [0.0, 0.0, 1.0]])
        for fx, fy, cx, cy in (intrinsics_a, intrinsics_b)
    )
    return np.asarray(to_ray_b.T @ cross @ R_b_a @ to_ray_a)


def _epipolar(motion: Array, a: EmbeddedFrame, b: EmbeddedFrame, i: int, j: int) -> dict[str, list[float]]:
    """Lines (p, q, r) with p x + q y + r = 0: of landmark i in frame b, and of landmark j in frame a."""
    in_b = motion @ _center(a, i)
    in_a = motion.T @ _center(b, j)
    return {"a": in_a.tolist(), "b": in_b.tolist()}


def _center(frame: EmbeddedFrame, index: int) -> Array:
    x0, y0, x1, y1 = frame.landmarks[index].box
    return np.array([(x0 + x1) / 2, (y0 + y1) / 2, 1.0])
