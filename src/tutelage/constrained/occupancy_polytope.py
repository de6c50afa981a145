"""The entrance to problems over all policies: the best within limits, the nearest to a target, the least violation.

Each minimises a convex function of the feature expectation mu = (mu_r, mu_c) over the polytope of occupancies, by one
of two routes: *decomposition*, and the *direct* sparse program over the occupancies. Both end with a bound certified by
one MDP solve at the prices of the dual variables. *auto* tries the direct route where choices are few and features or
limits are many. It uses decomposition otherwise, and where the direct bound is not as tight.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from tutelage import outcomes
from tutelage.arrays import ArrayLike, Matrix, Vector, freeze, vector
from tutelage.chains.expectations import expectation_of_occupancy
from tutelage.constrained import objectives
from tutelage.constrained.columns import Column, Planner, opened
from tutelage.constrained.decomposition import Decomposed, decompose, matrix
from tutelage.constrained.direct import FEW_CHOICES, LOOSEST_GAP, PriceFace, solve_directly
from tutelage.constrained.objectives import Mixture, Program
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, Scaled, in_unit, sizes
from tutelage.convex.programs import UnboundedProgram
from tutelage.model.mdp import Domain, Weights, reward_vector
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended, EndlessValue, InfeasibleConstraints, InvalidModel, NotConverged, Solution

# The relative gap of a quadratic program at the level of rounding.
TIGHT = 1e-11
# The largest excess that counts as satisfying a limit, relative to the largest value of one of its features.
FEASIBLE = 1e-9
# Where the routes cross. With 24 features 256 choices take 0.4 s by decomposition and 0.01 s directly, 1,024 choices
# 0.2 s and 0.03 s, 4,096 choices 0.6 s by either; with 32 limits, 0.5 s and 0.01 s, 0.5 s and 0.06 s, 0.1 s and 1.4 s.
MANY_ROWS = 24
# Prices with a bound this close to the best reward, relative to its size, are prices of the limits.
PRICE_LEVEL = 1e-9


def best_policy(
    domain: Domain,
    weights: Weights,
    limits: HalfSpaces,
    *,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: outcomes.OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy with the largest `weights @ mu_r` within the limits: a constrained MDP (Sec. 4.1, App. F).

    Raises `InfeasibleConstraints` if no policy is within the limits. accuracy: of the value, relative to the largest
    value that one feature alone could have, plus |value|; the direct route has its library's accuracy, and raises
    `NotConverged` where that is worse than 1e-7. time_limit: in seconds; `OutOfTime` is raised after it. progress:
    called with a `Progress` after each step.
    """
    _check(domain, limits, accuracy, route)
    scaled = Scaled.of(domain, limits, sizes(domain))
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    with outcomes.watched(time_limit, progress):
        return Problem(scaled, objectives.most_reward(slope, scaled.limits), unit, _maximum).solve(accuracy, route)


