"""Problems over all policies: the best within limits, the nearest to a target, the least violation.

Each minimises a convex function of the feature expectation mu = (mu_r, mu_c) over the polytope of occupancies z,

    z >= 0,   sum over choices of s' of z = initial(s') + sum over c of discount(c) T(s' | c) z(c)              (App. F)

(unnormalised: the right-hand side is `initial`, without 1 - discount). There are two routes: *decomposition*, and the
*direct* sparse program over the occupancies. Both end with a bound certified by one MDP solve at the multipliers'
prices. Decomposition takes more rounds with more features to match or limits to keep; the direct program takes more
time with more choices. *auto* tries the direct route where choices are few and features or limits are many. It uses
decomposition otherwise, and where the direct bound is not as tight.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tutelage.outcomes import Ended, InfeasibleConstraints, InvalidModel, NotConverged, OutOfTime
from tutelage.solvers import objectives
from tutelage.solvers.bellman import Plan
from tutelage.solvers.columns import Column
from tutelage.solvers.decomposition import decompose, price_out
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.mixtures import ACCEPTABLE, Mixture
from tutelage.solvers.objectives import Hull, Objective, Point
from tutelage.solvers.programs import InfeasibleProgram
from tutelage.solvers.units import Scaled, or_one
from tutelage.watch import OnProgress, watched

Route = Literal["auto", "decomposition", "direct"]
# Where the routes cross. With 24 features 256 choices take 0.4 s by decomposition and 0.01 s directly, 1,024 choices
# 0.2 s and 0.03 s, 4,096 choices 0.6 s by either; with 32 limits, 0.5 s and 0.01 s, 0.5 s and 0.06 s, 0.1 s and 1.4 s.
FEW_CHOICES, MANY_ROWS = 2_000, 24
# The relative gap of a quadratic program at the level of rounding.
TIGHT = 1e-11
# The largest excess that counts as satisfying a limit, relative to the largest value of one of its features.
FEASIBLE = 1e-9


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
    domain: Domain,
    weights: ArrayLike,
    limits: HalfSpaces,
    *,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy with the largest `weights @ mu_r` within the limits: a constrained MDP (Sec. 4.1, App. F).

    Raises `InfeasibleConstraints` if no policy is within the limits. accuracy: of the value, relative to the largest
    value that one feature alone could have, plus |value|; the direct route has its library's accuracy, and raises
    `NotConverged` where that is worse than 1e-7. time_limit: in seconds; `OutOfTime` is raised after it. progress:
    called with a `Progress` after each step.
    """
    _check(domain, limits, accuracy, route)
    scaled = Scaled.each(domain, limits)
    slope, unit = _in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    search = Search(scaled, objectives.MostReward(slope), unit)
    with watched(time_limit, progress), _answers_as(_as_maximum):
        found = search.solve(accuracy, route, -np.inf)
    return _as_maximum(found)


