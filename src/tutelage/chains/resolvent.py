"""The Markov chain of an MDP under a policy, and its two linear systems.

With P the (S, S) transition matrix under the policy and A = I - discount * P (where discounts differ between choices,
P has the rows diag(discount) @ transition, and `discount` below is the largest one):

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

One function chooses the method, by the pattern of the chain:

    dense        few states
    band         all moves are short, in the order of the states or, for few states, in the reverse Cuthill-McKee order
    components   the strongly connected components are small, as for most policies with one choice per state
    factors      sparse LU, in an order of elimination that all policies of an MDP share
    iterations   everything else: Krylov steps or sweeps, each answer verified (`iterations`)

A is diagonally dominant, so elimination is stable without pivots, and its answers need no check.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse import csgraph, linalg

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.chains.iterations import RELATIVE_ACCURACY, Iterations
from tutelage.model.mdp import MDP
from tutelage.model.policy import uniform_policy

# Up to this number of states a dense factorisation is cheaper than a sparse one: a tenth of the time for ten states.
DENSE_LIMIT = 200
# The widest band, and up to how many states a reordering is tried to find one: beyond, sparse LU takes less time.
WIDEST, REORDERED_LIMIT = 40, 2_000
# With fewer states than this, or a band wider than this share of the states, dense LU takes less time than a band.
FEWEST_IN_BAND, WIDEST_SHARE = 30, 0.25
# Up to this width a banded solution takes little more time than a sweep over the states.
NARROW = 8
# The most operations per state for the dense elimination of components, and for sparse LU.
COMPONENT_OPERATIONS, FACTOR_OPERATIONS = 4_000, 40_000
# The most operations per state for sparse LU where few Krylov steps are enough.
FEW_OPERATIONS = 4_000
# An order that all policies share may take this many times more operations for the policy of all choices.
SHARED = 10
# Above this number of states a sparse factorisation takes too much memory.
FACTOR_LIMIT = 200_000
# For these nearly symmetric patterns the ordering of A + A' is several times faster than SuperLU's default.
BY_DEGREE = "MMD_AT_PLUS_A"


class Resolvent(Protocol):
    """The inverses of A = I - discount * P and of its transpose.

    is_exact: whether answers have no error but rounding. Iterations have the accuracy that is asked for. is_quick:
    whether an answer takes little more time than a sweep over the states.
    """

    @property
    def is_exact(self) -> bool: ...

    @property
    def is_quick(self) -> bool: ...

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        """A x = right for (S,) or (S, k).

        near: where iterations start. accuracy: theirs, relative to the largest entry of each column.
        """
        ...

    def visits(self, start: Vector) -> Vector:
        """A' d = start for (S,)."""
        ...


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


def policy_resolvent(mdp: MDP, policy: Vector) -> Resolvent:
    """The resolvent of the chain of an MDP under a policy (C,)."""
    layout = _layout(mdp)
    if layout is not None:
        return layout.factorised(mdp, policy)
    moves = chain(mdp, mdp.discount * policy)
    moves.eliminate_zeros()
    return _sparse(mdp, moves, takes_many=bool(2 * np.count_nonzero(policy) > mdp.n_states + mdp.n_choices))


def choice_resolvent(mdp: MDP, choice: Indices) -> Resolvent:
    """The resolvent of the chain of an MDP under one choice per state, (S,)."""
    layout = _layout(mdp)
    if layout is not None:
        policy = np.zeros(mdp.n_choices)
        policy[choice] = 1.0
        return layout.factorised(mdp, policy)
    return _sparse(mdp, discounted_rows(mdp, choice), takes_many=False)


@lru_cache(maxsize=8)
def typical_resolvent(mdp: MDP) -> Resolvent:
    """The resolvent of random choices, one per state, which tells how all such policies are evaluated."""
    return choice_resolvent(mdp, _random_choice(mdp))


def _sparse(mdp: MDP, moves: SparseRows, *, takes_many: bool) -> Resolvent:
    """The resolvent of a large chain (S, S). takes_many: whether the policy takes most of the choices."""
    parts = components(moves)
    if parts is not None:
        return parts
    order = elimination_order(mdp, takes_many)
    return Krylov(moves, mdp.largest_discount) if order is None else Factors.of(moves, order)


