"""The Markov chain that a policy makes of an MDP, and the two linear systems that everything is read off.

With P the (S, S) transition matrix under the policy and A = I - discount * P:

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

An answer found by iteration is verified: |x - A^-1 b| <= |A x - b| / (1 - discount) in the maximum norm, and
|d - A'^-1 p| <= |A' d - p| / (1 - discount) in the sum norm, because discount * P and its transpose are contractions in
those norms. The bound is at most 1e-11 of the answer's norm or, for discounts so near one that rounding hides that,
what can be verified. One found by factorisation needs no check: A is diagonally dominant, and elimination on it is
stable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage.arrays import Indices, SparseRows, Vector
from tutelage.mdp.model import MDP
from tutelage.mdp.splitting import Split, split_chain
from tutelage.outcomes import NotConverged

# Up to here one sparse factorisation is cheaper than the iterations it saves.
DIRECT_LIMIT = 500
# Beyond this a sparse factorisation saves no time, and takes many times the memory of the model itself.
FACTOR_LIMIT = 50_000
FEW_STEPS, MANY_STEPS, FIRST_PAIRS = 6, 300, 8
KRYLOV_TOLERANCE = 1e-6
RELATIVE_ACCURACY, ROUGH_ACCURACY = 1e-11, 1e-5
EPSILON = float(np.finfo(np.float64).eps)


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
    slopes(b): as values, to five digits where more would cost: for derivatives that only point the way.
    """

    values: Callable[[Vector], Vector]
    visits: Callable[[Vector], Vector]
    slopes: Callable[[Vector], Vector]

    @property
    def is_rough(self) -> bool:
        """Whether slopes are less than values."""
        return self.slopes is not self.values


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
    found = _Undecided(step, discount)
    return Resolvent(found.values, found.visits, found.slopes)


@dataclass(frozen=True, eq=False)
class _System:
    """x = right + moves @ x for a chain's moves or their transpose, by iteration; norm: in which these contract."""

    moves: SparseRows
    discount: float
    norm: float

    @cached_property
    def split(self) -> Split:
        return split_chain(self.moves)

    def error(self, right: Vector, answer: Vector) -> tuple[Vector, float]:
        """The residual, and what it implies for the error in the norm, relative to the answer."""
        residual = right + self.moves @ answer - answer
        bound = float(np.linalg.norm(residual, self.norm)) / (1 - self.discount)
        size = float(np.linalg.norm(answer, self.norm))
        return residual, bound / size if size > 0 else (np.inf if bound > 0 else 0.0)

    def verifiable(self, accuracy: float) -> float:
        """The accuracy asked for, or what the rounding of the residual allows one to verify."""
        return max(accuracy, 64 * EPSILON / (1 - self.discount))

    def try_krylov(self, right: Vector) -> Vector | None:
        """By a few Krylov steps at a time while each time leaves little of the error; None where they do not."""
        answer, residual, last = np.zeros_like(right), right, 1 / (1 - self.discount)
        goal = self.verifiable(RELATIVE_ACCURACY)
        while True:
            answer = answer + self.split.solve(residual, KRYLOV_TOLERANCE, FEW_STEPS)
            residual, error = self.error(right, answer)
            if error <= goal:
                return answer
            if not error <= 1e-3 * last:
                return None
            last = error

    def solve(self, right: Vector, accuracy: float) -> Vector:
        """By Krylov steps where these help and by sweeps where they do not, to a verified relative accuracy.

        A sweep shrinks the residual by the discount at least, in the norm, so this always ends.
        """
        answer, n_pairs, goal = np.zeros_like(right), FIRST_PAIRS, self.verifiable(accuracy)
        residual, error = self.error(right, answer)
        n_sweeps, enough = 0, 1_000 + 4 * math.log(goal * (1 - self.discount)) / math.log(self.discount)
        while error > goal and n_sweeps < enough:
            tried = answer + self.split.solve(residual, max(KRYLOV_TOLERANCE, 0.01 * accuracy), MANY_STEPS)
            left, reached = self.error(right, tried)
            if not reached < 0.1 * error:
                # What did not help is forgotten. Twice as many sweeps each time, so that trying again costs little.
                tried = self.split.relaxed(right, answer, n_pairs)
                left, reached = self.error(right, tried)
                n_sweeps, n_pairs = n_sweeps + 2 * n_pairs, 2 * n_pairs
            answer, residual, error = tried, left, reached
        if error > goal:
            message = f"a linear system of {len(right)} states was solved to {error:.2g} only"
            raise NotConverged(message, residual=error, n_steps=n_sweeps)
        return answer


@dataclass(frozen=True, eq=False)
class _Undecided:
    """By Krylov steps while these are few, as on well-mixed chains; by one sparse LU where they are not, as on grids.

    On the one kind factors fill up, on the other Krylov steps are many, so the first system tells which it is. Too
    large a chain is never factorised.
    """

    step: SparseRows
    discount: float
    factors: list[Resolvent] = field(default_factory=list)

    @property
    def is_large(self) -> bool:
        return bool(self.step.shape[0] > FACTOR_LIMIT)

    @cached_property
    def forth(self) -> _System:
        return _System(self.discount * self.step, self.discount, np.inf)

    @cached_property
    def back(self) -> _System:
        return _System((self.discount * self.step).T.tocsr(), self.discount, 1)

    def values(self, sums: Vector, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        """A x = sums for (S,) or (S, k)."""
        from tutelage import kernels

        if sums.ndim == 1:
            return self._solve(self.forth, sums, accuracy, lambda inverse: inverse.values(sums))
        columns = sums.T.copy()
        if not self.is_large:
            return np.column_stack([self.values(column, accuracy) for column in columns])
        # The first splits the chain for all.
        first = [self.values(column, accuracy) for column in columns[:1]]
        rest = kernels.at_a_time(lambda column: self.values(column, accuracy), columns[1:])
        return np.column_stack([*first, *rest])

    def visits(self, start: Vector) -> Vector:
        """A' d = start for (S,)."""
        return self._solve(self.back, start, RELATIVE_ACCURACY, lambda inverse: inverse.visits(start))

    def slopes(self, sums: Vector) -> Vector:
        """As values, to fewer digits."""
        return self.values(sums, ROUGH_ACCURACY)

    def _solve(self, system: _System, right: Vector, accuracy: float, direct: Callable[[Resolvent], Vector]) -> Vector:
        if self.is_large:
            return system.solve(right, accuracy)
        if not self.factors:
            answer = system.try_krylov(right)
            if answer is not None:
                return answer
            self.factors.append(_factorised(sparse.eye_array(self.step.shape[0], format="csr") - self.forth.moves))
        return direct(self.factors[0])


def _factorised(system: SparseRows) -> Resolvent:
    """By one sparse LU. The rows of A are the columns of A', which is the form that the library wants."""
    transposed = sparse.csc_array((system.data, system.indices, system.indptr), system.shape)
    # The ordering of A + A' suits these nearly symmetric patterns several times better than the default.
    factors = linalg.splu(transposed, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def values(sums: Vector) -> Vector:
        return np.asarray(factors.solve(sums, trans="T"))

    return Resolvent(values, factors.solve, values)


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
