"""The camera's pose from where known things appear in its picture: robust least squares with a prior.

A pose is moved in the camera's own axes, T <- T exp(delta) with delta = (right, down, forward; turns about them). The
prior says that a vehicle stands on the ground: the height, pitch and roll of the map's camera, within a little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from robustmat.types import Array, Box, Camera, Landmark

# One standard deviation of where the camera may be, relative to a keyframe: metres, then radians.
GROUND_PRIOR = np.array([3.0, 0.15, 12.0, *np.radians([1.5, 12.0, 1.5])])
BORDER = 2.0  # pixels; an edge this near to the border of the picture is cut off
TAIL = 2.0  # standard deviations from which on an observation loses weight
AGREES = 3.0  # standard deviations within which a landmark agrees with a pose
MOST_PAIRS = 40
ASSUMED = 3.0  # observations that the assumed spread counts for beside those of the picture
NEAREST = 0.5  # metres in front of the camera
BEHIND = 10.0  # standard deviations that a point behind the camera is off
LONGEST_STEP = np.array([2.0, 0.5, 5.0, 0.1, 0.2, 0.1])  # metres, radians


@dataclass(frozen=True)
class Prior:
    """A pose and the inverse of its covariance, in the axes of that pose.

    `shares_errors` says that it errs together with what is observed: frames of a drive see the same landmarks, whose
    places and boxes are off by the same. Covariance intersection then keeps the sum from being too sure.
    """

    T_world_camera: Array
    information: Array  # [6, 6]
    shares_errors: bool = False


@dataclass(frozen=True)
class Observations:
    """Where points of the world appear in a picture: one column or row each, with its standard deviation."""

    points: Array  # [M, 3], world
    pixels: Array  # [M]
    axis: NDArray[np.intp]  # [M], 0 a column, 1 a row
    spread: Array  # [M], pixels
    landmark: NDArray[np.intp]  # [M], which landmark of the picture said so
    weight: Array  # [M], less than one where several keyframes say the same

    def of(self, chosen: NDArray[np.bool_]) -> "Observations":
        return Observations(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PoseEstimate:
    """A pose with its covariance in the pose's own axes, and which landmarks agree with it."""

    T_world_camera: Array
    covariance: Array  # [6, 6]: metres, radians
    agreeing: tuple[int, ...]
    keypoints: int  # that agree, too
    residual: float  # what is left over, in standard deviations as they were assumed


def ground_prior(T_world_camera: Array) -> Prior:
    return Prior(T_world_camera, np.diag(1 / GROUND_PRIOR**2))


def observe(
    seen: Sequence[tuple[int, Landmark, Landmark]], T_world_keyframe: Array, keyframe: Camera, camera: Camera
) -> Observations:
    """What matched landmarks say about the pose.

    Args:
        seen: number of the landmark in the picture, the landmark there, and in the keyframe, with its place.
    """
    rows = []
    for number, here, there in seen:
        if there.position is None:
            continue
        place = _in_camera(T_world_keyframe, np.array(there.position))
        depth = place[2]
        if depth < NEAREST:
            continue
        middle = (there.box[0] + there.box[2]) / 2, (there.box[1] + there.box[3]) / 2
        expected = (keyframe.matrix @ place)[:2] / depth
        # Where place and box of the keyframe disagree, the place is not better known than that.
        doubt = abs(expected[0] - middle[0]) / keyframe.matrix[0, 0] * depth
        metres = np.hypot(0.05, doubt) + 0.003 * depth
        width, height = here.box[2] - here.box[0], here.box[3] - here.box[1]
        whole_here, whole_there = _whole_edges(here.box, camera), _whole_edges(there.box, keyframe)
        loose = 0.2 if here.category == "pole" else 0.04  # how much of a pole is seen changes
        told = [
            (0, middle[0], middle[1], (here.box[0] + here.box[2]) / 2, whole_here[0] and whole_there[0], 0.06 * width),
            (1, middle[0], there.box[1], here.box[1], whole_here[1] and whole_there[1], loose * height),
            (1, middle[0], there.box[3], here.box[3], whole_here[2] and whole_there[2], loose * height),
        ]
        for axis, column, row, pixel, whole, vague in told:
            if whole:
                ray = np.linalg.solve(keyframe.matrix, (column, row, 1.0))
                point = T_world_keyframe[:3, :3] @ (ray * depth) + T_world_keyframe[:3, 3]
                spread = np.sqrt(1.5**2 + vague**2 + (camera.matrix[0, 0] * metres / depth) ** 2)
                rows.append((*point, pixel, axis, spread, number))
    table = np.array(rows, float).reshape(-1, 7)
    landmark = table[:, 6].astype(np.intp)
    return Observations(
        table[:, :3], table[:, 3], table[:, 4].astype(np.intp), table[:, 5], landmark, np.ones(len(table))
    )


