"""Evidence of the scene: how the whole frames' keypoints judge every candidate pair of landmarks.

The keypoints tell how the camera moved (`geometry/relative_pose.py`). A box of one frame, carried along by that motion
at the depth that suits it best, must come to lie on its partner. And keypoints inside two boxes of one object match
each other, along epipolar lines. Everything here is numbers about two frames; `combine.py` weighs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.features.keypoints import Keypoints, match_keypoints, unit_descriptors
from robustmat.geometry.relative_pose import MotionPrior, RelativePose, likely_poses, moved, rays
from robustmat.matching.motion import depth_density
from robustmat.types import CATEGORIES, Array

SCENE_FEATURES = (
    "column",  # how far, sideways, the carried box is from its partner: -log likelihood, capped
    "edges",  # the same for its top and bottom
    "width",  # the same for its width
    "misfit",  # all three, at the depth that suits best
    "parted",  # log(1 + keypoint matches from one of the boxes to elsewhere)
    "guided_share",  # how much of the likeness of keypoints along epipolar lines goes to this partner
)

DEPTHS = np.geomspace(0.1, 80.0, 14)  # of the landmark in units of the distance moved
FARTHEST = 200.0
BEHIND = 0.02  # nothing nearer than this is seen
BORDER = 3.0  # pixels; an edge so near the border is where the picture ends, not the object
SLACK = 3.0  # pixels that masks, and so boxes, are off
COLUMN_SHARE, EDGE_SHARE = 0.12, 0.08  # of the box's own size, that it is off besides
LENGTHS = np.geomspace(0.7, 40.0, 25)  # metres moved
HALF_RELIABLE = 20.0  # inliers by which the scene is worth half of what it can be
TRUST_IN_ODOMETRY = 0.8
LENGTH_OFFSET = 3.0  # log likelihood of a box of another object, about
LANDMARK_SUPPORT = 1.0
PIXELS, PIXELS_OFFSET = 0.5, -0.7  # what pixels count while landmarks choose a motion
POLE = CATEGORIES.index("pole")
WIDTH_SLACK = 1.5  # pixels
GAP_TAIL = 0.02
WIDTH_SPREAD = 0.35  # of the log of the ratio of widths
COLUMN_TAIL, EDGE_TAIL, WIDTH_TAIL = 0.01, 0.15, 0.2  # likelihood that nothing can fall below, against the best
GROWN = 3.0  # pixels that a box grows by before keypoints are looked for in it
GUIDED_RANGE = 4.0  # pixels off the epipolar line
ALIKE = 0.75  # cosine that two descriptors must exceed to count


@dataclass(frozen=True)
class SceneView:
    """What the scene's evidence needs of one frame."""

    boxes: Array  # [N, 4], pixels
    category: NDArray[np.int64]  # [N], index into CATEGORIES
    intrinsics: Array  # fx, fy, cx, cy in pixels
    width: int
    height: int
    keypoints: Keypoints


@dataclass(frozen=True)
class SceneEvidence:
    """What the whole frames say: a motion, or that they abstain, and numbers about every pair."""

    pose: RelativePose
    features: Array  # [A, B, F], as SCENE_FEATURES names them
    matches: NDArray[np.int64]  # [M, 2] keypoints
    trust: float  # 0 to 1, how far all this is to be believed


@dataclass(frozen=True)
class Carried:
    """Boxes of a carried into b: -log likelihoods of column, edges and width at depths to try, [A, B, Z] each."""

    depth: Array  # of the landmark in a, in units of the distance moved
    measure: Array  # how much of the logarithm of the depth each stands for
    column: Array
    edges: Array
    width: Array
    total: Array

    def best(self) -> Array:
        """Column, edges, width and all three at the depth that suits best: [4, A, B]."""
        if not self.total.size:
            return np.zeros((4, *self.total.shape[:2]))
        best = self.total.argmin(axis=2)[:, :, None]
        parts = [self.column, self.edges, self.width, np.minimum(self.total, 20.0)]
        return np.stack([np.take_along_axis(part, best, axis=2)[:, :, 0] for part in parts])


def scene_evidence(
    a: SceneView, b: SceneView, logits: Array | None = None, motion: MotionPrior | None = None
) -> SceneEvidence:
    """Match the keypoints of two frames, find the motion and judge all pairs of landmarks by it.

    Args:
        logits: [A, B], what pixels say of each pair against having no partner; where keypoints leave several motions
            open, the landmarks choose among them.
    """
    matches, poses = scene_motions(a, b, motion)
    return judge_by_motions(a, b, matches, poses, logits, motion)


