"""The entrance to problems over all policies: the best within limits, the nearest to a target, the least violation.

Each minimises a convex function of the feature expectation mu = (mu_r, mu_c) over the polytope of occupancies, by one
of two routes: *decomposition*, and the *direct* sparse program over the occupancies. Both end with a bound certified by
one MDP solve at the prices of the dual variables. *auto* tries the direct route where choices are few and features or
limits are many. It uses decomposition otherwise, and where the direct bound is not as tight.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats, freeze
from tutelage.chains.expectations import Expectation, expectation_of_occupancy
from tutelage.constrained import objectives
from tutelage.constrained.columns import Column, Improver, Planner, Pricer, is_spread, opened
from tutelage.constrained.decomposition import Decomposed, decompose
from tutelage.constrained.direct import FEW_CHOICES, LOOSEST_GAP, is_crowded, solve_directly
from tutelage.constrained.objectives import Mixture, Objective
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, Scaled, in_unit
from tutelage.constrained.shares import can_share
from tutelage.convex.programs import InfeasibleProgram
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended, InfeasibleConstraints, InvalidModel, NotConverged, OutOfTime, Solution
from tutelage.watch import OnProgress, watched

# The relative gap of a quadratic program at the level of rounding.
TIGHT = 1e-11
# The largest excess that counts as satisfying a limit, relative to the largest value of one of its features.
FEASIBLE = 1e-9


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
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    problem = Problem(scaled, objectives.MostReward(slope), unit)
    if is_spread(domain.mdp) and len(slope) > 1 and not limits.normals[:, : len(slope)].any():
        # Each policy is then evaluated for fewer features.
        problem = Problem(scaled.with_one_reward(slope), objectives.MostReward(np.ones(1)), unit, (scaled, slope))
    with watched(time_limit, progress), _answers_as(_as_maximum):
        found = problem.solve(accuracy, route, -np.inf)
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
    _check(domain, limits, accuracy, route)
    if norm not in (1, 2, np.inf):
        raise InvalidModel(f"norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")
    scaled = Scaled.matching(domain, limits)
    unit = float(scaled.feature[0])
    wanted = reward_vector(domain, target, "target") / unit
    problem, convert, tolerance, reached = (
        Problem(scaled, objectives.Nearest(wanted, norm), unit),
        _as_excess,
        accuracy,
        -np.inf,
    )
    if norm == 2:
        # f is strongly convex: 1/2 |x - x*|^2 <= f(x) - f(x*).
        tolerance, reached = 0.5 * accuracy**2, 0.5 * (accuracy * (1 + float(np.abs(wanted).max()))) ** 2
        problem, convert = Problem(scaled, objectives.NearestSquared(wanted), unit**2), _as_distance
    with watched(time_limit, progress), _answers_as(convert):
        found = problem.solve(tolerance, route, reached)
    return convert(found)


def least_violation(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-8) -> ConstrainedOptimum:
    """The policy with the least total excess over the limits; its value is that total."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    problem = Problem(scaled, objectives.LeastViolation(), float(scaled.row.max(initial=1.0)))
    return _as_excess(problem.mixed(*problem.first(), scaled.limits, accuracy))


