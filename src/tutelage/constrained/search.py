"""The search for the least value of an objective over all policies within limits, by one of two routes.

*decomposition*, and the *direct* sparse program over the occupancies. Both end with a bound certified by one MDP solve
at the multipliers' prices. Decomposition takes more rounds with more features to match or limits to keep; the direct
program takes more time with more choices. *auto* tries the direct route where choices are few and features or limits
are many. It uses decomposition otherwise, and where the direct bound is not as tight.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from tutelage.arrays import Vector, freeze
from tutelage.bellman.equations import Plan
from tutelage.chains.expectations import Expectation, expectation_of_occupancy
from tutelage.chains.resolvent import discounted_rows
from tutelage.constrained import objectives
from tutelage.constrained.columns import Column
from tutelage.constrained.decomposition import decompose, opened, price_out
from tutelage.constrained.mixtures import ACCEPTABLE, Mixture
from tutelage.constrained.objectives import Hull, Objective, Point
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, Scaled
from tutelage.convex.programs import InfeasibleProgram
from tutelage.model.mdp import Domain, per_choice
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended, InfeasibleConstraints, NotConverged, OutOfTime

# Where the routes cross. With 24 features 256 choices take 0.4 s by decomposition and 0.01 s directly, 1,024 choices
# 0.2 s and 0.03 s, 4,096 choices 0.6 s by either; with 32 limits, 0.5 s and 0.01 s, 0.5 s and 0.06 s, 0.1 s and 1.4 s.
FEW_CHOICES, MANY_ROWS = 2_000, 24
# The relative gap of a quadratic program at the level of rounding.
TIGHT = 1e-11
# The largest excess that counts as satisfying a limit, relative to the largest value of one of its features.
FEASIBLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A problem with all its reward features, and the weights (d_r,) of the only one that is searched."""

    scaled: Scaled
    slope: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """One objective over the policies of a scaled problem. unit: of the objective's value.

    whole: the problem in which answers are described, if it is another one.
    """

    scaled: Scaled
    objective: Objective
    unit: float
    whole: Whole | None = None

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
        limits = self.scaled.limits
        priced = opened(self.domain, self.objective.opening(limits), limits)
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
            point = self.objective.solve(flow(domain), limits)
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
        scaled, unit, price = self.scaled, self.unit, point.price
        if self.whole is not None:
            scaled, price = self.whole.scaled, np.concatenate([price[0] * self.whole.slope, price[1:]])
        x = expectation_of_occupancy(scaled.domain, occupancy)
        reward, preference = np.split(scaled.feature, [scaled.domain.n_reward])
        return ConstrainedOptimum(
            policy=policy_from_occupancy(scaled.domain.mdp, occupancy),
            expectation=Expectation(reward * x.reward, preference * x.preference),
            multipliers=freeze(unit * point.multipliers / scaled.row),
            price=freeze(unit * price / scaled.feature),
            value=unit * point.value,
            bound=unit * bound,
            n_rounds=n_rounds,
            ended=ended,
        )


def is_crowded(domain: Domain, objective: Objective, limits: HalfSpaces) -> bool:
    """Whether there are few choices, but many features to match or limits to keep."""
    n_matched = 0 if isinstance(objective, objectives.MostReward) else domain.n_reward
    return domain.mdp.n_choices <= FEW_CHOICES and n_matched + len(limits) >= MANY_ROWS


def flow(domain: Domain) -> Hull:
    """All occupancies: v = z / horizon (C,), whose sum is at most one; the equalities are the flow equations."""
    mdp = domain.mdp
    n_choices, horizon = mdp.n_choices, mdp.horizon
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    flow = (leave - discounted_rows(mdp, np.arange(n_choices)).T).tocsr()
    return Hull(sparse.csr_array(horizon * features.T), flow, mdp.initial / horizon)
