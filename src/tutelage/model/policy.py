"""Policies: one probability per choice; those of a state sum to one. And how long they go on.

With discount 1 an *end* is an absorbing state; what happens there counts nothing. Let K have the rows discount(c) T(c)
without the columns of the ends. The longest expected number of choices that any policy still takes is

    h(s) = max over choices c of s of  1 + K(c) @ h

The largest h is the *horizon*, which discounted MDPs have as 1 / (1 - discount). It is finite exactly if every policy
ends. For the Bellman operators B, hard and soft, V* - V = (I - K_pi)^-1 (B_pi V - V) for the optimal policy pi, so
|V* - V| <= max |B V - V| * horizon for any value V.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg

from tutelage import arrays
from tutelage.arrays import EPSILON, ArrayLike, Flags, Indices, SparseRows, Vector
from tutelage.model.inputs import choice_of_entry
from tutelage.outcomes import InvalidModel

if TYPE_CHECKING:
    from tutelage.model.mdp import MDP

# So few take less time as a dense system.
FEW_STATES = 200


def sum_by_state(mdp: "MDP", values: Vector) -> Vector:
    """(S, ...), the sum of values on choices (C, ...) over the choices of each state."""
    return np.add.reduceat(values, mdp.first_choice[:-1], axis=0)


def max_by_state(mdp: "MDP", values: Vector) -> Vector:
    """(S, ...), the maximum of values on choices (C, ...) over the choices of each state."""
    return np.maximum.reduceat(values, mdp.first_choice[:-1], axis=0)


def first_maximum(mdp: "MDP", values: Vector) -> Indices:
    """(S,), the first choice of each state with the maximum of values on choices (C,)."""
    is_best = np.flatnonzero(values == max_by_state(mdp, values).repeat(mdp.choices_per_state))
    # Both the best choices and the first choices of the states ascend.
    return np.asarray(is_best[np.searchsorted(is_best, mdp.first_choice[:-1])])


def uniform_policy(mdp: "MDP") -> Vector:
    """(C,), the policy that takes every choice of a state with the same probability."""
    return arrays.freeze(np.repeat(1.0 / mdp.choices_per_state, mdp.choices_per_state))


def greedy_policy(mdp: "MDP", choice_value: ArrayLike, *, tie_tolerance: float) -> Vector:
    """(C,), the policy that takes the choices within `tie_tolerance` of the best value, with equal probabilities."""
    values = arrays.vector(choice_value, "choice_value", mdp.n_choices, "choices")
    if not tie_tolerance >= 0:
        raise InvalidModel(f"tie_tolerance must be at least zero, got {tie_tolerance!r}")
    return evenly(mdp, values >= max_by_state(mdp, values).repeat(mdp.choices_per_state) - tie_tolerance)


def evenly(mdp: "MDP", is_taken: Flags) -> Vector:
    """(C,), the policy that takes the given choices of each state, at least one, with equal probabilities."""
    return arrays.freeze(is_taken / sum_by_state(mdp, is_taken.astype(np.float64)).repeat(mdp.choices_per_state))


def policy_from_occupancy(mdp: "MDP", occupancy: ArrayLike) -> Vector:
    """The policy with occupancy z (C,): pi(c) = z(c) / sum of z over the state's choices (App. F).

    In a state that is never visited the policy is uniform. Entries below zero by rounding count as zero.
    """
    visits = arrays.vector(occupancy, "occupancy", mdp.n_choices, "choices")
    if visits.min() < -1e-6 * max(1.0, visits.max()):
        raise InvalidModel(f"occupancy[{visits.argmin()}] is {visits.min()}; visits cannot be negative")
    visits = np.maximum(visits, 0.0)
    counts = mdp.choices_per_state
    # Below this the sum is subnormal, and the quotient has few correct digits.
    visits[np.repeat(~(sum_by_state(mdp, visits) > arrays.SMALLEST), counts)] = 1.0
    # In place, because a large MDP has room for few arrays over its choices.
    visits /= np.repeat(sum_by_state(mdp, visits), counts)
    return arrays.freeze(visits)


def check_policy(mdp: "MDP", policy: ArrayLike) -> Vector:
    """A read-only policy (C,), refused unless it sums to one in each state; the message names the first wrong state."""
    values = arrays.vector(policy, "policy", mdp.n_choices, "choices")
    arrays.refuse(values < 0, lambda c: f"policy[{c}] is {values[c]}; a probability cannot be negative")
    sums, counts = sum_by_state(mdp, values), mdp.choices_per_state
    told = "it must sum to one"
    is_wrong = np.abs(sums - 1) > arrays.sum_tolerance(counts)
    arrays.refuse(is_wrong, lambda s: f"the policy sums to {sums[s]:.10g} in {mdp.names.describe_state(s)}; {told}")
    return arrays.freeze(values / arrays.divisors(sums, counts).repeat(counts))


def check_ends(mdp: "MDP") -> None:
    """Refuse an MDP with a state from which neither an end nor a discounted choice can be reached."""
    lost = np.flatnonzero(ending_choice(mdp, np.ones(mdp.n_choices, np.bool_)) < 0)
    if len(lost):
        place = mdp.names.describe_state(int(lost[0]))
        others = f" (nor from {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise InvalidModel(
            f"with discount 1 an episode must be able to end, but from {place} no end can be "
            f"reached{others}; an end is an absorbing state; add one, or give a discount below 1"
        )


def _leaves(mdp: "MDP") -> Flags:
    """(C,), whether an episode may end with a choice: by a discount, or a move to an end, in `continuing` a zero."""
    moves = mdp.continuing
    return np.asarray((np.minimum.reduceat(moves.data, moves.indptr[:-1]) == 0) | (np.asarray(mdp.discount) < 1))


def ending_choice(mdp: "MDP", is_taken: Flags) -> Indices:
    """(S,), one choice per state that ends, among those which are taken (C,); -1 where these never end."""
    n, moves, starts = mdp.n_states, mdp.continuing, mdp.first_choice[:-1]
    owner, choice = mdp.state_of_choice, choice_of_entry(moves)
    may_end = _leaves(mdp) & is_taken
    is_move = is_taken[choice] & (moves.data > 0)
    # One more state, from which all last states are one move away, in the graph of the moves backwards.
    lasts = np.flatnonzero(np.logical_or.reduceat(may_end, starts) | ~np.logical_or.reduceat(is_taken, starts))
    begin = np.append(moves.indices[is_move], np.full(len(lasts), n))
    end = np.append(owner[choice[is_move]], lasts)
    graph = sparse.csr_array((np.ones(len(begin), np.int8), (begin, end)), (n + 1, n + 1))
    # The next state on a shortest way: n in the last states, negative without a way.
    towards = csgraph.breadth_first_order(graph, n, return_predecessors=True)[1][owner]
    leads = np.logical_or.reduceat((moves.indices == towards[choice]) & is_move, moves.indptr[:-1])
    chosen = np.flatnonzero(leads | (may_end & (towards == n)))[::-1]
    ending = np.full(n, -1)
    ending[owner[chosen]] = chosen
    return ending


def goes_on(mdp: "MDP") -> Flags:
    """(S,), the states among which some policy can stay for ever: the maximal end components."""
    n, moves = mdp.n_states, mdp.continuing
    is_kept = ~_leaves(mdp)
    choice = choice_of_entry(moves)
    state = mdp.state_of_choice[choice]
    while is_kept.any():
        entry = is_kept[choice]
        graph = sparse.csr_array((entry[entry], (state[entry], moves.indices[entry])), (n, n))
        label = csgraph.connected_components(graph, connection="strong")[1]
        stays = np.logical_and.reduceat(label[state] == label[moves.indices], moves.indptr[:-1])
        if not (is_kept & ~stays).any():
            break
        is_kept &= stays
    return np.asarray(np.logical_or.reduceat(is_kept, mdp.first_choice[:-1]))


def longest_steps(mdp: "MDP", moves: SparseRows, accuracy: float = 1e-9) -> float:
    """The horizon to a relative accuracy, by policy iteration; infinite where some policy does not end. moves: K.
    If h >= 1 + K h - x for some x < 1, then h / (1 - x) >= 1 + K h / (1 - x) is above the longest steps."""
    if goes_on(mdp).any():
        return np.inf
    choice = mdp.first_choice[:-1]
    for _ in range(1_000):
        steps = totals(moves[choice])
        rounding = rounding_of(steps)
        if rounding == np.inf:
            return np.inf
        ahead = 1.0 + moves @ steps
        best = max_by_state(mdp, ahead)
        excess = float((best - steps).max())
        moved = np.where(best > ahead[choice] + rounding, first_maximum(mdp, ahead), choice)
        if excess <= accuracy or np.array_equal(moved, choice):
            break
        choice = moved
    excess += rounding
    return float(steps.max()) / (1 - excess) if excess < 0.5 else np.inf


def rounding_of(steps: Vector) -> float:
    """The rounding error of 1 + K h - h for steps h (S,); infinite where it hides more than a quarter of a step.
    The steps of a chain that practically never ends are rounding errors: they may be negative, and fit the equation."""
    rounding = 4 * EPSILON * float(np.abs(steps).max())
    return rounding if rounding < 0.25 else np.inf


@lru_cache(maxsize=64)
def walk_steps(mdp: "MDP") -> float:
    """The expected steps of the uniform policy from the state where it takes the longest, or a little more: a residual
    of r leaves at most r times the steps, t = x + (I - P)^-1 r."""
    moves, n = mdp.continuing, mdp.n_states
    weights = (uniform_policy(mdp) * mdp.discount)[choice_of_entry(moves)] * moves.data
    chain = sparse.csr_array((weights, moves.indices, moves.indptr[mdp.first_choice]), (n, n), copy=True)
    chain.sum_duplicates()
    steps = totals(chain, n_steps=1_000, residual=1e-3)
    rounding = rounding_of(steps)
    if rounding == np.inf:
        raise InvalidModel(
            "with discount 1 an episode must be able to end, but policies of this MDP practically never do: a walk "
            "that takes all choices alike needs more than 1e14 steps; make ends likelier, or give a discount below 1"
        )
    return float(steps.max()) / (1 - rounding - float(np.abs(1 - steps + chain @ steps).max()))


def totals(moves: SparseRows, n_steps: int = 60, residual: float = 1e-10) -> Vector:
    """(S,), (I - moves)^-1 1, the expected steps of a chain (S, S) that ends; infinite where rounding hides its end.
    n_steps, residual: of an iteration that is tried first; of a large city a factorisation takes minutes."""
    n = moves.shape[0]
    ones = np.ones(n)
    try:
        if n <= FEW_STATES:
            return np.asarray(np.linalg.solve(np.eye(n) - moves.toarray(), ones))
        system = sparse.eye_array(n, format="csr") - moves
        with np.errstate(all="ignore"):
            answer, failed = linalg.bicgstab(system, ones, rtol=0.1 * residual / np.sqrt(n), maxiter=n_steps)
            if not failed and np.abs(ones - system @ answer).max() <= residual:
                return np.asarray(answer)
        return np.asarray(linalg.splu(system.tocsc()).solve(ones))
    except (np.linalg.LinAlgError, RuntimeError):
        return np.full(n, np.inf)
