"""Master problems in which the starts of the learner are in groups, and every group has a mixture of its own.

Let the start decide from which mixture the policy is drawn. The visits of all groups together are the occupancy of some
stationary policy, so nothing more can be reached, and the optimum is the same. But the master problem knows far more
points: from n policies and K groups n^K combinations, all by the same n linear systems. So it takes fewer rounds.

In the dual, the best known policy at a price is replaced by the sum over groups of the best known policy of each group:

    min over u of   linear @ u + sum over groups k of   max over policies i of price(u) @ part(i, k)

part(i, k): (d,), what policy i is expected to collect from the starts in group k.
"""

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Vector
from tutelage.solvers.objectives import Dual, Point

# The largest excess over the limits and the largest gap that are rounding, relative to the sizes.
EXACT, TIGHT = 1e-12, 1e-11


def can_share(dual: Dual) -> bool:
    """Whether the dual variables are multipliers of half-spaces alone, without a quadratic term."""
    return dual.box is not None and not dual.box.lower.any() and not dual.box.curvature.any()


def best_shares(dual: Dual, parts: NDArray[np.float64], near: Vector) -> Point | None:
    """The best mixture for every group, weights (n, K); None where rounding hides it or no mixture is in the limits.

    parts: (n, K, d). near: (k,), dual variables to start from.
    """
    from tutelage import kernels

    assert dual.box is not None
    profit, use, most = parts @ dual.base, -(parts @ dual.turn), dual.box.upper
    right, key = dual.linear, (profit - use @ near).argmax(axis=0)
    key, group, piece, is_optimal = kernels.best_shares(profit, use, right, most, key)
    if not is_optimal:
        return None
    cost = np.where(np.isfinite(most), most, 0.0)
    _, x, of_key, u, _ = kernels.basic_solution(profit, use, right, cost, key, group, piece)
    weights = np.zeros(profit.shape)
    weights[key, np.arange(len(key))] = np.maximum(of_key, 0.0)
    is_piece = group >= 0
    weights[piece[is_piece], group[is_piece]] = np.maximum(x[is_piece], 0.0)
    weights /= weights.sum(axis=0)
    u = np.clip(u, 0.0, most)
    excess = np.maximum(np.einsum("nk,nkm->m", weights, use) - right, 0.0)
    best = float(right @ u + (profit - use @ u).max(axis=0).sum())
    value = float((weights * profit).sum() - cost @ excess)
    size = 1 + float(np.abs(right).max(initial=0.0)) + abs(best)
    is_within = bool(np.isfinite(most).all()) or float(excess.max(initial=0.0)) <= EXACT * size
    if not is_within or not best - value <= TIGHT * size:
        return None
    return Point(weights, -value, u, dual.price(u), dual.offset(u), u)