def nearest_policy(
    domain: Domain,
    target: ArrayLike,
    limits: HalfSpaces,
    *,
    norm: float = 2,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: outcomes.OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy within the limits whose mu_r is nearest to the target in the L^p norm, p = 1, 2 or inf (Sec. 3.1).

    Raises `InfeasibleConstraints` where no policy is within the limits. accuracy: of the distance for p = 1 and inf;
    for p = 2 of the point itself, as far as double precision allows; relative to the largest expectation of a reward
    feature plus the distance. time_limit, progress: as for `best_policy`.
    """
    _check(domain, limits, accuracy, route)
    if norm not in (1, 2, np.inf):
        raise InvalidModel(f"norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")
    # One unit for all reward features, which a distance compares.
    units = sizes(domain).copy()
    units[: domain.n_reward] = units[: domain.n_reward].max()
    scaled = Scaled.of(domain, limits, units)
    unit = float(scaled.feature[0])
    wanted = vector(target, "target", domain.n_reward, "reward features") / unit
    with outcomes.watched(time_limit, progress):
        if norm != 2:
            return Problem(scaled, objectives.nearest(wanted, norm, scaled.limits), unit).solve(accuracy, route)
        program = objectives.nearest_squared(wanted, scaled.limits)
        problem = Problem(scaled, program, unit**2, lambda half: math.sqrt(2 * max(half, 0.0)))
        size = 1 + max(abs(wanted))
        # f is strongly convex: 1/2 |x - x*|^2 <= f(x) - f(x*).
        tolerance, good_enough = 0.5 * accuracy**2, 0.5 * (accuracy * size) ** 2
        close = 10 * accuracy * unit * size
        best = problem.solve(tolerance, route, good_enough)
        if best.gap > close and route == "auto":
            # A direct program is exact in the square of the distance only.
            with suppress(NotConverged):
                other = problem.solve(tolerance, "decomposition", good_enough)
                best = min(best, other, key=lambda either: either.gap)
        if best.gap > close:
            best = _sharpened(best, domain, wanted * unit, limits)
        return best if best.gap <= close else replace(best, ended=Ended.ROUNDING)


def _sharpened(nearest: ConstrainedOptimum, domain: Domain, target: Vector, limits: HalfSpaces) -> ConstrainedOptimum:
    """The nearest policy in the 1-norm, where it is nearer in the 2-norm, too: at a target that is reached.

    There the square of the distance vanishes before the distance does, and rounding hides the rest of it.
    """
    other = nearest_policy(domain, target, limits, norm=1)
    distance = float(np.linalg.norm(other.expectation.reward - target))
    if distance >= nearest.value:
        return nearest
    return replace(nearest, policy=other.policy, expectation=other.expectation, value=distance)


def least_violation(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-8) -> ConstrainedOptimum:
    """The policy with the least total excess over the limits; its value is that total."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.of(domain, limits, sizes(domain)).with_common_rows()
    problem = Problem(scaled, objectives.least_violation(scaled.limits), float(scaled.row.max(initial=1.0)))
    return problem.decomposed(*problem.opened(), problem.program, accuracy)


def strictest_policy(
    domain: Domain, weights: Weights, limits: HalfSpaces, *, accuracy: float = 1e-8
) -> ConstrainedOptimum:
    """The policy with the largest reward among those with the least total excess over the limits."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.of(domain, limits, sizes(domain)).with_common_rows()
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    # The second stage has one mixture for all starts, and goes on from that of the first.
    first = objectives.least_violation(scaled.limits)
    pricer, columns = opened(scaled.domain, first.opening, has_groups=False)
    least = decompose(pricer, first, columns, tolerance=0.1 * FEASIBLE).answer
    # Relax the limit by the rounding error of the minimum, so that the second stage stays feasible.
    total = float(scaled.limits.excess(least.counts).sum()) + 0.1 * FEASIBLE
    second = Problem(scaled, objectives.reward_within_total(slope, total, scaled.limits), unit, _maximum)
    return second.decomposed(pricer, least.columns, second.program, accuracy)


def require_feasible(domain: Domain, limits: HalfSpaces) -> None:
    """Raise `InfeasibleConstraints` unless some policy is within the limits."""
    if len(limits):
        scaled = Scaled.of(domain, limits, sizes(domain))
        problem = Problem(scaled, objectives.least_violation(scaled.limits), 1.0)
        problem.within(*problem.opened())


def _maximum(least: float) -> float:
    """The largest reward, from the least negative reward; subtraction from zero does not yield -0.0."""
    return 0.0 - least


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One objective over the policies of a scaled problem. unit: of its value. told: what answers say of a value."""

    scaled: Scaled
    program: Program
    unit: float
    told: Callable[[float], float] = lambda total: max(total, 0.0)

    def solve(self, tolerance: float, route: Route, good_enough: float = -np.inf) -> ConstrainedOptimum:
        """The least value of the objective within the limits, in the caller's units."""
        if route == "direct":
            return self.direct()
        if route == "auto" and is_crowded(self.scaled.domain, self.program, self.scaled.limits):
            # Below the level of rounding no tolerance is asked for.
            with suppress(NotConverged, EndlessValue):
                return self.direct(max(tolerance, TIGHT), good_enough)
        pricer, columns = self.opened()
        program = self.program
        try:
            if len(self.scaled.limits):
                columns, program = self.within(pricer, columns)
            return self.decomposed(pricer, columns, program, tolerance, good_enough)
        except EndlessValue as failure:
            # At some price of the features going on for ever pays; limits may make it pay a few times only.
            try:
                return self.direct()
            except UnboundedProgram:
                raise failure from None
        except NotConverged as failure:
            is_small = route == "auto" and self.scaled.domain.mdp.n_choices <= FEW_CHOICES
            if is_small and not isinstance(failure, outcomes.OutOfTime):
                with suppress(NotConverged, EndlessValue):
                    return self.direct()
            # The answer of another problem, that of finding a policy within the limits, is none.
            failure.answer = failure.answer if isinstance(failure.answer, ConstrainedOptimum) else None
            raise

    def opened(self) -> tuple[Planner, tuple[Column, ...]]:
        """A pricer and the first policy."""
        return opened(self.scaled.domain, self.program.opening, has_groups=self.program.can_share)

    def decomposed(
        self,
        pricer: Planner,
        columns: tuple[Column, ...],
        program: Program,
        tolerance: float,
        good_enough: float = -np.inf,
    ) -> ConstrainedOptimum:
        """The optimum by decomposition. An error has the best mixture as its answer, in the caller's units."""
        try:
            mixture = decompose(pricer, program, columns, tolerance=tolerance, good_enough=good_enough)
        except NotConverged as failure:
            if isinstance(failure.answer, Solution):
                failure.answer = self._mixed(pricer, failure.answer)
            raise
        return self._mixed(pricer, mixture)

    def within(self, pricer: Planner, columns: tuple[Column, ...]) -> tuple[tuple[Column, ...], Program]:
        """Policies with a mixture that satisfies the limits, and the program with limits relaxed by its rounding error.

        Raises `InfeasibleConstraints` unless some policy is within the limits.
        """
        limits, violation = self.scaled.limits, objectives.least_violation
        least = decompose(pricer, violation(limits), columns, tolerance=0.1 * FEASIBLE, good_enough=FEASIBLE)
        if least.value > FEASIBLE:
            # The limits that no policy keeps together, in the caller's units.
            common = self.scaled.with_common_rows()
            least = decompose(pricer, violation(common.limits), columns, tolerance=0.1 * FEASIBLE)
            excess = common.row * common.limits.excess(least.answer.counts)
            alone = [-Planner(self.scaled.domain).price_out(-normal).best for normal in limits.normals]
            unavoidable = self.scaled.row * np.maximum(np.array(alone) - limits.offsets, 0.0)
            raise InfeasibleConstraints(limits.names, freeze(excess), freeze(unavoidable))
        return least.answer.columns, self.program.relaxed(limits.excess(least.answer.counts))

    def _mixed(self, pricer: Planner, solution: Solution[Decomposed]) -> ConstrainedOptimum:
        """The optimum with the occupancy of a mixture."""
        visits = pricer.occupancy(solution.answer.columns, solution.answer.weights)
        return self._optimum(solution, Mixture(visits, solution.answer.dual), matrix(solution.answer.columns))

    def direct(self, tolerance: float = LOOSEST_GAP, good_enough: float = -np.inf) -> ConstrainedOptimum:
        """The optimum by the direct route, where its relative gap is within the tolerance or its value good enough."""
        try:
            solution = solve_directly(self.scaled.domain, self.program)
        except UnboundedProgram:
            raise
        except NotConverged:
            # The libraries may fail on nearly infeasible programs; decomposition decides.
            self.within(*self.opened())
            raise
        reached = expectation_of_occupancy(self.scaled.domain, solution.answer.weights).both
        optimum = self._optimum(solution, solution.answer, reached[None])
        if solution.gap > tolerance * (1 + abs(solution.value)) and solution.value > good_enough:
            message = f"the direct program has a relative gap of {solution.gap:.3g}; use the route 'decomposition'"
            raise NotConverged(message, residual=solution.gap, n_steps=1, answer=replace(optimum, ended=Ended.SETTLED))
        return optimum

    def _optimum(self, solution: Solution[Any], answer: Mixture, points: Matrix) -> ConstrainedOptimum:
        """The optimum in the caller's units, from an occupancy (C,) as weights; points: (n, d), known expectations."""
        scaled, program, u = self.scaled, self.program, answer.dual
        prices = None
        if program.is_reward:
            scale = program.scale(points)
            tolerance = max(abs(solution.bound - solution.value), PRICE_LEVEL * scale)
            prices = PriceFace(scaled.domain, program, points, solution.value, tolerance, scale, self.unit / scaled.row)
        return scaled.optimum(
            policy_from_occupancy(scaled.domain.mdp, answer.weights),
            expectation_of_occupancy(scaled.domain, answer.weights),
            u[: len(scaled.limits)],
            program.price(u),
            self.unit,
            value=self.told(self.unit * solution.value),
            bound=self.told(self.unit * solution.bound),
            n_rounds=solution.n_steps,
            ended=solution.ended,
            prices=prices,
        )


def is_crowded(domain: Domain, program: Program, limits: HalfSpaces) -> bool:
    """Whether there are few choices, but many features to match or limits to keep."""
    n_matched = 0 if program.is_reward else domain.n_reward
    return domain.mdp.n_choices <= FEW_CHOICES and n_matched + len(limits) >= MANY_ROWS


def _check(domain: Domain, limits: HalfSpaces, accuracy: float, route: str) -> None:
    n_features, n_given = len(domain.names), limits.normals.shape[1]
    if n_given != n_features:
        raise InvalidModel(f"the limits have {n_given} features, but the domain has {n_features}")
    if not accuracy > 0:
        raise InvalidModel("accuracy must be positive")
    if route not in get_args(Route):
        raise InvalidModel(f"route must be 'auto', 'decomposition' or 'direct', got {route!r}")
