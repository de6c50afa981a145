"""Compiled loops over chains: triangular sweeps with a Krylov method, elimination by components, the cost of an LU."""

import heapq
import math
from typing import TypeAlias

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.compiling import FASTMATH, compiled

# Row starts, columns and weights of the discounted moves.
Rows: TypeAlias = tuple[Indices, Indices, Vector]
# As in `iterations`: row starts, ends of the earlier and starts of the later entries, columns and weights.
SplitRows: TypeAlias = tuple[Indices, Indices, Indices, Indices, Vector]
# As in `resolvent.Components`: order, first, label, begins.
Parts: TypeAlias = tuple[Indices, Indices, Indices, Indices]

# Of a quotient graph: where the list of each state starts, all lists, their lengths, and the degrees of the states.
Lists: TypeAlias = tuple[Indices, Indices, Indices, Indices]
# Where each element begins and ends in the pool of members; whether a state is eliminated, and then whether an element
# is replaced, (2 S,); and the last element with each state.
Elements: TypeAlias = tuple[Indices, Indices, Flags, Indices]


@compiled(fastmath=FASTMATH)
def split_rows(rows: Rows, first: Indices, share: Vector) -> tuple[SplitRows, Vector]:
    """I - P, divided by its diagonal, as I - L - U, and the inverse of the diagonal, (S,).

    Row s of P is the sum of share(c) * T(c) over the rows c from first[s] to first[s+1]. Within the place of these
    rows, entries of L are stored from the front and those of U from the back.
    """
    row, column, weight = rows
    n = len(first) - 1
    start, before, after = np.empty(n + 1, row.dtype), np.empty(n, row.dtype), np.empty(n, row.dtype)
    columns, weights, scale = np.empty_like(column), np.empty_like(weight), np.empty(n)
    start[n] = row[first[n]]
    for s in range(n):
        low, high = np.int64(row[first[s]]), np.int64(row[first[s + 1]])
        start[s] = low
        stay = 0.0
        for c in range(first[s], first[s + 1]):
            here = share[c]
            for k in range(row[c], row[c + 1]):
                j = np.int64(column[k])
                if j < s:
                    columns[low], weights[low] = j, here * weight[k]
                    low += 1
                elif j > s:
                    high -= 1
                    columns[high], weights[high] = j, here * weight[k]
                else:
                    stay += here * weight[k]
        before[s], after[s] = low, high
        inverse = 1.0 / (1.0 - stay)
        scale[s] = inverse
        for k in range(start[s], low):
            weights[k] *= inverse
        for k in range(high, row[first[s + 1]]):
            weights[k] *= inverse
    return (start, before, after, columns, weights), scale


@compiled(fastmath=FASTMATH)
def _backward(rows: SplitRows, right: Vector, out: Vector) -> None:
    """(I - U) out = right."""
    row, _, after, column, weight = rows
    n = len(out)
    for i in range(n):
        s = n - 1 - i
        total = right[s]
        for k in range(after[s], row[s + 1]):
            total += weight[k] * out[column[k]]
        out[s] = total


@compiled(fastmath=FASTMATH)
def _forward(rows: SplitRows, right: Vector, middle: Vector, shadow: Vector, out: Vector) -> tuple[float, float]:
    """(I - L) rest = right - middle, out = middle + rest; returns shadow @ out and out @ out.

    With (I - U) middle = right, out is (I - L)^-1 (I - L - U) (I - U)^-1 right: the whole matrix preconditioned from
    both sides, at the cost of the two triangular solves (Eisenstat's trick).
    """
    row, before, _, column, weight = rows
    with_shadow = with_itself = 0.0
    rest = np.empty_like(out)
    for s in range(len(out)):
        total = right[s] - middle[s]
        for k in range(row[s], before[s]):
            total += weight[k] * rest[column[k]]
        rest[s] = total
        total += middle[s]
        out[s] = total
        with_shadow += shadow[s] * total
        with_itself += total * total
    return with_shadow, with_itself


