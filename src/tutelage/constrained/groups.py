"""Groups of starts, and master problems in which every group has a mixture of its own.

Let the start decide from which mixture the policy is drawn. The optimum is the same (docs/decisions.md), but the master
problem knows far more points: from n policies and K groups n^K combinations, all by the same n linear systems.

In the dual, the best known policy at a price is replaced by the sum over groups of the best known policy of each group:

    min over u of   right @ u + sum over groups k of   max over policies i of price(u) @ part(i, k)

part(i, k): (d,), what policy i is expected to collect from the starts in group k. For a projection u has further
entries, the deviations from the target, and half their square is added.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from tutelage.arrays import Indices, Matrix, SparseRows, Vector, max_abs
from tutelage.constrained.objectives import Mixture, Program
from tutelage.model.mdp import MDP
from tutelage.outcomes import Ended, Solution

Table = NDArray[np.float64]
# The number of groups, the number of starts for each where there are few, and the least number of groups that help.
MOST_GROUPS, FEW_STARTS, FEWEST_GROUPS = 200, 5, 20
# The largest excess over the limits and the largest gap that are rounding, relative to the sizes.
EXACT_EXCESS, TIGHT_GAP = 1e-12, 1e-11


@lru_cache(maxsize=8)
def start_groups(mdp: MDP) -> SparseRows | None:
    """(K, S), the probability of each start in the row of its group: one entry per state, which may be zero.

    Groups are around random starts; each state belongs to the nearest of these, in moves of either direction. None
    where there are few starts.
    """
    starts = np.flatnonzero(mdp.initial)
    n_groups = min(MOST_GROUPS, len(starts) // FEW_STARTS)
    if n_groups < FEWEST_GROUPS:
        return None
    centres = np.sort(np.random.default_rng(0).choice(starts, n_groups, replace=False))
    at = np.repeat(mdp.state_of_choice, np.diff(mdp.transition.indptr))
    moves = sparse.csr_array((np.ones(len(at)), (at, mdp.transition.indices)), (mdp.n_states, mdp.n_states))
    _, _, nearest = csgraph.dijkstra(
        moves + moves.T, indices=centres, unweighted=True, min_only=True, return_predecessors=True
    )
    # A state that no centre reaches has the number -9999, and belongs to the first group.
    of_state = np.searchsorted(centres, nearest)
    mean = sparse.csc_array((mdp.initial, of_state, np.arange(mdp.n_states + 1)), (n_groups, mdp.n_states))
    return mean.tocsr()


def best_shares(program: Program, parts: Table, near: Vector) -> Solution[Mixture] | None:
    """The best mixture for every group, weights (n, K); None where rounding hides it or no mixture is in the limits.

    parts: (n, K, d). near: (k,), dual variables to start from.
    """
    assert program.most is not None
    m = len(near) - program.n_matched
    solved = (_nearest if program.n_matched else _most)(program, np.full(m, program.most), parts, near)
    if solved is None:
        return None
    weights, u = solved
    point, a = np.einsum("nk,nkd->d", weights, parts), u[m:]
    over = np.maximum(program.rows[:m] @ point - program.right[:m], 0.0)
    excess = float(over.max(initial=0.0))
    value = float(0.5 * a @ a - program.base @ point)
    is_priced = np.isfinite(program.most)
    if is_priced:
        value += program.most * float(over.sum())
    least = program.offset(u) - float((parts @ program.price(u)).max(axis=0).sum())
    size = 1 + max_abs(program.right) + abs(value)
    # Where no mixture is within the limits, multipliers grow without end, and the bound exceeds the value.
    if not ((is_priced or excess <= EXACT_EXCESS * size) and abs(value - least) <= TIGHT_GAP * size):
        return None
    return Solution(Mixture(weights, u), value, least, excess, Ended.CONVERGED, 1)


def _most(program: Program, upper: Vector, parts: Table, near: Vector) -> tuple[Matrix, Vector] | None:
    """The linear program: weights (n, K) and dual variables (m,)."""
    from tutelage.constrained import group_loops

    table = np.dstack([parts @ program.rows.T, parts @ program.base])
    base, table = _less_best(table, np.append(-near, 1.0))
    picks, kind, _, x, u, is_optimal = group_loops.best_shares(table, program.right - base[:-1], upper, near)
    if not is_optimal:
        return None
    is_point = kind == group_loops.COMBINATION
    return _weights(parts, picks[is_point], x[is_point]), np.clip(u, 0.0, upper)


def _nearest(program: Program, upper: Vector, parts: Table, near: Vector) -> tuple[Matrix, Vector] | None:
    """The projection, from the best mixture within the limits at the last price: weights and dual variables."""
    from tutelage.constrained import group_loops

    m = len(upper)
    y, a = near[:m], near[m:]
    # What each part uses of the limits, and what it matches of the target.
    table = parts @ np.vstack([program.rows[:m], -program.rows[m:]]).T
    target = -program.right[m:]
    base, table = _less_best(table, np.concatenate([-y, a]))
    right = program.right[:m] - base[:m]
    linear = np.dstack([table[:, :, :m], table[:, :, m:] @ a])
    picks, kind, row, x, _, is_optimal = group_loops.best_shares(linear, right, upper, y)
    is_point = kind == group_loops.COMBINATION
    if not is_optimal or (x[kind == group_loops.EXCESS] > EXACT_EXCESS).any():
        return None
    picks[~is_point] = -1
    points = table[picks, np.arange(table.shape[1])].sum(axis=1)
    columns = np.where(is_point[:, None], np.insert(points, m, 1.0, axis=1), np.eye(table.shape[2] + 1)[row])
    picks, x, y, is_optimal = group_loops.nearest_shares(table, target - base[m:], right, picks, columns, x)
    if not is_optimal:
        return None
    is_point = picks[:, 0] >= 0
    weights = _weights(parts, picks[is_point], x[is_point])
    deviation = target + np.einsum("nk,nkd->d", weights, parts) @ program.rows[m:].T
    return weights, np.concatenate([np.maximum(y, 0.0), deviation])


def _less_best(table: Table, price: Vector) -> tuple[Vector, Table]:
    """(q,), the sum of the best columns of a table (n, K, q) at a price, and the table less these columns.

    Near the end all columns that matter are nearly equal. Their differences keep more digits than their sums.
    """
    groups = np.arange(table.shape[1])
    best = (table @ price).argmax(axis=0)
    return table[best, groups].sum(axis=0), table - table[best, groups]


def _weights(parts: Table, picks: Indices, x: Vector) -> Matrix:
    """(n, K), the weights of each policy in every group, from those of combinations (N, K); nan if there is none."""
    groups = np.arange(parts.shape[1])
    weights = np.zeros(parts.shape[:2])
    for pick, weight in zip(picks, x, strict=True):
        weights[pick, groups] += max(weight, 0.0)
    total = weights.sum(axis=0)
    return weights / total if total.all() else np.full_like(weights, np.nan)
