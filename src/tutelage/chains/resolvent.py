"""The Markov chain of an MDP under a policy, and its two linear systems.

With P the (S, S) transition matrix under the policy and A = I - discount * P (where discounts differ between choices,
P has the rows diag(discount) @ transition, and `discount` below is the largest one):

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

One function chooses the method, by the pattern of the chain:

    dense        few states, or moves to a tenth of all states or more
    band         all moves are short in another order of the states, where these are few
    narrow band  all moves are short in the order of the states
    components   the strongly connected components are small, as for most policies with one choice per state
    factors      sparse LU, in an order of elimination that all policies of an MDP share
    iterations   everything else: Krylov steps or sweeps, each answer verified (`iterations`)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse import csgraph, linalg

from tutelage.arrays import Flags, Indices, Matrix, SparseRows, Vector
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.model.mdp import MDP, times_discount
from tutelage.model.policy import ending_choice, uniform_policy
from tutelage.outcomes import InvalidModel

# Up to this number of states a dense factorisation is cheaper than a sparse one.
DENSE_LIMIT = 200
# With this share of all moves, dense LU takes less time up to this number of states; beyond, Krylov steps do.
DENSE_SHARE, LARGEST_DENSE = 0.1, 1_500
# The widest band, and up to how many states a reordering is tried to find one: beyond, sparse LU takes less time.
WIDEST, REORDERED_LIMIT = 40, 2_000
# With fewer states than this, or a band wider than this share of the states, dense LU takes less time than a band.
FEWEST_IN_BAND, WIDEST_SHARE = 30, 0.25
# Up to this width, in the order of the states, a compiled solution takes little more time than a sweep over the states.
NARROW = 8
# The most operations per state for the dense elimination of components, and in all for sparse LU: about a second.
COMPONENT_OPERATIONS, FACTOR_OPERATIONS = 4_000, 5e9
# Values of this relative accuracy take less time by iterations than by sparse LU.
ITERATED_ACCURACY = 1e-6
# For these nearly symmetric patterns the ordering of A + A' is several times faster than SuperLU's default.
BY_DEGREE = "MMD_AT_PLUS_A"


@dataclass(frozen=True, slots=True, eq=False)
class Resolvent:
    """The inverses of A = I - discount * P and of its transpose.

    method: its name, as above. solve: A x = right, or A' x = right if the second argument is true. As A is diagonally
    dominant, elimination is stable without pivots, and its answers need no check.
    """

    method: str
    solve: Callable[..., Vector]

    @property
    def is_exact(self) -> bool:
        """Whether answers have no error but rounding. Iterations have the accuracy that is asked for."""
        return self.method != "iterations"

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        """A x = right for (S,) or (S, k).

        near: where iterations start. accuracy: theirs, relative to the largest entry of each column.
        """
        return self.solve(right, False, near, accuracy)

    def visits(self, start: Vector) -> Vector:
        """A' d = start for (S,)."""
        return self.solve(start, True, None, RELATIVE_ACCURACY)


def chain(mdp: MDP, weights: Vector, rows: SparseRows | None = None) -> SparseRows:
    """(S, S), the sum of each state's rows times their weights (C,).

    With a policy as weights: the probability of each next state. With discount * policy, and `mdp.continuing` as the
    rows in place of the transition: the discounted moves.
    """
    rows = mdp.transition if rows is None else rows
    if has_dense_moves(mdp, mdp.n_states):
        # Sorting the entries of long rows would take longer than a product.
        return sparse.csr_array(_mix(mdp, weights) @ rows)
    weight = np.repeat(weights, np.diff(rows.indptr)) * rows.data
    place = rows.indices, rows.indptr[mdp.first_choice]
    step = sparse.csr_array((weight, *place), (mdp.n_states, mdp.n_states), copy=True)
    step.sum_duplicates()
    return step


def _mix(mdp: MDP, weights: Vector) -> SparseRows:
    """(S, C), the weights of the choices of each state."""
    kind = mdp.transition.indices.dtype
    place = np.arange(mdp.n_choices, dtype=kind), mdp.first_choice.astype(kind)
    return sparse.csr_array((weights, *place), (mdp.n_states, mdp.n_choices))


def discounted_rows(mdp: MDP, choice: Indices) -> SparseRows:
    """discount(c) T(c) for the given choices (n,), a new matrix (n, S)."""
    discount = mdp.discount if isinstance(mdp.discount, float) else mdp.discount[choice]
    return times_discount(mdp.continuing[choice], discount)


@lru_cache(maxsize=16)
def has_dense_moves(mdp: MDP, largest: int = LARGEST_DENSE) -> bool:
    """Whether there are more than a few states, at most `largest`, and moves to a tenth of them or more from each."""
    n = mdp.n_states
    return bool(DENSE_LIMIT < n <= largest and mdp.transition.nnz >= DENSE_SHARE * n * n)