@compiled(fastmath=FASTMATH)
def bicgstab(rows: SplitRows, right: Vector, tolerance: float, max_steps: int) -> Vector:
    """Solve (I - L - U) x = right for x, preconditioned from both sides.

    It ends where the 2-norm of the preconditioned residual has fallen by `tolerance`, or after a breakdown.
    """
    n = len(right)
    zero, r, middle = np.zeros(n), np.empty(n), np.empty(n)
    rho = _forward(rows, right, zero, zero, r)[1]
    goal = tolerance**2 * rho
    y, shadow, p, v, t = np.zeros(n), r.copy(), r.copy(), np.zeros(n), np.zeros(n)
    for _ in range(max_steps):
        _backward(rows, p, middle)
        shadow_v = _forward(rows, p, middle, shadow, v)[0]
        if shadow_v == 0.0 or not np.isfinite(shadow_v):
            break
        alpha = rho / shadow_v
        for s in range(n):
            r[s] -= alpha * v[s]
        _backward(rows, r, middle)
        with_r, with_itself = _forward(rows, r, middle, r, t)
        omega = with_r / with_itself if with_itself > 0.0 else 0.0
        left = rho_next = 0.0
        for s in range(n):
            y[s] += alpha * p[s] + omega * r[s]
            r[s] -= omega * t[s]
            left += r[s] * r[s]
            rho_next += shadow[s] * r[s]
        if not left > goal or omega == 0.0 or rho_next == 0.0:
            break
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
        for s in range(n):
            p[s] = r[s] + beta * (p[s] - omega * v[s])
    _backward(rows, y, middle)
    return middle


@compiled(fastmath=FASTMATH)
def relax(rows: SplitRows, right: Vector, value: Vector, n_pairs: int) -> None:
    """Pairs of in-place sweeps, forward and backward: each state in turn solves x = right + (L + U) x."""
    row, before, after, column, weight = rows
    n_states = len(value)
    for sweep in range(2 * n_pairs):
        for i in range(n_states):
            s = i if sweep % 2 == 0 else n_states - 1 - i
            total = right[s]
            for k in range(row[s], before[s]):
                total += weight[k] * value[column[k]]
            for k in range(after[s], row[s + 1]):
                total += weight[k] * value[column[k]]
            value[s] = total


@compiled(fastmath=FASTMATH)
def factorise_band(rows: Rows, first: Indices, share: Vector, width: int) -> Matrix:
    """(S, 2 * width + 1), the factors L U of I - P, where no move is further than `width` states.

    Row s of P is the sum of share(c) * T(c) over the rows c from first[s] to first[s+1]. Entry (s, t) is in place
    t - s + width of row s; diagonals of U are stored as their inverses.
    """
    row, column, weight = rows
    n = len(first) - 1
    entries = np.zeros((n, 2 * width + 1))
    for s in range(n):
        entries[s, width] = 1.0
        for c in range(first[s], first[s + 1]):
            if share[c] != 0.0:
                for k in range(row[c], row[c + 1]):
                    entries[s, np.int64(column[k]) - s + width] -= share[c] * weight[k]
    for s in range(n):
        entries[s, width] = 1.0 / entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            factor = entries[t, s - t + width] * entries[s, width]
            entries[t, s - t + width] = factor
            if factor != 0.0:
                for j in range(1, width + 1):
                    entries[t, s - t + width + j] -= factor * entries[s, width + j]
    return entries


@compiled(fastmath=FASTMATH)
def band_values(entries: Matrix, x: Matrix) -> None:
    """A x = right for (S, d) by the factors of a band; x has the right side and is overwritten."""
    n, d = x.shape
    width = entries.shape[1] // 2
    for s in range(n):
        for t in range(max(s - width, 0), s):
            for j in range(d):
                x[s, j] -= entries[s, t - s + width] * x[t, j]
    for s in range(n - 1, -1, -1):
        for t in range(s + 1, min(s + width + 1, n)):
            for j in range(d):
                x[s, j] -= entries[s, t - s + width] * x[t, j]
        for j in range(d):
            x[s, j] *= entries[s, width]