def join(parts: Sequence[Observations]) -> Observations:
    """Observations of several keyframes together: of a landmark that n of them explain, each counts 1 / n."""
    saying = np.zeros(1 + max(int(part.landmark.max(initial=0)) for part in parts))
    for part in parts:
        saying[np.unique(part.landmark[part.landmark >= 0])] += 1
    landmark = np.concatenate([part.landmark for part in parts])
    return Observations(
        points=np.concatenate([part.points for part in parts]),
        pixels=np.concatenate([part.pixels for part in parts]),
        axis=np.concatenate([part.axis for part in parts]),
        spread=np.concatenate([part.spread for part in parts]),
        landmark=landmark,
        weight=np.concatenate([part.weight for part in parts])
        / np.where(landmark >= 0, np.maximum(saying[np.maximum(landmark, 0)], 1), 1.0),
    )


def estimate_pose(
    observed: Observations, camera: Camera, prior: Prior, least: int = 3, start: Array | None = None
) -> PoseEstimate | None:
    """The pose that most landmarks agree with; None if fewer than `least` do.

    Every pair of landmarks proposes a pose, unless there is a `start`; the one that most others agree with is
    refined by all of them. Numbers of landmarks below zero are keypoints.
    """
    landmarks = np.unique(observed.landmark)
    if len(landmarks) < least:
        return None
    proposed = _proposals(observed, camera, prior, landmarks) if start is None else start[None]
    off = _off(observed, camera, proposed, landmarks)  # [H, L]
    best = np.maximum(0.0, 1 - (off / AGREES) ** 2).sum(axis=1).argmax()
    refined, _ = _solve(observed, camera, prior, proposed[[best]], observed.weight[None], steps=10, robust=True)
    agrees = _off(observed, camera, refined, landmarks)[0] < AGREES
    if agrees.sum() < least:
        return None
    trusted = observed.of(np.isin(observed.landmark, landmarks[agrees]))
    poses, information = _solve(trusted, camera, prior, refined, trusted.weight[None], steps=10, robust=True)
    residual, _ = _residuals(trusted, camera, poses)
    # Boxes drawn better or worse than assumed show in what is left over.
    left = (float(trusted.weight @ residual[0] ** 2) + ASSUMED) / (float(trusted.weight.sum()) + ASSUMED)
    turn = _turn(prior, poses)[0]
    own = turn.T @ prior.information @ turn
    counted = 0.5 if prior.shares_errors else 1.0
    covariance = np.asarray(np.linalg.inv(counted * ((information[0] - own) / left + own)), float)
    agreeing = landmarks[agrees]
    boxes = tuple(agreeing[agreeing >= 0].tolist())
    return PoseEstimate(poses[0], covariance, boxes, int((agreeing < 0).sum()), float(np.sqrt(left)))


def _proposals(observed: Observations, camera: Camera, prior: Prior, landmarks: NDArray[np.intp]) -> Array:
    """Poses that pairs of landmarks propose: [H, 4, 4]."""
    pairs = list(combinations(landmarks.tolist(), 2)) or [(landmarks[0], landmarks[0])]
    pairs = [pairs[i] for i in np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_PAIRS)).astype(int)]
    asked = np.stack([np.isin(observed.landmark, pair) for pair in pairs])  # [H, M]
    starts = np.repeat(prior.T_world_camera[None], len(pairs), axis=0)
    return _solve(observed, camera, prior, starts, asked * observed.weight, steps=5)[0]


def move(T_world_camera: Array, delta: Array) -> Array:
    """T exp(delta), for poses [..., 4, 4] and steps [..., 6]."""
    step = np.zeros((*delta.shape[:-1], 4, 4))
    turn = Rotation.from_rotvec(delta[..., 3:].reshape(-1, 3)).as_matrix()
    step[..., :3, :3] = turn.reshape(*delta.shape[:-1], 3, 3)
    step[..., :3, 3], step[..., 3, 3] = delta[..., :3], 1.0
    return np.asarray(T_world_camera @ step)


