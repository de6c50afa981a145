"""Reachable states of a Markov chain."""

import numpy as np
from numba import njit

from tutelage.arrays import Indices, Vector


@njit(cache=True, nogil=True)
def reachable(row: Indices, column: Indices, initial: Vector) -> Indices:
    """The states that a chain (S, S) can reach from the support of `initial`, ascending."""
    is_seen = initial > 0
    stack = np.empty(len(initial), dtype=np.int64)
    n_waiting = 0
    for s in range(len(initial)):
        if is_seen[s]:
            stack[n_waiting] = s
            n_waiting += 1
    while n_waiting > 0:
        n_waiting -= 1
        s = stack[n_waiting]
        for k in range(row[s], row[s + 1]):
            if not is_seen[column[k]]:
                is_seen[column[k]] = True
                stack[n_waiting] = column[k]
                n_waiting += 1
    return np.flatnonzero(is_seen)
