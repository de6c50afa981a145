"""Elimination without pivots, compiled: within a narrow band, by strongly connected components, and what an LU costs.

A = I - discount * P is diagonally dominant by rows, so elimination in any order is stable.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.compiling import FASTMATH, Rows, compiled, unsigned

# The states by component; where each component begins among them, and the end; the component of each state; and where
# the factors of each component begin.
Parts: TypeAlias = tuple[Indices, Indices, Indices, Indices]


def narrow_band(rows: SparseRows, first: Indices, share: Vector, width: int) -> Callable[..., Vector]:
    """Solve by one LU within a narrow band; row s of P is the sum of share(c) * T(c) over first[s] .. first[s+1]."""
    entries = factorise_band((rows.indptr, rows.indices, rows.data), first, share, width)
    return _solved_by(band_values, band_visits, entries)


def _solved_by(values: Callable[..., None], visits: Callable[..., None], *factors: Any) -> Callable[..., Vector]:
    """Solve by a loop for values or one for visits, which take the factors and overwrite the right side (S, d)."""

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        x = right.reshape(len(right), -1).astype(np.float64, order="C")
        (visits if is_visits else values)(*factors, x)
        return x.reshape(right.shape)

    return solve


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
def band_visits(entries: Matrix, start: Matrix) -> None:
    """A' d = start for (S, 1) by the factors of a band; the start is overwritten."""
    d, n, width = start[:, 0], len(start), entries.shape[1] // 2
    # A' = U' L'.
    for s in range(n):
        d[s] *= entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            d[t] -= entries[s, t - s + width] * d[s]
    for s in range(n - 1, -1, -1):
        for t in range(s + 1, min(s + width + 1, n)):
            d[s] -= entries[t, s - t + width] * d[t]


def eliminated(moves: SparseRows, label: Indices, size: Indices) -> Callable[..., Vector]:
    """Solve by elimination of the strongly connected components of I - moves, one after another, each densely.

    label: (S,), the component of each state, numbered so that no move leads to a later one, as SciPy does. size: of
    each component.
    """
    n = len(label)
    # SciPy sorts the states by component in one pass.
    order = sparse.csr_array((np.zeros(n, np.int8), label, np.arange(n + 1)), (n, len(size))).tocsc().indices
    first, begins = np.concatenate([[0], np.cumsum(size)]), np.concatenate([[0], np.cumsum(size**2)])
    parts, blocks = (order, first, label, begins), np.zeros(begins[-1])
    rows = (unsigned(moves.indptr), unsigned(moves.indices), moves.data)
    factorise_components(rows, parts, blocks)
    return _solved_by(component_values, component_visits, rows, parts, blocks)


@compiled(fastmath=FASTMATH)
def factorise_components(rows: Rows, parts: Parts, blocks: Vector) -> None:
    """The factors L U of I - moves within each component, into `blocks`; diagonals of U as their inverses.

    `blocks` has zeros at first.
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
def component_visits(rows: Rows, parts: Parts, blocks: Vector, start: Matrix) -> None:
    """A' d = start for (S, 1), which is overwritten. Components are solved from the last to the first."""
    d = start[:, 0]
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
