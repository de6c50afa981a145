"""I - discount * P split into triangular parts, and the loops of a Krylov method that they precondition.

Divided by its diagonal, the matrix is I - L - U - E. L has the entries to earlier states of the same block, U those to
later states of the block, and E those to states outside the block.
"""

from typing import Any, TypeAlias

import numpy as np

from tutelage.arrays import Indices, Vector
from tutelage.compiling import FASTMATH, compiled

# Row starts, columns and entries of a sparse matrix.
Rows: TypeAlias = tuple[Indices, Indices, Vector]
# One array for each of L, U and E.
PerPart: TypeAlias = tuple[Any, Any, Any]
Shares: TypeAlias = tuple[float, float, float]


@compiled()
def count_parts(row: Indices, column: Indices, first: Indices, counts: PerPart, low: int, high: int) -> None:
    """For each state s of the block low .. high, the number of its entries in each part, into [s + 1] of `counts`."""
    lower, upper, outside = counts
    for s in range(low, high):
        n_lower = n_upper = n_outside = 0
        for k in range(row[first[s]], row[first[s + 1]]):
            j = np.int64(column[k])
            if j < low or j >= high:
                n_outside += 1
            elif j < s:
                n_lower += 1
            elif j > s:
                n_upper += 1
        lower[s + 1] = n_lower
        upper[s + 1] = n_upper
        outside[s + 1] = n_outside


@compiled()
def fill_columns(
    row: Indices, column: Indices, first: Indices, starts: PerPart, columns: PerPart, low: int, high: int
) -> None:
    """The columns of each part, in the order of the entries."""
    lower_column, upper_column, outside_column = columns
    a, b, e = np.int64(starts[0][low]), np.int64(starts[1][low]), np.int64(starts[2][low])
    for s in range(low, high):
        for k in range(row[first[s]], row[first[s + 1]]):
            j = np.int64(column[k])
            if j < low or j >= high:
                outside_column[e] = j
                e += 1
            elif j < s:
                lower_column[a] = j
                a += 1
            elif j > s:
                upper_column[b] = j
                b += 1


@compiled(fastmath=FASTMATH)
def fill_weights(
    rows: Rows, first: Indices, share: Vector, starts: PerPart, weights: PerPart, scale: Vector, low: int, high: int
) -> None:
    """share(c) * T(c, .) / (1 - discount * P(s, s)) into each part, and the divisor's inverse into `scale`.

    share: (C,), discount * pi(c).
    """
    row, column, probability = rows
    lower_weight, upper_weight, outside_weight = weights
    a, b, e = np.int64(starts[0][low]), np.int64(starts[1][low]), np.int64(starts[2][low])
    for s in range(low, high):
        first_a, first_b, first_e = a, b, e
        stay = 0.0
        for c in range(first[s], first[s + 1]):
            here = share[c]
            for k in range(row[c], row[c + 1]):
                j = np.int64(column[k])
                weight = here * probability[k]
                if j < low or j >= high:
                    outside_weight[e] = weight
                    e += 1
                elif j < s:
                    lower_weight[a] = weight
                    a += 1
                elif j > s:
                    upper_weight[b] = weight
                    b += 1
                else:
                    stay += weight
        inverse = 1.0 / (1.0 - stay)
        scale[s] = inverse
        for k in range(first_a, a):
            lower_weight[k] *= inverse
        for k in range(first_b, b):
            upper_weight[k] *= inverse
        for k in range(first_e, e):
            outside_weight[k] *= inverse


@compiled(fastmath=FASTMATH)
def backward(
    upper: Rows, right: Vector, one: Vector, other: Vector, shares: Shares, out: Vector, low: int, high: int
) -> None:
    """right = shares @ (right, one, other), and then (I - U) out = right, in the block low .. high."""
    start, column, weight = upper
    own, by_one, by_other = shares
    for i in range(high - low):
        s = high - 1 - i
        total = own * right[s] + by_one * one[s] + by_other * other[s]
        right[s] = total
        for k in range(start[s], start[s + 1]):
            total += weight[k] * out[column[k]]
        out[s] = total


