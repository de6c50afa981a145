"""The Markov chain of an MDP under a policy, and its two linear systems.

With P the (S, S) transition matrix under the policy and A = I - discount * P (where discounts differ between choices,
P has the rows diag(discount) @ transition, and `discount` below is the largest one):

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

Solutions by iteration are verified (`systems`). A solution by factorisation needs no check: A is diagonally
dominant, so elimination is stable.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage.arrays import Indices, SparseRows, Vector
from tutelage.chains import small_chains
from tutelage.chains.systems import RELATIVE_ACCURACY, System
from tutelage.model.mdp import MDP

# Up to this number of states a dense factorisation is cheaper than a sparse one: a tenth of the time for ten states.
DENSE_LIMIT = 200
# Up to this number of states one sparse factorisation is cheaper than the iterations it replaces.
DIRECT_LIMIT = 500
# Above this number of states, or of operations per state, a sparse factorisation saves no time.
FACTOR_LIMIT, OPERATIONS_PER_STATE = 200_000, 40_000
# An order that all policies share may take so many times more operations for a policy of all choices.
SHARED = 10
# For these nearly symmetric patterns the ordering of A + A' is several times faster than the library's default.
BY_DEGREE = "MMD_AT_PLUS_A"
# Up to this number of states, policies of an MDP with cheap factors are factorised without an attempt at Krylov steps.
SOON_FACTORISED = 20_000
ROUGH_ACCURACY = 1e-5


def chain(mdp: MDP, weights: Vector) -> SparseRows:
    """(S, S), the sum of each state's rows times their weights (C,).

    With a policy as weights: the probability of each next state. With discount * policy: the discounted moves.
    """
    rows = mdp.transition
    weight = np.repeat(weights, np.diff(rows.indptr)) * rows.data
    step = sparse.csr_array(
        (weight, rows.indices, rows.indptr[mdp.first_choice]), (mdp.n_states, mdp.n_states), copy=True
    )
    step.sum_duplicates()
    return step


def discounted_rows(mdp: MDP, choice: Indices) -> SparseRows:
    """discount(c) T(c) for the given choices (n,), a new matrix (n, S)."""
    rows = mdp.transition[choice]
    discount = (
        mdp.discount if isinstance(mdp.discount, float) else np.repeat(mdp.discount[choice], np.diff(rows.indptr))
    )
    rows.data *= discount
    return rows


@dataclass(frozen=True, slots=True)
class Resolvent:
    """The inverse of A = I - discount * P and of its transpose, as functions.

    values(b): solves A x = b for (S,) or (S, k).
    visits(p): solves A' d = p for (S,).
    slopes(b): as values, but to five digits where more would cost time; for derivatives that only give a direction.
    """

    values: Callable[[Vector], Vector]
    visits: Callable[[Vector], Vector]
    slopes: Callable[[Vector], Vector]

    @property
    def is_rough(self) -> bool:
        """Whether slopes are less accurate than values."""
        return self.slopes is not self.values


def policy_resolvent(mdp: MDP, policy: Vector) -> Resolvent:
    """The resolvent of the chain of an MDP under a policy."""
    if mdp.n_states > DIRECT_LIMIT:
        moves = chain(mdp, mdp.discount * policy)
        if mdp.n_states <= SOON_FACTORISED and has_cheap_policies(mdp):
            return factorised(sparse.eye_array(mdp.n_states, format="csr") - moves, shared_order(mdp))
        return _ChosenMethod(moves, mdp.largest_discount, lambda: has_cheap_policies(mdp)).resolvent
    moves = (-mdp.discount * policy)[small_chains.entries(mdp)[0]] * mdp.transition.data
    band = small_chains.band(mdp)
    if band is not None or mdp.n_states <= DENSE_LIMIT:
        values, visits = small_chains.dense(mdp, moves) if band is None else small_chains.banded(band, moves)
        return Resolvent(values, visits, values)
    place, column, row = small_chains.pattern(mdp)
    weight = np.bincount(place, weights=np.concatenate([moves, np.ones(mdp.n_states)]), minlength=len(column))
    return factorised(sparse.csr_array((weight, column, row), (mdp.n_states, mdp.n_states)))


def choice_resolvent(mdp: MDP, choice: Indices) -> Resolvent:
    """The resolvent of the chain of an MDP under one choice per state, (S,)."""
    if mdp.n_states > DIRECT_LIMIT:
        return resolvent(discounted_rows(mdp, choice), mdp.largest_discount)
    # The same as `resolvent`, but in one pass over the rows, because policy iteration calls this thousands of times.
    rows = mdp.transition
    if mdp.n_states <= DENSE_LIMIT or small_chains.band(mdp) is not None:
        policy = np.zeros(mdp.n_choices)
        policy[choice] = 1.0
        return policy_resolvent(mdp, policy)
    counts = rows.indptr[choice + 1] - rows.indptr[choice]
    start = np.concatenate([[0], np.cumsum(counts + 1)])
    place = np.arange(start[-1]) - np.repeat(start[:-1] - rows.indptr[choice], counts + 1)
    place[start[1:] - 1] = 0
    discount = mdp.discount if isinstance(mdp.discount, float) else np.repeat(mdp.discount[choice], counts + 1)
    weight, column = -discount * rows.data[place], rows.indices[place]
    weight[start[1:] - 1], column[start[1:] - 1] = 1.0, np.arange(mdp.n_states)
    return factorised(sparse.csr_array((weight, column, start), (mdp.n_states, mdp.n_states)))


def resolvent(moves: SparseRows, discount: float) -> Resolvent:
    """The resolvent of a discounted chain (S, S), with at most one factorisation for all its systems.

    moves: discount * P. discount: the largest sum of a row.
    """
    if moves.shape[0] <= DIRECT_LIMIT:
        return factorised(sparse.eye_array(moves.shape[0], format="csr") - moves)
    return _ChosenMethod(moves, discount, lambda: has_cheap_factors(moves)).resolvent


@dataclass(frozen=True, eq=False)
class _ChosenMethod:
    """A resolvent that chooses its method by the first system.

    Krylov steps where few suffice, as on well-mixed chains. Otherwise sparse LU where elimination is cheap, as on
    grids, queues and roads. Otherwise as many Krylov steps as are needed. factors: the LU, or None where it would cost
    too much; empty until that is known. is_cheap: whether elimination is cheap, asked at most once.
    """

    moves: SparseRows
    discount: float
    is_cheap: Callable[[], bool]
    factors: list[Resolvent | None] = field(default_factory=list)

    @property
    def resolvent(self) -> Resolvent:
        return Resolvent(self.values, self.visits, lambda sums: self.values(sums, ROUGH_ACCURACY))

    @cached_property
    def forward(self) -> System:
        return System(self.moves, self.discount, np.inf)

    @cached_property
    def backward(self) -> System:
        return System(self.moves.T.tocsr(), self.discount, 1)

    def values(self, sums: Vector, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        """A x = sums for (S,) or (S, k)."""
        from tutelage import compiling

        if sums.ndim == 1:
            return self._solve(self.forward, sums, accuracy, lambda inverse: inverse.values(sums))
        columns = sums.T.copy()
        # The first column chooses the method and computes the splitting of the chain, which all columns share.
        first = [self.values(column, accuracy) for column in columns[:1]]
        if self.factors and self.factors[0] is not None:
            return np.column_stack([*first, *self.factors[0].values(sums[:, 1:]).T])
        rest = compiling.map_in_threads(lambda column: self.values(column, accuracy), columns[1:])
        return np.column_stack([*first, *rest])

    def visits(self, start: Vector) -> Vector:
        """A' d = start for (S,)."""
        return self._solve(self.backward, start, RELATIVE_ACCURACY, lambda inverse: inverse.visits(start))

    def _solve(self, system: System, right: Vector, accuracy: float, direct: Callable[[Resolvent], Vector]) -> Vector:
        if not self.factors:
            if len(right) > FACTOR_LIMIT:
                return system.solve(right, accuracy)
            answer = system.try_krylov(right)
            if answer is not None:
                return answer
            system_matrix = sparse.eye_array(len(right), format="csr") - self.moves
            self.factors.append(factorised(system_matrix) if self.is_cheap() else None)
        inverse = self.factors[0]
        return system.solve(right, accuracy) if inverse is None else direct(inverse)


