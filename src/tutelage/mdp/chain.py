"""The Markov chain that a policy makes of an MDP, and the two linear systems that everything is read off.

With P the (S, S) transition matrix under the policy and A = I - discount * P:

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

An answer found by iteration is verified: |x - A^-1 b| <= |A x - b| / (1 - discount) in the maximum norm, and
|d - A'^-1 p| <= |A' d - p| / (1 - discount) in the sum norm, because discount * P and its transpose are contractions in
those norms. One found by factorisation needs no check: A is diagonally dominant, and elimination on it is stable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage.arrays import Indices, SparseRows, Vector
from tutelage.mdp.model import MDP
from tutelage.outcomes import NotConverged

# Up to here one sparse factorisation is cheaper than the iterations it saves.
DIRECT_LIMIT = 500
# Beyond this a sparse factorisation takes more memory than the model itself, many times over.
FACTOR_LIMIT = 150_000
FEW_STEPS, MANY_STEPS = 25, 20_000
RELATIVE_ACCURACY = 1e-11


def chain(mdp: MDP, policy: Vector) -> SparseRows:
    """(S, S), the probability of each next state under the policy."""
    rows = mdp.transition
    weight = np.repeat(policy, np.diff(rows.indptr)) * rows.data
    step = sparse.csr_array(
        (weight, rows.indices, rows.indptr[mdp.first_choice]), (mdp.n_states, mdp.n_states), copy=True
    )
    step.sum_duplicates()
    return step


@dataclass(frozen=True, slots=True)
class Resolvent:
    """The inverse of I - discount * P, ready to be applied from either side.

    values(b): solves A x = b for (S,) or (S, k).
    visits(p): solves A' d = p for (S,).
    """

    values: Callable[[Vector], Vector]
    visits: Callable[[Vector], Vector]


def policy_resolvent(mdp: MDP, policy: Vector) -> Resolvent:
    """The resolvent of the chain that a policy makes of an MDP."""
    if mdp.n_states > DIRECT_LIMIT:
        return resolvent(chain(mdp, policy), mdp.discount)
    place, column, row = _pattern(mdp)
    rows = mdp.transition
    moves = -mdp.discount * np.repeat(policy, np.diff(rows.indptr)) * rows.data
    weight = np.bincount(place, weights=np.concatenate([moves, np.ones(mdp.n_states)]), minlength=len(column))
    return _factorised(sparse.csr_array((weight, column, row), (mdp.n_states, mdp.n_states)))


def choice_resolvent(mdp: MDP, choice: Indices) -> Resolvent:
    """The resolvent of the chain that one choice per state, (S,), makes of an MDP."""
    if mdp.n_states > DIRECT_LIMIT:
        return resolvent(mdp.transition[choice], mdp.discount)
    # As `resolvent` would do it, but by one pass over the rows: an improving policy is solved thousands of times.
    rows = mdp.transition
    counts = rows.indptr[choice + 1] - rows.indptr[choice]
    start = np.concatenate([[0], np.cumsum(counts + 1)])
    place = np.arange(start[-1]) - np.repeat(start[:-1] - rows.indptr[choice], counts + 1)
    place[start[1:] - 1] = 0
    weight, column = -mdp.discount * rows.data[place], rows.indices[place]
    weight[start[1:] - 1], column[start[1:] - 1] = 1.0, np.arange(mdp.n_states)
    return _factorised(sparse.csr_array((weight, column, start), (mdp.n_states, mdp.n_states)))


def resolvent(step: SparseRows, discount: float) -> Resolvent:
    """One factorisation (or, for a large chain, none) that serves every system of a chain (S, S)."""
    if step.shape[0] <= DIRECT_LIMIT:
        return _factorised(sparse.eye_array(step.shape[0], format="csr") - discount * step)
    return _undecided(step, discount)


def _undecided(step: SparseRows, discount: float) -> Resolvent:
    """By Krylov steps while these are few, as on well-mixed chains; by one sparse LU where they are not, as on grids.

    On the one kind factors fill up, on the other Krylov steps are many, so the first system tells which it is. Too
    large a chain is never factorised.
    """
    may_factorise = step.shape[0] <= FACTOR_LIMIT
    n_steps = FEW_STEPS if may_factorise else MANY_STEPS
    moves = discount * step
    transposed = moves.T.tocsr()
    factors: list[Resolvent] = []

    def solve(matrix: SparseRows, right: Vector, norm: float, direct: Callable[[Resolvent], Vector]) -> Vector:
        if not factors:
            try:
                return _iterate(matrix, right, discount, norm=norm, max_steps=n_steps)
            except NotConverged:
                if not may_factorise:
                    raise
                factors.append(_factorised(sparse.eye_array(step.shape[0], format="csr") - moves))
        return direct(factors[0])

    def values(sums: Vector) -> Vector:
        if sums.ndim == 1:
            return solve(moves, sums, np.inf, lambda inverse: inverse.values(sums))
        return np.column_stack([values(column) for column in sums.T])

    return Resolvent(values, lambda start: solve(transposed, start, 1, lambda inverse: inverse.visits(start)))


def _factorised(system: SparseRows) -> Resolvent:
    """By one sparse LU. The rows of A are the columns of A', which is the form that the library wants."""
    transposed = sparse.csc_array((system.data, system.indices, system.indptr), system.shape)
    # The ordering of A + A' suits these nearly symmetric patterns several times better than the default.
    factors = linalg.splu(transposed, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return Resolvent(lambda sums: factors.solve(sums, trans="T"), factors.solve)


@lru_cache(maxsize=8)
def _pattern(mdp: MDP) -> tuple[Indices, Indices, Indices]:
    """Where each entry of the transition, and then of the identity, stands in I - discount * P, whatever the policy.

    Returns its place among the stored entries, and their columns and row starts. A learner solves hundreds of
    systems of one small MDP, and putting their entries in order would take longer than solving them.
    """
    rows, n = mdp.transition, mdp.n_states
    owner = np.repeat(mdp.state_of_choice, np.diff(rows.indptr))
    keys = np.concatenate([owner * n + rows.indices, np.arange(n) * (n + 1)])
    stored, place = np.unique(keys, return_inverse=True)
    row = np.searchsorted(stored, np.arange(n + 1) * n)
    return place, (stored % n).astype(np.int32), row.astype(np.int32)


def _iterate(moves: SparseRows, right: Vector, discount: float, *, norm: float, max_steps: int) -> Vector:
    """BiCGSTAB on x = right + moves @ x, restarted on its own residual, until the verified error is small in `norm`."""
    from tutelage import kernels

    answer, last = np.zeros_like(right), np.inf
    while True:
        residual = right + moves @ answer - answer
        error = float(np.linalg.norm(residual, norm)) / (1 - discount)
        if error <= RELATIVE_ACCURACY * float(np.linalg.norm(answer, norm)):
            return answer
        if error > 1e-3 * last:
            break
        last = error
        answer = answer + kernels.solve_chain(moves.indptr, moves.indices, moves.data, residual, 1e-6, max_steps)
    raise NotConverged(
        f"a linear system of {len(right)} states was solved to {error:.2g} only", residual=error, n_steps=max_steps
    )
