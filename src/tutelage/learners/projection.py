"""The hard learner in the limit (Sec. 3.1): no entropy, the L^p projection onto the set that its preferences allow.

    minimise over pi   norm_p(mu_r(pi) - mu_hat)   subject to   g_j(mu_c(pi)) <= delta_c[j]

(i) *Learner can match*: where a policy within the preferences has the expectation shown, the distance is zero. (ii)
*Learner cannot match*: otherwise mu_r is the projection onto Omega_r^L. Many policies may have that expectation; the
same input always yields the same one. With `entropic_within`, the learner instead takes the most entropic policy within
the preferences whose mu_r is within that distance, per feature, of the projection. A distance of zero would need
infinite weights, because the projection lies on the boundary of the reachable set.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from tutelage.arrays import Matrix, Readable, freeze
from tutelage.chains.expectations import Expectation
from tutelage.constrained.occupancy_polytope import nearest_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, sizes
from tutelage.learners.convex_constraints import ConvexConstraint
from tutelage.learners.entropy import GenericLearner, respond_there
from tutelage.learners.penalties import (
    Constraints,
    Mismatch,
    Preference,
    build_response,
    check_norm,
    signed_multipliers,
)
from tutelage.learners.without_entropy import optimum_within
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Certificate, CertifiedResponse, Lesson, Response, check_lesson
from tutelage.watch import OnProgress, watched


@dataclass(frozen=True, slots=True, eq=False)
class HardLearner(Readable):
    """The exact L^p projection onto the expectations of policies that satisfy the preferences.

    violation_allowance: delta_c^hard, as the allowance of a `Preference`. rows, functions: also as there.
    norm: p = 1, 2 or inf.
    entropic_within: how far each reward feature may be from the projection in favour of entropy; None for not at all.
    route: the method of projection, see `constrained.occupancy_polytope`. constraints: the preferences on the domain.
    """

    domain: Domain
    violation_allowance: Allowance = 0.0
    norm: float = field(default=2, kw_only=True)
    rows: Matrix | None = field(default=None, kw_only=True)
    functions: tuple[ConvexConstraint, ...] = field(default=(), kw_only=True)
    entropic_within: float | None = field(default=None, kw_only=True)
    route: Route = field(default="auto", kw_only=True)
    constraints: Constraints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_norm(self.norm, "mismatch")
        if self.entropic_within is not None and not self.entropic_within > 0:
            raise InvalidModel(f"entropic_within must be positive, got {self.entropic_within}")
        preference = Preference(allowance=self.violation_allowance, rows=self.rows, functions=self.functions)
        object.__setattr__(self, "constraints", preference.on(self.domain))

    @property
    def preference(self) -> Preference:
        return self.constraints.preference

    def respond(
        self,
        lesson: Lesson,
        after: Response | None = None,
        *,
        time_limit: float | None = None,
        progress: OnProgress | None = None,
    ) -> CertifiedResponse:
        """The projection, or the most entropic policy near it; raises `InfeasibleConstraints` where there is none.

        after: the last response, which changes nothing. time_limit: in seconds; `OutOfTime` is raised after it.
        progress: called with a `Progress` after each step.
        """
        shown = check_lesson(self.domain, lesson).expectation
        if lesson.initial is not None:
            return respond_there(self, lesson, time_limit=time_limit, progress=progress)

        def solve(limits: HalfSpaces) -> ConstrainedOptimum:
            return nearest_policy(self.domain, shown, limits, norm=self.norm, route=self.route)

        def distance(reached: Expectation) -> float:
            return float(np.linalg.norm(reached.reward - shown, self.norm))

        unit = float(sizes(self.domain)[: self.domain.n_reward].max())
        with watched(time_limit, progress):
            found, tangents = optimum_within(self.constraints, solve, distance, unit)
            if self.entropic_within is not None:
                return self._entropic(lesson, found, self.entropic_within)
        constraints, reached, price = self.constraints, found.expectation, found.price
        residual = max(found.gap, float(constraints.excess(reached.preference).max(initial=0.0)))
        proof = Certificate(-found.value, -found.bound, residual, found.n_rounds, found.ended, lesson.uncertainty)
        beta = tangents.by_constraint(found.multipliers)
        multipliers = signed_multipliers(price[: self.domain.n_reward], beta)
        return build_response(lesson, proof, found.policy, reached, price, multipliers, Mismatch(), constraints)

    def _entropic(self, lesson: Lesson, found: ConstrainedOptimum, within: float) -> CertifiedResponse:
        """The most entropic policy within that distance of the projection."""
        # Relax the allowance by the rounding error of the projection, so that a policy remains feasible.
        relaxed = self.constraints.allowance + self.constraints.excess(found.expectation.preference)
        learner = GenericLearner(
            self.domain, Mismatch(norm=np.inf, allowance=within), replace(self.preference, allowance=relaxed)
        )
        answer = learner.respond(Lesson.from_expectation(found.expectation.reward))
        excess = freeze(np.abs(answer.expectation.reward - lesson.expectation))
        certificate = replace(answer.certificate, uncertainty=lesson.uncertainty)
        return replace(answer, lesson=lesson, mismatch_excess=excess, certificate=certificate)