def scene_motions(
    a: SceneView, b: SceneView, motion: MotionPrior | None = None
) -> tuple[NDArray[np.int64], list[RelativePose]]:
    """Matched keypoints [M, 2] of two frames and the motions that they leave open, likeliest first."""
    matches, _ = match_keypoints(a.keypoints, b.keypoints)
    rays_a, rays_b = (rays(one, view.intrinsics) for one, view in zip(_places(a, b, matches), (a, b), strict=True))
    return matches, likely_poses(rays_a, rays_b, float(np.sqrt(a.intrinsics[0] * b.intrinsics[0])), motion)


def _places(a: SceneView, b: SceneView, matches: NDArray[np.int64]) -> tuple[Array, Array]:
    places_a, places_b = (
        np.asarray(one.keypoints["keypoint_place"][matches[:, side]], np.float64) for side, one in enumerate((a, b))
    )
    return places_a, places_b


def judge_by_motions(
    a: SceneView,
    b: SceneView,
    matches: NDArray[np.int64],
    poses: Sequence[RelativePose],
    logits: Array | None = None,
    motion: MotionPrior | None = None,
) -> SceneEvidence:
    """Numbers about all pairs of landmarks, by the motion that keypoints and landmarks support together."""
    moved_by = [(pose, carried(a, b, pose), carried(b, a, inverse(pose))) for pose in poses]
    pose, there, back = moved_by[0]
    if len(moved_by) > 1:
        pose, there, back = max(
            moved_by, key=lambda one: one[0].support + _landmarks(a, b, one[1], one[2], logits, motion)
        )
    geometry = (there.best() + np.swapaxes(back.best(), 1, 2)) / 2  # [4, A, B]
    places_a, places_b = _places(a, b, matches)
    parted = parted_matches(a, b, places_a[pose.inliers], places_b[pose.inliers])
    features = np.stack([*geometry, parted, guided_share(a, b, pose)], axis=-1)
    trust = max(reliability(pose.count), TRUST_IN_ODOMETRY if motion else 0.0)
    return SceneEvidence(pose, features, matches, trust)


def _landmarks(
    a: SceneView, b: SceneView, there: Carried, back: Carried, logits: Array | None, motion: MotionPrior | None
) -> float:
    """How much the landmarks support a motion, at the length that suits them best: log likelihood ratio."""
    base = np.zeros((len(a.boxes), len(b.boxes))) if logits is None else logits
    length = (scale_likelihood(a, there) + np.swapaxes(scale_likelihood(b, back), 0, 1)) / 2 + LENGTH_OFFSET
    agreed = _agreed(base, a.category[:, None] == b.category, length)
    return LANDMARK_SUPPORT * float((agreed + log_lengths(motion)).max(initial=0.0))


def log_lengths(motion: MotionPrior | None) -> Array:
    """Log prior of LENGTHS: anything, or what odometry says."""
    log_prior = np.zeros(len(LENGTHS))
    if motion is not None:
        distance = float(np.linalg.norm(motion.T_b_a[:3, 3]))
        coarse = np.log(LENGTHS[1] / LENGTHS[0]) / 2
        deviation = np.hypot(motion.translation_deviation, coarse)
        log_prior = -0.5 * (np.log(LENGTHS / max(distance, 1e-3)) / deviation) ** 2
    return np.asarray(log_prior - np.log(np.exp(log_prior).sum() + 1e-300))


def reliability(inliers: int) -> float:
    """How far the scene is to be believed, 0 to 1."""
    return inliers / (inliers + HALF_RELIABLE)


def _agreed(logits: Array, allowed: NDArray[np.bool_], length: Array) -> Array:
    """How well all landmarks together fit the motion, by its length: log likelihood ratio [L]."""
    strength = PIXELS * logits + PIXELS_OFFSET
    odds = np.where(allowed[:, :, None], np.exp(np.clip(strength[:, :, None] + length, -30, 30)), 0.0)
    return np.asarray(0.5 * (np.log1p(odds.sum(axis=1)).sum(axis=0) + np.log1p(odds.sum(axis=0)).sum(axis=0)))


