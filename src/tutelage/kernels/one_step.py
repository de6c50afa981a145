"""The loops of `solvers.one_step`: a sum over states of smoothed maxima of affine functions, with its derivatives."""

import math

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.kernels import FASTMATH, compiled

# exp(x) of the best choice's distance counts as zero below this.
LEAST = -36.0


@compiled(fastmath=FASTMATH)
def smooth_policy_range(
    first: Indices, base: Vector, slope: Matrix, u: Vector, width: float, policy: Vector, low: int, high: int
) -> None:
    """policy(c) proportional to exp((base(c) + slope(c) @ u) / width) within each of the states low .. high."""
    for s in range(low, high):
        best = -math.inf
        for c in range(first[s], first[s + 1]):
            total = base[c]
            for j in range(len(u)):
                total += slope[c, j] * u[j]
            policy[c] = total
            best = max(best, total)
        total = 0.0
        for c in range(first[s], first[s + 1]):
            below = (policy[c] - best) / width
            policy[c] = math.exp(below) if below > LEAST else 0.0
            total += policy[c]
        for c in range(first[s], first[s + 1]):
            policy[c] /= total


@compiled(fastmath=FASTMATH)
def smooth_maxima_range(
    first: Indices,
    base: Vector,
    slope: Matrix,
    visits: Vector,
    u: Vector,
    width: float,
    scratch: Vector,
    low: int,
    high: int,
) -> tuple[float, Vector, Matrix]:
    """sum over the states low .. high of visits(s) * width * log sum over c of exp((base(c) + slope(c) @ u) / width).

    Returns the sum, its gradient and its Hessian in u. scratch: (C,), overwritten.
    """
    k = len(u)
    value, gradient, hessian, mean = 0.0, np.zeros(k), np.zeros((k, k)), np.empty(k)
    for s in range(low, high):
        begin, end = int(first[s]), int(first[s + 1])
        best, leader = -math.inf, begin
        for c in range(begin, end):
            total = base[c]
            for j in range(k):
                total += slope[c, j] * u[j]
            scratch[c] = total
            if total > best:
                best, leader = total, c
        here = visits[s]
        value += here * best
        total, n_near = 0.0, 0
        for c in range(begin, end):
            below = (scratch[c] - best) / width
            scratch[c] = math.exp(below) if below > LEAST else 0.0
            total += scratch[c]
            n_near += below > LEAST
        if n_near == 1:
            for j in range(k):
                gradient[j] += here * slope[leader, j]
            continue
        value += here * width * math.log(total)
        mean[:] = 0.0
        for c in range(begin, end):
            for j in range(k):
                mean[j] += scratch[c] / total * slope[c, j]
        for j in range(k):
            gradient[j] += here * mean[j]
        for c in range(begin, end):
            weight = here * scratch[c] / (total * width)
            if weight > 0.0:
                for i in range(k):
                    off = weight * (slope[c, i] - mean[i])
                    for j in range(i + 1):
                        hessian[i, j] += off * (slope[c, j] - mean[j])
    for i in range(k):
        for j in range(i):
            hessian[j, i] = hessian[i, j]
    return value, gradient, hessian
