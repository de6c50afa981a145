"""The loop of `solvers.shares`: a linear program whose columns lie in groups, each with a sum of one.

    maximise   sum of profit * v - most @ excess
    subject to sum of use * v <= right + excess,   sum of v = 1 in every group,   v >= 0,   excess >= 0

This is the simplex method with generalised upper bounds (Dantzig and Van Slyke, 1967). A basis has one *key* column in
each group and as many further columns as there are rows. Less the key of its group, each further column is a column of
a square matrix of the size of the rows alone, so a pivot costs little more than the search for the column that enters.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.kernels import FASTMATH, compiled

# What stands in the place of a group for a slack of a row and for its excess.
SLACK, EXCESS = -1, -2
# Profits and changes below this, in units of the largest, are rounding errors.
TINY, FLAT = 1e-13, 1e-11
MAX_PIVOTS = 5_000


@compiled(fastmath=FASTMATH)
def inverse(square: Matrix) -> tuple[Matrix, bool]:
    """The inverse by elimination with row pivots; False where the matrix is singular."""
    m = len(square)
    table = np.zeros((m, 2 * m))
    table[:, :m] = square
    for i in range(m):
        table[i, m + i] = 1.0
    for j in range(m):
        i = j + int(np.abs(table[j:, j]).argmax())
        if table[i, j] == 0.0:
            return square, False
        for c in range(2 * m):
            table[i, c], table[j, c] = table[j, c], table[i, c]
        table[j] /= table[j, j]
        for i in range(m):
            if i != j and table[i, j] != 0.0:
                table[i] -= table[i, j] * table[j]
    return table[:, m:].copy(), True


@compiled(fastmath=FASTMATH)
def _beyond_key(use: NDArray[np.float64], key: Indices, group: int, piece: int) -> Vector:
    """(m,), the use of a column less that of the key of its group."""
    column = np.zeros(use.shape[2])
    if group >= 0:
        column += use[piece, group] - use[key[group], group]
    else:
        column[piece] = 1.0 if group == SLACK else -1.0
    return column


@compiled(fastmath=FASTMATH)
def basic_solution(
    profit: Matrix, use: NDArray[np.float64], right: Vector, most: Vector, key: Indices, group: Indices, piece: Indices
) -> tuple[Matrix, Vector, Vector, Vector, bool]:
    """The inverse of a basis, its values (m,), the values of the keys (K,), and the multipliers of the rows (m,)."""
    m = len(right)
    square, gain, rest = np.empty((m, m)), np.empty(m), right.copy()
    for k in range(len(key)):
        rest -= use[key[k], k]
    for r in range(m):
        square[:, r] = _beyond_key(use, key, group[r], piece[r])
        gain[r] = -most[piece[r]] if group[r] == EXCESS else 0.0
        if group[r] >= 0:
            gain[r] = profit[piece[r], group[r]] - profit[key[group[r]], group[r]]
    solved, is_regular = inverse(square)
    x, u, of_key = np.zeros(m), np.zeros(m), np.ones(len(key))
    for r in range(m):
        for j in range(m):
            x[r] += solved[r, j] * rest[j]
            u[j] += gain[r] * solved[r, j]
    for r in range(m):
        if group[r] >= 0:
            of_key[group[r]] -= x[r]
    return solved, x, of_key, u, is_regular


@compiled(fastmath=FASTMATH)
def _entering(
    profit: Matrix, use: NDArray[np.float64], most: Vector, key: Indices, u: Vector, may_exceed: bool
) -> tuple[int, int]:
    """The group and piece of the column with the largest profit at the multipliers; piece -1 where none has any."""
    n, n_groups, m = use.shape
    largest, size, group, piece = 0.0, 0.0, 0, -1
    for k in range(n_groups):
        base, known = profit[key[k], k], 0.0
        for j in range(m):
            base -= use[key[k], k, j] * u[j]
            known += abs(use[key[k], k, j] * u[j])
        size = max(size, abs(profit[key[k], k]) + known)
        for i in range(n):
            more = profit[i, k] - base
            for j in range(m):
                more -= use[i, k, j] * u[j]
            if more > largest:
                largest, group, piece = more, k, i
    if largest <= TINY * size:
        largest, piece = TINY * size, -1
    for j in range(m):
        if -u[j] > largest:
            largest, group, piece = -u[j], SLACK, j
        if may_exceed and u[j] - most[j] > largest:
            largest, group, piece = u[j] - most[j], EXCESS, j
    return group, piece


@compiled(fastmath=FASTMATH)
def _leaving(
    change: Vector, x: Vector, of_key: Vector, group: Indices, entering: int, may_exceed: bool
) -> tuple[int, int]:
    """The place in the basis, or the group whose key leaves it: (place, -1) or (-1, group); (-1, -1) for none."""
    falls, flat = np.zeros(len(of_key)), FLAT * max(1.0, np.abs(change).max())
    if entering >= 0:
        falls[entering] = 1.0
    shortest, pivot, place, of_group = math.inf, 0.0, -1, -1
    for r in range(len(x)):
        if group[r] >= 0:
            falls[group[r]] -= change[r]
        fall = change[r]
        if group[r] == EXCESS and not may_exceed:
            fall = abs(fall)
        if fall > flat:
            step = max(x[r], 0.0) / fall
            if step < shortest or (step == shortest and fall > pivot):
                shortest, pivot, place, of_group = step, fall, r, -1
    for k in range(len(of_key)):
        if falls[k] > flat:
            step = max(of_key[k], 0.0) / falls[k]
            if step < shortest or (step == shortest and falls[k] > pivot):
                shortest, pivot, place, of_group = step, falls[k], -1, k
    return place, of_group


@compiled(fastmath=FASTMATH)
def _pivoted(
    profit: Matrix,
    use: NDArray[np.float64],
    right: Vector,
    most: Vector,
    key: Indices,
    group: Indices,
    piece: Indices,
    may_exceed: bool,
) -> bool:
    """Pivot until no column has a profit. may_exceed: whether excesses are part of the program, not to be avoided."""
    for _ in range(MAX_PIVOTS):
        solved, x, of_key, u, is_regular = basic_solution(profit, use, right, most, key, group, piece)
        if not is_regular:
            return False
        k, i = _entering(profit, use, most, key, u, may_exceed)
        if i < 0:
            return True
        column, change = _beyond_key(use, key, k, i), np.zeros(len(right))
        for r in range(len(right)):
            for j in range(len(right)):
                change[r] += solved[r, j] * column[j]
        place, of_group = _leaving(change, x, of_key, group, k, may_exceed)
        if place < 0 and of_group < 0:
            return False
        if place < 0:
            # Another column of its group becomes the key: one of the basis, else the one that enters.
            for r in range(len(right)):
                if group[r] == of_group and (place < 0 or x[r] > x[place]):
                    place = r
            key[of_group] = i if place < 0 else piece[place]
        if place >= 0:
            group[place], piece[place] = k, i
    return False


@compiled(fastmath=FASTMATH)
def best_shares(
    profit: Matrix, use: NDArray[np.float64], right: Vector, most: Vector, key: Indices
) -> tuple[Indices, Indices, Indices, bool]:
    """An optimal basis: the keys (K,), and the group and piece of every other column (m,); False where there is none.

    profit: (n, K). use: (n, K, m). most: (m,), the costs of an excess, all finite or all infinite. key: (K,), the
    columns to start from.
    """
    m = len(right)
    rest, key = right.copy(), key.copy()
    for k in range(len(key)):
        rest -= use[key[k], k]
    group, piece = np.where(rest < 0.0, EXCESS, SLACK), np.arange(m)
    if np.isfinite(most).all():
        return key, group, piece, _pivoted(profit, use, right, most, key, group, piece, True)
    if (rest < 0.0).any() and not _pivoted(np.zeros_like(profit), use, right, np.ones(m), key, group, piece, True):
        return key, group, piece, False
    return key, group, piece, _pivoted(profit, use, right, np.zeros(m), key, group, piece, False)
