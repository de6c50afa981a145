"""Elimination without pivots, compiled: within a narrow band, by strongly connected components, and what an LU costs.

A = I - discount * P is diagonally dominant by rows, so elimination in any order is stable. No factors are kept: most
chains are solved once, and where a policy has another solution, the elimination is repeated.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.compiling import FASTMATH, Rows, compiled, unsigned


def narrow_band(rows: SparseRows, first: Indices, share: Vector, width: int) -> Callable[..., Vector]:
    """Solve by elimination within a band; row s of P is the sum of share(c) * T(c) over first[s] .. first[s+1]."""

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        x = _columns(right)
        solve_band((rows.indptr, rows.indices, rows.data), first, share, width, is_visits, x)
        return x.reshape(right.shape)

    return solve


def eliminated(moves: SparseRows, label: Indices, size: Indices) -> Callable[..., Vector]:
    """Solve by elimination of the strongly connected components of I - moves, one after another, each densely.

    label: (S,), the component of each state, numbered so that no move leads to a later one, as SciPy does. size: of
    each component.
    """
    n = len(label)
    # SciPy sorts the states by component in one pass.
    order = sparse.csr_array((np.zeros(n, np.int8), label, np.arange(n + 1)), (n, len(size))).tocsc().indices

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        x = _columns(right)
        # The transposed chain has the same components, in the opposite order.
        system = moves.T.tocsr() if is_visits else moves
        rows = (unsigned(system.indptr), unsigned(system.indices), system.data)
        solve_components(rows, order[::-1].copy() if is_visits else order, label, size, x)
        return x.reshape(right.shape)

    return solve


def _columns(right: Vector) -> Matrix:
    """(S, d), a copy of a right side, which the loops overwrite with the solution."""
    return right.reshape(len(right), -1).astype(np.float64, order="C")


@compiled(fastmath=FASTMATH)
def solve_band(rows: Rows, first: Indices, share: Vector, width: int, is_transposed: bool, x: Matrix) -> None:
    """(I - P) x = right for (S, d), or with the transpose, in place; P as in `narrow_band`, moves up to `width`."""
    row, column, weight = rows
    n, d = x.shape
    # Entry (s, t) is in place t - s + width of row s.
    entries = np.zeros((n, 2 * width + 1))
    entries[:, width] = 1.0
    for s in range(n):
        for c in range(first[s], first[s + 1]):
            if share[c] != 0.0:
                for k in range(row[c], row[c + 1]):
                    to = np.int64(column[k])
                    i, j = (to, s) if is_transposed else (s, to)
                    entries[i, j - i + width] -= share[c] * weight[k]
    for s in range(n):
        inverse = 1.0 / entries[s, width]
        for t in range(s + 1, min(s + width + 1, n)):
            factor = entries[t, s - t + width] * inverse
            if factor != 0.0:
                for j in range(1, width + 1):
                    entries[t, s - t + width + j] -= factor * entries[s, width + j]
                for j in range(d):
                    x[t, j] -= factor * x[s, j]
    for s in range(n - 1, -1, -1):
        inverse = 1.0 / entries[s, width]
        for j in range(d):
            for t in range(s + 1, min(s + width + 1, n)):
                x[s, j] -= entries[s, t - s + width] * x[t, j]
            x[s, j] *= inverse


@compiled(fastmath=FASTMATH)
def solve_components(rows: Rows, order: Indices, label: Indices, size: Indices, x: Matrix) -> None:
    """(I - moves) x = right for (S, d), in place of the right side. order: (S,), the states by component."""
    row, column, weight = rows
    n, d = x.shape
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    block = np.empty((size.max(), size.max()))
    low = 0
    while low < n:
        c = label[order[low]]
        states = order[low : low + size[c]]
        m = len(states)
        block[:m, :m] = 0.0
        for i in range(m):
            s = states[i]
            block[i, i] = 1.0
            for k in range(row[s], row[s + 1]):
                t = column[k]
                if label[t] == c:
                    block[i, place[t] - low] -= weight[k]
                else:
                    for j in range(d):
                        x[s, j] += weight[k] * x[t, j]
        for i in range(m):
            inverse = 1.0 / block[i, i]
            for h in range(i + 1, m):
                factor = block[h, i] * inverse
                if factor != 0.0:
                    for k in range(i + 1, m):
                        block[h, k] -= factor * block[i, k]
                    for j in range(d):
                        x[states[h], j] -= factor * x[states[i], j]
        for i in range(m - 1, -1, -1):
            inverse = 1.0 / block[i, i]
            for j in range(d):
                for h in range(i + 1, m):
                    x[states[i], j] -= block[i, h] * x[states[h], j]
                x[states[i], j] *= inverse
        low += m


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