@compiled(fastmath=FASTMATH)
def band_visits(entries: Matrix, d: Vector) -> None:
    """A' d = start for (S,) by the factors of a band; d has the start and is overwritten."""
    n, width = len(d), entries.shape[1] // 2
    # A' = U' L'.
    for s in range(n):
        d[s] *= entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            d[t] -= entries[s, t - s + width] * d[s]
    for s in range(n - 1, -1, -1):
        for t in range(s + 1, min(s + width + 1, n)):
            d[s] -= entries[t, s - t + width] * d[t]


@compiled()
def by_component(label: Indices, first: Indices) -> Indices:
    """The states (S,) by the label of their component; first: where each component begins, and the end."""
    place, order = first[:-1].copy(), np.empty(len(label), np.int64)
    for s in range(len(label)):
        c = label[s]
        order[place[c]] = s
        place[c] += 1
    return order


@compiled(fastmath=FASTMATH)
def factorise_components(rows: Rows, parts: Parts, blocks: Vector) -> None:
    """The factors L U of I - moves within each component, into `blocks`; diagonals of U as their inverses.

    `blocks` has zeros at first. Rows are diagonally dominant, so elimination needs no pivots.
    """
    row, column, weight = rows
    order, first, label, begins = parts
    place = np.empty(len(order), np.int64)
    for i in range(len(order)):
        place[order[i]] = i
    for c in range(len(first) - 1):
        low, size, at = first[c], first[c + 1] - first[c], begins[c]
        for i in range(size):
            s = order[low + i]
            blocks[at + i * size + i] = 1.0
            for k in range(row[s], row[s + 1]):
                if label[column[k]] == c:
                    blocks[at + i * size + place[column[k]] - low] -= weight[k]
        for i in range(size):
            inverse = 1.0 / blocks[at + i * size + i]
            blocks[at + i * size + i] = inverse
            for j in range(i + 1, size):
                factor = blocks[at + j * size + i] * inverse
                blocks[at + j * size + i] = factor
                if factor != 0.0:
                    for k in range(i + 1, size):
                        blocks[at + j * size + k] -= factor * blocks[at + i * size + k]


@compiled(fastmath=FASTMATH)
def component_values(rows: Rows, parts: Parts, blocks: Vector, x: Matrix) -> None:
    """A x = right for (S, d); x has the right side and is overwritten. Components are solved in their order."""
    row, column, weight = rows
    order, first, label, begins = parts
    d = x.shape[1]
    for c in range(len(first) - 1):
        low, size, at = first[c], first[c + 1] - first[c], begins[c]
        for i in range(size):
            s = order[low + i]
            for k in range(row[s], row[s + 1]):
                t = column[k]
                if label[t] != c:
                    for j in range(d):
                        x[s, j] += weight[k] * x[t, j]
            for h in range(i):
                for j in range(d):
                    x[s, j] -= blocks[at + i * size + h] * x[order[low + h], j]
        for i in range(size - 1, -1, -1):
            s = order[low + i]
            for h in range(i + 1, size):
                for j in range(d):
                    x[s, j] -= blocks[at + i * size + h] * x[order[low + h], j]
            for j in range(d):
                x[s, j] *= blocks[at + i * size + i]


@compiled(fastmath=FASTMATH)
def component_visits(rows: Rows, parts: Parts, blocks: Vector, d: Vector) -> None:
    """A' d = start for (S,); d has the start and is overwritten. Components are solved from the last to the first."""
    row, column, weight = rows
    order, first, label, begins = parts
    for c in range(len(first) - 2, -1, -1):
        low, size, at = first[c], first[c + 1] - first[c], begins[c]
        # A' = U' L'.
        for i in range(size):
            s = order[low + i]
            d[s] *= blocks[at + i * size + i]
            for h in range(i + 1, size):
                d[order[low + h]] -= blocks[at + i * size + h] * d[s]
        for i in range(size - 1, -1, -1):
            s = order[low + i]
            for h in range(i):
                d[order[low + h]] -= blocks[at + i * size + h] * d[s]
        for i in range(size):
            s = order[low + i]
            if d[s] != 0.0:
                for k in range(row[s], row[s + 1]):
                    if label[column[k]] != c:
                        d[column[k]] += weight[k] * d[s]


