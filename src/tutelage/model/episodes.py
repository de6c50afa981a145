"""Episodes that end, without discount: where they end, whether all policies do, and how long they take.

With discount 1 an *end* is an absorbing state; what happens there counts nothing. Let K have the rows discount(c) T(c)
without the columns of the ends. The expected number of choices that a policy still takes, and the longest of all, are

    e = 1 + K_pi e            h(s) = max over choices c of s of  1 + K(c) @ h

The largest h is the *horizon*, which discounted MDPs have as 1 / (1 - discount). It is finite exactly if every policy
ends. For the Bellman operators B, hard and soft, and any value V, V* - V = (I - K_pi)^-1 (B_pi V - V) for the optimal
policy pi, so |V* - V| <= max |B V - V| * horizon, and every other bound has the horizon in the same way.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg

from tutelage.arrays import EPSILON, Flags, Indices, SparseRows, Vector
from tutelage.outcomes import InvalidModel


def absorbing(rows: SparseRows, first_choice: Indices) -> Flags:
    """(S,), whether every choice of a state leads back to it with probability one."""
    state = np.repeat(np.arange(len(first_choice) - 1), np.diff(first_choice))
    stays = (np.diff(rows.indptr) == 1) & (rows.indices[rows.indptr[:-1]] == state)
    return np.logical_and.reduceat(stays, first_choice[:-1])


def ends_of(rows: SparseRows, first_choice: Indices, discount: float | Vector) -> Flags:
    """(S,), the absorbing states without discount, where episodes end."""
    if np.max(discount) < 1:
        return np.zeros(len(first_choice) - 1, dtype=np.bool_)
    is_full = np.logical_and.reduceat(np.broadcast_to(discount, rows.shape[0]) == 1, first_choice[:-1])
    return np.asarray(absorbing(rows, first_choice) & is_full)


def without_columns(rows: SparseRows, is_left_out: Flags) -> SparseRows:
    """The same matrix with zeros in some columns; the zeros are stored, so that the pattern is the same."""
    data = np.where(is_left_out[rows.indices], 0.0, rows.data)
    return sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)


def check_ends(
    moves: SparseRows, first_choice: Indices, discount: float | Vector, describe: Callable[[int], str]
) -> None:
    """Refuse an MDP with a state from which neither an end nor a discounted choice can be reached."""
    may_end = np.logical_or.reduceat(_leaves(moves, discount), first_choice[:-1])
    lost = np.flatnonzero(_next_states(moves, first_choice, np.ones(moves.shape[0], np.bool_), may_end) < 0)
    if len(lost):
        others = f" (nor from {len(lost) - 1} others)" if len(lost) > 1 else ""
        raise InvalidModel(
            f"with discount 1 an episode must be able to end, but from {describe(int(lost[0]))} no end can be "
            f"reached{others}; an end is an absorbing state; add one, or give a discount below 1"
        )


def _leaves(moves: SparseRows, discount: float | Vector) -> Flags:
    """(C,), whether an episode may end with a choice: by a move to an end, which `moves` has as zero, or a discount."""
    return np.asarray((np.minimum.reduceat(moves.data, moves.indptr[:-1]) == 0) | (np.asarray(discount) < 1))


def ways_to_end(moves: SparseRows, first_choice: Indices, discount: float | Vector, is_taken: Flags) -> Indices:
    """(S,), choices of a policy that ends, among those which are taken (C,); -1 where these lead to no end."""
    counts, starts = np.diff(first_choice), first_choice[:-1]
    may_end = _leaves(moves, discount) & is_taken
    state = np.repeat(np.arange(len(counts)), np.diff(moves.indptr[first_choice]))
    is_last = np.logical_or.reduceat(may_end, starts) | ~np.logical_or.reduceat(is_taken, starts)
    towards = _next_states(moves, first_choice, is_taken, is_last)
    leads = is_taken & np.logical_or.reduceat((moves.indices == towards[state]) & (moves.data > 0), moves.indptr[:-1])
    chosen = np.flatnonzero(leads | (may_end & np.repeat(towards == len(counts), counts)))[::-1]
    choice = np.full(len(counts), -1)
    choice[np.repeat(np.arange(len(counts)), counts)[chosen]] = chosen
    return choice


def _next_states(moves: SparseRows, first_choice: Indices, is_taken: Flags, goals: Flags) -> Indices:
    """(S,), the next state on a shortest way to a goal by choices that are taken (C,); S in goals, -1 without a way."""
    n = len(goals)
    entry = np.flatnonzero(np.repeat(is_taken, np.diff(moves.indptr)) & (moves.data > 0))
    state = np.repeat(np.arange(n), np.diff(moves.indptr[first_choice]))
    # One more state, from which all goals are one move away, in the graph of the moves backwards.
    begin = np.append(moves.indices[entry], np.full(np.count_nonzero(goals), n))
    end = np.append(state[entry], np.flatnonzero(goals))
    graph = sparse.csr_array((np.ones(len(begin), np.int8), (begin, end)), (n + 1, n + 1))
    _, before = csgraph.breadth_first_order(graph, n, return_predecessors=True)
    return np.asarray(np.maximum(before[:n], -1))


def goes_on(moves: SparseRows, first_choice: Indices, discount: float | Vector) -> Flags:
    """(S,), the states among which some policy can stay for ever: the maximal end components.

    Choices that may leave their strongly connected component are dropped until no more are.
    """
    n, n_entries = len(first_choice) - 1, np.diff(moves.indptr)
    owner = np.repeat(np.arange(n), np.diff(first_choice))
    state, is_kept = np.repeat(owner, n_entries), ~_leaves(moves, discount)
    while is_kept.any():
        entry = np.repeat(is_kept, n_entries)
        graph = sparse.csr_array((entry[entry], (state[entry], moves.indices[entry])), (n, n))
        label = csgraph.connected_components(graph, connection="strong")[1]
        stays = np.logical_and.reduceat(label[state] == label[moves.indices], moves.indptr[:-1])
        if not (is_kept & ~stays).any():
            break
        is_kept &= stays
    return np.asarray(np.logical_or.reduceat(is_kept, first_choice[:-1]))


def longest_steps(moves: SparseRows, first_choice: Indices, discount: float | Vector, accuracy: float = 1e-9) -> float:
    """The horizon to a relative accuracy, by policy iteration; infinite where some policy does not end. moves: K.

    If h >= 1 + K h - x for some x < 1, then h / (1 - x) >= 1 + K h / (1 - x) is above the longest steps.
    """
    if goes_on(moves, first_choice, discount).any():
        return np.inf
    choice, starts = first_choice[:-1], first_choice[:-1]
    for _ in range(1_000):
        steps = totals(moves[choice], np.ones(len(choice)))
        ahead = 1.0 + moves @ steps
        best = np.maximum.reduceat(ahead, starts)
        excess, slack = float((best - steps).max()), 4 * EPSILON * float(steps.max())
        is_best = np.flatnonzero(ahead == np.repeat(best, np.diff(first_choice)))
        moved = np.where(best > ahead[choice] + slack, is_best[np.searchsorted(is_best, starts)], choice)
        if excess <= accuracy or np.array_equal(moved, choice):
            break
        choice = moved
    return float(steps.max()) / (1 - excess) if excess < 0.5 else np.inf


def walk_steps(moves: SparseRows, first_choice: Indices) -> float:
    """The expected steps of the policy that takes all choices alike, from the state where it takes the longest."""
    n, counts = len(first_choice) - 1, np.diff(first_choice)
    weights = np.repeat(np.repeat(1.0 / counts, counts), np.diff(moves.indptr)) * moves.data
    chain = sparse.csr_array((weights, moves.indices, moves.indptr[first_choice]), (n, n), copy=True)
    chain.sum_duplicates()
    return float(totals(chain, np.ones(n)).max())


def totals(moves: SparseRows, here: Vector, few_states: int = 200, n_steps: int = 60) -> Vector:
    """(S,), (I - moves)^-1 here for a chain (S, S) that ends.

    few_states: for which a dense system takes less time. n_steps: of an iteration that is tried first for others.
    """
    n = len(here)
    if n <= few_states:
        return np.asarray(np.linalg.solve(np.eye(n) - moves.toarray(), here))
    system = sparse.eye_array(n, format="csr") - moves
    answer, failed = linalg.bicgstab(system, here, rtol=1e-13, maxiter=n_steps)
    if not failed and np.abs(here - system @ answer).max() <= 1e-10 * np.abs(here).max():
        return np.asarray(answer)
    return np.asarray(linalg.splu(system.tocsc()).solve(here))
