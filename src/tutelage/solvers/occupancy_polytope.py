"""Problems over all policies: the best within limits, the nearest to a target, the least violation.

Each minimises a convex function of the feature expectation mu = (mu_r, mu_c) over the polytope of occupancies z,

    z >= 0,   sum over choices of s' of z = initial(s') + sum over c of discount(c) T(s' | c) z(c)              (App. F)

(unnormalised: the right-hand side is `initial`, without 1 - discount). There are two routes: *decomposition*, and the
*direct* sparse program over the occupancies. Both end with a bound certified by one MDP solve at the multipliers'
prices. Decomposition takes more rounds with more features to match or limits to keep; the direct program takes more
time with more choices. *auto* tries the direct route where choices are few and features or limits are many. It uses
decomposition otherwise, and where the direct bound is not as tight.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tutelage.arrays import Vector, check_length, floats, freeze
from tutelage.mdp.chain import discounted_rows
from tutelage.mdp.expectations import Expectation, expectation_of_occupancy
from tutelage.mdp.model import Domain, per_choice
from tutelage.mdp.policy import policy_from_occupancy
from tutelage.outcomes import Ended, InfeasibleConstraints, InvalidModel, NotConverged
from tutelage.solvers import objectives
from tutelage.solvers.bellman import Plan
from tutelage.solvers.decomposition import ACCEPTABLE, Column, Mixture, decompose, price_out
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.objectives import Hull, Objective, Point
from tutelage.solvers.programs import InfeasibleProgram

Route = Literal["auto", "decomposition", "direct"]
# Where the routes cross. With 24 features 256 choices take 0.4 s by decomposition and 0.01 s directly, 1,024 choices
# 0.2 s and 0.03 s, 4,096 choices 0.6 s by either; with 32 limits, 0.5 s and 0.01 s, 0.5 s and 0.06 s, 0.1 s and 1.4 s.
FEW_CHOICES, MANY_ROWS = 2_000, 24
# The relative gap of a quadratic program at the level of rounding.
TIGHT = 1e-11
# The largest excess that counts as satisfying a limit, relative to the largest limit or to one.
FEASIBLE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedOptimum:
    """An optimal policy, with a certified bound on the value of any policy.

    policy: (C,). expectation: its feature expectation. multipliers: (m,), the gain in value per unit that a limit is
    relaxed. price: (d,), weights of the features for which this policy is optimal without limits.
    value: that of the policy. bound: no policy within the limits is better. For `best_policy` the value is a reward and
    value <= bound. For `nearest_policy` it is a distance, for `least_violation` a total excess, and bound <= value.
    """

    policy: Vector
    expectation: Expectation
    multipliers: Vector
    price: Vector
    value: float
    bound: float
    n_rounds: int
    ended: Ended

    @property
    def gap(self) -> float:
        """The largest possible distance of the value from the optimal one."""
        return abs(self.bound - self.value)


def best_policy(
    domain: Domain, weights: ArrayLike, limits: HalfSpaces, *, accuracy: float = 1e-8, route: Route = "auto"
) -> ConstrainedOptimum:
    """The policy with the largest `weights @ mu_r` within the limits: a constrained MDP (Sec. 4.1, App. F).

    Raises `InfeasibleConstraints` if no policy is within the limits. accuracy: of the value, relative to 1 + |value|;
    the direct route has its library's accuracy, and raises `NotConverged` where that is worse than 1e-7.
    """
    objective = objectives.MostReward(reward_vector(domain, weights, "weights"))
    return _as_maximum(_solve(domain, objective, limits, accuracy, route, -np.inf))


def nearest_policy(
    domain: Domain,
    target: ArrayLike,
    limits: HalfSpaces,
    *,
    norm: float = 2,
    accuracy: float = 1e-8,
    route: Route = "auto",
) -> ConstrainedOptimum:
    """The policy within the limits whose mu_r is nearest to the target in the L^p norm, p = 1, 2 or inf (Sec. 3.1).

    Raises `InfeasibleConstraints` where no policy is within the limits. accuracy: of the distance for p = 1 and inf;
    for p = 2 of the point itself, as far as double precision allows; relative to 1 + distance.
    """
    wanted = reward_vector(domain, target, "target")
    if norm == 2:
        # f is strongly convex: 1/2 |x - x*|^2 <= f(x) - f(x*).
        reached = 0.5 * (accuracy * (1 + float(np.abs(wanted).max()))) ** 2
        found = _solve(domain, objectives.NearestSquared(wanted), limits, 0.5 * accuracy**2, route, reached)
        value, bound = (float(np.sqrt(2 * max(half, 0.0))) for half in (found.value, found.bound))
        return replace(found, value=value, bound=bound)
    if norm not in (1, np.inf):
        raise InvalidModel(f"norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")
    found = _solve(domain, objectives.Nearest(wanted, norm), limits, accuracy, route, -np.inf)
    return replace(found, bound=max(found.bound, 0.0))


def least_violation(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-8) -> ConstrainedOptimum:
    """The policy with the least total excess over the limits; its value is that total."""
    objective = objectives.LeastViolation()
    mixture = decompose(domain, objective, limits, *_opening(domain, objective, limits), tolerance=accuracy)
    found = _mixed(domain, mixture)
    return replace(found, bound=max(found.bound, 0.0))


def strictest_policy(
    domain: Domain, weights: ArrayLike, limits: HalfSpaces, *, accuracy: float = 1e-8
) -> ConstrainedOptimum:
    """The policy with the largest reward among those with the least total excess over the limits."""
    violation = objectives.LeastViolation()
    least = decompose(domain, violation, limits, *_opening(domain, violation, limits), tolerance=0.1 * FEASIBLE)
    # Relax the limit by the rounding error of the minimum, so that the second stage stays feasible.
    total = float(limits.excess(least.counts).sum()) + FEASIBLE
    objective = objectives.RewardWithinTotal(reward_vector(domain, weights, "weights"), total)
    mixture = decompose(domain, objective, limits, least.columns, least.plan, tolerance=accuracy)
    return _as_maximum(_mixed(domain, mixture))


def require_feasible(domain: Domain, limits: HalfSpaces) -> None:
    """Raise `InfeasibleConstraints` unless some policy is within the limits."""
    if len(limits):
        _feasible(domain, limits, *_opening(domain, objectives.LeastViolation(), limits))


def _solve(
    domain: Domain, objective: Objective, limits: HalfSpaces, tolerance: float, route: Route, good_enough: float
) -> ConstrainedOptimum:
    """The least value of the objective within the limits."""
    n_features, n_given = len(domain.names), limits.normals.shape[1]
    if n_given != n_features:
        raise InvalidModel(f"the limits have {n_given} features, but the domain has {n_features}")
    if not tolerance > 0:
        raise InvalidModel("accuracy must be positive")
    if route not in get_args(Route):
        raise InvalidModel(f"route must be 'auto', 'decomposition' or 'direct', got {route!r}")
    if route == "direct":
        return _direct(domain, objective, limits)
    if route == "auto" and is_crowded(domain, objective, limits):
        found = _direct_if_tight(domain, objective, limits, tolerance, good_enough)
        if found is not None:
            return found
    columns, plan = _opening(domain, objective, limits)
    if len(limits):
        columns, plan, limits = _feasible(domain, limits, columns, plan)
    mixture = decompose(domain, objective, limits, columns, plan, tolerance=tolerance, good_enough=good_enough)
    return _mixed(domain, mixture)


def is_crowded(domain: Domain, objective: Objective, limits: HalfSpaces) -> bool:
    """Whether there are few choices, but many features to match or limits to keep."""
    n_matched = 0 if isinstance(objective, objectives.MostReward) else domain.n_reward
    return domain.mdp.n_choices <= FEW_CHOICES and n_matched + len(limits) >= MANY_ROWS


def _direct_if_tight(
    domain: Domain, objective: Objective, limits: HalfSpaces, tolerance: float, good_enough: float
) -> ConstrainedOptimum | None:
    """The result of the direct route, if decomposition would stop at its gap."""
    try:
        found = _direct(domain, objective, limits)
    except (InfeasibleProgram, NotConverged):
        return None
    allowed = max(tolerance, TIGHT) * (1 + abs(found.value))
    is_tight = found.value - found.bound <= allowed or found.value <= good_enough
    return found if is_tight else None


def _opening(domain: Domain, objective: Objective, limits: HalfSpaces) -> tuple[tuple[Column, ...], Plan]:
    priced = price_out(domain, objective.opening(limits), None)
    return (priced.column,), priced.plan


def _feasible(
    domain: Domain, limits: HalfSpaces, columns: tuple[Column, ...], plan: Plan
) -> tuple[tuple[Column, ...], Plan, HalfSpaces]:
    """Policies with a mixture that satisfies the limits, and the limits relaxed by that mixture's rounding error."""
    good_enough = FEASIBLE * max(1.0, float(np.abs(limits.offsets).max()))
    mixture = decompose(
        domain, objectives.LeastViolation(), limits, columns, plan, tolerance=0.1 * FEASIBLE, good_enough=good_enough
    )
    excess = limits.excess(mixture.counts)
    if mixture.point.value > good_enough:
        raise InfeasibleConstraints(limits.names, freeze(excess), freeze(_unavoidable(domain, limits)))
    return mixture.columns, mixture.plan, limits.relaxed(excess)