def policy_resolvent(mdp: MDP, policy: Vector) -> Resolvent:
    """The resolvent of the chain of an MDP under a policy (C,)."""
    share = mdp.discount * policy
    if np.isinf(mdp.horizon):
        check_ends(mdp, policy > 0)
    if has_dense_moves(mdp):
        return _dense(_mix(mdp, share) @ mdp.rows)
    method, width, position, place = _pattern(mdp)
    if method == "sparse":
        moves = chain(mdp, share, mdp.continuing)
        moves.eliminate_zeros()
        return _sparse(mdp, moves, takes_many=bool(2 * np.count_nonzero(policy) > mdp.n_states + mdp.n_choices))
    if method == "narrow band":
        from tutelage.chains.elimination import narrow_band

        return Resolvent(method, narrow_band(mdp.continuing, mdp.first_choice, share, width))
    n = len(mdp.initial)
    height = n if method == "dense" else 3 * width + 1
    weight = np.repeat(share, np.diff(mdp.continuing.indptr)) * mdp.continuing.data
    moves = np.asarray(np.bincount(place, weight, minlength=n * height), dtype=np.float64).reshape(n, height)
    if method == "dense":
        return _dense(moves)
    system = -moves
    system[:, 2 * width] += 1.0
    lu, pivots, _ = lapack.dgbtrf(system.T, width, width, overwrite_ab=True)

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        moved = np.empty_like(right)
        moved[position] = right
        return np.asarray(lapack.dgbtrs(lu, width, width, moved, pivots, trans=not is_visits)[0][position])

    return Resolvent(method, solve)


def choice_resolvent(mdp: MDP, choice: Indices, accuracy: float = RELATIVE_ACCURACY) -> Resolvent:
    """The resolvent of the chain of an MDP under one choice per state, (S,), for values of this relative accuracy."""
    if has_dense_moves(mdp):
        return _dense(discounted_rows(mdp, choice))
    if _pattern(mdp)[0] == "sparse":
        return _sparse(mdp, discounted_rows(mdp, choice), accuracy=accuracy)
    policy = np.zeros(mdp.n_choices)
    policy[choice] = 1.0
    return policy_resolvent(mdp, policy)


def check_ends(mdp: MDP, is_taken: Flags) -> None:
    """Refuse a policy that takes these choices (C,) if it never ends from some state; without any it ends there."""
    has_choice = np.logical_or.reduceat(is_taken, mdp.first_choice[:-1])
    lost = np.flatnonzero((ending_choice(mdp, is_taken) < 0) & has_choice)
    if len(lost):
        place = mdp.names.describe_state(int(lost[0]))
        raise InvalidModel(f"this policy goes on for ever from {place}; without discount its totals have no limit")


def choice_visits(mdp: MDP, choice: Indices) -> Vector:
    """(S,), the discounted visits of one choice per state (S,), from the initial distribution.

    From one start such a policy reaches few of many states. Components of these alone are then enough.
    """
    start = np.flatnonzero(mdp.initial)
    if len(start) == 1 and _pattern(mdp)[0] == "sparse":
        moves = discounted_rows(mdp, choice)
        reached = csgraph.breadth_first_order(moves, start[0], return_predecessors=False)
        parts = components(moves[reached][:, reached]) if 4 * len(reached) < mdp.n_states else None
        if parts is not None:
            visits = np.zeros(mdp.n_states)
            visits[reached] = parts.visits(mdp.initial[reached])
            return visits
    return choice_resolvent(mdp, choice).visits(mdp.initial)


@lru_cache(maxsize=8)
def typical_method(mdp: MDP) -> str:
    """The method for random choices, one per state: how policies of this kind are evaluated."""
    return choice_resolvent(mdp, any_choice(mdp)).method


def _sparse(mdp: MDP, moves: SparseRows, takes_many: bool = False, accuracy: float = RELATIVE_ACCURACY) -> Resolvent:
    """The resolvent of a large chain (S, S). takes_many: whether the policy takes most of the choices."""
    if (by_parts := components(moves)) is not None:
        return by_parts
    order = elimination_order(mdp, takes_many) if accuracy < ITERATED_ACCURACY else None
    if order is not None:
        return factors(moves, order)
    from tutelage.chains.iterations import krylov

    return Resolvent("iterations", krylov(moves, mdp.contraction))


def components(moves: SparseRows) -> Resolvent | None:
    """The resolvent of I - moves by components; None where these are so large that it would take long."""
    n_components, label = csgraph.connected_components(moves, connection="strong")
    size = np.bincount(label, minlength=n_components)
    if (size.astype(np.float64) ** 3).sum() > COMPONENT_OPERATIONS * len(label):
        return None
    from tutelage.chains.elimination import eliminated

    return Resolvent("components", eliminated(moves, label, size))


def any_choice(mdp: MDP) -> Indices:
    """(S,), random choices, one per state; where some policy goes on for ever, choices that end."""
    if np.isinf(mdp.horizon):
        return ending_choice(mdp, np.ones(mdp.n_choices, dtype=np.bool_))
    return mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state)


