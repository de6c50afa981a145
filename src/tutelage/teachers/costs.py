"""What each preference costs, in units of the true reward: the constrained MDP of Sec. 4.1 and its multipliers.

    v(delta) = max over pi of   w* @ mu_r(pi)   subject to   g_j(mu_c(pi)) <= delta_j

v is concave and never decreases. Its derivative to the right, y_j, is the most that one more unit of preference j gains
per unit,

    v(delta + t e_j) <= v(delta) + t y_j,        with equality in the limit t -> 0

At a kink, such as zero visits within one cell and within two, the multiplier is not unique; `price_low` of the optimum
is this derivative. For a convex constraint it is the multiplier at delta_j + STEP. One unit more never gains more than
giving up the preference, so the gain is at most the loss.
The loss from having preference j at all is v without the constraint j, minus v(delta). For a learner with soft
preferences these are the costs of keeping them in full.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import ArrayLike, Readable, Vector
from tutelage.constrained.occupancy_polytope import best_policy, reward_vector
from tutelage.constrained.problem import ConstrainedOptimum, no_limits
from tutelage.learners.penalties import Constraints
from tutelage.learners.without_entropy import tangent_optimum
from tutelage.outcomes import InfeasibleConstraints
from tutelage.teachers.base import KnownLearner

# Costs below this share of the largest reward are rounding.
COST_ROUNDING = 1e-7
# How far a limit is relaxed, relative to its size: more than the accuracy of the solver, less than a piece of v.
STEP = 1e-6


@dataclass(frozen=True, slots=True)
class PreferenceCost:
    """One preference of a learner.

    limit: delta_j. used: g_j(mu_c) of a policy. gain: the most true reward that one more unit allowed gains, never more
    than the loss. loss: of true reward, from having this preference at all. Both are NaN where no policy keeps all
    preferences.
    """

    name: str
    limit: float
    used: float
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class Costs(Readable):
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
        optimum, _ = tangent_optimum(constraints, weights)
    except InfeasibleConstraints:
        pass
    else:
        within, size = optimum.value, COST_ROUNDING * max(abs(without), abs(optimum.value))
        values = [tangent_optimum(_others(constraints, j), weights)[0].value for j in range(n)]
        losses = np.array([value - within if abs(value - within) > size else 0.0 for value in values])
        slopes = np.array([_slope(constraints, weights, j, optimum) if losses[j] > 0 else 0.0 for j in range(n)])
        # A slope is rounding where all that a limit may allow gains nothing.
        is_rounding = slopes * constraints.sizes(np.zeros(domain.n_preference)) <= size
        gains = np.where(is_rounding, 0.0, np.minimum(slopes, losses))
    rows = zip(constraints.names, constraints.allowance, used, gains, losses, strict=True)
    costs = [PreferenceCost(name, *map(float, numbers)) for name, *numbers in rows]
    return Costs(without, within, tuple(costs))


def _slope(constraints: Constraints, weights: Vector, j: int, optimum: ConstrainedOptimum) -> float:
    """The gain per unit of allowance j, to the right of the limit. optimum: at the limits themselves."""
    if len(optimum.multipliers) == len(constraints.rows) == len(constraints.names) and np.isfinite(
        optimum.price_low[j]
    ):
        return float(optimum.price_low[j])
    step = STEP * constraints.sizes(np.zeros(constraints.domain.n_preference))[j]
    relaxed = constraints.allowance + step * (np.arange(len(constraints.names)) == j)
    found, tangents = tangent_optimum(replace(constraints, allowance=relaxed), weights)
    return float(tangents.by_constraint(found.multipliers)[j])


def _others(constraints: Constraints, j: int) -> Constraints:
    """The constraints but one."""
    preference, n_rows = constraints.preference, len(constraints.rows)
    rows = np.delete(constraints.rows, j, axis=0) if j < n_rows else constraints.rows
    functions = tuple(f for i, f in enumerate(preference.functions) if i != j - n_rows)
    allowance = np.delete(constraints.allowance, j)
    return replace(preference, rows=rows, functions=functions, allowance=allowance).on(constraints.domain)