def elimination(moves: SparseRows, budget: float) -> float:
    """The operations per state of a sparse LU of I - moves (S, S).

    Operations are counted on the pattern of the chain and its transpose together; infinite if above the budget.
    """
    from tutelage.chains import elimination

    n = moves.shape[0]
    if n > FACTOR_LIMIT:
        return np.inf
    ones = sparse.csr_array((np.ones(moves.nnz, np.int8), moves.indices, moves.indptr), moves.shape)
    both = sparse.csr_array(ones + ones.T)
    apart = np.repeat(np.arange(n), np.diff(both.indptr)) != both.indices
    start = np.concatenate([[0], np.cumsum(apart)])[both.indptr].astype(np.int64)
    cost: float = elimination.elimination_cost(start, both.indices[apart].astype(np.int64), float(budget * n))
    return cost / len(start)


def has_cheap_factors(moves: SparseRows) -> bool:
    """Whether a sparse LU of I - moves (S, S) takes few operations per state."""
    return elimination(moves, OPERATIONS_PER_STATE) < np.inf


@lru_cache(maxsize=8)
def has_cheap_choices(mdp: MDP) -> bool:
    """The same for policies with one choice per state; the chain of random choices stands for all."""
    choice = mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state)
    return has_cheap_factors(mdp.transition[choice])