def _unavoidable(domain: Domain, limits: HalfSpaces) -> Vector:
    """(m,), the least excess over each limit alone."""
    least = [-price_out(domain, -normal, None).best for normal in limits.normals]
    return np.maximum(np.array(least) - limits.offsets, 0.0)


def _direct(domain: Domain, objective: Objective, limits: HalfSpaces) -> ConstrainedOptimum:
    """The whole program over occupancies at once, its bound certified by one pricing step."""
    try:
        point = objective.solve(_flow(domain), limits)
    except (InfeasibleProgram, NotConverged):
        # The libraries may fail on nearly infeasible programs; the feasibility phase decides.
        _feasible(domain, limits, *_opening(domain, objective, limits))
        raise
    visits = np.maximum(point.weights, 0.0) * domain.mdp.horizon
    bound = point.offset - price_out(domain, point.price, None).best
    gap = abs(point.value - bound)
    if gap > ACCEPTABLE * (1 + abs(point.value)):
        message = f"the direct program was solved only to a gap of {gap:.3g}; use the route 'decomposition'"
        raise NotConverged(message, residual=gap, n_steps=1)
    return _optimum(domain, point, bound, visits, 1, Ended.CONVERGED)


def _flow(domain: Domain) -> Hull:
    """All occupancies: v = z / horizon (C,), whose sum is at most one; the equalities are the flow equations."""
    mdp = domain.mdp
    n_choices, horizon = mdp.n_choices, mdp.horizon
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    flow = (leave - discounted_rows(mdp, np.arange(n_choices)).T).tocsr()
    return Hull(sparse.csr_array(horizon * features.T), flow, mdp.initial / horizon)


def _mixed(domain: Domain, mixture: Mixture) -> ConstrainedOptimum:
    occupancy = mixture.occupancy(domain)
    return _optimum(domain, mixture.point, mixture.bound, occupancy, mixture.n_rounds, mixture.ended)


def _optimum(
    domain: Domain, point: Point, bound: float, occupancy: Vector, n_rounds: int, ended: Ended
) -> ConstrainedOptimum:
    return ConstrainedOptimum(
        policy=policy_from_occupancy(domain.mdp, occupancy),
        expectation=expectation_of_occupancy(domain, occupancy),
        multipliers=freeze(point.multipliers),
        price=freeze(point.price),
        value=point.value,
        bound=bound,
        n_rounds=n_rounds,
        ended=ended,
    )


def _as_maximum(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """The largest reward, from the least negative reward; subtraction from zero does not yield -0.0."""
    return replace(found, value=0.0 - found.value, bound=0.0 - found.bound)


def reward_vector(domain: Domain, values: ArrayLike, name: str) -> Vector:
    """(d_r,), the values checked: one finite number for each reward feature."""
    checked = floats(values, name, ndim=1)
    check_length(checked, domain.n_reward, name, "reward features")
    return checked
