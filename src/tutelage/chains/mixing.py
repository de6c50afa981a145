"""The linear systems of chains that soon forget where they started, by plain sweeps.

A sweep replaces x by b + moves @ x, where moves = discount * P. On most chains this takes 1 / (1 - discount) sweeps for
each digit. But the slow part is the same number in all states, and it is known: with r = b + moves @ x - x,

    discount / (1 - discount) * min r  <=  x* - (x + r)  <=  discount / (1 - discount) * max r

(MacQueen's bounds, for one discount). With the middle of the two added after each sweep, the error falls as fast as the
chain mixes. The visits, (I - moves')^-1 p, sum to 1 / (1 - discount); what is left after scaling falls as fast.
"""

import numpy as np

from tutelage.arrays import Matrix, SparseRows, Vector

# Sweeps end where so many of them reduce the error by less than this factor.
N_SWEEPS, QUICKLY = 5, 0.15


def mixed_values(
    moves: SparseRows, discount: float, right: Matrix, start: Matrix, accuracy: float
) -> tuple[Matrix, bool]:
    """(S, d), the solution of x = right + moves @ x by sweeps from `start`, and whether it has the accuracy.

    accuracy: relative to the largest entry of each column. Without it, the result is where sweeps became slow.
    """
    x, ahead, last = start, discount / (1 - discount), np.inf
    while True:
        for _ in range(N_SWEEPS - 1):
            x = right + moves @ x
        residual = right + moves @ x - x
        low, high = residual.min(axis=0), residual.max(axis=0)
        x = x + residual + ahead * (low + high) / 2
        error = 0.5 * ahead * (high - low)
        largest = np.maximum(np.abs(x).max(axis=0), np.finfo(np.float64).tiny)
        worst = float((error / largest).max(initial=0.0))
        if worst <= accuracy or not worst <= QUICKLY * last:
            return x, worst <= accuracy
        last = worst


def mixed_visits(moves: SparseRows, discount: float, initial: Vector, accuracy: float) -> Vector | None:
    """(S,), the solution of d = initial + moves' @ d by sweeps; None where they become slow before the accuracy.

    accuracy: of the sum of errors, relative to the sum of the visits. moves' contracts in the sum norm, so the error is
    at most |residual| / (1 - discount), and the visits sum to 1 / (1 - discount).
    """
    backwards, total, last = moves.T.tocsr(), 1 / (1 - discount), np.inf
    visits: Vector = np.full(len(initial), total / len(initial))
    while True:
        for _ in range(N_SWEEPS - 1):
            visits = initial + backwards @ visits
        after: Vector = initial + backwards @ visits
        error = float(np.abs(after - visits).sum())
        visits = after * (total / after.sum())
        if error <= accuracy:
            return visits
        if not error <= QUICKLY * last:
            return None
        last = error
