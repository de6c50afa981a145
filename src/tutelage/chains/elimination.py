"""The cost of a sparse factorisation, found without numbers: minimum-degree elimination on the pattern alone.

Eliminating a state connects all its neighbours. With d neighbours left, it costs about 2 d^2 operations and stores 2 d
entries. The next state is always one with the fewest neighbours, as in the orderings of the libraries. The graph is
kept as a quotient graph: an eliminated state becomes an *element*, the list of its neighbours, and a state has a list
of neighbouring states and a list of elements (George and Liu). Degrees are the upper bounds of Amestoy, Davis and Duff.
"""

from typing import Any

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.compiling import FASTMATH, compiled


@compiled()
def _join(p: int, lists: Any, elements: Any, pool: Indices, used: int, seen: Any) -> int:
    """Append the new element of p to the pool: all neighbours of p, directly or through its elements, now absorbed."""
    start, neighbour, n_elements, length = lists
    begins, ends, is_absorbed = elements
    is_gone, mark = seen
    for k in range(start[p], start[p] + length[p]):
        if k < start[p] + n_elements[p]:
            e = neighbour[k]
            for q in range(begins[e], ends[e]):
                i = pool[q]
                if not is_gone[i] and mark[i] != p:
                    mark[i] = p
                    pool[used] = i
                    used += 1
            is_absorbed[e] = True
        else:
            i = neighbour[k]
            if not is_gone[i] and mark[i] != p:
                mark[i] = p
                pool[used] = i
                used += 1
    return used


@compiled()
def _count_outside(p: int, lists: Any, elements: Any, pool: Indices, is_gone: Flags, outside: Any) -> None:
    """For every other element of a member of p's: how many of its members are outside p's."""
    start, neighbour, n_elements, _ = lists
    begins, ends, is_absorbed = elements
    n_outside, counted_for = outside
    for q in range(begins[p], ends[p]):
        i = pool[q]
        for k in range(start[i], start[i] + n_elements[i]):
            e = neighbour[k]
            if is_absorbed[e]:
                continue
            if counted_for[e] != p:
                counted_for[e] = p
                kept = begins[e]
                for r in range(begins[e], ends[e]):
                    if not is_gone[pool[r]]:
                        pool[kept] = pool[r]
                        kept += 1
                ends[e] = kept
                n_outside[e] = kept - begins[e]
            n_outside[e] -= 1


@compiled()
def _relist(i: int, p: int, lists: Any, is_absorbed: Flags, n_outside: Indices, seen: Any) -> int:
    """Put the new element of p into the list of its member i, and return how many neighbours i has beside it."""
    start, neighbour, n_elements, length = lists
    is_gone, mark = seen
    beside, kept = 0, start[i]
    for k in range(start[i], start[i] + n_elements[i]):
        e = neighbour[k]
        if not is_absorbed[e]:
            if n_outside[e] == 0:
                is_absorbed[e] = True
                continue
            neighbour[kept] = e
            kept += 1
            beside += n_outside[e]
    states = kept
    for k in range(start[i] + n_elements[i], start[i] + length[i]):
        j = neighbour[k]
        if not is_gone[j] and mark[j] != p:
            neighbour[states] = j
            states += 1
    beside += states - kept
    # Room for the new element: p itself, or an element that it absorbed, has left this list.
    if states > kept:
        neighbour[states] = neighbour[kept]
    neighbour[kept] = p
    n_elements[i], length[i] = kept - start[i] + 1, states + 1 - start[i]
    return int(beside)


@compiled()
def _move(i: int, new: int, buckets: Any) -> None:
    """Move i to the bucket of its new degree."""
    degree, head, after, before = buckets
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[degree[i]] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    degree[i], before[i], after[i] = new, -1, head[new]
    if after[i] >= 0:
        before[after[i]] = i
    head[new] = i


@compiled()
def elimination_cost(start: Indices, neighbour: Indices, budget: float) -> float:
    """The operations of an elimination of a symmetric pattern without its diagonal.

    They are infinite as soon as they exceed the budget. start: (S+1,). neighbour: the columns; overwritten.
    """
    n = len(start) - 1
    # A state's list, in its own part of `neighbour`: first its elements, then its neighbouring states.
    length = start[1:] - start[:-1]
    lists = (start, neighbour, np.zeros(n, np.int64), length)
    head, after, before = np.full(n + 1, -1), np.full(n, -1), np.full(n, -1)
    for i in range(n):
        after[i] = head[length[i]]
        if after[i] >= 0:
            before[after[i]] = i
        head[length[i]] = i
    buckets = (length.copy(), head, after, before)
    # Elements: where each begins and ends in the pool of members, and whether another one has absorbed it.
    pool = np.empty(max(4 * len(neighbour), 64), np.int64)
    elements = (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_))
    seen, outside = (np.zeros(n, np.bool_), np.full(n, -1)), (np.zeros(n, np.int64), np.full(n, -1))
    used, least, cost = 0, 0, 0.0
    for step in range(n):
        while head[least] < 0:
            least += 1
        p = head[least]
        head[least] = after[p]
        if after[p] >= 0:
            before[after[p]] = -1
        seen[0][p], seen[1][p] = True, p
        needed = length[p]
        for k in range(start[p], start[p] + lists[2][p]):
            needed += elements[1][neighbour[k]] - elements[0][neighbour[k]]
        if used + needed > len(pool):
            pool = np.concatenate((pool[:used], np.empty(used + 2 * needed, np.int64)))
        first, used = used, _join(p, lists, elements, pool, used, seen)
        elements[0][p], elements[1][p], size, left = first, used, used - first, n - step - 1
        cost += 2.0 * size * (size + 1)
        # Where all that is left is connected, the rest is dense.
        is_dense = size >= left - 1
        cost += 2.0 * left**3 / 3.0 if is_dense else 0.0
        if cost > budget:
            return np.inf
        if is_dense:
            return cost
        _count_outside(p, lists, elements, pool, seen[0], outside)
        for q in range(first, used):
            i = pool[q]
            bound = size - 1 + _relist(i, p, lists, elements[2], outside[0], seen)
            bound = min(bound, buckets[0][i] + size - 1, left - 1)
            _move(i, bound, buckets)
            least = min(least, bound)
    return cost