@lru_cache(maxsize=8)
def _pattern(mdp: MDP) -> tuple[str, int, Indices, Indices]:
    """The method for the policies of an MDP, as above; "sparse" is one of the last three.

    Further the longest move; the position of each state (S,) in an order in which moves are this short; and, for
    matrices of LAPACK, where each entry of the transition is stored. These places are computed once per MDP: sorting
    the entries takes longer than solving a small system.
    """
    n, rows, nothing = mdp.n_states, mdp.transition, np.arange(0)
    if has_dense_moves(mdp):
        return "dense", n, nothing, nothing
    begin = np.repeat(mdp.state_of_choice, np.diff(rows.indptr))
    end = rows.indices.astype(np.int64)
    width = int(np.abs(end - begin).max(initial=0))
    if n > DENSE_LIMIT and width <= NARROW:
        return "narrow band", width, nothing, nothing
    if FEWEST_IN_BAND < n <= REORDERED_LIMIT:
        pairs = np.append(begin, end), np.append(end, begin)
        graph = sparse.coo_array((np.ones(2 * len(end), np.int8), pairs), (n, n)).tocsr()
        position = np.argsort(csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True))
        column = position[begin]
        ahead = position[end] - column
        width = int(np.abs(ahead).max(initial=0))
        if width <= min(WIDEST, WIDEST_SHARE * n):
            # Entry (i, j) of A' is in row 2 * width + i - j of column j; the first rows are for LAPACK's pivots.
            return "band", width, position, column * (3 * width + 1) + 2 * width + ahead
    if n <= DENSE_LIMIT:
        return "dense", width, nothing, begin * n + end
    return "sparse", width, nothing, nothing


def _dense(moves: SparseRows | Matrix) -> Resolvent:
    """By one dense LU of A', the transpose of I - moves. Rows of a C array are the columns of A' that LAPACK reads.

    Columns of A' are diagonally dominant. So LAPACK changes no rows, here and in a band, and what cannot be negative is
    not, even by rounding.
    """
    system = -(moves if isinstance(moves, np.ndarray) else moves.toarray())
    np.einsum("ss->s", system)[:] += 1.0
    lu, pivots, _ = lapack.dgetrf(system.T, overwrite_a=True)
    return Resolvent("dense", lambda right, is_visits, *_: lapack.dgetrs(lu, pivots, right, trans=not is_visits)[0])


def factors(moves: SparseRows, order: Indices) -> Resolvent:
    """By one sparse LU of A', the transpose of I - moves, its states in this order of elimination."""
    place = np.argsort(order)
    moved = (sparse.eye_array(len(order), format="csr") - moves)[order][:, order]
    moved.sort_indices()
    lu = sparse_factors(moved, "NATURAL")
    return Resolvent("factors", lambda right, is_visits, *_: lu.solve(right[order], "N" if is_visits else "T")[place])


def sparse_factors(system: SparseRows, ordering: str) -> linalg.SuperLU:
    """The sparse LU of A'. The CSR arrays of A are the CSC arrays of A', which `splu` needs."""
    transposed = sparse.csc_array((system.data, system.indices, system.indptr), system.shape)
    # Panels narrower than the library's own: these matrices have few entries per column.
    return linalg.splu(transposed, permc_spec=ordering, panel_size=4, options={"SymmetricMode": True})


@lru_cache(maxsize=16)
def elimination_order(mdp: MDP, takes_many: bool) -> Indices | None:
    """The order of elimination for the sparse LU of policies that take most choices, or one in each state.

    None where the chain of the uniform policy, or of random choices, takes few Krylov steps, or too many operations.
    """
    from tutelage.chains.iterations import Iterations

    all_moves = chain(mdp, mdp.discount * uniform_policy(mdp), mdp.continuing)
    moves = all_moves if takes_many else discounted_rows(mdp, any_choice(mdp))
    if Iterations(moves, mdp.contraction, np.inf).is_fast() or np.isinf(_operations(moves, FACTOR_OPERATIONS)):
        return None
    # All share the order of the policy that takes every choice, unless that one takes far too many operations.
    is_shared = takes_many or np.isfinite(_operations(all_moves, 10 * FACTOR_OPERATIONS))
    return np.argsort(sparse_factors(_halved(all_moves if is_shared else moves), BY_DEGREE).perm_c)


def _halved(moves: SparseRows) -> SparseRows:
    """I - moves / 2: an order of elimination depends on the pattern alone, and this matrix is never singular."""
    return sparse.eye_array(moves.shape[0], format="csr") - 0.5 * moves


def _operations(moves: SparseRows, most: float) -> float:
    """The operations of an LU of I - moves in an order that SuperLU finds quickly; infinite if above `most`.

    An incomplete LU that drops everything yields the order, and the pattern of the chain and its transpose the count.
    """
    from tutelage.chains.elimination import fill_operations

    system = _halved(moves)
    order = np.argsort(linalg.spilu(system.tocsc(), drop_tol=1.0, fill_factor=1.0, permc_spec="COLAMD").perm_c)
    pattern = sparse.csr_array((np.ones(system.nnz, np.int8), system.indices, system.indptr), system.shape)
    both = sparse.csr_array(pattern + pattern.T)[order][:, order]
    return float(fill_operations(both.indptr, both.indices, most))