def inverse(pose: RelativePose) -> RelativePose:
    """The motion from b to a. Its covariance is turned along."""
    R = pose.R_b_a.T
    # Rotations turn by -R; the direction's two angles keep their spread, about a turned axis.
    covariance = pose.covariance.copy()
    covariance[:3, :3] = R @ covariance[:3, :3] @ R.T
    covariance[:3, 3:] = covariance[3:, :3] = 0.0
    covariance[3:, 3:] = np.eye(2) * np.trace(covariance[3:, 3:]) / 2
    return RelativePose(R, -R @ pose.direction, pose.inliers, pose.residuals, pose.support, covariance, pose.abstains)


def carried(a: SceneView, b: SceneView, pose: RelativePose) -> Carried:
    """Every box of `a`, carried into `b` at many depths, held against every box of `b`.

    The depths to try are those at which the column fits, to within two standard deviations, and a coarse grid.
    """
    left, top, right, bottom = a.boxes.T
    middle = (left + right) / 2
    ends = [rays(np.stack([middle, one], axis=1), a.intrinsics) for one in (top, (top + bottom) / 2, bottom)]  # [A, 3]
    seen_left, seen_top, seen_right, seen_bottom = b.boxes.T  # [B]
    seen_middle, seen_width, seen_height = (seen_left + seen_right) / 2, seen_right - seen_left, seen_bottom - seen_top
    cut_a, cut_b = _cut(a), _cut(b)  # [A, 4], [B, 4]
    cut_aside = cut_a[:, None, [0, 2]].any(axis=2) | cut_b[:, [0, 2]].any(axis=1)  # [A, B]

    fitting = _depth_at(ends[1], pose, np.broadcast_to(seen_middle, cut_aside.shape), b.intrinsics)  # [A, B]
    spread = _spread(ends[1], fitting, pose, b.intrinsics)  # [A, B], pixels
    size_there = (right - left)[:, None] / a.intrinsics[0] * b.intrinsics[0]
    wider = np.maximum(seen_width, np.where(cut_aside, size_there, 0.0))
    sideways = SLACK**2 + (COLUMN_SHARE * seen_width) ** 2 + spread**2 + np.where(cut_aside, (0.5 * wider) ** 2, 0.0)
    around = seen_middle[:, None] + np.sqrt(sideways)[:, :, None] * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    near = _depth_at(ends[1], pose, around, b.intrinsics)  # [A, B, 5]
    step = np.abs(np.gradient(np.log(near), axis=2))
    coarse = np.broadcast_to(DEPTHS, (*cut_aside.shape, len(DEPTHS)))
    coarse_step = np.log(DEPTHS[1] / DEPTHS[0])
    depth = np.concatenate([near, coarse], axis=2)  # [A, B, Z]
    measure = np.concatenate([np.minimum(step, coarse_step), np.full(coarse.shape, coarse_step)], axis=2)

    column, _, ahead = _project(ends[1], depth, pose, b.intrinsics)
    row_top, row_bottom = (np.clip(_project(end, depth, pose, b.intrinsics)[1], 0, b.height) for end in ends[::2])
    column_cost = _cost((column - seen_middle[:, None]) ** 2 / sideways[:, :, None], COLUMN_TAIL)

    upright = (SLACK**2 + (EDGE_SHARE * seen_height) ** 2 + spread**2)[:, :, None]
    top_cost = _cost((row_top - seen_top[:, None]) ** 2 / upright, EDGE_TAIL)
    bottom_cost = _cost((row_bottom - seen_bottom[:, None]) ** 2 / upright, EDGE_TAIL)
    # An edge on the border of either picture says only that the object goes on.
    top_cost = top_cost * np.where(cut_a[:, None, 1] | cut_b[:, 1], 0.3, 1.0)[:, :, None]
    bottom_cost = bottom_cost * np.where(cut_a[:, None, 3] | cut_b[:, 3], 0.3, 1.0)[:, :, None]
    # Of a pole each frame may see another piece: pieces should overlap, and the foot says more than the top.
    gap = np.maximum(np.maximum(row_top - seen_bottom[:, None], seen_top[:, None] - row_bottom), 0.0)
    gap_cost = _cost(gap**2 / upright, GAP_TAIL)
    pole = (a.category == POLE)[:, None, None]
    edges_cost = np.where(pole, 0.25 * top_cost + 0.75 * bottom_cost + gap_cost, top_cost + bottom_cost)

    width = size_there[:, :, None] * depth / np.maximum(ahead, 1e-3)
    ratio = np.log(np.maximum(width, 0.1)) - np.log(np.maximum(seen_width, 0.1))[:, None]
    wide = WIDTH_SPREAD**2 + (WIDTH_SLACK / np.maximum(seen_width, 1.0)) ** 2
    width_cost = np.where(cut_aside, 0.5, 1.0)[:, :, None] * _cost(ratio**2 / wide[:, None], WIDTH_TAIL)
    total = column_cost + edges_cost + width_cost + np.where(ahead <= BEHIND, 100.0, 0.0)
    return Carried(depth, measure, column_cost, edges_cost, width_cost, total)