def _random_choice(mdp: MDP) -> Indices:
    return np.asarray(mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where LAPACK stores the entries of A' for any policy of an MDP: densely, or in a band.

    Columns of A' are diagonally dominant. So LAPACK changes no rows, and what cannot be negative is not, even by
    rounding. The positions are computed once per MDP: sorting the entries takes longer than solving a small system.

    choice: of each entry of the transition. place: its position among the stored entries. diagonal: the positions of
    the diagonal are this and every `height` further. width: the diagonals on each side of a band; None if dense.
    order: (S,), the states in the order of the band; position: (S,), the position of each state.
    """

    choice: Indices
    place: Indices
    diagonal: int
    height: int
    width: int | None = None
    order: Indices | None = None
    position: Indices | None = None

    def factorised(self, mdp: MDP, policy: Vector) -> "Dense | Band":
        """The factors of A' under a policy (C,)."""
        n, step = mdp.n_states, self.height + (self.width is None)
        moves = (-mdp.discount * policy)[self.choice] * mdp.transition.data
        system = np.asarray(np.bincount(self.place, weights=moves, minlength=n * self.height), dtype=np.float64)
        system[self.diagonal :: step] += 1.0
        # A by rows is A' by columns, which LAPACK reads.
        system = system.reshape(n, self.height).T
        if self.width is None:
            return Dense(*lapack.dgetrf(system, overwrite_a=True)[:2])
        return Band(self, *lapack.dgbtrf(system, self.width, self.width, overwrite_ab=True)[:2])


@lru_cache(maxsize=8)
def _layout(mdp: MDP) -> Layout | None:
    """A narrow band, or a dense layout for few states; None where there are many states and no narrow band."""
    n, rows = mdp.n_states, mdp.transition
    if n > FACTOR_LIMIT:
        return None
    choice = np.repeat(np.arange(mdp.n_choices), np.diff(rows.indptr))
    state, to = mdp.state_of_choice[choice], rows.indices.astype(np.int64)
    order = position = None
    width = int(np.abs(to - state).max(initial=0))
    if width > NARROW and n <= REORDERED_LIMIT and n > FEWEST_IN_BAND:
        both = sparse.coo_array((np.ones(2 * len(to), np.int8), (np.append(state, to), np.append(to, state))), (n, n))
        order = csgraph.reverse_cuthill_mckee(both.tocsr(), symmetric_mode=True).astype(np.int64)
        position = np.argsort(order)
        state, to = position[state], position[to]
        width = int(np.abs(to - state).max(initial=0))
    if n > FEWEST_IN_BAND and width <= min(WIDEST, WIDEST_SHARE * n):
        height = 3 * width + 1
        return Layout(choice, state * height + 2 * width + to - state, 2 * width, height, width, order, position)
    if n > DENSE_LIMIT:
        return None
    return Layout(choice, mdp.state_of_choice[choice] * n + rows.indices, 0, n)


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """By one dense LU of A'."""

    factors: Matrix
    pivots: Indices

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def is_quick(self) -> bool:
        return False

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        return np.asarray(lapack.dgetrs(self.factors, self.pivots, right, trans=1)[0])

    def visits(self, start: Vector) -> Vector:
        return np.asarray(lapack.dgetrs(self.factors, self.pivots, start)[0])


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """By one LU of A' within a band."""

    layout: Layout
    factors: Matrix
    pivots: Indices

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def is_quick(self) -> bool:
        return self.layout.width is not None and self.layout.width <= NARROW

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        return self._solved(right, 1)

    def visits(self, start: Vector) -> Vector:
        return self._solved(start, 0)

    def _solved(self, right: Vector, transposed: int) -> Vector:
        layout = self.layout
        moved = right if layout.order is None else right[layout.order]
        solved = lapack.dgbtrs(self.factors, layout.width, layout.width, moved, self.pivots, trans=transposed)[0]
        return np.asarray(solved if layout.position is None else solved[layout.position])


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """By elimination of the strongly connected components, one after another, each densely.

    SciPy numbers the components so that no move leads to a later one. rows: the row starts, columns and weights of the
    discounted moves. parts: the states by component; where each component begins among them, and the end; the component
    of each state; and where the factors of each component begin in `blocks`, which has them by rows.
    """

    rows: tuple[Indices, Indices, Vector]
    parts: tuple[Indices, Indices, Indices, Indices]
    blocks: Vector

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def is_quick(self) -> bool:
        return True

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        from tutelage.chains import loops

        x = right.reshape(len(right), -1).astype(np.float64, order="C")
        loops.component_values(self.rows, self.parts, self.blocks, x)
        return x.reshape(right.shape)

    def visits(self, start: Vector) -> Vector:
        from tutelage.chains import loops

        d = start.astype(np.float64)
        loops.component_visits(self.rows, self.parts, self.blocks, d)
        return d


def components(moves: SparseRows) -> Components | None:
    """The factors of I - moves by components; None where these are so large that it would take long."""
    from tutelage import compiling
    from tutelage.chains import loops

    n = moves.shape[0]
    n_components, label = csgraph.connected_components(moves, connection="strong")
    size = np.bincount(label, minlength=n_components)
    if float((size.astype(np.float64) ** 3).sum()) > COMPONENT_OPERATIONS * n:
        return None
    first, begins = np.concatenate([[0], np.cumsum(size)]), np.concatenate([[0], np.cumsum(size**2)])
    parts, blocks = (loops.by_component(label, first), first, label, begins), np.zeros(begins[-1])
    rows = (compiling.unsigned(moves.indptr), compiling.unsigned(moves.indices), moves.data)
    loops.factorise_components(rows, parts, blocks)
    return Components(rows, parts, blocks)


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """By one sparse LU of A', its states in another order."""

    factors: linalg.SuperLU
    order: Indices
    position: Indices

    @staticmethod
    def of(moves: SparseRows, order: Indices) -> "Factors":
        """The factors of I - moves in this order of elimination."""
        position = np.argsort(order)
        rows = (sparse.eye_array(moves.shape[0], format="csr") - moves)[order]
        moved = sparse.csr_array(
            (rows.data, position.astype(rows.indices.dtype)[rows.indices], rows.indptr), rows.shape
        )
        moved.sort_indices()
        return Factors(_sparse_factors(moved, "NATURAL"), order, position)

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def is_quick(self) -> bool:
        return False

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        return np.asarray(self.factors.solve(right[self.order], trans="T")[self.position])

    def visits(self, start: Vector) -> Vector:
        return np.asarray(self.factors.solve(start[self.order])[self.position])


def _sparse_factors(system: SparseRows, ordering: str) -> linalg.SuperLU:
    """The sparse LU of A'. The CSR arrays of A are the CSC arrays of A', which `splu` needs."""
    transposed = sparse.csc_array((system.data, system.indices, system.indptr), system.shape)
    # Panels narrower than the library's own: these matrices have few entries per column.
    return linalg.splu(transposed, permc_spec=ordering, panel_size=4, options={"SymmetricMode": True})


@lru_cache(maxsize=16)
def elimination_order(mdp: MDP, takes_many: bool) -> Indices | None:
    """The order of elimination for the sparse LU of policies that take most choices, or one in each state.

    None where the chain of the uniform policy, or of random choices, takes too many operations.
    All policies share the order of the policy that takes every choice, unless that one takes too many operations.
    """
    if mdp.n_states > FACTOR_LIMIT:
        return None
    all_moves = chain(mdp, mdp.discount * uniform_policy(mdp))
    moves = all_moves if takes_many else discounted_rows(mdp, _random_choice(mdp))
    budget = FEW_OPERATIONS if Krylov(moves, mdp.largest_discount).is_fast else FACTOR_OPERATIONS
    if operations(moves, budget) == np.inf:
        return None
    # Policies with few choices take fewer operations in the shared order than the policy of all choices.
    is_shared = takes_many or operations(all_moves, SHARED * FACTOR_OPERATIONS) < np.inf
    system = sparse.eye_array(mdp.n_states, format="csr") - (all_moves if is_shared else moves)
    return np.asarray(np.argsort(_sparse_factors(system, BY_DEGREE).perm_c))


def operations(moves: SparseRows, budget: float) -> float:
    """The operations per state of a sparse LU of I - moves (S, S); infinite if above the budget.

    They are counted on the pattern of the chain and its transpose together.
    """
    from tutelage.chains import loops

    n = moves.shape[0]
    ones = sparse.csr_array((np.ones(moves.nnz, np.int8), moves.indices, moves.indptr), moves.shape)
    both = sparse.csr_array(ones + ones.T)
    apart = np.repeat(np.arange(n), np.diff(both.indptr)) != both.indices
    start = np.concatenate([[0], np.cumsum(apart)])[both.indptr].astype(np.int64)
    return loops.elimination_cost(start, both.indices[apart].astype(np.int64), float(budget * n)) / float(n)


@dataclass(frozen=True, slots=True, eq=False)
class Krylov:
    """By iterations, each answer verified. moves: discount * P. discount: the largest sum of a row."""

    moves: SparseRows
    discount: float

    @property
    def is_exact(self) -> bool:
        return False

    @property
    def is_quick(self) -> bool:
        return False

    @property
    def is_fast(self) -> bool:
        """Whether a few Krylov steps are enough."""
        right = np.random.default_rng(0).random(self.moves.shape[0])
        return Iterations.of(self.moves, self.discount, np.inf).is_fast(right)

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        from tutelage import compiling

        system = Iterations.of(self.moves, self.discount, np.inf)
        start = np.zeros_like(right) if near is None else near
        if right.ndim == 1:
            return system.solve(right, start, accuracy)
        columns = [(right[:, j].copy(), start[:, j].copy(), accuracy) for j in range(right.shape[1])]
        return np.column_stack(compiling.map_in_threads(lambda column: system.solve(*column), columns))

    def visits(self, start: Vector) -> Vector:
        backwards = Iterations.of(self.moves.T.tocsr(), self.discount, 1)
        return backwards.solve(start, np.zeros_like(start), RELATIVE_ACCURACY)