@compiled()
def _joined(p: int, lists: Lists, elements: Elements, pool: Indices, used: int) -> int:
    """Append the neighbours of p to the pool, directly or through its elements, which its own element now replaces."""
    start, neighbour, length, _ = lists
    begins, ends, is_gone, mark = elements
    n = len(length)
    is_gone[p], mark[p], begins[p] = True, p, used
    for k in range(start[p], start[p] + length[p]):
        member = neighbour[k]
        if member < n:
            if not is_gone[member] and mark[member] != p:
                mark[member], pool[used], used = p, member, used + 1
        elif not is_gone[member]:
            is_gone[member] = True
            for q in range(begins[member - n], ends[member - n]):
                i = pool[q]
                if not is_gone[i] and mark[i] != p:
                    mark[i], pool[used], used = p, i, used + 1
    ends[p] = used
    return used


@compiled()
def _relisted(p: int, i: int, lists: Lists, elements: Elements, outside: Indices) -> int:
    """Put the element of p into the list of its member i, and return a bound on the number of neighbours of i.

    outside: for each element, how many of its members are not members of p's.
    """
    start, neighbour, length, _ = lists
    begins, ends, is_gone, mark = elements
    n, kept, bound = len(length), start[i], ends[p] - begins[p] - 1
    for k in range(start[i], start[i] + length[i]):
        member = neighbour[k]
        if is_gone[member] or (member < n and mark[member] == p):
            continue
        if member >= n and outside[member - n] == 0:
            # The element of p has all its members.
            is_gone[member] = True
            continue
        neighbour[kept], kept = member, kept + 1
        bound += 1 if member < n else outside[member - n]
    # Room for the new element: p itself, or an element that it replaced, has left this list.
    neighbour[kept] = n + p
    length[i] = kept + 1 - start[i]
    return int(bound)


@compiled()
def elimination_cost(start: Indices, neighbour: Indices, budget: float) -> float:
    """The operations of an elimination of a symmetric pattern without its diagonal, in the order of least degree.

    Eliminating a state connects all its neighbours; with d of them it takes about 2 d^2 operations. The graph is kept
    as a quotient graph (George and Liu): an eliminated state becomes an *element*, the list of its neighbours, and
    n + e in the list of a state stands for the element of e. Degrees are the upper bounds of Amestoy, Davis and Duff.
    Infinite as soon as the operations exceed the budget. start: (S+1,). neighbour: the columns; overwritten.
    """
    n = len(start) - 1
    degree = start[1:] - start[:-1]
    lists = (start, neighbour, degree.copy(), degree)
    elements = (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(2 * n, np.bool_), np.full(n, -1))
    begins, ends, is_gone, _ = elements
    pool, outside, counted_for = np.empty(max(4 * len(neighbour), 64), np.int64), np.zeros(n, np.int64), np.full(n, -1)
    waiting = [(degree[s], np.int64(s)) for s in range(n)]
    heapq.heapify(waiting)
    used, left = 0, n
    cost: float = 0.0
    while left > 0:
        least, state = heapq.heappop(waiting)
        p = int(state)
        if is_gone[p] or least != degree[p]:
            continue
        if used + n > len(pool):
            pool = np.concatenate((pool[:used], np.empty(used + 2 * n, np.int64)))
        used, left = _joined(p, lists, elements, pool, used), left - 1
        size = used - begins[p]
        cost += 2.0 * size * (size + 1)
        # Where all that is left is connected, the rest is dense.
        is_dense = size >= left - 1
        cost += 2.0 * left**3 / 3.0 if is_dense else 0.0
        if cost > budget:
            return math.inf
        if is_dense:
            return cost
        members = pool[begins[p] : used]
        for i in members:
            for k in range(start[i], start[i] + lists[2][i]):
                e = neighbour[k] - n
                if e >= 0 and not is_gone[n + e]:
                    if counted_for[e] != p:
                        counted_for[e], outside[e] = p, ends[e] - begins[e]
                    outside[e] -= 1
        for i in members:
            bound = _relisted(p, int(i), lists, elements, outside)
            degree[i] = min(bound, degree[i] + size - 1, left - 1)
            heapq.heappush(waiting, (degree[i], i))
    return cost
