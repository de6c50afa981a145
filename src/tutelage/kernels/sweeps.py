"""In-place sweeps of the hard Bellman equation."""

import math

from numba import njit

from tutelage.arrays import Indices, Vector
from tutelage.kernels.flags import FASTMATH


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _hard_sweep(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    forwards: bool,
) -> float:
    """V(s) = max over c of (r(c) + discount * sum over s' != s of T(s') V(s')) / (1 - discount * T(s)), in place."""
    change = 0.0
    n_states = len(value)
    for i in range(n_states):
        s = i if forwards else n_states - 1 - i
        best = -math.inf
        for c in range(first[s], first[s + 1]):
            ahead = 0.0
            stay = 0.0
            for k in range(row[c], row[c + 1]):
                if column[k] == s:
                    stay += probability[k]
                else:
                    ahead += probability[k] * value[column[k]]
            best = max(best, (reward[c] + discount * ahead) / (1.0 - discount * stay))
        change = max(change, abs(best - value[s]))
        value[s] = best
    return change


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def hard_sweeps(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    start: Vector,
    tolerance: float,
) -> Vector:
    """In-place sweeps in alternating order, while each pair still shrinks the change well.

    Each state's equation is solved for its own value, so that staying in place, which takes plain sweeps
    1 / (1 - discount) rounds to be worth its due, takes one. On grids a few pairs suffice; where they stop paying
    (well-mixed chains), the caller does better to evaluate the policy found so far.
    """
    value = start.copy()
    last = math.inf
    for pair in range(1_000):
        change = _hard_sweep(row, column, probability, first, reward, discount, value, True)
        change = max(change, _hard_sweep(row, column, probability, first, reward, discount, value, False))
        if change <= tolerance or (pair >= 4 and change > 0.7 * last):
            break
        last = change
    return value
