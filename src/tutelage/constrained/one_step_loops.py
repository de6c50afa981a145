"""The loops of `constrained.one_step`: sums of smoothed maxima of affine functions, and their minimum in a box.

The advantage of choice c is affine[c] @ (1, u), with `affine` (C, k+1). Where one choice is clearly the best of its
state for every u nearby, its state is *settled*: its part of the sum is affine, and is added up once for many steps.
"""

import math

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.compiling import FASTMATH, compiled

# exp(x) of the distance to the best choice counts as zero below this.
LEAST = -36.0
# The least damping, in units of the residual and of the Hessian's diagonal.
FLAT, TINY = 1e-5, 1e-14
# The least share of the predicted decrease for a step to be taken, and the rounding error of a decrease.
ENOUGH, ROUNDED = 1e-4, 1e-15
# States are settled for as far as this many times the last step, and anew where steps are this share of that.
FURTHER, CLOSER = 4.0, 0.05


@compiled(fastmath=FASTMATH)
def _advantage(affine: Matrix, c: int, u: Vector) -> float:
    total = affine[c, 0]
    for j in range(len(u)):
        total += affine[c, j + 1] * u[j]
    return float(total)


@compiled(fastmath=FASTMATH)
def smooth_policy(first: Indices, affine: Matrix, u: Vector, width: float, least: float) -> Vector:
    """(C,), proportional to exp(advantage / width) within each state; zero below `least` of the best choice's."""
    policy, lowest = np.empty(len(affine)), max(math.log(least), LEAST)
    for s in range(len(first) - 1):
        best, total = -math.inf, 0.0
        for c in range(first[s], first[s + 1]):
            policy[c] = _advantage(affine, c, u)
            best = max(best, policy[c])
        for c in range(first[s], first[s + 1]):
            below = (policy[c] - best) / width
            policy[c] = math.exp(below) if below > lowest else 0.0
            total += policy[c]
        for c in range(first[s], first[s + 1]):
            policy[c] /= total
    return policy


@compiled(fastmath=FASTMATH)
def _settle(
    first: Indices, affine: Matrix, visits: Vector, u: Vector, reach: float, radius: float, states: Indices, n: int
) -> tuple[int, Vector]:
    """Keep, of the first n states, those that are not settled within `radius` of u, and return their number.

    reach: how far below the best a choice counts. The second result is (k+1,), what the others add to the sum:
    visits * affine of their best choices.
    """
    k, n_open = len(u), 0
    settled = np.zeros(k + 1)
    for i in range(n):
        s = states[i]
        best, leader = -math.inf, int(first[s])
        for c in range(first[s], first[s + 1]):
            total = _advantage(affine, c, u)
            if total > best:
                best, leader = total, c
        is_settled = True
        for c in range(first[s], first[s + 1]):
            apart = 0.0
            for j in range(1, k + 1):
                apart += abs(affine[leader, j] - affine[c, j])
            if c != leader and not best - _advantage(affine, c, u) > radius * apart + reach:
                is_settled = False
                break
        if is_settled:
            for j in range(k + 1):
                settled[j] += visits[s] * affine[leader, j]
        else:
            states[n_open] = s
            n_open += 1
    return n_open, settled


@compiled(fastmath=FASTMATH)
def smooth_maxima(
    first: Indices, affine: Matrix, visits: Vector, states: Indices, u: Vector, width: float
) -> tuple[float, Vector, Matrix]:
    """sum over the states of visits(s) * width * log sum over c of exp(affine[c] @ (1, u) / width).

    Returns the sum, its gradient and its Hessian in u.
    """
    k = len(u)
    value, gradient, hessian, mean = 0.0, np.zeros(k), np.zeros((k, k)), np.empty(k)
    share = np.empty(int((first[1:] - first[:-1]).max()))
    for s in states:
        begin, end, here = int(first[s]), int(first[s + 1]), visits[s]
        best, second, leader = -math.inf, -math.inf, begin
        for c in range(begin, end):
            total = _advantage(affine, c, u)
            share[c - begin] = total
            if total > best:
                best, second, leader = total, best, c
            elif total > second:
                second = total
        value += here * best
        if second - best < LEAST * width:
            for j in range(k):
                gradient[j] += here * affine[leader, j + 1]
            continue
        total = 0.0
        for i in range(end - begin):
            below = (share[i] - best) / width
            share[i] = math.exp(below) if below > LEAST else 0.0
            total += share[i]
        value += here * width * math.log(total)
        mean[:] = 0.0
        for i in range(end - begin):
            share[i] /= total
            for j in range(k):
                mean[j] += share[i] * affine[begin + i, j + 1]
        for j in range(k):
            gradient[j] += here * mean[j]
        for i in range(end - begin):
            if share[i] > 0.0:
                for a in range(k):
                    off = here * share[i] / width * (affine[begin + i, a + 1] - mean[a])
                    for b in range(a + 1):
                        hessian[a, b] += off * (affine[begin + i, b + 1] - mean[b])
    for a in range(k):
        for b in range(a):
            hessian[b, a] = hessian[a, b]
    return value, gradient, hessian


