"""Small dense linear programs by the simplex method: a few rows, some hundred columns.

    minimise slope @ x   subject to   rows @ x = right,   x >= 0

Master problems are of this size and there is one in each round of decomposition. A library spends some milliseconds on
such a program before its first pivot; all pivots here take a tenth of that. The result is only a *basis*: the caller
solves for x and the multipliers, checks them, and asks a library where they fail the check.
"""

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector

# The most rows and columns for which these pivots are faster than a library.
MOST_ROWS, MOST_COLUMNS = 40, 400
# Entries below this, in a program of order one, are rounding errors.
TINY = 1e-11
# After so many pivots the rule of Bland is used, which cannot cycle; after the last there is no result.
DANTZIG, MAX_PIVOTS = 200, 1_000


def optimal_basis(slope: Vector, rows: Matrix, right: Vector, n_slacks: int) -> Indices | None:
    """(m,), the columns of an optimal basis; None where there is none, or where rounding hides it.

    n_slacks: the last columns are the slacks of as many of the last rows.
    """
    m, n = rows.shape
    sign = np.where(right < 0, -1.0, 1.0)
    # The columns, one artificial column for each row, and the right-hand side; the last row has the reduced costs.
    table = np.zeros((m + 1, n + m + 1))
    table[:m, :n], table[:m, -1] = sign[:, None] * rows, sign * right
    table[np.arange(m), n + np.arange(m)] = 1.0
    # A row with a slack of the right sign needs no artificial column.
    own = np.arange(m) + n - m
    needs = (np.arange(m) < m - n_slacks) | (sign < 0)
    basis = np.where(needs, own + m, own)
    table[m] = -table[:m][needs].sum(axis=0)
    table[m, n:-1] = 0.0
    if not _pivoted(table, basis, n) or table[m, -1] < -TINY * (1 + np.abs(right).max(initial=0.0)):
        return None
    if not _without_artificial(table, basis, n):
        return None
    table[m] = np.concatenate([slope, np.zeros(m + 1)])
    table[m] -= slope[basis] @ table[:m]
    return basis if _pivoted(table, basis, n) else None


def _pivoted(table: Matrix, basis: Indices, n: int) -> bool:
    """Pivot until none of the first n reduced costs is negative; False where the program is unbounded or cycles."""
    costs = table[-1, :n]
    for n_pivots in range(MAX_PIVOTS):
        is_careful = n_pivots >= DANTZIG
        j = int((costs < -TINY).argmax() if is_careful else costs.argmin())
        if costs[j] >= -TINY:
            return True
        i = _leaving(table[:-1, j].tolist(), table[:-1, -1].tolist(), basis.tolist(), is_careful)
        if i < 0:
            return False
        _pivot(table, basis, i, j)
    return False


def _leaving(column: list[float], right: list[float], basis: list[int], is_careful: bool) -> int:
    """The row that limits the entering column; -1 where none does.

    Among ties the row with the largest pivot, for accuracy, or the first column of the basis by the rule of Bland.
    Plain numbers, because there are only a few.
    """
    ratios = [max(have, 0.0) / used if used > TINY else np.inf for have, used in zip(right, column, strict=True)]
    least = min(ratios, default=np.inf)
    if least == np.inf:
        return -1
    tied = [i for i, ratio in enumerate(ratios) if ratio <= least + TINY * (1 + least)]
    return min(tied, key=lambda i: basis[i] if is_careful else -column[i])


def _without_artificial(table: Matrix, basis: Indices, n: int) -> bool:
    """Replace artificial columns, which are zero now, by columns of the program; False where a row has none."""
    for i in np.flatnonzero(basis >= n):
        j = int(np.abs(table[i, :n]).argmax())
        if abs(table[i, j]) <= TINY:
            return False
        _pivot(table, basis, int(i), j)
    return True


def _pivot(table: Matrix, basis: Indices, i: int, j: int) -> None:
    row = table[i] / table[i, j]
    table -= table[:, j, None] * row
    table[i] = row
    basis[i] = j