def strictest_policy(
    domain: Domain, weights: ArrayLike, limits: HalfSpaces, *, accuracy: float = 1e-8
) -> ConstrainedOptimum:
    """The policy with the largest reward among those with the least total excess over the limits."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    first = Problem(scaled, objectives.LeastViolation(), 1.0)
    pricer, columns = first.first()
    least = decompose(pricer, first.objective, scaled.limits, columns, tolerance=0.1 * FEASIBLE).answer
    # Relax the limit by the rounding error of the minimum, so that the second stage stays feasible.
    total = float(scaled.limits.excess(least.counts).sum()) + 0.1 * FEASIBLE
    second = Problem(scaled, objectives.RewardWithinTotal(slope, total), unit)
    with _answers_as(_as_maximum):
        found = second.mixed(pricer, second.columns_of(pricer, least), scaled.limits, accuracy)
    return _as_maximum(found)


def require_feasible(domain: Domain, limits: HalfSpaces) -> None:
    """Raise `InfeasibleConstraints` unless some policy is within the limits."""
    if len(limits):
        Problem(Scaled.each(domain, limits), objectives.LeastViolation(), 1.0).opening()


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One objective over the policies of a scaled problem. unit: of the objective's value.

    whole: the problem in which answers are described, with the weights (d_r,) of the one reward that is searched here.
    """

    scaled: Scaled
    objective: Objective
    unit: float
    whole: tuple[Scaled, Vector] | None = None

    @property
    def domain(self) -> Domain:
        return self.scaled.domain

    def solve(self, tolerance: float, route: Route, good_enough: float) -> ConstrainedOptimum:
        """The least value of the objective within the limits, in the caller's units."""
        if route == "direct":
            return self.direct()
        if route == "auto" and is_crowded(self.domain, self.objective, self.scaled.limits):
            optimum = self._direct_or_none()
            if optimum is not None and self._is_tight(optimum, tolerance, good_enough):
                return optimum
        try:
            return self.mixed(*self.opening(), tolerance, good_enough)
        except OutOfTime:
            raise
        except NotConverged:
            optimum = self._direct_or_none() if route == "auto" and self.domain.mdp.n_choices <= FEW_CHOICES else None
            if optimum is None:
                raise
            return optimum

    def _is_tight(self, optimum: ConstrainedOptimum, tolerance: float, good_enough: float) -> bool:
        """Whether decomposition would stop at the gap of the direct route, or at the level of rounding."""
        allowed = max(tolerance, TIGHT) * (self.unit + abs(optimum.value))
        return optimum.value - optimum.bound <= allowed or optimum.value <= self.unit * good_enough

    def first(self) -> tuple[Pricer, tuple[Column, ...]]:
        """The policy at the objective's first price, and the pricer to go on with."""
        return opened(self.domain, self.objective.opening(self.scaled.limits))

    def opening(self) -> tuple[Pricer, tuple[Column, ...], HalfSpaces]:
        """Policies with a mixture that satisfies the limits, and the limits relaxed by its rounding error."""
        limits = self.scaled.limits
        pricer, columns = self.first()
        if not len(limits):
            return pricer, columns, limits
        objective = objectives.LeastViolation()
        least = decompose(pricer, objective, limits, columns, tolerance=0.1 * FEASIBLE, good_enough=FEASIBLE)
        if least.value > FEASIBLE:
            raise self._infeasible(pricer, columns)
        columns = self.columns_of(pricer, least.answer)
        # A last column that was added is the mixture itself.
        reached = least.answer.counts if columns is least.answer.columns else columns[-1].counts
        return pricer, columns, limits.relaxed(limits.excess(reached))

    def columns_of(self, pricer: Pricer, found: Decomposed) -> tuple[Column, ...]:
        """The columns of another decomposition, to start from.

        Where every group of starts has a mixture there and this objective has one for all, these mixtures may be
        within limits that no mixture of the columns keeps; the policy of them all is one more column.
        """
        if found.weights.shape[1] == 1 or can_share(self.objective.lower_bounds(self.scaled.limits)):
            return found.columns
        assert isinstance(pricer, Improver)
        policy = policy_from_occupancy(self.domain.mdp, pricer.occupancy(found.columns, found.weights))
        return (*found.columns, pricer.evaluate_policy(policy, None))

    def mixed(
        self,
        pricer: Pricer,
        columns: tuple[Column, ...],
        limits: HalfSpaces,
        tolerance: float,
        good_enough: float = -np.inf,
    ) -> ConstrainedOptimum:
        """The optimum by decomposition, from these columns. An error carries the best mixture found."""
        given = (pricer, self.objective, limits, columns)
        try:
            found = decompose(*given, tolerance=tolerance, good_enough=good_enough)
        except InfeasibleProgram as failure:
            raise NotConverged(str(failure), residual=np.inf, n_steps=len(columns)) from failure
        except NotConverged as failure:
            if isinstance(failure.answer, Solution):
                failure.answer = self._decomposed(pricer, failure.answer)
            raise
        return self._decomposed(pricer, found)

    def _decomposed(self, pricer: Pricer, found: Solution[Decomposed]) -> ConstrainedOptimum:
        """The optimum with the occupancy of a mixture."""
        visits = Mixture(pricer.occupancy(found.answer.columns, found.answer.weights), found.answer.dual)
        return self._optimum(Solution(visits, found.value, found.bound, found.residual, found.ended, found.n_steps))

    def _infeasible(self, pricer: Pricer, columns: tuple[Column, ...]) -> InfeasibleConstraints:
        """The error that names the limits which no policy keeps together, in the caller's units."""
        scaled, limits = self.scaled, self.scaled.limits
        given = HalfSpaces(
            scaled.row[:, None] * limits.normals / scaled.feature, scaled.row * limits.offsets, limits.names
        )
        common = scaled.with_common_rows(given)
        least = decompose(pricer, objectives.LeastViolation(), common.limits, columns, tolerance=0.1 * FEASIBLE)
        excess = common.row * common.limits.excess(least.answer.counts)
        alone = [-Planner(self.domain).price_out(-normal).best for normal in limits.normals]
        unavoidable = scaled.row * np.maximum(np.array(alone) - limits.offsets, 0.0)
        return InfeasibleConstraints(limits.names, freeze(excess), freeze(unavoidable))

    def direct(self) -> ConstrainedOptimum:
        """The optimum by the direct route."""
        try:
            found = solve_directly(self.domain, self.objective, self.scaled.limits)
        except NotConverged:
            # The libraries may fail on nearly infeasible programs; decomposition decides.
            self.opening()
            raise
        optimum = self._optimum(found)
        if found.gap > LOOSEST_GAP * (1 + abs(found.value)):
            message = f"the direct program was solved only to a relative gap of {found.gap:.3g}"
            message += "; use the route 'decomposition'"
            raise NotConverged(message, residual=found.gap, n_steps=1, answer=replace(optimum, ended=Ended.SETTLED))
        return optimum

    def _direct_or_none(self) -> ConstrainedOptimum | None:
        try:
            return self.direct()
        except NotConverged:
            return None

    def _optimum(self, found: Solution[Mixture]) -> ConstrainedOptimum:
        """The optimum in the caller's units. found: with the occupancy (C,) as weights of the choices."""
        scaled, unit, limits, u = self.scaled, self.unit, self.scaled.limits, found.answer.dual
        price = self.objective.lower_bounds(limits).price(u)
        if self.whole is not None:
            scaled, price = self.whole[0], np.concatenate([price[0] * self.whole[1], price[1:]])
        x = expectation_of_occupancy(scaled.domain, found.answer.weights)
        reward, preference = np.split(scaled.feature, [scaled.domain.n_reward])
        return ConstrainedOptimum(
            policy=policy_from_occupancy(scaled.domain.mdp, found.answer.weights),
            expectation=Expectation(reward * x.reward, preference * x.preference),
            multipliers=freeze(unit * u[: len(limits)] / scaled.row),
            price=freeze(unit * price / scaled.feature),
            value=unit * found.value,
            bound=unit * found.bound,
            n_rounds=found.n_steps,
            ended=found.ended,
        )


def _check(domain: Domain, limits: HalfSpaces, accuracy: float, route: str) -> None:
    n_features, n_given = len(domain.names), limits.normals.shape[1]
    if n_given != n_features:
        raise InvalidModel(f"the limits have {n_given} features, but the domain has {n_features}")
    if not accuracy > 0:
        raise InvalidModel("accuracy must be positive")
    if route not in get_args(Route):
        raise InvalidModel(f"route must be 'auto', 'decomposition' or 'direct', got {route!r}")


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
