"""What preferences cost, in units of the true reward.

Let V(delta) be the best reward within the limits g_j(mu_c) <= delta_j. It is concave in the limits, and

    gain_j = dV / d delta_j              what one unit more of allowance would gain
    loss_j = V without limit j - V       what having the preference costs at all

The gain is the multiplier of limit j in the constrained MDP where V is smooth. V has a kink where limits are redundant,
such as zero visits within one cell and within two, and multipliers are not unique there. So the multiplier is taken a
little further, at delta_j + STEP: V is piecewise linear, so its slope there is that to the right of delta_j.

The multipliers of a learner are those of its own objective, a mismatch or an entropy, and have other units.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, freeze
from tutelage.learners.penalties import Constraints
from tutelage.learners.tangents import optimum_within
from tutelage.mdp.model import Domain
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import best_policy, reward_vector
from tutelage.teachers.base import KnownLearner

# Gains and losses below this, relative to the rewards, are zero within the accuracy of the solver.
NEGLIGIBLE = 1e-7
# How far a limit is relaxed, relative to its size: more than the accuracy of the solver, less than a piece of V.
STEP = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceCosts:
    """The costs of the preferences of a learner, in units of the true reward.

    names, limits: (m,), of the constraints. sizes: (m,), the largest values that policies can give them. gains: (m,),
    the reward that one unit more of each limit would gain. losses: (m,), the reward that each preference costs: the
    optimum without it minus the optimum. unconstrained: the best reward without preferences. best: within all of them.
    """

    names: tuple[str, ...]
    limits: Vector
    sizes: Vector
    gains: Vector
    losses: Vector
    unconstrained: float
    best: float


def preference_costs(domain: Domain, true_weights: ArrayLike, learner: KnownLearner) -> PreferenceCosts:
    """What each preference of a learner costs; raises `InfeasibleConstraints` where no policy keeps them all."""
    weights = reward_vector(domain, true_weights, "true_weights")
    known = learner.domain
    constraints = learner.preference.on(known)
    m, free = len(constraints.names), best_policy(known, weights, no_limits(known)).value
    best = _optimum(known, weights, constraints)[0]
    sizes = constraints.sizes(np.zeros(known.n_preference)) if m else np.zeros(0)
    gains, losses, least = np.zeros(m), np.zeros(m), NEGLIGIBLE * (abs(free) + abs(best))
    for j in range(m):
        loss = (_optimum(known, weights, _without(known, constraints, j))[0] if m > 1 else free) - best
        if loss > least:
            losses[j], step = loss, STEP * float(sizes[j])
            relaxed = replace(constraints, allowance=constraints.allowance + step * np.eye(m)[j])
            gain = float(_optimum(known, weights, relaxed)[1][j])
            gains[j] = gain if gain * sizes[j] > least else 0.0
    limits = constraints.allowance
    return PreferenceCosts(constraints.names, limits, freeze(sizes), freeze(gains), freeze(losses), free, best)


def _optimum(domain: Domain, weights: Vector, constraints: Constraints) -> tuple[float, Vector]:
    """V, and the multipliers (m,) of the constraints."""
    found, tangents = optimum_within(constraints, lambda limits: best_policy(domain, weights, limits))
    return found.value, tangents.by_constraint(found.multipliers)


def _without(domain: Domain, constraints: Constraints, j: int) -> Constraints:
    """The constraints without number j."""
    n_rows, functions = len(constraints.rows), constraints.preference.functions
    rows = np.delete(constraints.rows, j, axis=0) if j < n_rows else constraints.rows
    others = tuple(function for k, function in enumerate(functions, start=n_rows) if k != j)
    allowance = np.delete(constraints.allowance, j)
    return replace(constraints.preference, rows=rows, functions=others, allowance=allowance).on(domain)
