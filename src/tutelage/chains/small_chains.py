"""Factorisations of small chains: A = I - discount * P with a pattern that all policies of an MDP share.

Each factorises A', whose columns are diagonally dominant. So LAPACK changes no rows, and what cannot be negative is
not, even by rounding. The position of every entry is computed once per MDP: sorting the entries of a small system takes
longer than solving it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse import csgraph

from tutelage.arrays import Indices, Vector
from tutelage.model.mdp import MDP

# A chain is factorised within a band, if its states have an order with a band at most so wide, and at most this share
# of the states; with fewer states than the last number the order costs more than it saves.
WIDEST, WIDEST_SHARE, FEWEST = 40, 0.25, 30
# The solutions of A x = b for (S,) or (S, k), and of A' d = p for (S,).
Solutions: TypeAlias = tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]


def dense(mdp: MDP, moves: Vector) -> Solutions:
    """By one dense LU. moves: for each entry of the transition, that of -discount * P."""
    n, places = mdp.n_states, entries(mdp)[1]
    system: Vector = np.bincount(places, weights=moves, minlength=n * n).astype(np.float64, copy=False)
    system[:: n + 1] += 1.0
    # A by rows is A' by columns, which LAPACK reads.
    factors, pivots, _ = lapack.dgetrf(system.reshape(n, n).T, overwrite_a=True)

    def values(sums: Vector) -> Vector:
        return np.asarray(lapack.dgetrs(factors, pivots, sums, trans=1)[0])

    def visits(start: Vector) -> Vector:
        return np.asarray(lapack.dgetrs(factors, pivots, start)[0])

    return values, visits


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """An order of the states in which I - discount * P has entries only within a band, whatever the policy.

    order: (S,), the states in this order. position: (S,), the position of each state. width: the number of diagonals on
    each side. places: where LAPACK stores each entry of the transition in the transpose of this matrix; its array has
    3 * width + 1 rows, the diagonal in row 2 * width, and is stored by columns.
    """

    order: Indices
    position: Indices
    width: int
    places: Indices


@lru_cache(maxsize=8)
def band(mdp: MDP) -> Band | None:
    """A narrow band of a small MDP, by the reverse Cuthill-McKee order; None where there is none."""
    n = mdp.n_states
    if n <= FEWEST:
        return None
    choices = entries(mdp)[0]
    ones = np.ones(len(choices), dtype=np.int8)
    moves = sparse.csr_array((ones, (mdp.state_of_choice[choices], mdp.transition.indices)), (n, n))
    order = csgraph.reverse_cuthill_mckee(sparse.csr_array(moves + moves.T), symmetric_mode=True).astype(np.int64)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    state, moved = position[mdp.state_of_choice[choices]], position[mdp.transition.indices]
    width = int(np.abs(moved - state).max())
    if width > min(WIDEST, WIDEST_SHARE * n):
        return None
    return Band(order, position, width, state * (3 * width + 1) + 2 * width + moved - state)


def banded(within: Band, moves: Vector) -> Solutions:
    """By one LU within a band. moves: as for `dense`."""
    order, position, width = within.order, within.position, within.width
    n, height = len(order), 3 * width + 1
    system: Vector = np.bincount(within.places, weights=moves, minlength=n * height).astype(np.float64, copy=False)
    system[2 * width :: height] += 1.0
    factors, pivots, _ = lapack.dgbtrf(system.reshape(n, height).T, width, width, overwrite_ab=True)

    def values(sums: Vector) -> Vector:
        return np.asarray(lapack.dgbtrs(factors, width, width, sums[order], pivots, trans=1)[0][position])

    def visits(start: Vector) -> Vector:
        return np.asarray(lapack.dgbtrs(factors, width, width, start[order], pivots)[0][position])

    return values, visits


@lru_cache(maxsize=8)
def entries(mdp: MDP) -> tuple[Indices, Indices]:
    """The choice of each entry of the transition, and the entry's position in I - discount * P, stored by rows."""
    choices = np.repeat(np.arange(mdp.n_choices), np.diff(mdp.transition.indptr))
    return choices, np.asarray(mdp.state_of_choice[choices] * mdp.n_states + mdp.transition.indices)


@lru_cache(maxsize=8)
def pattern(mdp: MDP) -> tuple[Indices, Indices, Indices]:
    """The sparsity pattern of I - discount * P, which is the same for every policy.

    Returns the position of each entry of the transition, and then of the identity, among the stored entries; and the
    columns and row starts of these.
    """
    n = mdp.n_states
    keys = np.concatenate([entries(mdp)[1], np.arange(n) * (n + 1)])
    stored, place = np.unique(keys, return_inverse=True)
    row = np.searchsorted(stored, np.arange(n + 1) * n)
    return place, (stored % n).astype(np.int32), row.astype(np.int32)
