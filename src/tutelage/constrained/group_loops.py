"""The loops of `constrained.groups`: programs whose columns lie in groups, each with a sum of one.

    maximise   sum of profit * v - most @ excess       or   minimise   1/2 norm2(target - sum of match * v)^2
    subject to sum of use * v <= right + excess,   sum of v = 1 in every group,   v >= 0,   excess >= 0

A *combination* takes one column from every group. The programs are solved over mixtures of combinations (Dantzig and
Wolfe, 1960), with one row for their sum: at given multipliers the best combination has the best column of each group.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.compiling import FASTMATH, compiled

# What a member of a basis is: a combination, the slack of a row or its excess. Or there is none.
COMBINATION, SLACK, EXCESS, NOTHING = 0, 1, 2, -1
# Profits below the first, relative to the size of what is compared, are rounding errors; so are changes below the
# second.
TINY, FLAT = 1e-13, 1e-11
MAX_PIVOTS = 5_000
# Sizes of the boxes around the first multipliers, in units of the largest of these, at least of one.
BOXES = (0.03, 0.3, 10.0, 1e4)


@compiled(fastmath=FASTMATH)
def _solve(square: Matrix, right: Matrix) -> bool:
    """The solution of linear systems (n, k), in place of their right sides; False where the matrix is singular."""
    try:
        right[:] = np.linalg.solve(square, right)
    except Exception:
        return False
    return True


@compiled(fastmath=FASTMATH)
def _best_combination(
    table: NDArray[np.float64], price: Vector, total: float, point: Vector, pick: Indices
) -> tuple[int, float]:
    """Write the best combination at a price (q,), and its sum of table (n, K, q); its profit, the value less the total.

    NOTHING where it has no profit, with the largest rounding error.
    """
    n, n_groups, q = table.shape
    profit, size = -total, abs(total)
    point[:] = 0.0
    for k in range(n_groups):
        best = -math.inf
        for i in range(n):
            here = 0.0
            for j in range(q):
                here += table[i, k, j] * price[j]
            if here > best:
                best, pick[k] = here, i
        profit += best
        for j in range(q):
            point[j] += table[pick[k], k, j]
    rounding = TINY * max(size, np.sum(np.abs(point * price)))
    return (COMBINATION, profit) if profit > rounding else (NOTHING, rounding)


@compiled(fastmath=FASTMATH)
def _as_column(point: Vector, m: int) -> Vector:
    """The sum of a combination (q,), with its entry in the sum of the weights after those in the m rows."""
    return np.concatenate((point[:m], np.ones(1), point[m:]))


@compiled(fastmath=FASTMATH)
def _leaving(x: Vector, change: Vector) -> int:
    """The place in the basis that becomes zero first; NOTHING for none."""
    flat = FLAT * max(1.0, np.abs(change).max())
    shortest, pivot, place = math.inf, 0.0, NOTHING
    for r in range(len(x)):
        if change[r] > flat:
            step = max(x[r], 0.0) / change[r]
            if step < shortest or (step == shortest and change[r] > pivot):
                shortest, pivot, place = step, change[r], r
    return place


@compiled(fastmath=FASTMATH)
def _pivoted(
    table: NDArray[np.float64],
    right: Vector,
    least: Vector,
    most: Vector,
    picks: NDArray[np.int64],
    columns: Matrix,
    kind: Indices,
    row: Indices,
) -> tuple[Vector, Vector, bool]:
    """Pivot a basis until nothing has a profit: its values, the multipliers, whether it is so.

    least, most: (m,), the profit of a slack and the cost of an excess: the multipliers lie between them. picks: (m+1,
    K); columns: (m+1, m+2), the entries of each member in the rows and in the sum, and its profit.
    """
    m = len(right)
    point, pick = np.empty(m + 1), np.empty(table.shape[1], np.int64)
    for r in range(m + 1):
        if kind[r] != COMBINATION:
            columns[r, m + 1] = least[row[r]] if kind[r] == SLACK else -most[row[r]]
    for _ in range(MAX_PIVOTS):
        u = columns[:, m + 1 :].copy()
        is_regular = _solve(columns[:, : m + 1].copy(), u)
        of_row = 0
        entering, best = _best_combination(table, np.append(-u[:m, 0], 1.0), u[m, 0], point, pick)
        for j in range(m):
            if least[j] - u[j, 0] > best:
                entering, of_row, best = SLACK, j, least[j] - u[j, 0]
            if u[j, 0] - most[j] > best:
                entering, of_row, best = EXCESS, j, u[j, 0] - most[j]
        column = _as_column(point, m)
        if entering in (SLACK, EXCESS):
            column[:] = 0.0
            column[of_row] = 1.0 if entering == SLACK else -1.0
            column[m + 1] = least[of_row] if entering == SLACK else -most[of_row]
        both = np.column_stack((np.append(right, 1.0), column[: m + 1]))
        _solve(columns[:, : m + 1].T.copy(), both)
        if entering == NOTHING or not is_regular:
            return both[:, 0].copy(), u[:m, 0].copy(), is_regular
        place = _leaving(both[:, 0], both[:, 1])
        if place == NOTHING:
            break
        picks[place], columns[place] = pick, column
        kind[place], row[place] = entering, of_row
    return both[:, 0].copy(), u[:m, 0].copy(), False


@compiled(fastmath=FASTMATH)
def best_shares(
    table: NDArray[np.float64], right: Vector, most: Vector, near: Vector
) -> tuple[NDArray[np.int64], Indices, Indices, Vector, Vector, bool]:
    """The linear program: an optimal basis.

    table: (n, K, m+1), use and profit. most: (m,), the costs of an excess. near: (m,), multipliers to start from. They
    are first kept in boxes around these; with slacks and excesses alone to start from, they would be at the ends of
    their range, where other combinations are profitable. An excess whose cost is infinite costs much in the last box,
    and the caller judges whether it is left.

    Returns for each member of the basis (m+1,) its columns (m+1, K), its kind, the row of a slack or an excess, and its
    value; the multipliers (m,), and whether it is optimal.
    """
    m, n_groups = len(right), table.shape[1]
    point, picks = np.empty(m + 1), np.zeros((m + 1, n_groups), dtype=np.int64)
    _best_combination(table, np.append(-near, 1.0), 0.0, point, picks[m])
    columns = np.zeros((m + 1, m + 2))
    kind = np.zeros(m + 1, dtype=np.int64)
    row = np.append(np.arange(m), 0)
    columns[m] = _as_column(point, m)
    for j in range(m):
        kind[j] = EXCESS if point[j] > right[j] else SLACK
        columns[j, j] = -1.0 if kind[j] == EXCESS else 1.0
    largest = max(1.0, near.max()) if m else 1.0
    x, u, is_optimal = np.zeros(m + 1), np.zeros(m), True
    for width in BOXES:
        if is_optimal:
            low = np.maximum(near - width * largest, 0.0)
            high = np.minimum(near + width * largest, most)
            x, u, is_optimal = _pivoted(table, right, low, high, picks, columns, kind, row)
    return picks, kind, row, x, u, is_optimal


@compiled(fastmath=FASTMATH)
def _minimum(columns: Matrix, target: Vector, right: Vector) -> tuple[Vector, Vector, Vector, bool]:
    """The mixture of columns (F, m+1+r) nearest to the target, whatever the signs of its weights.

    Returns the deviations a (r,), the weights w, the multipliers y of the rows and of the sum (m+1,), and whether it is
    the only one: D w + a = target, E w = right, D'a = E'y. Without a as an unknown, D'D would square the condition.
    """
    r, k, n = len(target), len(right) + 1, len(columns)
    d, e = columns[:, k:], columns[:, :k]
    square = np.zeros((r + k + n, r + k + n))
    square[:r, :r] = np.eye(r)
    square[:r, r : r + n] = d.T
    square[r : r + k, r : r + n] = e.T
    square[r + k :, :r] = d
    square[r + k :, r + n :] = -e
    rest = np.concatenate((target, right, np.ones(1), np.zeros(n))).reshape((-1, 1))
    is_regular = _solve(square, rest)
    return rest[:r, 0].copy(), rest[r : r + n, 0].copy(), rest[r + n :, 0].copy(), is_regular


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
    table: NDArray[np.float64],
    target: Vector,
    right: Vector,
    picks: NDArray[np.int64],
    columns: Matrix,
    weights: Vector,
) -> tuple[NDArray[np.int64], Vector, Vector, bool]:
    """The quadratic program, by Wolfe's active-set method for the point of least norm (1976).

    The minimum over the *free* combinations and slacks is one linear system. On the way there, one whose weight would
    become negative leaves. At the minimum, the combination or slack with the largest profit enters, which is
    independent of the free ones.

    table: (n, K, m+r), use and match. picks, columns, weights: a basic solution of the rows to start from: combinations
    (F, K), -1 for the slack of a row; their entries (F, m+1+r) in the rows, in the sum and in the match; their weights.

    Returns the free combinations, their weights, the multipliers (m,), and whether the minimum was found.
    """
    m, last = len(right), math.inf
    y = np.zeros(m + 1)
    point, pick = np.empty(table.shape[2]), picks[0].copy()
    for _ in range(MAX_PIVOTS):
        a, wanted, multipliers, is_regular = _minimum(columns, target, right)
        if not is_regular:
            # What entered last depends on the others: its profit was a rounding error. The caller judges.
            return picks, weights, y[:m], True
        share, place = _blocking(weights, wanted)
        if place >= 0:
            stays = np.arange(len(weights)) != place
            weights = (weights + share * (wanted - weights))[stays]
            picks, columns = picks[stays], columns[stays]
            continue
        weights, y = wanted, multipliers
        value, of_row = 0.5 * np.sum(a * a), 0
        entering, best = _best_combination(table, np.append(-y[:m], a), y[m], point, pick)
        for j in range(m):
            if -y[j] > best:
                entering, of_row, best = SLACK, j, -y[j]
        if entering == NOTHING or value >= last:
            # Where the last one has changed nothing, its profit was a rounding error.
            return picks, weights, y[:m], True
        last = value
        column = _as_column(point, m)
        if entering == SLACK:
            pick[:], column[:] = -1, 0.0
            column[of_row] = 1.0
        picks, columns = np.vstack((picks, pick[None])), np.vstack((columns, column[None]))
        weights = np.append(weights, 0.0)
    return picks, weights, y[:m], False
