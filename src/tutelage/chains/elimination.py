"""Elimination without pivots, compiled: by strongly connected components within their bands, and what an LU costs.

A = I - discount * P is diagonally dominant by rows, so elimination in any order is stable. No move leads to a later
component, so components are solved one after another. The states of one keep their order, and no move within it passes
more than `width` of them: the factors L U of its block of A have no entries further from the diagonal. A chain whose
moves are short is one narrow band; the chain of a policy with one choice per state has many small components.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.compiling import FASTMATH, compiled, unsigned

# Row starts, columns and weights of the discounted moves.
Rows: TypeAlias = tuple[Indices, Indices, Vector]
# The states by component; where each component begins among them, and the end; the component of each state; the width
# of each component; and where the factors of each begin. Entry (i, k) of the factors of a component is in place
# 2 * width * i + width + k of them; diagonals of U are stored as their inverses.
Parts: TypeAlias = tuple[Indices, Indices, Indices, Indices, Indices]


def eliminated(moves: SparseRows, label: Indices, n_components: int) -> Callable[..., Vector]:
    """Solve by elimination of the strongly connected components of I - moves, one after another.

    label: (S,), the component of each state, numbered so that no move leads to a later one, as SciPy does.
    """
    rows = (unsigned(moves.indptr), unsigned(moves.indices), moves.data)
    place, parts = component_parts(rows, label, n_components)
    blocks = np.zeros(parts[4][-1])
    factorise_components(rows, parts, place, blocks)

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        x = right.reshape(len(right), -1).astype(np.float64, order="C")
        (component_visits if is_visits else component_values)(rows, parts, blocks, x)
        return x.reshape(right.shape)

    return solve


@compiled()
def component_parts(rows: Rows, label: Indices, n_components: int) -> tuple[Indices, Parts]:
    """The place of each state among the states by component, and the parts."""
    row, column, _ = rows
    first, width, begins = (
        np.zeros(n_components + 1, np.int64),
        np.zeros(n_components, np.int64),
        np.zeros(n_components + 1, np.int64),
    )
    for s in range(len(label)):
        first[label[s] + 1] += 1
    first = np.cumsum(first)
    order, place, filled = np.empty(len(label), np.int64), np.empty(len(label), np.int64), first.copy()
    for s in range(len(label)):
        place[s] = filled[label[s]]
        order[place[s]] = s
        filled[label[s]] += 1
    for s in range(len(label)):
        for k in range(row[s], row[s + 1]):
            if label[column[k]] == label[s]:
                width[label[s]] = max(width[label[s]], abs(place[column[k]] - place[s]))
    for c in range(n_components):
        begins[c + 1] = begins[c] + (first[c + 1] - first[c]) * (2 * width[c] + 1)
    return place, (order, first, label, width, begins)


@compiled(fastmath=FASTMATH)
def factorise_components(rows: Rows, parts: Parts, place: Indices, blocks: Vector) -> None:
    """The factors L U of I - moves within each component, into `blocks`, which has zeros at first."""
    row, column, weight = rows
    order, first, label, width, begins = parts
    for c in range(len(first) - 1):
        low, size, w = first[c], first[c + 1] - first[c], width[c]
        at = begins[c] + w
        for i in range(size):
            s = order[low + i]
            blocks[at + 2 * w * i + i] = 1.0
            for k in range(row[s], row[s + 1]):
                if label[column[k]] == c:
                    blocks[at + 2 * w * i + place[column[k]] - low] -= weight[k]
        for i in range(size):
            inverse, end = 1.0 / blocks[at + 2 * w * i + i], min(i + w + 1, size)
            blocks[at + 2 * w * i + i] = inverse
            for j in range(i + 1, end):
                factor = blocks[at + 2 * w * j + i] * inverse
                blocks[at + 2 * w * j + i] = factor
                if factor != 0.0:
                    for k in range(i + 1, end):
                        blocks[at + 2 * w * j + k] -= factor * blocks[at + 2 * w * i + k]


@compiled(fastmath=FASTMATH)
def component_values(rows: Rows, parts: Parts, blocks: Vector, x: Matrix) -> None:
    """A x = right for (S, d); x has the right side and is overwritten. Components are solved in their order."""
    row, column, weight = rows
    order, first, label, width, begins = parts
    d = x.shape[1]
    for c in range(len(first) - 1):
        low, size, w = first[c], first[c + 1] - first[c], width[c]
        at = begins[c] + w
        for i in range(size):
            s = order[low + i]
            for k in range(row[s], row[s + 1]):
                t = column[k]
                if label[t] != c:
                    for j in range(d):
                        x[s, j] += weight[k] * x[t, j]
            for h in range(max(i - w, 0), i):
                for j in range(d):
                    x[s, j] -= blocks[at + 2 * w * i + h] * x[order[low + h], j]
        for i in range(size - 1, -1, -1):
            s = order[low + i]
            for h in range(i + 1, min(i + w + 1, size)):
                for j in range(d):
                    x[s, j] -= blocks[at + 2 * w * i + h] * x[order[low + h], j]
            for j in range(d):
                x[s, j] *= blocks[at + 2 * w * i + i]


@compiled(fastmath=FASTMATH)
def component_visits(rows: Rows, parts: Parts, blocks: Vector, start: Matrix) -> None:
    """A' d = start for (S, 1), which is overwritten. Components are solved from the last to the first."""
    d = start[:, 0]
    row, column, weight = rows
    order, first, label, width, begins = parts
    for c in range(len(first) - 2, -1, -1):
        low, size, w = first[c], first[c + 1] - first[c], width[c]
        at = begins[c] + w
        # A' = U' L'.
        for i in range(size):
            s = order[low + i]
            d[s] *= blocks[at + 2 * w * i + i]
            for h in range(i + 1, min(i + w + 1, size)):
                d[order[low + h]] -= blocks[at + 2 * w * i + h] * d[s]
        for i in range(size - 1, -1, -1):
            s = order[low + i]
            for h in range(max(i - w, 0), i):
                d[order[low + h]] -= blocks[at + 2 * w * i + h] * d[s]
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
