"""The cost of a sparse factorisation, found without numbers: minimum-degree elimination on the pattern alone.

Eliminating a state connects all its neighbours. With d neighbours left, it costs about 2 d^2 operations and stores 2 d
entries. The next state is always one with the fewest neighbours, as in the orderings of the libraries. The graph is
kept as a quotient graph: an eliminated state becomes an *element*, the list of its neighbours, and a state has a list
of neighbouring states and a list of elements (George and Liu). Degrees are the upper bounds of Amestoy, Davis and Duff.
"""

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.kernels import FASTMATH, compiled


@compiled()
def elimination_cost(start: Indices, neighbour: Indices, budget: float) -> float:
    """Operations of an elimination of a symmetric pattern without its diagonal; infinite as soon as above the budget.

    start: (S+1,). neighbour: the columns; overwritten.
    """
    n = len(start) - 1
    # A state's list, in its own part of `neighbour`: first its elements, then its neighbouring states.
    n_elements, length = np.zeros(n, np.int64), np.empty(n, np.int64)
    degree = np.empty(n, np.int64)
    head, after, before = np.full(n + 1, -1), np.full(n, -1), np.full(n, -1)
    for i in range(n):
        length[i] = start[i + 1] - start[i]
        degree[i] = length[i]
        after[i] = head[degree[i]]
        if after[i] >= 0:
            before[after[i]] = i
        head[degree[i]] = i
    # Elements: the pool of their members, where each begins and ends, and how many members are not yet eliminated.
    pool = np.empty(max(4 * len(neighbour), 64), np.int64)
    begins, ends, is_absorbed = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
    is_gone, mark, outside = np.zeros(n, np.bool_), np.full(n, -1), np.zeros(n, np.int64)
    outside_mark = np.full(n, -1)
    used, least, cost = 0, 0, 0.0
    for step in range(n):
        while head[least] < 0:
            least += 1
        p = head[least]
        head[least] = after[p]
        if after[p] >= 0:
            before[after[p]] = -1
        is_gone[p] = True
        mark[p] = p
        # The new element: all neighbours of p, directly or through its elements, which it absorbs.
        first = used
        needed = length[p] - n_elements[p]
        for k in range(start[p], start[p] + n_elements[p]):
            needed += ends[neighbour[k]] - begins[neighbour[k]]
        if used + needed > len(pool):
            bigger = np.empty(2 * (used + needed), np.int64)
            bigger[:used] = pool[:used]
            pool = bigger
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
        begins[p], ends[p] = first, used
        size = used - first
        cost += 2.0 * size * size + 2.0 * size
        if cost > budget:
            return np.inf
        left = n - step - 1
        if size >= left - 1:
            # All that is left is connected: the rest is dense.
            return cost + 2.0 * left**3 / 3.0 if cost + 2.0 * left**3 / 3.0 <= budget else np.inf
        # For every other element of a member: how many of its members are outside the new one.
        for q in range(first, used):
            i = pool[q]
            for k in range(start[i], start[i] + n_elements[i]):
                e = neighbour[k]
                if is_absorbed[e]:
                    continue
                if outside_mark[e] != p:
                    outside_mark[e] = p
                    kept = begins[e]
                    for r in range(begins[e], ends[e]):
                        if not is_gone[pool[r]]:
                            pool[kept] = pool[r]
                            kept += 1
                    ends[e] = kept
                    outside[e] = kept - begins[e]
                outside[e] -= 1
        for q in range(first, used):
            i = pool[q]
            bound, kept = size - 1, start[i]
            for k in range(start[i], start[i] + n_elements[i]):
                e = neighbour[k]
                if not is_absorbed[e]:
                    if outside[e] == 0:
                        is_absorbed[e] = True
                        continue
                    neighbour[kept] = e
                    kept += 1
                    bound += outside[e]
            n_kept = kept - start[i]
            states = kept
            for k in range(start[i] + n_elements[i], start[i] + length[i]):
                j = neighbour[k]
                if not is_gone[j] and mark[j] != p:
                    neighbour[states] = j
                    states += 1
            bound += states - kept
            # Room for the new element: p itself, or an element that it absorbed, has left this list.
            if states > kept:
                neighbour[states] = neighbour[kept]
            neighbour[kept] = p
            n_elements[i], length[i] = n_kept + 1, states + 1 - start[i]
            bound = min(bound, degree[i] + size - 1, left - 1)
            # Move i to the bucket of its new degree.
            if before[i] >= 0:
                after[before[i]] = after[i]
            else:
                head[degree[i]] = after[i]
            if after[i] >= 0:
                before[after[i]] = before[i]
            degree[i], before[i], after[i] = bound, -1, head[bound]
            if after[i] >= 0:
                before[after[i]] = i
            head[bound] = i
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
