"""How the camera moved between two frames, from matched points: rotation and direction, or that nobody can tell.

Few true matches among many false ones defeat sampling five of them at random. But cars turn about the vertical and
drive on the ground: a grid over yaw, heading and pitch finds the motion that most matches agree on, from a handful of
true ones on. The robust sample (OpenCV's MAGSAC) is one more start, for cameras that are no cars. All starts are
refined together with a tolerant prior for the motion of a car, and the likeliest wins.

A ray is a point's direction with depth one: [x, y, 1]. Residuals are in pixels (Sampson's distance).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from robustmat.types import Array, Camera

ASSUMED_FOCAL_LENGTH = 0.58  # image widths: 81 degrees, KITTI's color cameras
FEWEST_MATCHES = 8
FEWEST_INLIERS = 15
DOUBT = 12.0  # nats of support that the landmarks may overrule

# What residuals of true and false matches look like, and how many are true.
RESIDUAL = 1.2  # pixels, standard deviation of a true match
COARSE_RESIDUAL = 4.0  # the same, plus the grid's own step
FALSE_RANGE = 200.0  # pixels over which residuals of false matches spread
TRUE_SHARE = 0.2
INLIER = 2.5 * RESIDUAL
SMALLEST_RESIDUAL, INLIER_SCALES = 0.15, 4.0  # where the scale is the matches' own: pixels; scales of an inlier

# The motion of a car, radians: standard deviations, Student's t where cars differ (another lane, a turn).
ROLL, PITCH, CLIMB = np.radians([1.0, 1.5, 3.0])
DRIFT = np.radians(5.0)  # of the heading from half the yaw, which is where an arc leads
YAWS = np.radians(np.arange(-30.0, 30.1, 1.5))
DRIFTS = np.radians([-60.0, -30, -15, -8, -4, -2, 0, 2, 4, 8, 15, 30, 60])
PITCHES = np.radians([-1.5, 0.0, 1.5])
STARTS = 6
GRID_MATCHES = 200  # the surest ones choose the starts; all of them refine
REFINEMENTS = 12


@dataclass(frozen=True)
class RelativePose:
    """points_b = R_b_a @ points_a + distance * direction, the distance unknown; or nothing, when abstaining."""

    R_b_a: Array  # [3, 3]
    direction: Array  # [3], of length one
    inliers: NDArray[np.bool_]  # [M], which matches agree, in front of both cameras
    residuals: Array  # [M], pixels
    support: float  # log likelihood ratio of this motion against none at all
    covariance: Array  # [5, 5], of rotation (3) and direction (2, across it), radians
    abstains: bool

    @property
    def count(self) -> int:
        return int(self.inliers.sum())


@dataclass(frozen=True)
class MotionPrior:
    """What is known of the motion beforehand, from odometry or poses: T_b_a with its standard deviations."""

    T_b_a: Array  # [4, 4], metres
    rotation_deviation: float = np.radians(1.0)  # radians
    translation_deviation: float = 0.2  # share of the distance


def focal_and_center(camera: Camera | None, width: int, height: int) -> Array:
    """fx, fy, cx, cy in pixels, counted from pixels' edges; KITTI's field of view where the camera is not known."""
    if camera is None:
        focal = ASSUMED_FOCAL_LENGTH * width
        return np.array([focal, focal, width / 2, height / 2])
    matrix = camera.matrix
    return np.array([matrix[0, 0], matrix[1, 1], matrix[0, 2] + 0.5, matrix[1, 2] + 0.5])


def rays(places: Array, intrinsics: Array) -> Array:
    """Pixels [N, 2] as rays [N, 3]."""
    flat = (np.asarray(places, np.float64) - intrinsics[2:]) / intrinsics[:2]
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def relative_pose(
    rays_a: Array, rays_b: Array, focal: float, prior: MotionPrior | None = None, fewest: int = FEWEST_INLIERS
) -> RelativePose:
    """The motion that matched rays [M, 3] of two frames tell.

    Args:
        focal: pixels, so that residuals are in pixels.
        prior: what odometry says; it then takes the place of the prior for cars.
        fewest: with fewer inliers than this the result says that it abstains.
    """
    return likely_poses(rays_a, rays_b, focal, prior, fewest)[0]


def likely_poses(
    rays_a: Array, rays_b: Array, focal: float, prior: MotionPrior | None = None, fewest: int = FEWEST_INLIERS
) -> list[RelativePose]:
    """All motions that matches, surest first, leave open: those within DOUBT of the best support, likeliest first."""
    if len(rays_a) < FEWEST_MATCHES and prior is None:
        return [nothing(len(rays_a))]
    products = _products(rays_a, rays_b)
    surest = _products(rays_a[:GRID_MATCHES], rays_b[:GRID_MATCHES])
    starts = [*_grid_starts(surest, focal, prior), *sampled_pose(rays_a, rays_b, focal)]
    R, direction = (np.stack([start[part] for start in starts]) for part in (0, 1))
    R, direction, information, support = _refine(R, direction, products, focal, prior)
    chosen: list[int] = []
    for index in np.argsort(-support):
        same = [_alike(R[index] @ R[one].T, direction[index], direction[one]) for one in chosen]
        if support[index] >= support.max() - DOUBT and not any(same):
            chosen.append(int(index))
    return [
        _described(
            R[one], direction[one], information[one], float(support[one]), products, focal, prior is None, fewest
        )
        for one in chosen
    ]


def refined_pose(
    start: tuple[Array, Array],
    rays_a: Array,
    rays_b: Array,
    focal: float,
    prior: MotionPrior | None = None,
    *,
    weight: Array | None = None,
    fewest: int = FEWEST_INLIERS,
    coarse: float = 0.0,
) -> RelativePose:
    """A motion (rotation, direction) made better by all matches, whose residuals say themselves how large they are.

    Keypoints of neighbouring clean frames fit to a sixth of a pixel, those in rain to a whole one and with long tails:
    hence Cauchy's weights, with a scale of the matches' own. Matches of points nearer than one step, or behind the
    camera, count for nothing: near the direction of travel any false match lies on its epipolar line, and holds the
    motion where it is.

    Args:
        weight: [M], how much each match counts against a usual one; 0 leaves it out.
        coarse: pixels by which the start may be off; the tolerance narrows from there.
    """
    products = _products(rays_a, rays_b)
    R, direction = start[0][None], _unit(start[1])[None]
    worth = np.ones(len(rays_a)) if weight is None else weight
    scale, information, residual = RESIDUAL, np.eye(5)[None], np.zeros((1, 0))
    for turn in range(REFINEMENTS):
        residual = focal * np.abs(_sampson(_essential(R, direction), products))
        there = _beyond_a_step(R[0], direction[0], rays_a, rays_b)
        scale = _own_scale(residual[0, there & (worth > 0)], scale)
        width = max(scale, coarse * 0.7**turn)
        trust = worth * there / (1 + (residual / width) ** 2) * (residual < 5 * width)
        R, direction, information = _stepped(R, direction, products, focal, prior, trust / width**2)
    residual = focal * np.abs(_sampson(_essential(R, direction), products))
    there = _beyond_a_step(R[0], direction[0], rays_a, rays_b)
    support = float((there * worth * np.log1p(FALSE_RANGE / scale / (1 + (residual[0] / scale) ** 2))).sum())
    support -= 0.5 * float((_prior_residual(R, direction, prior) ** 2).sum())
    return _described(
        R[0], direction[0], information[0], support, products, focal, prior is None, fewest, INLIER_SCALES * scale
    )


def _own_scale(residuals: Array, before: float) -> float:
    """Of the residuals of true matches, by the median of those that may be true; it shrinks, and not without end."""
    near = residuals[residuals < 3 * before]
    if len(near) < FEWEST_MATCHES:
        return before
    return float(np.clip(np.median(near) / 0.6745, SMALLEST_RESIDUAL, RESIDUAL))


def _alike(turn: Array, first: Array, second: Array) -> bool:
    """Whether two motions are one: less than a degree and three apart. E does not know forward from backward."""
    return bool(np.trace(turn) > 1 + 2 * np.cos(np.radians(1.0)) and abs(first @ second) > np.cos(np.radians(3.0)))


def _described(
    R: Array,
    direction: Array,
    information: Array,
    support: float,
    products: tuple[Array, Array, Array],
    focal: float,
    sign_is_open: bool,
    fewest: int,
    inlier: float = INLIER,
) -> RelativePose:
    _, rays_a, rays_b = products
    residuals = focal * np.abs(_sampson(_essential(R[None], direction[None]), products)[0])
    near = residuals < inlier
    forward, backward = _in_front(R, direction, rays_a, rays_b), _in_front(R, -direction, rays_a, rays_b)
    if sign_is_open and (near & backward).sum() > (near & forward).sum():
        direction, forward = -direction, backward
    inliers = near & forward
    covariance = np.asarray(np.linalg.inv(information), np.float64)
    return RelativePose(R, direction, inliers, residuals, support, covariance, bool(inliers.sum() < fewest))


def nothing(count: int) -> RelativePose:
    """No motion at all is known."""
    return RelativePose(
        np.eye(3), np.array([0.0, 0, -1]), np.zeros(count, np.bool_), np.full(count, np.inf), 0.0, np.eye(5), True
    )


def _products(rays_a: Array, rays_b: Array) -> tuple[Array, Array, Array]:
    outer = (rays_b[:, :, None] * rays_a[:, None]).reshape(-1, 9)  # x_b E x_a is linear in E
    return outer, rays_a, rays_b


def _sampson(essentials: Array, products: tuple[Array, Array, Array]) -> Array:
    """Signed distance of every match from the epipolar geometry of every E [H, 3, 3]: [H, M], in units of depth one."""
    return essentials.reshape(-1, 9) @ products[0].T / _gradient_size(essentials, products)


def _gradient_size(essentials: Array, products: tuple[Array, Array, Array]) -> Array:
    """Sampson's denominator [H, M]: how fast the algebraic error grows with a point's shift."""
    _, rays_a, rays_b = products
    lines_b = essentials[:, :2].reshape(-1, 3) @ rays_a.T  # [2 H, M]
    lines_a = np.swapaxes(essentials, 1, 2)[:, :2].reshape(-1, 3) @ rays_b.T
    square = (lines_b**2 + lines_a**2).reshape(len(essentials), 2, -1).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(square, 1e-18)))


def _essential(R: Array, direction: Array) -> Array:
    """[H, 3, 3] of rotations [H, 3, 3] and directions [H, 3]."""
    return _cross(direction) @ R


def _cross(v: Array) -> Array:
    """Matrices [..., 3, 3] that take the cross product with v [..., 3]."""
    x, y, z = np.moveaxis(v, -1, 0)
    zero = np.zeros_like(x)
    rows = [np.stack(one, axis=-1) for one in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return np.stack(rows, axis=-2)


def _support(residuals: Array, deviation: float) -> Array:
    """Log likelihood ratio of the matches against all being false: sum over the last axis of [..., M]."""
    peak = TRUE_SHARE * FALSE_RANGE / (deviation * np.sqrt(2 * np.pi))
    return np.asarray(np.log1p(peak * np.exp(-0.5 * (residuals / deviation) ** 2) - TRUE_SHARE).sum(axis=-1))


def planar(yaw: Array, drift: Array, pitch: Array) -> tuple[Array, Array]:
    """R_b_a [H, 3, 3] and direction [H, 3] of motions that turn right by `yaw` and lead to half of it plus `drift`."""
    R = Rotation.from_euler("yx", np.stack([-yaw, pitch], axis=1)).as_matrix()
    heading = yaw / 2 + drift
    place = np.stack([np.sin(heading), np.zeros_like(heading), np.cos(heading)], axis=1)  # of camera b, seen from a
    return R, -np.einsum("hij,hj->hi", R, place)


def _grid_starts(
    products: tuple[Array, Array, Array], focal: float, prior: MotionPrior | None
) -> list[tuple[Array, Array]]:
    if prior is not None:
        return [(prior.T_b_a[:3, :3], _unit(prior.T_b_a[:3, 3]))]
    yaw, drift, pitch = (one.ravel() for one in np.meshgrid(YAWS, DRIFTS, PITCHES, indexing="ij"))
    R, direction = planar(yaw, drift, pitch)
    support = _support(focal * _sampson(_essential(R, direction), products), COARSE_RESIDUAL)
    support = support - 2.5 * np.log1p((drift / DRIFT) ** 2 / 4)
    order = np.argsort(-support)
    chosen: list[int] = []
    for index in order:  # neighbours on the grid would be refined to the same motion
        if all(abs(yaw[index] - yaw[one]) > 0.04 or abs(drift[index] - drift[one]) > 0.1 for one in chosen):
            chosen.append(int(index))
        if len(chosen) == STARTS:
            break
    return [(R[one], direction[one]) for one in chosen]


def sampled_pose(rays_a: Array, rays_b: Array, focal: float) -> list[tuple[Array, Array]]:
    """The motion by MAGSAC, if it finds one."""
    import cv2

    if len(rays_a) < FEWEST_MATCHES:
        return []
    a, b = (np.ascontiguousarray(one[:, :2]) for one in (rays_a, rays_b))
    E, mask = cv2.findEssentialMat(a, b, np.eye(3), method=cv2.USAC_MAGSAC, threshold=1.0 / focal, prob=0.999)
    if E is None or E.shape != (3, 3):
        return []
    _, R, direction, _ = cv2.recoverPose(E, a, b, np.eye(3), mask=mask)
    return [(np.asarray(R, np.float64), np.asarray(direction, np.float64)[:, 0])]


def _refine(
    R: Array, direction: Array, products: tuple[Array, Array, Array], focal: float, prior: MotionPrior | None
) -> tuple[Array, Array, Array, Array]:
    """Gauss-Newton on five angles from several starts [S] at once; the tolerance narrows as it goes.

    Every match counts as far as it is likely to be true.

    Returns:
        R [S, 3, 3], direction [S, 3], information [S, 5, 5], support [S]
    """
    information = np.zeros((len(R), 5, 5))
    for turn in range(REFINEMENTS):
        deviation = max(RESIDUAL, COARSE_RESIDUAL * 0.7**turn)
        residual = focal * _sampson(_essential(R, direction), products)
        peak = TRUE_SHARE * FALSE_RANGE / (deviation * np.sqrt(2 * np.pi))
        true = peak * np.exp(-0.5 * (residual / deviation) ** 2)
        trust = true / (true + 1 - TRUE_SHARE) / deviation**2
        R, direction, information = _stepped(R, direction, products, focal, prior, trust)
    residual = focal * _sampson(_essential(R, direction), products)
    support = _support(residual, RESIDUAL) - 0.5 * (_prior_residual(R, direction, prior) ** 2).sum(axis=-1)
    return R, direction, information, support


def _stepped(
    R: Array,
    direction: Array,
    products: tuple[Array, Array, Array],
    focal: float,
    prior: MotionPrior | None,
    weight: Array,
) -> tuple[Array, Array, Array]:
    """One step of Gauss-Newton on five angles with weights [S, M] of the squared residuals, and the information."""
    across = _across(direction)  # [S, 2, 3]
    skewed = _cross(direction)
    slopes = np.concatenate(  # of E, by five angles: [S, 5, 3, 3]
        [skewed[:, None] @ _cross(np.eye(3)) @ R[:, None], _cross(across) @ R[:, None]], axis=1
    )
    essential = skewed @ R
    size = _gradient_size(essential, products)[:, None] / focal  # [S, 1, M]
    stacked = np.concatenate([essential[:, None], slopes], axis=1).reshape(-1, 9) @ products[0].T
    stacked = stacked.reshape(len(R), 6, -1) / size
    residual, slope = stacked[:, 0], stacked[:, 1:]  # [S, M], [S, 5, M]
    weighted = slope * weight[:, None]
    known, known_slope = _prior_slopes(R, direction, across, prior)  # [S, P], [S, 5, P]
    information = weighted @ np.swapaxes(slope, 1, 2) + known_slope @ np.swapaxes(known_slope, 1, 2)
    information = information + 1e-6 * np.eye(5)
    gradient = weighted @ residual[:, :, None] + known_slope @ known[:, :, None]
    step = np.clip(-np.linalg.solve(information, gradient)[:, :, 0], -0.1, 0.1)  # [S, 5]
    return *_moved(R, direction, across, step), information


def _across(direction: Array) -> Array:
    """Two unit vectors across each direction [..., 3]: [..., 2, 3]."""
    helper = np.where(np.abs(direction[..., :1]) < 0.8, np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    first = _unit(np.cross(direction, helper))
    return np.stack([first, np.cross(direction, first)], axis=-2)


def _moved(R: Array, direction: Array, across: Array, step: Array) -> tuple[Array, Array]:
    """Turned by the first three of the step [..., 5], and the direction shifted aside by the last two."""
    turn = Rotation.from_rotvec(np.array(step[..., :3]).reshape(-1, 3)).as_matrix().reshape(*step.shape[:-1], 3, 3)
    return turn @ R, _unit(direction + (step[..., 3:, None] * across).sum(axis=-2))


def moved(pose: RelativePose, step: Array) -> tuple[Array, Array]:
    """Rotation and direction of a pose after a small step [5] in the coordinates of its covariance."""
    return _moved(pose.R_b_a, pose.direction, _across(pose.direction), step)


def _prior_slopes(R: Array, direction: Array, across: Array, prior: MotionPrior | None) -> tuple[Array, Array]:
    """What the prior says at each start [S, P], and how that changes with the five angles [S, 5, P]."""
    step = 1e-5
    steps = np.concatenate([np.zeros((1, 5)), step * np.eye(5)])  # [6, 5]
    shape = (len(R), 6)
    near = _moved(
        np.broadcast_to(R[:, None], (*shape, 3, 3)),
        np.broadcast_to(direction[:, None], (*shape, 3)),
        np.broadcast_to(across[:, None], (*shape, 2, 3)),
        np.broadcast_to(steps, (*shape, 5)),
    )
    known = _prior_residual(*near, prior)  # [S, 6, P]
    return known[:, 0], (known[:, 1:] - known[:, :1]) / step


def _prior_residual(R: Array, direction: Array, prior: MotionPrior | None) -> Array:
    """Deviations from what is known beforehand, in standard deviations: [..., P]."""
    if prior is not None:
        off = R @ prior.T_b_a[:3, :3].T
        turn = np.stack(
            [off[..., 2, 1] - off[..., 1, 2], off[..., 0, 2] - off[..., 2, 0], off[..., 1, 0] - off[..., 0, 1]], axis=-1
        )
        shift = (direction - _unit(prior.T_b_a[:3, 3])) / prior.translation_deviation
        return np.concatenate([turn / 2 / prior.rotation_deviation, shift], axis=-1)
    place = -(np.swapaxes(R, -1, -2) @ direction[..., None])[..., 0]
    place = place * np.where(place[..., 2:] >= 0, 1.0, -1.0)  # backwards is as good
    # How far the camera turned right, up, and about its axis.
    yaw = np.arctan2(R[..., 2, 0], R[..., 2, 2])
    pitch = np.arcsin(np.clip(-R[..., 2, 1], -1, 1))
    roll = np.arctan2(R[..., 0, 1], R[..., 1, 1])
    drift = np.arctan2(place[..., 0], place[..., 2]) - yaw / 2
    climb = np.arcsin(np.clip(place[..., 1], -1, 1)) + pitch / 2
    tolerant = np.sign(drift) * np.sqrt(5.0 * np.log1p((drift / DRIFT) ** 2 / 4))  # Student's t, 4 degrees of freedom
    return np.stack([roll / ROLL, pitch / PITCH, climb / CLIMB, tolerant], axis=-1)


def depths(R: Array, direction: Array, rays_a: Array, rays_b: Array) -> tuple[Array, Array]:
    """Depth of each match in both frames, in units of the distance moved: least squares of R a z_a + t = b z_b."""
    turned = rays_a @ R.T
    aa, bb, ab = (turned**2).sum(1), (rays_b**2).sum(1), (turned * rays_b).sum(1)
    at, bt = turned @ direction, rays_b @ direction
    determinant = np.maximum(aa * bb - ab**2, 1e-12)
    return (ab * bt - bb * at) / determinant, (aa * bt - ab * at) / determinant


def _in_front(R: Array, direction: Array, rays_a: Array, rays_b: Array) -> NDArray[np.bool_]:
    z_a, z_b = depths(R, direction, rays_a, rays_b)
    return np.asarray((z_a > 0) & (z_b > 0))


def _beyond_a_step(R: Array, direction: Array, rays_a: Array, rays_b: Array) -> NDArray[np.bool_]:
    z_a, z_b = depths(R, direction, rays_a, rays_b)
    return np.asarray((z_a > 1) & (z_b > 1))


def _unit(v: Array) -> Array:
    return np.asarray(v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12))