def nearest_policy(
    domain: Domain,
    target: ArrayLike,
    limits: HalfSpaces,
    *,
    norm: float = 2,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy within the limits whose mu_r is nearest to the target in the L^p norm, p = 1, 2 or inf (Sec. 3.1).

    Raises `InfeasibleConstraints` where no policy is within the limits. accuracy: of the distance for p = 1 and inf;
    for p = 2 of the point itself, as far as double precision allows; relative to the largest expectation of a reward
    feature plus the distance. time_limit, progress: as for `best_policy`.
    """
    with watched(time_limit, progress):
        return _nearest(domain, reward_vector(domain, target, "target"), limits, norm, accuracy, route)


def _nearest(
    domain: Domain, wanted: Vector, limits: HalfSpaces, norm: float, accuracy: float, route: Route
) -> ConstrainedOptimum:
    _check(domain, limits, accuracy, route)
    scaled = Scaled.matching(domain, limits)
    unit = float(scaled.feature[0])
    wanted = wanted / unit
    if norm == 2:
        # f is strongly convex: 1/2 |x - x*|^2 <= f(x) - f(x*).
        reached = 0.5 * (accuracy * (1 + float(np.abs(wanted).max()))) ** 2
        search = Search(scaled, objectives.NearestSquared(wanted), unit**2)
        with _answers_as(_as_distance):
            found = search.solve(0.5 * accuracy**2, route, reached)
        return _as_distance(found)
    if norm not in (1, np.inf):
        raise InvalidModel(f"norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")
    with _answers_as(_as_excess):
        found = Search(scaled, objectives.Nearest(wanted, norm), unit).solve(accuracy, route, -np.inf)
    return _as_excess(found)


def least_violation(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-8) -> ConstrainedOptimum:
    """The policy with the least total excess over the limits; its value is that total."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    search = Search(scaled, objectives.LeastViolation(), float(scaled.row.max(initial=1.0)))
    columns, plan = search.opening()
    return _as_excess(search.mixed(columns, plan, limits=scaled.limits, tolerance=accuracy))


def strictest_policy(
    domain: Domain, weights: ArrayLike, limits: HalfSpaces, *, accuracy: float = 1e-8
) -> ConstrainedOptimum:
    """The policy with the largest reward among those with the least total excess over the limits."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    slope, unit = _in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    first = Search(scaled, objectives.LeastViolation(), 1.0)
    least = decompose(scaled.domain, first.objective, scaled.limits, *first.opening(), tolerance=0.1 * FEASIBLE)
    # Relax the limit by the rounding error of the minimum, so that the second stage stays feasible.
    total = float(scaled.limits.excess(least.counts).sum()) + 0.1 * FEASIBLE
    second = Search(scaled, objectives.RewardWithinTotal(slope, total), unit)
    with _answers_as(_as_maximum):
        columns = least.columns_for(second.objective, scaled.limits)
        found = second.mixed(columns, least.plan, limits=scaled.limits, tolerance=accuracy)
    return _as_maximum(found)


def require_feasible(domain: Domain, limits: HalfSpaces) -> None:
    """Raise `InfeasibleConstraints` unless some policy is within the limits."""
    if len(limits):
        search = Search(Scaled.each(domain, limits), objectives.LeastViolation(), 1.0)
        search.feasible(*search.opening())


def _check(domain: Domain, limits: HalfSpaces, accuracy: float, route: str) -> None:
    n_features, n_given = len(domain.names), limits.normals.shape[1]
    if n_given != n_features:
        raise InvalidModel(f"the limits have {n_given} features, but the domain has {n_features}")
    if not accuracy > 0:
        raise InvalidModel("accuracy must be positive")
    if route not in get_args(Route):
        raise InvalidModel(f"route must be 'auto', 'decomposition' or 'direct', got {route!r}")


def _in_unit(weights: Vector, feature: Vector) -> tuple[Vector, float]:
    """Reward weights (d_r,) of the scaled features, with a largest entry of one, and the unit of their reward."""
    with np.errstate(over="ignore"):
        slope = weights * feature
    if not np.isfinite(slope).all():
        j = int(np.flatnonzero(~np.isfinite(slope))[0])
        raise InvalidModel(
            f"the weight {weights[j]:.3g} and an expectation of up to {feature[j]:.3g} are too far apart: "
            "their product is no double; use other units"
        )
    unit = float(or_one(np.abs(slope).max(initial=0.0)))
    return slope / unit, unit


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """One objective over the policies of a scaled problem. unit: of the objective's value."""

    scaled: Scaled
    objective: Objective
    unit: float

    @property
    def domain(self) -> Domain:
        return self.scaled.domain

    def solve(self, tolerance: float, route: Route, good_enough: float) -> ConstrainedOptimum:
        """The least value of the objective within the limits, in the caller's units."""
        if route == "direct":
            return self.direct()
        if route == "auto" and is_crowded(self.domain, self.objective, self.scaled.limits):
            found = self._direct_if_tight(tolerance, good_enough)
            if found is not None:
                return found
        columns, plan = self.opening()
        limits = self.scaled.limits
        if len(limits):
            columns, plan, limits = self.feasible(columns, plan)
        try:
            return self.mixed(columns, plan, limits=limits, tolerance=tolerance, good_enough=good_enough)
        except OutOfTime:
            raise
        except NotConverged as failure:
            found = self._direct_instead(failure) if route == "auto" else None
            if found is None:
                raise
            return found

    def mixed(
        self,
        columns: tuple[Column, ...],
        plan: Plan,
        *,
        limits: HalfSpaces,
        tolerance: float,
        good_enough: float = -np.inf,
    ) -> ConstrainedOptimum:
        """The optimum by decomposition, from these columns. An error carries the best mixture found."""
        try:
            mixture = decompose(
                self.domain, self.objective, limits, columns, plan, tolerance=tolerance, good_enough=good_enough
            )
        except InfeasibleProgram as failure:
            raise NotConverged(str(failure), residual=np.inf, n_steps=len(columns)) from failure
        except NotConverged as failure:
            if isinstance(failure.answer, Mixture):
                failure.answer = self._in_given_units(failure.answer)
            raise
        return self._in_given_units(mixture)

    def _in_given_units(self, mixture: Mixture) -> ConstrainedOptimum:
        occupancy = mixture.occupancy(self.domain)
        return self._optimum(mixture.point, mixture.bound, occupancy, mixture.n_rounds, mixture.ended)

    def _direct_if_tight(self, tolerance: float, good_enough: float) -> ConstrainedOptimum | None:
        """The result of the direct route, if decomposition would stop at its gap."""
        try:
            found = self.direct()
        except (InfeasibleProgram, NotConverged):
            return None
        allowed = max(tolerance, TIGHT) * (self.unit + abs(found.value))
        is_tight = found.value - found.bound <= allowed or found.value <= self.unit * good_enough
        return found if is_tight else None

    def _direct_instead(self, failure: NotConverged) -> ConstrainedOptimum | None:
        """The direct program's answer where decomposition cannot go on, if it is certified at all."""
        if self.domain.mdp.n_choices > FEW_CHOICES:
            return None
        try:
            found = self.direct()
        except (InfeasibleProgram, NotConverged):
            return None
        return found

    def opening(self) -> tuple[tuple[Column, ...], Plan]:
        """The policy at the objective's first price, and the plan to continue from."""
        priced = price_out(self.domain, self.objective.opening(self.scaled.limits), None)
        return (priced.column,), priced.plan

    def feasible(self, columns: tuple[Column, ...], plan: Plan) -> tuple[tuple[Column, ...], Plan, HalfSpaces]:
        """Policies with a mixture that satisfies the limits, and the limits relaxed by its rounding error."""
        limits, objective = self.scaled.limits, objectives.LeastViolation()
        mixture = decompose(
            self.domain, objective, limits, columns, plan, tolerance=0.1 * FEASIBLE, good_enough=FEASIBLE
        )
        if mixture.point.value > FEASIBLE:
            raise self._infeasible()
        columns = mixture.columns_for(self.objective, limits)
        # A last column that was added is the mixture itself.
        reached = mixture.counts if columns is mixture.columns else columns[-1].counts
        return columns, mixture.plan, limits.relaxed(limits.excess(reached))

    def _infeasible(self) -> InfeasibleConstraints:
        """The error that names the limits which no policy keeps together, in the caller's units."""
        scaled, limits = self.scaled, self.scaled.limits
        given = HalfSpaces(
            scaled.row[:, None] * limits.normals / scaled.feature, scaled.row * limits.offsets, limits.names
        )
        common = scaled.with_common_rows(given)
        first = Search(common, objectives.LeastViolation(), 1.0)
        least = decompose(common.domain, first.objective, common.limits, *first.opening(), tolerance=0.1 * FEASIBLE)
        excess = common.row * common.limits.excess(least.counts)
        alone = [-price_out(self.domain, -normal, None).best for normal in limits.normals]
        unavoidable = scaled.row * np.maximum(np.array(alone) - limits.offsets, 0.0)
        return InfeasibleConstraints(limits.names, freeze(excess), freeze(unavoidable))

    def direct(self) -> ConstrainedOptimum:
        """The whole program over occupancies at once, its bound certified by one pricing step."""
        domain, limits = self.domain, self.scaled.limits
        try:
            point = self.objective.solve(_flow(domain), limits)
        except (InfeasibleProgram, NotConverged) as failure:
            # The libraries may fail on nearly infeasible programs; the feasibility phase decides.
            if len(limits):
                self.feasible(*self.opening())
            if isinstance(failure, NotConverged):
                raise
            raise NotConverged(f"the direct program failed: {failure}", residual=np.inf, n_steps=1) from failure
        visits = np.maximum(point.weights, 0.0) * domain.mdp.horizon
        bound = point.offset - price_out(domain, point.price, None).best
        gap = abs(point.value - bound)
        found = self._optimum(point, bound, visits, 1, Ended.CONVERGED)
        if gap > ACCEPTABLE * (1 + abs(point.value)):
            message = (
                f"the direct program was solved only to a relative gap of {gap:.3g}; use the route 'decomposition'"
            )
            raise NotConverged(message, residual=gap, n_steps=1, answer=replace(found, ended=Ended.SETTLED))
        return found

    def _optimum(
        self, point: Point, bound: float, occupancy: Vector, n_rounds: int, ended: Ended
    ) -> ConstrainedOptimum:
        """The optimum in the caller's units."""
        scaled, unit = self.scaled, self.unit
        x = expectation_of_occupancy(scaled.domain, occupancy)
        reward, preference = np.split(scaled.feature, [scaled.domain.n_reward])
        return ConstrainedOptimum(
            policy=policy_from_occupancy(scaled.domain.mdp, occupancy),
            expectation=Expectation(reward * x.reward, preference * x.preference),
            multipliers=freeze(unit * point.multipliers / scaled.row),
            price=freeze(unit * point.price / scaled.feature),
            value=unit * point.value,
            bound=unit * bound,
            n_rounds=n_rounds,
            ended=ended,
        )


def is_crowded(domain: Domain, objective: Objective, limits: HalfSpaces) -> bool:
    """Whether there are few choices, but many features to match or limits to keep."""
    n_matched = 0 if isinstance(objective, objectives.MostReward) else domain.n_reward
    return domain.mdp.n_choices <= FEW_CHOICES and n_matched + len(limits) >= MANY_ROWS


def _flow(domain: Domain) -> Hull:
    """All occupancies: v = z / horizon (C,), whose sum is at most one; the equalities are the flow equations."""
    mdp = domain.mdp
    n_choices, horizon = mdp.n_choices, mdp.horizon
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    flow = (leave - discounted_rows(mdp, np.arange(n_choices)).T).tocsr()
    return Hull(sparse.csr_array(horizon * features.T), flow, mdp.initial / horizon)


def _as_maximum(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """The largest reward, from the least negative reward; subtraction from zero does not yield -0.0."""
    return replace(found, value=0.0 - found.value, bound=0.0 - found.bound)


def _as_excess(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """A value that is never negative, with a bound that is not."""
    return replace(found, bound=max(found.bound, 0.0))


def _as_distance(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """The distance, from half its square."""
    value, bound = (float(np.sqrt(2 * max(half, 0.0))) for half in (found.value, found.bound))
    return replace(found, value=value, bound=bound)


@contextmanager
def _answers_as(convert: Callable[[ConstrainedOptimum], ConstrainedOptimum]) -> Iterator[None]:
    """Convert the best answer that a `NotConverged` carries as the answer itself would be."""
    try:
        yield
    except NotConverged as failure:
        # The answer of another problem, that of finding a policy within the limits, is none.
        failure.answer = convert(failure.answer) if isinstance(failure.answer, ConstrainedOptimum) else None
        raise


def reward_vector(domain: Domain, values: ArrayLike, name: str) -> Vector:
    """(d_r,), the values checked: one finite number for each reward feature."""
    checked = floats(values, name, ndim=1)
    check_length(checked, domain.n_reward, name, "reward features")
    return checked
