"""What each preference costs, in units of the true reward: the constrained MDP of Sec. 4.1 and its multipliers.

    v(delta) = max over pi of   w* @ mu_r(pi)   subject to   g_j(mu_c(pi)) <= delta_j

v is concave and never decreases. Its multiplier y_j is the gain per unit of one more unit allowed of preference j,

    v(delta + t e_j) <= v(delta) + t y_j,        with equality in the limit t -> 0 where v is differentiable,

v has a kink where limits are redundant, such as zero visits within one cell and within two, and y_j is not unique
there. So y_j is taken at delta_j + STEP: v is piecewise linear, and its slope there is that to the right of delta_j.
The loss from having preference j at all is v without the constraint j, minus v(delta). For a learner with soft
preferences these are the costs of keeping them in full.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector
from tutelage.constrained.occupancy_polytope import best_policy, reward_vector
from tutelage.constrained.problem import no_limits
from tutelage.learners.penalties import Constraints
from tutelage.learners.tangents import tangent_optimum
from tutelage.model.mdp import Domain
from tutelage.outcomes import InfeasibleConstraints
from tutelage.teachers.base import KnownLearner

# Costs below this share of the largest reward are rounding.
COST_ROUNDING = 1e-7
# How far a limit is relaxed, relative to its size: more than the accuracy of the solver, less than a piece of v.
STEP = 1e-6


@dataclass(frozen=True, slots=True)
class PreferenceCost:
    """One preference of a learner.

    limit: delta_j. used: g_j(mu_c) of a policy. gain: of true reward per unit of one more unit allowed. loss: of true
    reward, from having this preference at all. Both are NaN where no policy keeps all preferences.
    """

    name: str
    limit: float
    used: float
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The best reward without preferences and within all of them, and the cost of each.

    within: NaN where no policy keeps all preferences.
    """

    without: float
    within: float
    preferences: tuple[PreferenceCost, ...]


def preference_costs(
    learner: KnownLearner, true_weights: ArrayLike, preference_expectation: ArrayLike | None = None
) -> Costs:
    """What the preferences of a learner cost. preference_expectation: (d_c,), mu_c of what it does, for `used`."""
    domain = learner.domain
    weights = reward_vector(domain, true_weights, "true_weights")
    constraints = learner.preference.on(domain)
    without = best_policy(domain, weights, no_limits(domain)).value
    used = np.full(len(constraints.names), math.nan)
    if preference_expectation is not None:
        used = constraints.values(np.asarray(preference_expectation, dtype=np.float64))
    n = len(constraints.names)
    within, gains, losses = math.nan, np.full(n, math.nan), np.full(n, math.nan)
    try:
        within = _within(domain, weights, constraints)[0]
    except InfeasibleConstraints:
        pass
    else:
        losses = np.array([_within(domain, weights, _without(constraints, j))[0] - within for j in range(n)])
        least = COST_ROUNDING * max(abs(without), abs(within))
        gains = np.array([_slope(constraints, weights, j) if losses[j] > least else 0.0 for j in range(n)])
    size = COST_ROUNDING * max(abs(without), abs(within) if n else 0.0)
    rows = zip(constraints.names, constraints.allowance, used, gains, losses, strict=True)
    found = [
        PreferenceCost(name, float(limit), float(done), _rounded(gain, size), _rounded(loss, size))
        for name, limit, done, gain, loss in rows
    ]
    return Costs(without, within, tuple(found))


def _within(domain: Domain, weights: Vector, constraints: Constraints) -> tuple[float, Vector]:
    """v(delta), and its multipliers (m,)."""
    found, tangents = tangent_optimum(constraints, weights)
    return found.value, tangents.by_constraint(found.multipliers)


def _slope(constraints: Constraints, weights: Vector, j: int) -> float:
    """The gain per unit of allowance j, to the right of the limit."""
    domain = constraints.domain
    step = STEP * constraints.sizes(np.zeros(domain.n_preference))[j]
    relaxed = constraints.allowance + step * (np.arange(len(constraints.names)) == j)
    return float(_within(domain, weights, replace(constraints, allowance=relaxed))[1][j])


def _without(constraints: Constraints, j: int) -> Constraints:
    """The constraints but one."""
    preference, n_rows = constraints.preference, len(constraints.rows)
    rows = np.delete(constraints.rows, j, axis=0) if j < n_rows else constraints.rows
    functions = tuple(f for i, f in enumerate(preference.functions) if i != j - n_rows)
    allowance = np.delete(constraints.allowance, j)
    return replace(preference, rows=rows, functions=functions, allowance=allowance).on(constraints.domain)


def _rounded(value: float, size: float) -> float:
    """The cost, or zero where it is below the accuracy of the optimum."""
    return 0.0 if abs(value) <= size else float(value)
