"""Poses that agree with measured steps between neighbours and, as far as those allow, with the poses given."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix
from scipy.sparse.linalg import spsolve
from scipy.spatial.transform import Rotation

from robustmat.types import Array

ITERATIONS = 8
CONVERGED = 1e-7  # metres and radians


@dataclass(frozen=True)
class Spread:
    """Standard deviations of poses or steps: metres [N] and radians [N]."""

    metres: Array
    radians: Array


def solve_chain(given: Array, prior: Spread, steps: Array, step: Spread) -> Array:
    """T_world_body [N, 4, 4] of least squares, from given poses [N, 4, 4] and steps T_i_next [N - 1, 4, 4].

    Gauss-Newton; a pose changes by a small motion in its own axes. The unknowns form a chain, so the sparse
    system takes time in proportion to N.
    """
    poses = given.copy()
    if len(given) < 2:
        return poses
    weight_prior = 1 / np.concatenate([_thrice(prior.metres), _thrice(prior.radians)], axis=1)
    weight_step = 1 / np.concatenate([_thrice(step.metres), _thrice(step.radians)], axis=1)
    for _ in range(ITERATIONS):
        change = _newton_step(poses, given, weight_prior, steps, weight_step)
        poses = _moved(poses, change)
        if np.abs(change).max() < CONVERGED:
            break
    return poses


def _thrice(values: Array) -> Array:
    return np.repeat(values[:, None], 3, axis=1)


def _newton_step(poses: Array, given: Array, weight_prior: Array, steps: Array, weight_step: Array) -> Array:
    """The motion [N, 6] (metres and radians in a pose's own axes) that lowers the squared residuals most."""
    count = len(poses)
    rotation, position = poses[:, :3, :3], poses[:, :3, 3]
    turned = np.swapaxes(rotation, 1, 2)  # world to body
    identity = np.broadcast_to(np.eye(3), (count, 3, 3))

    # Prior: where the pose is against where it was given, in the pose's own axes.
    prior_residual = np.concatenate(
        [
            np.einsum("nij,nj->ni", turned, position - given[:, :3, 3]),
            _log(np.swapaxes(given[:, :3, :3], 1, 2) @ rotation),
        ],
        axis=1,
    )
    # Step: the way from a pose to the next one against the measured way.
    way = np.einsum("nij,nj->ni", turned[:-1], position[1:] - position[:-1])
    turn = turned[:-1] @ rotation[1:]
    step_residual = np.concatenate([way - steps[:, :3, 3], _log(np.swapaxes(steps[:, :3, :3], 1, 2) @ turn)], axis=1)
    by_first = np.zeros((count - 1, 6, 6))  # derivative by the motion of the earlier pose
    by_first[:, :3, :3] = -identity[1:]
    by_first[:, :3, 3:] = _skew(way)
    by_first[:, 3:, 3:] = -np.swapaxes(turn, 1, 2)
    by_second = np.zeros((count - 1, 6, 6))
    by_second[:, :3, :3] = turn
    by_second[:, 3:, 3:] = identity[1:]

    first, second = weight_step[:, :, None] * by_first, weight_step[:, :, None] * by_second
    residual = weight_step * step_residual
    diagonal = np.einsum("ni,ij->nij", weight_prior**2, np.eye(6))
    diagonal[:-1] += np.swapaxes(first, 1, 2) @ first
    diagonal[1:] += np.swapaxes(second, 1, 2) @ second
    above = np.swapaxes(first, 1, 2) @ second
    gradient = weight_prior**2 * prior_residual
    gradient[:-1] += np.einsum("nji,nj->ni", first, residual)
    gradient[1:] += np.einsum("nji,nj->ni", second, residual)
    return np.asarray(-spsolve(_tridiagonal(diagonal, above), gradient.ravel()).reshape(count, 6))


def _tridiagonal(diagonal: Array, above: Array) -> bsr_matrix:
    """The symmetric block matrix of N diagonal blocks and N - 1 blocks above it."""
    count = len(diagonal)
    blocks, columns, starts = [], [], [0]
    below = np.swapaxes(above, 1, 2)
    for i in range(count):
        row = [(i - 1, below[i - 1])] if i else []
        row.append((i, diagonal[i]))
        if i + 1 < count:
            row.append((i + 1, above[i]))
        columns += [column for column, _ in row]
        blocks += [block for _, block in row]
        starts.append(len(columns))
    return bsr_matrix((np.array(blocks), columns, starts), shape=(6 * count, 6 * count)).tocsc()


def _moved(poses: Array, change: Array) -> Array:
    """Each pose [N, 4, 4] after the motion [N, 6] in its own axes."""
    moved = poses.copy()
    moved[:, :3, 3] += np.einsum("nij,nj->ni", poses[:, :3, :3], change[:, :3])
    moved[:, :3, :3] = poses[:, :3, :3] @ Rotation.from_rotvec(change[:, 3:]).as_matrix()
    return moved


def _log(rotations: Array) -> Array:
    return np.asarray(Rotation.from_matrix(rotations).as_rotvec())


def _skew(vectors: Array) -> Array:
    """[N, 3, 3] with skew(v) w = v x w."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    return np.asarray(np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3))


def angle_between(a: Array, b: Array) -> Array:
    """Radians [N] between the rotations of two lists of poses [N, 4, 4]."""
    return np.asarray(Rotation.from_matrix(np.swapaxes(a[:, :3, :3], 1, 2) @ b[:, :3, :3]).magnitude())