def difference(T_world_a: Array, T_world_b: Array) -> Array:
    """delta with T_world_a exp(delta) = T_world_b, for poses [..., 4, 4]: [..., 6]."""
    T_a_b = np.linalg.inv(T_world_a) @ T_world_b
    turn = Rotation.from_matrix(T_a_b[..., :3, :3].reshape(-1, 3, 3)).as_rotvec().reshape(*T_a_b.shape[:-2], 3)
    return np.concatenate([T_a_b[..., :3, 3], turn], axis=-1)


def _solve(
    observed: Observations,
    camera: Camera,
    prior: Prior,
    poses: Array,
    weight: Array,
    steps: int,
    *,
    robust: bool = False,
) -> tuple[Array, Array]:
    """Gauss-Newton from H poses [H, 4, 4] at once, each with weights of its own [H, M].

    Returns:
        The poses, and the information at them [H, 6, 6].
    """
    information = np.zeros((len(poses), 6, 6))
    for _ in range(steps):
        residual, jacobian = _residuals(observed, camera, poses)
        trust = weight / (1 + (residual / TAIL) ** 2) if robust else weight
        off = difference(prior.T_world_camera, poses)  # [H, 6]
        turn = _turn(prior, poses)
        own = turn.transpose(0, 2, 1) @ prior.information
        weighed = trust[..., None] * jacobian
        information = weighed.transpose(0, 2, 1) @ jacobian + own @ turn
        slope = (weighed * residual[..., None]).sum(axis=1) + (own @ off[..., None])[..., 0]
        delta = -np.linalg.solve(information, slope[..., None])[..., 0]
        delta = np.clip(delta, -LONGEST_STEP, LONGEST_STEP)
        poses = move(poses, delta)
        if np.abs(delta).max() < 1e-5:
            break
    return poses, information


def _turn(prior: Prior, poses: Array) -> Array:
    """How a step of each pose moves it relative to the prior: [H, 6, 6]."""
    turn = np.broadcast_to(np.eye(6), (len(poses), 6, 6)).copy()
    turn[:, :3, :3] = prior.T_world_camera[:3, :3].T @ poses[:, :3, :3]
    return turn


def _residuals(observed: Observations, camera: Camera, poses: Array) -> tuple[Array, Array]:
    """At poses [H, 4, 4]: residuals in standard deviations [H, M], and their derivatives by delta [H, M, 6]."""
    points = (observed.points[None] - poses[:, None, :3, 3]) @ poses[:, :3, :3]  # [H, M, 3], camera
    front = points[..., 2] > NEAREST
    depth = np.where(front, points[..., 2], NEAREST)
    focal = np.array([camera.matrix[0, 0], camera.matrix[1, 1]])[observed.axis]
    center = np.array([camera.matrix[0, 2], camera.matrix[1, 2]])[observed.axis]
    side = np.where(observed.axis == 0, points[..., 0], points[..., 1])
    residual = (focal * side / depth + center - observed.pixels) / observed.spread
    across = np.where(observed.axis == 0, focal / depth, 0.0)
    down = np.where(observed.axis == 1, focal / depth, 0.0)
    away = -focal * side / depth**2
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    # d points / d delta = [-I, [points]_x]
    jacobian = np.stack(
        [-across, -down, -away, down * z - away * y, away * x - across * z, across * y - down * x], axis=-1
    )
    jacobian = jacobian / observed.spread[:, None]
    return np.where(front, residual, BEHIND), np.where(front[..., None], jacobian, 0.0)


def _off(observed: Observations, camera: Camera, poses: Array, landmarks: NDArray[np.intp]) -> Array:
    """How far each landmark is from where poses expect it, root mean square in standard deviations: [H, L]."""
    residual, _ = _residuals(observed, camera, poses)
    member = observed.landmark[:, None] == landmarks  # [M, L]
    return np.asarray(np.sqrt(residual**2 @ member / np.maximum(member.sum(axis=0), 1)))


def _whole_edges(box: Box, camera: Camera) -> tuple[bool, bool, bool]:
    """Whether the middle column, the top and the bottom of a box are those of the object, not the picture's border."""
    sides = box[0] > BORDER and box[2] < camera.width - BORDER
    return sides, box[1] > BORDER, box[3] < camera.height - BORDER


def _in_camera(T_world_camera: Array, point: Array) -> Array:
    return np.asarray(T_world_camera[:3, :3].T @ (point - T_world_camera[:3, 3]))
