"""Proven upper bounds on how much a linear layer can stretch its input.

The contractive fields stand on these: a bound that is too low by a hair makes Theorem 1 false, so nothing
here is estimated by power iteration, and the spectral norm of the reshaped kernel (not a bound) is not used.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from robustmat.models.solvers import SolverConfig

GRID = 8  # frequencies per axis; the bound is within 1 / cos(pi / 8)^2 = 1.17 of the true supremum
ROUNDING = 1.0 + 1e-5  # floating-point slack of the singular values


def matrix_bound(weight: Tensor) -> Tensor:
    """The largest singular value of `weight` [out, in]."""
    norm: Tensor = torch.linalg.matrix_norm(weight, ord=2)
    return norm * ROUNDING


def convolution_bound(kernel: Tensor) -> Tensor:
    """An upper bound on the operator norm of a zero-padded, stride-1 convolution with `kernel` [out, in, k, k].

    On the infinite plane the norm is the supremum over frequencies of the largest singular value of the
    kernel's transform; zero padding only cuts inputs and outputs off, which cannot raise it. For unit u, v the
    function u* transform(w) v is a trigonometric polynomial of degree d = (k - 1) / 2 in each of the two
    frequencies (up to a phase), and by M. Riesz such a polynomial, sampled at N > 2 d equispaced points per
    axis, exceeds its largest sample at most by the factor 1 / cos(pi d / N) per axis.
    """
    size = kernel.shape[-1]
    degree = (size - 1) / 2
    grid = max(GRID, 4 * math.ceil(degree))
    transform = torch.fft.rfft2(kernel, s=(grid, grid))  # [out, in, N, N/2 + 1]: real kernels are symmetric
    matrices = transform.permute(2, 3, 0, 1).flatten(0, 1)
    with torch.no_grad():  # only the largest has a gradient: find it first, differentiate it alone
        largest = torch.linalg.matrix_norm(matrices, ord=2).argmax()
    norm: Tensor = torch.linalg.matrix_norm(matrices[largest], ord=2)
    return norm / math.cos(math.pi * degree / grid) ** 2 * ROUNDING


def diagonal_bound(kernel: Tensor) -> Tensor:
    """A diagonal t [out] with K K' <= diag(t), K the zero-padded, stride-1 convolution with `kernel` [out, in, k, k].

    On the infinite plane K K' is a convolution with the kernel's correlations; a symmetric matrix is at most the
    diagonal of its rows' absolute sums (Gershgorin; Prach and Lampert 2022). Zero padding only cuts inputs and outputs
    off. It costs one small convolution and has a slope everywhere.
    """
    correlations = torch.nn.functional.conv2d(kernel, kernel, padding=kernel.shape[-1] - 1)
    return correlations.abs().sum(dim=(1, 2, 3)).clamp(min=1e-12) * ROUNDING**2


def at_most(weight: Tensor, bound: Tensor, limit: float) -> Tensor:
    """`weight`, scaled down where its `bound` exceeds `limit`, else as it is."""
    return weight * (limit / bound.clamp(min=limit))


# Explicit Runge-Kutta methods: what each stage takes of the slopes before it, and the weights of all slopes.
TABLEAUS: dict[str, tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]] = {
    "euler": (((),), (1.0,)),
    "midpoint": (((), (1 / 2,)), (0.0, 1.0)),
    "rk4": (((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}


def flow_bound(decay: float, lipschitz: float, end_time: float, solver: "SolverConfig") -> float:
    """The most that a solved flow of -decay z + N(z) stretches the difference of two states, Lip(N) <= `lipschitz`.

    Exactly solved it is exp((lipschitz - decay) end_time). Fixed steps have their own: every stage is a combination of
    the first state, whose factor is exact, and of values of N, each of which stretches by at most `lipschitz`.
    """
    if solver.adaptive:
        return math.exp((lipschitz - decay) * end_time)
    step = solver.step_size(end_time)
    stages, weights = TABLEAUS[solver.name]
    stretch: list[float] = []  # of each stage's state
    slopes: list[list[float]] = []  # of each stage: what it takes of the first state, and of each value of N

    def state(taken: tuple[float, ...]) -> list[float]:
        combined = [1.0] + [0.0] * len(stages)
        for factor, slope in zip(taken, slopes, strict=False):
            combined = [own + step * factor * part for own, part in zip(combined, slope, strict=True)]
        return combined

    def growth(combined: list[float]) -> float:
        first, *values = combined
        return abs(first) + sum(abs(part) * lipschitz * known for part, known in zip(values, stretch, strict=False))

    for number, taken in enumerate(stages):
        combined = state(taken)
        stretch.append(growth(combined))
        slope = [-decay * part for part in combined]
        slope[1 + number] += 1.0
        slopes.append(slope)
    return float(growth(state(weights)) ** round(end_time / step))


class Bounded:
    """Weights scaled down to at most `limit` each, remembered until they change.

    The bounds cost far more than a look at the weights, and matching never changes them. Where gradients are
    wanted nothing is remembered, since they flow through the bounds.
    """

    def __init__(self, bound: Callable[[Tensor], Tensor], limit: float) -> None:
        self.bound, self.limit = bound, limit
        self._weights: tuple[Tensor, ...] = ()
        self._scaled: tuple[Tensor, ...] = ()

    def __call__(self, *weights: Tensor) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return self._scale(weights)
        if not self._knows(weights):
            with torch.inference_mode(False), torch.no_grad():  # what is kept may serve training code, too
                self._weights, self._scaled = tuple(weight.detach().clone() for weight in weights), self._scale(weights)
        return self._scaled

    def _scale(self, weights: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(at_most(weight, self.bound(weight), self.limit) for weight in weights)

    def _knows(self, weights: tuple[Tensor, ...]) -> bool:
        # By value, not by version or address: writing to `.data` leaves both as they were.
        return len(self._weights) == len(weights) and all(
            kept.device == weight.device and kept.dtype == weight.dtype and torch.equal(kept, weight)
            for kept, weight in zip(self._weights, weights, strict=True)
        )