@compiled(fastmath=FASTMATH)
def _solved(matrix: Matrix, right: Vector, is_free: Flags) -> Vector:
    """matrix @ x = right in the free entries, for a positive definite matrix; zero in the others."""
    k = len(right)
    left, x = matrix.copy(), np.where(is_free, right, 0.0)
    for i in range(k):
        for j in range(i + 1, k):
            if is_free[i] and is_free[j]:
                factor = left[j, i] / left[i, i]
                for m in range(i, k):
                    left[j, m] -= factor * left[i, m]
                x[j] -= factor * x[i]
    for i in range(k - 1, -1, -1):
        if is_free[i]:
            for m in range(i + 1, k):
                x[i] -= left[i, m] * x[m]
            x[i] /= left[i, i]
    return x


@compiled(fastmath=FASTMATH)
def _newton_step(gradient: Vector, hessian: Matrix, u: Vector, lower: Vector, upper: Vector) -> Vector:
    """The Newton step within the box: an entry that would leave it stops at its bound, and the others follow."""
    k = len(u)
    step, is_free = np.zeros(k), np.empty(k, np.bool_)
    for j in range(k):
        is_free[j] = not ((u[j] <= lower[j] and gradient[j] >= 0.0) or (u[j] >= upper[j] and gradient[j] <= 0.0))
    is_inside = False
    while not is_inside:
        right = -gradient
        for i in range(k):
            for j in range(k):
                if not is_free[j]:
                    right[i] -= hessian[i, j] * step[j]
        full = _solved(hessian, right, is_free)
        is_inside = True
        for j in range(k):
            if is_free[j] and not lower[j] <= u[j] + full[j] <= upper[j]:
                step[j] = (lower[j] if u[j] + full[j] < lower[j] else upper[j]) - u[j]
                is_free[j] = is_inside = False
        if is_inside:
            for j in range(k):
                step[j] = full[j] if is_free[j] else step[j]
    return step


@compiled(fastmath=FASTMATH)
def _predicted(gradient: Vector, hessian: Matrix, step: Vector) -> float:
    """The decrease of the second-order model."""
    decrease = 0.0
    for i in range(len(step)):
        decrease -= gradient[i] * step[i]
        for j in range(len(step)):
            decrease -= 0.5 * step[i] * hessian[i, j] * step[j]
    return decrease


@compiled(fastmath=FASTMATH)
def least_smooth_maxima(
    first: Indices,
    affine: Matrix,
    visits: Vector,
    slope: Vector,
    curvature: Vector,
    lower: Vector,
    upper: Vector,
    start: Vector,
    width: float,
    tolerance: float,
    max_steps: int,
) -> tuple[Vector, bool]:
    """The minimum u in the box of `smooth_maxima` over all states + slope @ u + 1/2 curvature @ u^2, and if it is one.

    Newton steps, with a damping that grows where the decrease is far from the predicted one. tolerance: of the
    residual u - (u - gradient clipped to the box).
    """
    k, n_states = len(start), len(visits)
    u, centre, damping, radius = start.copy(), start.copy(), 0.0, math.inf
    states, n_open, settled = np.arange(n_states), n_states, np.zeros(k + 1)
    value, gradient, hessian = smooth_maxima(first, affine, visits, states, u, width)
    value += np.sum(slope * u + 0.5 * curvature * u * u)
    gradient += slope + curvature * u
    for _ in range(max_steps):
        residual = np.abs(u - np.minimum(np.maximum(u - gradient, lower), upper)).max()
        if residual <= tolerance:
            return u, True
        largest = (np.diag(hessian) + curvature).max()
        damping = max(damping, FLAT * residual, TINY * largest)
        curved = hessian + np.diag(curvature + damping)
        step = _newton_step(gradient, curved, u, lower, upper)
        there, length = u + step, np.abs(step).max()
        if not np.abs(there - centre).max() <= radius or length < CLOSER * radius:
            if not np.abs(u - centre).max() + FURTHER * length <= radius:
                states, n_open, settled = np.arange(n_states), n_states, np.zeros(k + 1)
            centre, radius = u.copy(), FURTHER * length
            n_open, more = _settle(first, affine, visits, u, -LEAST * width, radius, states, n_open)
            settled += more
        new_value, new_gradient, new_hessian = smooth_maxima(first, affine, visits, states[:n_open], there, width)
        new_value += settled[0] + np.sum((settled[1:] + slope) * there + 0.5 * curvature * there * there)
        predicted = _predicted(gradient, curved, step) + 0.5 * damping * np.sum(step * step)
        decrease = value - new_value
        if decrease >= ENOUGH * predicted - ROUNDED * (1 + abs(value)):
            damping *= 0.1 if decrease >= 0.75 * predicted else 0.5 if decrease >= 0.25 * predicted else 2.0
            u, value, hessian = there, new_value, new_hessian
            gradient = new_gradient + settled[1:] + slope + curvature * there
        else:
            damping = max(5 * damping, 1e-5 * largest)
    return u, False