def _depth_at(ray: Array, pose: RelativePose, column: Array, intrinsics: Array) -> Array:
    """The depths at which points on rays [A, 3] of a are seen in columns [A, B, ...] of b; very far where at none."""
    turned = ray @ pose.R_b_a.T  # [A, 3]
    shape = (len(ray),) + (1,) * (column.ndim - 1)
    across, along = turned[:, 0].reshape(shape), turned[:, 2].reshape(shape)
    tangent = (column - intrinsics[2]) / intrinsics[0]
    below = across - tangent * along
    depth = (tangent * pose.direction[2] - pose.direction[0]) / np.where(np.abs(below) < 1e-9, 1e-9, below)
    return np.where((depth > 0) & (depth < FARTHEST), np.maximum(depth, 1e-3), FARTHEST)


def _cut(view: SceneView) -> NDArray[np.bool_]:
    """Which edges (left, top, right, bottom) of each box lie on the border of the picture: [N, 4]."""
    left, top, right, bottom = view.boxes.T
    return np.stack([left < BORDER, top < BORDER, right > view.width - BORDER, bottom > view.height - BORDER], axis=1)


def scale_likelihood(a: SceneView, there: Carried) -> Array:
    """log p(box of b | box of a, the motion and its length) for every length of LENGTHS: [A, B, L].

    The direction of the motion leaves every landmark its own depth; where a box meets the ground, and how wide such
    objects are, say how many metres that is, and all landmarks must agree on the metres that the camera moved.
    """
    left, top, right, bottom = a.boxes.T
    fx, fy, cx, cy = a.intrinsics
    cut = _cut(a)
    tangents = np.stack([(left - cx) / fx, (top - cy) / fy, (right - cx) / fx, (bottom - cy) / fy], axis=1)
    guess = np.where(cut, np.nan, tangents)
    # The density of depths is needed at many of them: read off a fine table.
    table = np.linspace(np.log(0.05), np.log(4000.0), 300)
    density = depth_density(guess, a.category, table)  # [A, 300]
    place = (np.log(there.depth)[..., None] + np.log(LENGTHS) - table[0]) / (table[1] - table[0])  # [A, B, Z, L]
    place = np.clip(np.rint(place), 0, len(table) - 1).astype(np.int64)
    belief = density[np.arange(len(a.boxes))[:, None, None, None], place]
    weight = np.exp(-there.total) * there.measure  # [A, B, Z]
    return np.asarray(np.log(np.einsum("abz,abzl->abl", weight, belief) + 1e-6))


def _project(ray: Array, depth: Array, pose: RelativePose, intrinsics: Array) -> tuple[Array, Array, Array]:
    """Where points on rays [A, 3] at depths [A, B, ...] are seen: columns and rows in pixels, and their depth."""
    return _project_by(pose.R_b_a, pose.direction, ray, depth, intrinsics)


def _project_by(R: Array, direction: Array, ray: Array, depth: Array, intrinsics: Array) -> tuple[Array, Array, Array]:
    turned = (ray @ R.T).T.reshape(3, len(ray), *(1,) * (depth.ndim - 1))
    x, y, ahead = (turned[axis] * depth + direction[axis] for axis in range(3))
    safe = np.maximum(ahead, BEHIND)
    return x / safe * intrinsics[0] + intrinsics[2], y / safe * intrinsics[1] + intrinsics[3], ahead