@compiled(fastmath=FASTMATH)
def follow(after: Indices, share: Vector, here: Matrix) -> Matrix:
    """x(s) = here(s) + share(s) * x(after(s)), for (S, d): a chain with one move per state, solved along its paths.

    Every path ends in a cycle, where x = sum over the cycle of here * product of shares / (1 - product of all shares).
    """
    n, d = here.shape
    x = np.empty_like(here)
    # 0: not seen, 1: on the present path, 2: solved.
    seen, path = np.zeros(n, np.int8), np.empty(n, np.int64)
    for first in range(n):
        length, s = 0, first
        while seen[s] == 0:
            seen[s] = 1
            path[length] = s
            length += 1
            s = after[s]
        if seen[s] == 1:
            begin = length - 1
            while path[begin] != s:
                begin -= 1
            for j in range(d):
                total, product = 0.0, 1.0
                for k in range(begin, length):
                    total += product * here[path[k], j]
                    product *= share[path[k]]
                x[s, j] = total / (1.0 - product)
            seen[s] = 2
        for k in range(length - 1, -1, -1):
            t = path[k]
            if seen[t] == 1:
                for j in range(d):
                    x[t, j] = here[t, j] + share[t] * x[after[t], j]
                seen[t] = 2
    return x


@compiled(fastmath=FASTMATH)
def carry(after: Indices, share: Vector, initial: Vector) -> Vector:
    """d(t) = initial(t) + sum over s with after(s) = t of share(s) * d(s): the visits of the chain of `follow`.

    States that no other state leads to come first; what is left are cycles, solved as in `follow`.
    """
    n = len(initial)
    d, n_before, waiting = initial.copy(), np.zeros(n, np.int64), np.empty(n, np.int64)
    for s in range(n):
        n_before[after[s]] += 1
    n_waiting = 0
    for s in range(n):
        if n_before[s] == 0:
            waiting[n_waiting] = s
            n_waiting += 1
    k = 0
    while k < n_waiting:
        s = waiting[k]
        t = int(after[s])
        d[t] += share[s] * d[s]
        n_before[t] -= 1
        if n_before[t] == 0:
            waiting[n_waiting] = t
            n_waiting += 1
        k += 1
    for first in range(n):
        if n_before[first] == 0:
            continue
        # Once around the cycle: what arrives at `first` from the others, and the share of it that returns.
        total, product, s = 0.0, share[first], int(after[first])
        while s != first:
            total = share[s] * (total + d[s])
            product *= share[s]
            s = int(after[s])
        d[first] = (d[first] + total) / (1.0 - product)
        n_before[first] = 0
        s, t = first, int(after[first])
        while t != first:
            d[t] += share[s] * d[s]
            n_before[t] = 0
            s, t = t, int(after[t])
    return d


@compiled(fastmath=FASTMATH)
def band(row: Indices, column: Indices, probability: Vector, first: Indices, weights: Vector, width: int) -> Matrix:
    """(S, 2 * width + 1), I - sum over choices of weights(c) T(c), where no move is further than `width` states.

    Entry (s, t) is in place t - s + width of row s. weights: (C,).
    """
    n = len(first) - 1
    entries = np.zeros((n, 2 * width + 1))
    for s in range(n):
        entries[s, width] = 1.0
        for c in range(first[s], first[s + 1]):
            if weights[c] != 0.0:
                for k in range(row[c], row[c + 1]):
                    entries[s, int(column[k]) - s + width] -= weights[c] * probability[k]
    return entries


@compiled(fastmath=FASTMATH)
def solve_band(entries: Matrix, width: int, here: Matrix, initial: Vector) -> tuple[Matrix, Vector]:
    """A^-1 here, (S, d), and A'^-1 initial, (S,) or empty, for A in a band; `entries` is overwritten by its factors.

    A is diagonally dominant, so elimination in the order of the states needs no pivots.
    """
    n, d = here.shape
    ahead, visits = here.copy(), initial.copy()
    for s in range(n):
        # The diagonal keeps its reciprocal.
        entries[s, width] = 1.0 / entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            factor = entries[t, s - t + width] * entries[s, width]
            entries[t, s - t + width] = factor
            if factor != 0.0:
                for j in range(1, width + 1):
                    entries[t, s - t + width + j] -= factor * entries[s, width + j]
                for j in range(d):
                    ahead[t, j] -= factor * ahead[s, j]
    for s in range(n - 1, -1, -1):
        for t in range(s + 1, min(s + width + 1, n)):
            entry = entries[s, t - s + width]
            for j in range(d):
                ahead[s, j] -= entry * ahead[t, j]
        for j in range(d):
            ahead[s, j] *= entries[s, width]
    # A' = U' L'.
    for s in range(len(visits)):
        visits[s] *= entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            visits[t] -= entries[s, t - s + width] * visits[s]
    for s in range(len(visits) - 1, -1, -1):
        for t in range(s + 1, min(s + width + 1, n)):
            visits[s] -= entries[t, s - t + width] * visits[t]
    return ahead, visits
