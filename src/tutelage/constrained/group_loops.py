"""The loops of `constrained.groups`: programs whose columns lie in groups, each with a sum of one.

    maximise   sum of profit * v - most @ excess       or   minimise   1/2 norm2(target - sum of match * v)^2
    subject to sum of use * v <= right + excess,   sum of v = 1 in every group,   v >= 0,   excess >= 0

A *combination* takes one column from every group. The programs are solved over mixtures of combinations (Dantzig and
Wolfe, 1960), with one row for their sum: at given multipliers the best combination has the best column of each group.
So one pass over all columns finds what enters, and the linear algebra is of the size of the rows alone.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.compiling import FASTMATH, compiled

# What stands in the place of a combination for a slack of a row, for its excess, and where there is none.
SLACK, EXCESS, NOTHING = -1, -2, -3
# Profits below the first, relative to the size of what is compared, are rounding errors; so are changes below the
# second.
TINY, FLAT = 1e-13, 1e-11
MAX_PIVOTS, MAX_COMBINATIONS = 5_000, 1_000
# Sizes of the boxes around the first multipliers, in units of the largest of these.
BOXES = (0.03, 0.3, 10.0)


@compiled(fastmath=FASTMATH)
def _solve(square: Matrix, right: Matrix) -> bool:
    """The solution of linear systems (n, k), in place of their right sides; False where the matrix is singular."""
    try:
        right[:] = np.linalg.solve(square, right)
    except Exception:
        return False
    return True


@compiled(fastmath=FASTMATH)
def _best_combination(table: NDArray[np.float64], price: Vector, point: Vector, pick: Indices) -> float:
    """Write the best combination at a price (q,) and its sum of table (n, K, q); its value."""
    n, n_groups, q = table.shape
    value = 0.0
    point[:] = 0.0
    for k in range(n_groups):
        best = -math.inf
        for i in range(n):
            here = 0.0
            for j in range(q):
                here += table[i, k, j] * price[j]
            if here > best:
                best, pick[k] = here, i
        value += best
        for j in range(q):
            point[j] += table[pick[k], k, j]
    return value


@compiled(fastmath=FASTMATH)
def _entering(
    table: NDArray[np.float64],
    points: Matrix,
    picks: NDArray[np.int64],
    n_points: int,
    n_tried: int,
    price: Vector,
    total: float,
) -> tuple[int, float]:
    """The combination with the largest profit, its value less the total: one of the first n_tried, or the best of all.

    The best of all is written behind the known ones. NOTHING where none has a profit, with the largest rounding error.
    """
    size, best, found = abs(total), 0.0, NOTHING
    for c in range(n_tried):
        value, here = 0.0, 0.0
        for j in range(len(price)):
            value += points[c, j] * price[j]
            here += abs(points[c, j] * price[j])
        size = max(size, here)
        if value - total > best:
            best, found = value - total, c
    if best > TINY * size:
        return found, best
    best = _best_combination(table, price, points[n_points], picks[n_points]) - total
    return (n_points, best) if best > TINY * size else (NOTHING, TINY * size)


@compiled(fastmath=FASTMATH)
def _column(points: Matrix, combination: int, row: int, m: int) -> Vector:
    """(m+1,), the entries of a combination, a slack or an excess in the rows and in the sum."""
    column = np.zeros(m + 1)
    if combination >= 0:
        column[:m], column[m] = points[combination, :m], 1.0
    else:
        column[row] = 1.0 if combination == SLACK else -1.0
    return column


@compiled(fastmath=FASTMATH)
def _multipliers(
    square: Matrix, points: Matrix, least: Vector, most: Vector, basis: Indices, row: Indices, share: float
) -> tuple[Vector, bool]:
    """(m+1,), the multipliers of the rows and of the sum at a basis; False where it is none."""
    gain = np.empty((len(basis), 1))
    for r in range(len(basis)):
        if basis[r] >= 0:
            gain[r, 0] = share * points[basis[r], len(least)]
        else:
            gain[r, 0] = least[row[r]] if basis[r] == SLACK else -most[row[r]]
    is_regular = _solve(square.T.copy(), gain)
    return gain[:, 0].copy(), is_regular


@compiled(fastmath=FASTMATH)
def _leaving(x: Vector, change: Vector, basis: Indices, may_exceed: bool) -> int:
    """The place in the basis that becomes zero first; NOTHING for none."""
    shortest, pivot, place, flat = math.inf, 0.0, NOTHING, FLAT * max(1.0, np.abs(change).max())
    for r in range(len(x)):
        fall = abs(change[r]) if basis[r] == EXCESS and not may_exceed else change[r]
        if fall > flat:
            step = max(x[r], 0.0) / fall
            if step < shortest or (step == shortest and fall > pivot):
                shortest, pivot, place = step, fall, r
    return place


@compiled(fastmath=FASTMATH)
def _pivoted(
    table: NDArray[np.float64],
    right: Vector,
    least: Vector,
    most: Vector,
    points: Matrix,
    picks: NDArray[np.int64],
    n_points: int,
    basis: Indices,
    row: Indices,
    share: float,
    may_exceed: bool,
) -> tuple[Vector, Vector, int, bool]:
    """Pivot a basis until nothing has a profit: its values, the multipliers, how many combinations, whether it is so.

    least, most: (m,), the profit of a slack and the cost of an excess: the multipliers lie between them. share: of the
    profits that counts, zero or one. may_exceed: whether excesses are part of the program, not to be avoided.
    """
    m = len(right)
    x, u, square, both = np.zeros(m + 1), np.zeros(m + 1), np.empty((m + 1, m + 1)), np.empty((m + 1, 2))
    for _ in range(MAX_PIVOTS):
        for r in range(m + 1):
            square[:, r] = _column(points, basis[r], row[r], m)
        u, is_regular = _multipliers(square, points, least, most, basis, row, share)
        if not is_regular or n_points == len(points):
            return x, u, n_points, False
        found, best = _entering(table, points, picks, n_points, n_points, np.append(-u[:m], share), u[m])
        n_points, of_row = max(n_points, found + 1), 0
        for j in range(m):
            if least[j] - u[j] > best:
                found, of_row, best = SLACK, j, least[j] - u[j]
            if may_exceed and u[j] - most[j] > best:
                found, of_row, best = EXCESS, j, u[j] - most[j]
        both[:m, 0], both[m, 0] = right, 1.0
        both[:, 1] = _column(points, found, of_row, m)
        _solve(square, both)
        x = both[:, 0].copy()
        if found == NOTHING:
            return x, u, n_points, True
        place = _leaving(x, both[:, 1], basis, may_exceed)
        if place == NOTHING:
            return x, u, n_points, False
        basis[place], row[place] = found, of_row
    return x, u, n_points, False


@compiled(fastmath=FASTMATH)
def best_shares(
    table: NDArray[np.float64], right: Vector, most: Vector, near: Vector
) -> tuple[NDArray[np.int64], Indices, Indices, Vector, Vector, bool]:
    """The linear program: an optimal basis.

    table: (n, K, m+1), use and profit. most: (m,), the costs of an excess, all finite or all infinite. near: (m,),
    multipliers to start from. They are first kept in boxes around these; with slacks and excesses alone to start
    from, they would be at the ends of their range, where other combinations are profitable.

    Returns the combinations' columns (N, K), those of the basis (m+1,), the rows of its slacks, its values, the
    multipliers (m,), and whether it is optimal.
    """
    m, n_groups = len(right), table.shape[1]
    points, picks = np.empty((MAX_COMBINATIONS, m + 1)), np.empty((MAX_COMBINATIONS, n_groups), dtype=np.int64)
    basis, row = np.zeros(m + 1, dtype=np.int64), np.append(np.arange(m), 0)
    _best_combination(table, np.append(-near, 1.0), points[0], picks[0])
    for j in range(m):
        basis[j] = EXCESS if points[0, j] > right[j] else SLACK
    nothing, n_points, largest, is_optimal = np.zeros(m), 1, near.max() if m else 0.0, True
    x, u = np.zeros(m + 1), np.zeros(m + 1)
    for width in BOXES:
        if largest > 0.0 and is_optimal:
            low, high = np.maximum(near - width * largest, 0.0), np.minimum(near + width * largest, most)
            given = (table, right, low, high, points, picks, n_points, basis, row)
            x, u, n_points, is_optimal = _pivoted(*given, 1.0, True)
    is_elastic = bool(np.isfinite(most).all())
    if is_optimal and not is_elastic:
        is_outside = largest <= 0.0 or bool(((basis == EXCESS) & (x > 0.0)).any())
        if is_outside:
            # Any solution, whatever its profit.
            given = (table, right, nothing, np.ones(m), points, picks, n_points, basis, row)
            x, u, n_points, is_optimal = _pivoted(*given, 0.0, True)
    if is_optimal:
        given = (table, right, nothing, most if is_elastic else nothing, points, picks, n_points, basis, row)
        x, u, n_points, is_optimal = _pivoted(*given, 1.0, is_elastic)
    return picks, basis, row, x, u[:m], is_optimal


@compiled(fastmath=FASTMATH)
def _minimum(
    points: Matrix, target: Vector, right: Vector, free: Indices, row: Indices
) -> tuple[Vector, Vector, Vector, bool]:
    """The mixture of free combinations and slacks nearest to the target, whatever the signs of its weights.

    Returns the deviations a (r,), the weights w, the multipliers y of the rows and of the sum (m+1,), and whether it is
    the only one: D w + a = target, E w = right, D'a = E'y. Without a as an unknown, D'D would square the condition.
    """
    r, m, n_free = len(target), len(right), len(free)
    square, rest = np.zeros((r + m + 1 + n_free, r + m + 1 + n_free)), np.zeros((r + m + 1 + n_free, 1))
    rest[:r, 0], rest[r : r + m, 0], rest[r + m, 0] = target, right, 1.0
    for j in range(r):
        square[j, j] = 1.0
    for f in range(n_free):
        column, below = _column(points, free[f], row[f], m), r + m + 1 + f
        for j in range(m + 1):
            square[r + j, r + f], square[below, r + n_free + j] = column[j], -column[j]
        if free[f] >= 0:
            for j in range(r):
                square[j, r + f] = square[below, j] = points[free[f], m + j]
    is_regular = _solve(square, rest)
    return rest[:r, 0].copy(), rest[r : r + n_free, 0].copy(), rest[r + n_free :, 0].copy(), is_regular


@compiled(fastmath=FASTMATH)
def _blocking(weights: Vector, wanted: Vector) -> tuple[float, int]:
    """The share of the way from weights to wanted ones on which none is negative, and the one that is zero there."""
    share, place = 1.0, NOTHING
    for f in range(len(weights)):
        here = max(weights[f], 0.0)
        if wanted[f] < 0.0 and here < share * (here - wanted[f]):
            share, place = here / (here - wanted[f]), f
    return share, place


@compiled(fastmath=FASTMATH)
def nearest_shares(
    table: NDArray[np.float64], target: Vector, right: Vector, picks: NDArray[np.int64], row: Indices, weights: Vector
) -> tuple[NDArray[np.int64], Indices, Vector, Vector, bool]:
    """The quadratic program, by Wolfe's active-set method for the point of least norm (1976).

    The minimum over the *free* combinations and slacks is one linear system. On the way there, one whose weight would
    become negative leaves. At the minimum, the combination or slack with the largest profit enters. It is
    independent of the free ones, so there are never more of these than rows and entries of the target.

    table: (n, K, m+r), use and match. picks, row, weights: combinations (N, K), with the weights that come first, and
    slacks of rows, with the other weights, to start from: a basic solution of the rows.

    Returns the combinations, those that are free (-1 for a slack), their weights, the multipliers (m,), and whether the
    minimum was found.
    """
    (n_points, n_groups), m = picks.shape, len(right)
    points, known = np.zeros((MAX_COMBINATIONS, table.shape[2])), np.empty((MAX_COMBINATIONS, n_groups), dtype=np.int64)
    known[:n_points] = picks
    for c in range(n_points):
        for k in range(n_groups):
            points[c] += table[picks[c, k], k]
    free = np.append(np.arange(n_points), np.full(len(row), SLACK))
    row, y = np.append(np.zeros(n_points, dtype=np.int64), row), np.zeros(m + 1)
    last, was_new = math.inf, False
    for _ in range(MAX_PIVOTS):
        a, wanted, multipliers, is_regular = _minimum(points, target, right, free, row)
        if not is_regular or n_points == MAX_COMBINATIONS:
            # What entered last depends on the others: its profit was a rounding error. The caller judges.
            return known, free, weights, y[:m], not is_regular
        share, place = _blocking(weights, wanted)
        if place >= 0:
            weights = np.delete(weights + share * (wanted - weights), place)
            free, row = np.delete(free, place), np.delete(row, place)
            continue
        weights, y, value = wanted, multipliers, 0.5 * np.sum(a * a)
        # Where a known combination has changed nothing, its profit was a rounding error.
        n_tried = n_points if value < last else 0
        found, best = _entering(table, points, known, n_points, n_tried, np.append(-y[:m], a), y[m])
        is_new, n_points, of_row = found == n_points, max(n_points, found + 1), 0
        for j in range(m):
            if -y[j] > best:
                found, of_row, best = SLACK, j, -y[j]
        if found == NOTHING or (value >= last and was_new):
            # The same of the best of all: the caller judges.
            return known, free, weights, y[:m], True
        last, was_new = value, is_new
        free, row, weights = np.append(free, found), np.append(row, of_row), np.append(weights, 0.0)
    return known, free, weights, y[:m], False