def _spread(ray: Array, depth: Array, pose: RelativePose, intrinsics: Array) -> Array:
    """Standard deviation [A, B] in pixels of where a box is carried to, because the motion is not known better."""
    step = 1e-4
    values, vectors = np.linalg.eigh(pose.covariance)
    base, _, _ = _project(ray, depth, pose, intrinsics)
    total = np.zeros(depth.shape)
    for value, vector in zip(values, vectors.T, strict=True):
        shifted, _, _ = _project_by(*moved(pose, step * vector), ray, depth, intrinsics)
        total += max(float(value), 0.0) * ((shifted - base) / step) ** 2
    return np.asarray(np.minimum(np.sqrt(total), 60.0))


def _cost(square: Array, tail: float) -> Array:
    """-log likelihood of a residual whose square is given in variances; no residual is less likely than `tail`."""
    return np.asarray(-np.log((1 - tail) * np.exp(-0.5 * np.minimum(square, 80.0)) + tail))


def inside(boxes: Array, places: Array, grown: float = GROWN) -> NDArray[np.bool_]:
    """Which places [M, 2] lie in which boxes [N, 4]: [N, M]."""
    low, high = boxes[:, None, :2] - grown, boxes[:, None, 2:] + grown
    return np.asarray(((places >= low) & (places <= high)).all(axis=2))


def parted_matches(a: SceneView, b: SceneView, places_a: Array, places_b: Array) -> Array:
    """log(1 + n) of the keypoint matches that lead from one of two boxes past the other: [A, B]."""
    in_a, in_b = (inside(view.boxes, at).astype(np.float64) for view, at in ((a, places_a), (b, places_b)))
    tight_a, tight_b = (inside(view.boxes, at, 0.0).astype(np.float64) for view, at in ((a, places_a), (b, places_b)))
    return np.asarray(np.log1p(tight_a @ (1 - in_b).T + (1 - in_a) @ tight_b.T))


def guided_share(a: SceneView, b: SceneView, pose: RelativePose) -> Array:
    """How alike the keypoints of two boxes are along epipolar lines, as a share among all partners: [A, B]."""
    in_a, in_b = (inside(one.boxes, np.asarray(one.keypoints["keypoint_place"], np.float64)) for one in (a, b))
    rows, columns = np.flatnonzero(in_a.any(axis=0)), np.flatnonzero(in_b.any(axis=0))
    if not len(rows) or not len(columns):
        return np.zeros((len(a.boxes), len(b.boxes)))
    likeness = unit_descriptors({"keypoint_descriptor": a.keypoints["keypoint_descriptor"][rows]}) @ (
        unit_descriptors({"keypoint_descriptor": b.keypoints["keypoint_descriptor"][columns]}).T
    )
    rays_a = rays(a.keypoints["keypoint_place"][rows].astype(np.float64), a.intrinsics)
    rays_b = rays(b.keypoints["keypoint_place"][columns].astype(np.float64), b.intrinsics)
    distance = epipolar_distance(pose, rays_a, rays_b) * float(np.sqrt(a.intrinsics[0] * b.intrinsics[0]))
    likeness = np.where(distance < GUIDED_RANGE, likeness - ALIKE, 0.0).clip(min=0.0)  # [K, L]
    vote_ab = _votes(likeness, in_a[:, rows], in_b[:, columns])
    vote_ba = _votes(likeness.T, in_b[:, columns], in_a[:, rows]).T
    total = vote_ab.sum(axis=1, keepdims=True) + vote_ba.sum(axis=0, keepdims=True)
    return np.asarray((vote_ab + vote_ba) / (total + 0.1))


def epipolar_distance(pose: RelativePose, rays_a: Array, rays_b: Array) -> Array:
    """Sampson's distance of every ray of a from every ray of b: [K, L], in units of depth one."""
    x, y, z = pose.direction
    E = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ pose.R_b_a
    lines_b, lines_a = rays_a @ E.T, rays_b @ E  # [K, 3], [L, 3]
    square = (lines_b[:, :2] ** 2).sum(1)[:, None] + (lines_a[:, :2] ** 2).sum(1)
    return np.asarray(np.abs(lines_b @ rays_b.T) / np.sqrt(np.maximum(square, 1e-18)))


def _votes(likeness: NDArray[np.floating], in_a: NDArray[np.bool_], in_b: NDArray[np.bool_]) -> Array:
    """Every keypoint of a votes for the boxes that hold its best partner: [A, B]."""
    best = likeness.argmax(axis=1)
    weight = likeness[np.arange(len(likeness)), best]  # [K]
    return np.asarray((in_a * weight) @ in_b[:, best].T.astype(np.float64))
