"""How well two boxes fit a motion of the camera: boxes and categories of two frames, no keypoints.

A planar motion theta of the camera (ahead or back, aside, a turn) says where the partner of every landmark is seen,
up to its depth. Depth is guessed from where the box meets the ground and from its usual width. `motion_likelihood`
gives the log likelihood ratio of every candidate pair under every motion; `diffusion.py` lets the landmarks agree.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from robustmat.types import CATEGORIES, Array

Floats = NDArray[np.floating]

BORDER = 3.0  # pixels; an edge so near the border is where the picture ends, not the object
CAMERA_HEIGHT = 1.65  # metres; a car's. All distances scale with it, and the prior over them is wide
USUAL_WIDTH = {"traffic_sign": 0.6, "traffic_light": 0.35, "pole": 0.2, "window": 1.2}  # metres
DEPTHS = np.geomspace(3.0, 70.0, 14)  # metres
YAWS = np.radians(np.linspace(-27.0, 27.0, 37))
DISTANCES = np.geomspace(1.5, 28.0, 11)  # metres ahead or back
ASIDE = (-3.5, 0.0, 3.5)  # metres: another lane
SAME_LANE = 0.8  # prior
FIT_COLUMN = 0.014  # radians, standard deviation of a partner's column; plus a share of its width
FIT_ROW = 0.012  # of a partner's rows, in units of the focal length; plus a share of its height
TAIL = 0.03  # likelihood that a partner is seen anywhere


@dataclass(frozen=True)
class Motions:
    """Planar motions theta [T]: metres ahead and aside, radians to the right, log prior."""

    ahead: Array
    aside: Array
    yaw: Array
    log_prior: Array
    log_vague: Array  # the log prior before anything was known of these two frames


def car_motions() -> Motions:
    """What cars do between two frames: forward or backward, along an arc or into another lane."""
    ahead, aside, yaw = (
        one.ravel()
        for one in np.meshgrid(np.concatenate([-DISTANCES[::-1], DISTANCES]), np.array(ASIDE), YAWS, indexing="ij")
    )
    arc = ahead * np.tan(yaw / 2)
    log_prior = np.where(aside == 0, np.log(SAME_LANE), np.log((1 - SAME_LANE) / 2))
    # A turn of 12 degrees is rare over 3 m and usual over 20.
    spread = np.radians(2.0 + 0.4 * np.abs(ahead))
    log_prior = log_prior - np.log1p((yaw / spread) ** 2) - np.log(spread)
    log_prior = log_prior - logsumexp(log_prior)
    return Motions(ahead, aside + arc, yaw, log_prior, log_prior)


def known_motion(
    motions: Motions, yaw: float, yaw_deviation: float, direction: Array | None, distance: tuple[float, float] | None
) -> Motions:
    """The motions with a prior that knows better: a turn, a direction of travel [2] (right, ahead), a distance.

    Args:
        direction: of camera b as camera a sees it, from keypoints or odometry; None if not known.
        distance: metres and their standard deviation; None if not known.
    """
    step = np.radians(0.6)  # the grid's own coarseness
    log_prior = -0.5 * ((motions.yaw - yaw) / np.hypot(yaw_deviation, step)) ** 2
    if direction is not None:
        heading = np.arctan2(motions.aside, motions.ahead)
        off = np.angle(np.exp(1j * (heading - np.arctan2(direction[0], direction[1]))))
        log_prior = log_prior - 0.5 * np.minimum((off / np.radians(4.0)) ** 2, 30.0)
    if distance is not None:
        length = np.hypot(motions.ahead, motions.aside)
        log_prior = log_prior - 0.5 * ((length - distance[0]) / np.hypot(distance[1], 0.12 * distance[0])) ** 2
    return replace(motions, log_prior=log_prior - logsumexp(log_prior))


def tangent_boxes(boxes: Array, intrinsics: Array, width: int, height: int) -> Array:
    """Boxes [N, 4] in pixels as tangents of viewing angles; nan for an edge on the border of the picture."""
    fx, fy, cx, cy = intrinsics
    left, top, right, bottom = boxes.T
    tangents = np.stack([(left - cx) / fx, (top - cy) / fy, (right - cx) / fx, (bottom - cy) / fy], axis=1)
    cut = np.stack([left < BORDER, top < BORDER, right > width - BORDER, bottom > height - BORDER], axis=1)
    return np.where(cut, np.nan, tangents)


def motion_likelihood(
    boxes_a: Array, boxes_b: Array, category: NDArray[np.int64], pairs: NDArray[np.int64], motions: Motions
) -> NDArray[np.float32]:
    """log p(box of b | box of a, motion) - log p(box of b | another object): [N, T] for candidate pairs [N, 2].

    Args:
        boxes_a: [A, 4] left, top, right, bottom as tangents of viewing angles, 0 straight ahead; nan for an edge that
            lies on the border of the picture.
        category: [A], and of the candidates' landmarks of b, too.
    """
    log_depth = depth_belief(boxes_a, category)  # [A, Z]
    i, j = pairs.T
    a, b = boxes_a[i].astype(np.float32), boxes_b[j].astype(np.float32)
    depth = DEPTHS.astype(np.float32)
    # Distinct translations; the turn is added to the column alone.
    turns = len(YAWS)
    ahead, aside = motions.ahead.reshape(-1, turns), motions.aside.reshape(-1, turns)  # [S, Y]
    yaw = motions.yaw[:turns].astype(np.float32)
    left = depth[:, None] - ahead[:, 0].astype(np.float32)  # [Z, S] depth in b
    valid = left > 1.0
    left = np.where(valid, left, 1.0)
    scale = depth[:, None] / left  # [Z, S]
    size_cost = _size_cost(a, b, scale)  # [N, Z, S]
    width_b = np.nan_to_num(b[:, 2] - b[:, 0], nan=0.02)
    middle_a, middle_b = ((np.nan_to_num(one[:, 0], nan=0.0) + np.nan_to_num(one[:, 2], nan=0.0)) / 2 for one in (a, b))
    for box, middle in ((a, middle_a), (b, middle_b)):  # one side at the border: the other side has to do
        known = np.isfinite(box[:, [0, 2]])
        middle[:] = np.where(known.all(1), middle, np.where(known[:, 0], box[:, 0], box[:, 2]))
        middle[:] = np.nan_to_num(middle, nan=0.0)
    deviation = np.hypot(FIT_COLUMN, 0.2 * width_b).astype(np.float32)  # [N]
    out = np.empty((len(pairs), len(ahead), turns), np.float32)
    angle_b = np.arctan(middle_b)
    weight = np.exp(log_depth[i].astype(np.float32))[:, :, None] * np.exp(-size_cost) * valid  # [N, Z, S]
    weight = weight * _depth_support(b, category[i], left)
    for s in range(len(ahead)):
        # [N, Z, Y]: seen from b, before and after its turn
        place = (middle_a[:, None] * depth)[:, :, None] - aside[s].astype(np.float32)
        off = np.arctan(place / left[:, s][None, :, None]) - yaw - angle_b[:, None, None]
        fit = np.exp(-0.5 * (off / deviation[:, None, None]) ** 2)
        out[:, s] = np.einsum("nz,nzy->ny", weight[:, :, s], fit)
    # Another object of this category is seen anywhere: columns over about a radian, sizes over their spread.
    likelihood = np.log((1 - TAIL) * out / (deviation[:, None, None] * 2.5) + TAIL)
    return np.asarray(likelihood.reshape(len(pairs), len(motions.ahead)), np.float32)


def _size_cost(a: Floats, b: Floats, scale: Floats) -> NDArray[np.float32]:
    """How badly rows and widths [N, 4] fit an expansion by `scale` [Z, S]: -log likelihood, capped, [N, Z, S]."""
    cost = np.zeros((len(a), *scale.shape), np.float32)
    height = np.nan_to_num(b[:, 3] - b[:, 1], nan=0.1)
    for edge, tail in ((1, 0.3), (3, 0.1)):  # tops say less than bottoms
        known = np.isfinite(a[:, edge]) & np.isfinite(b[:, edge])
        deviation = np.hypot(FIT_ROW, 0.1 * height)[:, None, None]
        off = (np.nan_to_num(a[:, edge])[:, None, None] * scale - np.nan_to_num(b[:, edge])[:, None, None]) / deviation
        one = -np.log((1 - tail) * np.exp(-0.5 * np.minimum(off**2, 60)) + tail)
        cost += np.where(known[:, None, None], one, 0.0).astype(np.float32)
    wide_a, wide_b = a[:, 2] - a[:, 0], b[:, 2] - b[:, 0]
    known = np.isfinite(wide_a) & np.isfinite(wide_b)
    ratio = np.log(np.maximum(np.nan_to_num(wide_b, nan=1), 1e-4) / np.maximum(np.nan_to_num(wide_a, nan=1), 1e-4))
    off = (ratio[:, None, None] - np.log(scale)) / 0.4
    one = -np.log(0.8 * np.exp(-0.5 * np.minimum(off**2, 60)) + 0.2)
    return np.asarray(cost + np.where(known[:, None, None], one, 0.0), np.float32)


def _depth_support(boxes: Floats, category: NDArray[np.int64], depth: Floats) -> NDArray[np.float32]:
    """How much likelier than anywhere the boxes [N, 4] are at depths [Z, S]: [N, Z, S]."""
    table = np.linspace(0.0, np.log(120.0), 60)
    density = depth_density(boxes.astype(np.float64), category, table) * np.log(45.0)  # [N, 60]
    place = np.rint(np.log(depth) / (table[1] - table[0])).astype(np.int64).clip(0, len(table) - 1)
    return np.asarray(density.astype(np.float32)[:, place])


def depth_belief(boxes: Array, category: NDArray[np.int64]) -> Array:
    """Log belief in every one of DEPTHS [A, Z]."""
    belief = depth_density(boxes, category, np.log(DEPTHS))
    return np.asarray(np.log(belief / np.maximum(belief.sum(axis=1, keepdims=True), 1e-12) + 1e-9))


def depth_density(boxes: Array, category: NDArray[np.int64], log_depth: Array) -> Array:
    """Density of the log of the depth [A, Z] of boxes [A, 4] in tangents.

    By ground contact, by usual width, or anything.
    """
    bottom = np.where(boxes[:, 3] > 0.02, boxes[:, 3], np.nan)
    usual = np.array([USUAL_WIDTH[one_one] for one_one in CATEGORIES])[category]
    with np.errstate(invalid="ignore"):
        guesses = [np.log(CAMERA_HEIGHT / bottom), np.log(usual / np.maximum(boxes[:, 2] - boxes[:, 0], 1e-3))]
    pole = category == CATEGORIES.index("pole")
    shares = [np.where(pole, 0.5, 0.1), np.full(len(boxes), 0.3)]
    density = np.zeros((len(boxes), len(log_depth)))
    left = np.ones(len(boxes))
    for guess, share, spread in zip(guesses, shares, (0.25, 0.5), strict=True):
        known = np.isfinite(guess)
        one = np.exp(-0.5 * ((log_depth - np.nan_to_num(guess)[:, None]) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
        density += np.where(known, share, 0.0)[:, None] * one
        left -= np.where(known, share, 0.0)
    anywhere = ((log_depth > np.log(2.0)) & (log_depth < np.log(90.0))) / np.log(45.0)
    return np.asarray(density + left[:, None] * anywhere)