@compiled(fastmath=FASTMATH)
def forward(
    lower: Rows,
    outside: Rows,
    right: Vector,
    middle: Vector,
    rest: Vector,
    shadow: Vector,
    out: Vector,
    low: int,
    high: int,
) -> tuple[float, float]:
    """(I - L) rest = right - middle - E middle, out = middle + rest; returns shadow @ out and out @ out of the block.

    With (I - U) middle = right, out is (I - L)^-1 (I - L - U - E) (I - U)^-1 right: the whole matrix preconditioned
    from both sides, at the cost of the two triangular solves (Eisenstat's trick).
    """
    lower_start, lower_column, lower_weight = lower
    outside_start, outside_column, outside_weight = outside
    with_shadow = with_itself = 0.0
    for s in range(low, high):
        total = right[s] - middle[s]
        for k in range(outside_start[s], outside_start[s + 1]):
            total -= outside_weight[k] * middle[outside_column[k]]
        for k in range(lower_start[s], lower_start[s + 1]):
            total += lower_weight[k] * rest[lower_column[k]]
        rest[s] = total
        total += middle[s]
        out[s] = total
        with_shadow += shadow[s] * total
        with_itself += total * total
    return with_shadow, with_itself


@compiled(fastmath=FASTMATH)
def finish(
    answer: Vector, p: Vector, alpha: float, r: Vector, omega: float, t: Vector, shadow: Vector, low: int, high: int
) -> tuple[float, float]:
    """answer += alpha p + omega r, then r -= omega t; returns r @ r and shadow @ r of the block."""
    with_itself = with_shadow = 0.0
    for s in range(low, high):
        left = r[s]
        answer[s] += alpha * p[s] + omega * left
        left -= omega * t[s]
        r[s] = left
        with_itself += left * left
        with_shadow += shadow[s] * left
    return with_itself, with_shadow


@compiled()
def bicgstab(lower: Rows, upper: Rows, outside: Rows, r: Vector, tolerance: float, max_steps: int) -> Vector:
    """Solve (I - L)^-1 (I - L - U - E) (I - U)^-1 y = r for y, in one block; r is overwritten by the residual.

    The same steps as `Split._bicgstab`, without a return to Python between them.
    """
    n = len(r)
    y, shadow, p, v, t = np.zeros(n), r.copy(), r.copy(), np.zeros(n), np.zeros(n)
    middle, rest = np.empty(n), np.empty(n)
    rho = 0.0
    for s in range(n):
        rho += r[s] * r[s]
    goal = rho
    beta = omega = 0.0
    for step in range(max_steps):
        shares = (beta, 1.0, -beta * omega) if step > 0 else (1.0, 0.0, 0.0)
        backward(upper, p, r, v, shares, middle, 0, n)
        shadow_v, _ = forward(lower, outside, p, middle, rest, shadow, v, 0, n)
        if shadow_v == 0.0 or not np.isfinite(shadow_v):
            break
        alpha = rho / shadow_v
        backward(upper, r, v, v, (1.0, -alpha, 0.0), middle, 0, n)
        with_r, with_itself = forward(lower, outside, r, middle, rest, r, t, 0, n)
        omega = with_r / with_itself if with_itself > 0.0 else 0.0
        left, rho_next = finish(y, p, alpha, r, omega, t, shadow, 0, n)
        if not left > tolerance**2 * goal or omega == 0.0 or rho_next == 0.0:
            break
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
    return y


@compiled(fastmath=FASTMATH)
def relax(lower: Rows, upper: Rows, outside: Rows, right: Vector, value: Vector, n_pairs: int) -> None:
    """Pairs of in-place sweeps, forward and backward: each state in turn solves x = right + (L + U + E) x."""
    lower_start, lower_column, lower_weight = lower
    upper_start, upper_column, upper_weight = upper
    outside_start, outside_column, outside_weight = outside
    n_states = len(value)
    for sweep in range(2 * n_pairs):
        for i in range(n_states):
            s = i if sweep % 2 == 0 else n_states - 1 - i
            total = right[s]
            for k in range(lower_start[s], lower_start[s + 1]):
                total += lower_weight[k] * value[lower_column[k]]
            for k in range(upper_start[s], upper_start[s + 1]):
                total += upper_weight[k] * value[upper_column[k]]
            for k in range(outside_start[s], outside_start[s + 1]):
                total += outside_weight[k] * value[outside_column[k]]
            value[s] = total
