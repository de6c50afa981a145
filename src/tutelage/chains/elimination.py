"""Elimination without pivots, compiled: within a narrow band, by strongly connected components, and what an LU costs.

A = I - discount * P is diagonally dominant by rows, so elimination in any order is stable.
"""

import heapq
import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.compiling import FASTMATH, compiled, unsigned

# Row starts, columns and weights of the discounted moves.
Rows: TypeAlias = tuple[Indices, Indices, Vector]
# The states by component; where each component begins among them, and the end; the component of each state; and where
# the factors of each component begin.
Parts: TypeAlias = tuple[Indices, Indices, Indices, Indices]


@dataclass(frozen=True, slots=True, eq=False)
class NarrowBand:
    """By one LU of A within a narrow band: (S, 2 * width + 1)."""

    factors: Matrix

    @staticmethod
    def of(rows: SparseRows, first: Indices, share: Vector, width: int) -> "NarrowBand":
        """For the sums of the rows first[s] .. first[s+1] of a matrix (C, S), times their shares (C,)."""
        return NarrowBand(factorise_band((rows.indptr, rows.indices, rows.data), first, share, width))

    is_exact: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        x = right.reshape(len(right), -1).astype(np.float64, order="C")
        band_values(self.factors, x)
        return x.reshape(right.shape)

    def visits(self, start: Vector) -> Vector:
        visits = start.astype(np.float64)
        band_visits(self.factors, visits)
        return visits


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


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """By elimination of the strongly connected components, one after another, each densely.

    Components are numbered so that no move leads to a later one, as SciPy does. blocks: the factors of the components,
    each by rows.
    """

    rows: Rows
    parts: Parts
    blocks: Vector

    @staticmethod
    def of(moves: SparseRows, label: Indices, size: Indices) -> "Components":
        """The factors of I - moves. label: (S,), the component of each state. size: of each component."""
        first, begins = np.concatenate([[0], np.cumsum(size)]), np.concatenate([[0], np.cumsum(size**2)])
        parts, blocks = (by_component(label, first), first, label, begins), np.zeros(begins[-1])
        rows = (unsigned(moves.indptr), unsigned(moves.indices), moves.data)
        factorise_components(rows, parts, blocks)
        return Components(rows, parts, blocks)

    is_exact: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        x = right.reshape(len(right), -1).astype(np.float64, order="C")
        component_values(self.rows, self.parts, self.blocks, x)
        return x.reshape(right.shape)

    def visits(self, start: Vector) -> Vector:
        visits = start.astype(np.float64)
        component_visits(self.rows, self.parts, self.blocks, visits)
        return visits


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
def fill_operations(start: Indices, column: Indices, most: float) -> float:
    """The operations of an elimination of a symmetric pattern in the order of its rows; infinite if above `most`.

    Row i of the factor L has the columns on the ways from its own entries to i, where each column k leads to the first
    later row that has it (Liu's elimination tree). A column with d entries takes 2 d^2 operations.
    """
    n, cost = len(start) - 1, 0.0
    parent, reached, length = np.full(n, n), np.full(n, n), np.zeros(n)
    for i in range(n):
        reached[i] = i
        for q in range(start[i], start[i + 1]):
            k = np.int64(column[q])
            while k < i and reached[k] != i:
                parent[k] = min(parent[k], i)
                reached[k] = i
                cost += 4.0 * length[k] + 2.0
                length[k] += 1.0
                k = parent[k]
        if cost > most:
            return math.inf
    return cost


@compiled()
def _substitute_back(start: Indices, ends: Indices, shares: Vector, totals: Matrix) -> None:
    """Add to the totals (n, d) of each state those of later states, times their shares."""
    for i in range(len(totals) - 1, -1, -1):
        for q in range(start[i], start[i + 1]):
            for m in range(totals.shape[1]):
                totals[i, m] += shares[q] * totals[ends[q], m]


@compiled()
def totals_without_subtraction(rows: Rows, leaves: Vector, here: Matrix) -> Matrix:
    """(n, d), the expected totals of `here` until a chain is left for good, as in `arrival`; states are eliminated in
    their order. rows: the moves between the states. leaves: (n,), the probability to leave from each state."""
    row, column, weight = rows
    n = len(here)
    start, ends, used = np.zeros(n + 1, np.int64), np.empty(4 * len(weight) + 64, np.int64), 0
    shares, left, totals = np.empty(len(ends)), leaves.copy(), here.copy()
    work, is_waiting = np.zeros(n), np.zeros(n, np.bool_)
    for i in range(n):
        # Moves to earlier states wait in the order of elimination; moves to later states are kept.
        earlier, later = [np.int64(n)], [np.int64(n)]
        for k in range(row[i], row[i + 1]):
            j = np.int64(column[k])
            if j != i:
                work[j] = weight[k]
                is_waiting[j] = True
                heapq.heappush(earlier if j < i else later, j)
        while earlier[0] < n:
            k = int(heapq.heappop(earlier))
            share, work[k], is_waiting[k] = work[k], 0.0, False
            if share == 0.0:
                continue
            left[i] += share * left[k]
            totals[i] += share * totals[k]
            for q in range(start[k], start[k + 1]):
                j = ends[q]
                if j != i:
                    work[j] += share * shares[q]
                    if not is_waiting[j]:
                        is_waiting[j] = True
                        heapq.heappush(earlier if j < i else later, j)
        if used + len(later) > len(ends):
            ends = np.concatenate((ends[:used], np.empty(used + 2 * n, np.int64)))
            shares = np.concatenate((shares[:used], np.empty(used + 2 * n)))
        out = left[i]
        for j in later:
            if j < n:
                out += work[j]
        # Not zero, even if all that leaves the state is below the least double.
        out = max(out, 5e-324)
        for j in later:
            if j < n:
                ends[used], shares[used] = j, work[j] / out
                used += 1 if shares[used] > 0.0 else 0
                work[j], is_waiting[j] = 0.0, False
        start[i + 1] = used
        left[i], totals[i] = left[i] / out, totals[i] / out
    _substitute_back(start, ends, shares, totals)
    return totals
