"""One step of the Bellman operators, hard and soft.

The soft one is all exponentials. It works through chunks of states: the values of their choices first, then every
exponential of the chunk in one go, in a form that the compiler turns into vector instructions (the library's own takes
one number at a time, and three quarters of the time), then the sums.
"""

import math

import numpy as np
from numba import njit

from tutelage.arrays import Indices, Vector
from tutelage.kernels.flags import FASTMATH, IN_ORDER

CHUNK = 128
# exp(x) = 2^k exp(r) with x = k log 2 + r and |r| <= log(2) / 2. Adding 1.5 * 2^52 leaves k in the last bits.
LOG2_E, SHIFT = 1.4426950408889634, 6755399441055744.0
# log 2 in two parts, the first with so few digits that its product with k is exact.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Below, exp(x) is not a normal number.
LEAST = -708.0
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / math.factorial(n) for n in range(2, 14))


@njit(cache=True, nogil=True, fastmath=IN_ORDER)
def _exp(x: float) -> float:
    """exp(x) for x <= 0, to the last bit or the one before; zero where that is below 1e-307."""
    shifted = x * LOG2_E + SHIFT
    k = shifted - SHIFT
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    r2 = r * r
    r4 = r2 * r2
    high = ((C10 + C11 * r) + r2 * (C12 + C13 * r)) * r4 + ((C6 + C7 * r) + r2 * (C8 + C9 * r))
    rest = ((C2 + C3 * r) + r2 * (C4 + C5 * r)) + r4 * high
    power = 1.0 + (r + r2 * rest)
    bits = np.float64(power).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x > LEAST else 0.0


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _choice_values(
    row: Indices,
    column: Indices,
    probability: Vector,
    reward: Vector,
    discount: float,
    value: Vector,
    worth: Vector,
    begin: int,
    end: int,
) -> None:
    """Q(c) for the choices begin .. end, into `worth`."""
    start = row[begin]
    n_choices = end - begin
    if row[end] - start == n_choices:
        # As many entries as rows, of which none is empty: each has one, and their starts need not be looked up.
        # Slices, counted from zero: no index can be negative, which is what keeps vectors away.
        q, gain = worth[begin:end], reward[begin:end]
        chance, to = probability[start : start + n_choices], column[start : start + n_choices]
        for i in range(len(q)):
            q[i] = gain[i] + discount * (chance[i] * value[to[i]])
        return
    for c in range(begin, end):
        ahead = 0.0
        for k in range(row[c], row[c + 1]):
            ahead += probability[k] * value[column[k]]
        worth[c] = reward[c] + discount * ahead


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def soft_backup_range(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    policy: Vector,
    backed: Vector,
    low: int,
    high: int,
) -> None:
    """For the states low .. high, V(s) = log sum over choices of exp Q(c) into `backed`, exp(Q - V) into `policy`."""
    for begin in range(low, high, CHUNK):
        end = min(begin + CHUNK, high)
        _choice_values(row, column, probability, reward, discount, value, policy, first[begin], first[end])
        for s in range(begin, end):
            best = -math.inf
            for c in range(first[s], first[s + 1]):
                best = max(best, policy[c])
            for c in range(first[s], first[s + 1]):
                policy[c] -= best
            backed[s] = best
        power = policy[first[begin] : first[end]]
        for i in range(len(power)):
            power[i] = _exp(power[i])
        for s in range(begin, end):
            total = 0.0
            for c in range(first[s], first[s + 1]):
                total += policy[c]
            share = 1.0 / total
            for c in range(first[s], first[s + 1]):
                policy[c] *= share
            backed[s] += math.log(total)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def hard_backup_range(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    choice: Indices,
    slack: float,
    backed: Vector,
    low: int,
    high: int,
) -> None:
    """For the states low .. high, V(s) = max over choices of Q(c) into `backed`.

    `choice` moves to the best only where that is better by more than `slack`.
    """
    for s in range(low, high):
        best = -math.inf
        kept = -math.inf
        best_choice = choice[s]
        for c in range(first[s], first[s + 1]):
            k = row[c]
            ahead = probability[k] * value[column[k]]
            for more in range(k + 1, row[c + 1]):
                ahead += probability[more] * value[column[more]]
            worth = reward[c] + discount * ahead
            if c == choice[s]:
                kept = worth
            if worth > best:
                best = worth
                best_choice = c
        if best > kept + slack:
            choice[s] = best_choice
        backed[s] = best