def has_cheap_policies(mdp: MDP) -> bool:
    """The same for a policy that takes every choice; the pattern is that of any such policy."""
    return _operations_of_all(mdp) <= OPERATIONS_PER_STATE


@lru_cache(maxsize=8)
def shared_order(mdp: MDP) -> Indices | None:
    """One order of elimination for all policies, if it is good for the policy that takes every choice.

    Policies with few choices then take no more operations than that one, and none needs an order of its own. The order
    is that of the library, which fills in less than `elimination` counts.
    """
    if not np.isfinite(_operations_of_all(mdp)):
        return None
    moves = chain(mdp, mdp.discount / np.repeat(mdp.choices_per_state, mdp.choices_per_state))
    factors = _factors(sparse.eye_array(mdp.n_states, format="csr") - moves, BY_DEGREE)
    return np.asarray(np.argsort(factors.perm_c))


@lru_cache(maxsize=8)
def _operations_of_all(mdp: MDP) -> float:
    return elimination(chain(mdp, np.ones(mdp.n_choices)), SHARED * OPERATIONS_PER_STATE)


def factorised(system: SparseRows, order: Indices | None = None) -> Resolvent:
    """The resolvent by one sparse LU. order: of elimination; by default that of the library."""
    if order is not None:
        system = _reordered(system, order)
    factors = _factors(system, BY_DEGREE if order is None else "NATURAL")

    def values(sums: Vector) -> Vector:
        return np.asarray(factors.solve(sums, trans="T"))

    if order is None:
        return Resolvent(values, factors.solve, values)
    place = np.argsort(order)

    def reordered_values(sums: Vector) -> Vector:
        return values(sums[order])[place]

    return Resolvent(reordered_values, lambda start: factors.solve(start[order])[place], reordered_values)


def _factors(system: SparseRows, ordering: str) -> linalg.SuperLU:
    """The sparse LU of A'. The CSR arrays of A are the CSC arrays of A', which `splu` needs."""
    transposed = sparse.csc_array((system.data, system.indices, system.indptr), system.shape)
    # Panels narrower than the library's own: these matrices have few entries per column.
    return linalg.splu(transposed, permc_spec=ordering, panel_size=4, options={"SymmetricMode": True})


def _reordered(system: SparseRows, order: Indices) -> SparseRows:
    """The matrix with its states in another order."""
    place = np.empty(len(order), dtype=system.indices.dtype)
    place[order] = np.arange(len(order))
    rows = system[order]
    moved = sparse.csr_array((rows.data, place[rows.indices], rows.indptr), rows.shape)
    moved.sort_indices()
    return moved
