"""The hard learner in the limit (Sec. 3.1): no entropy, the L^p projection onto what its preferences allow.

    minimise over pi   norm_p(mu_r(pi) - mu_hat)   subject to   g_j(mu_c(pi)) <= delta_c[j]

(i) *Learner can match*: where some policy within the preferences has the expectation shown, the distance is zero. (ii)
*Learner cannot match*: otherwise mu_r is the projection onto Omega_r^L. Many policies may have that expectation. The
one returned is definite, found by the same steps every time: the stationary policy of the mixture of deterministic
policies that the decomposition ends with or, for few choices and many features, that of the whole program. On request,
`entropic_within`, it is instead the most entropic of all policies within the preferences whose mu_r is within that
distance, per feature, of the projection; with zero distance its weights would be infinite, for the projection lies on
the edge of what can be reached.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.learners.entropy import GenericLearner
from tutelage.learners.penalties import ConvexConstraint, Mismatch, Preference
from tutelage.learners.tangents import Answer, Tangents, tighten
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Certificate, Lesson, Multipliers, Response, check_lesson
from tutelage.solvers.occupancy_polytope import ConstrainedOptimum, Route, nearest_policy


@dataclass(frozen=True, slots=True, eq=False)
class HardLearner:
    """The exact L^p projection onto the policies that keep the preferences.

    violation_allowance: delta_c^hard, (m,) or a scalar. norm: p = 1, 2 or inf. rows, functions: as of `Preference`.
    entropic_within: where given, how far each reward feature may be from the projection for the sake of entropy.
    route: how the projection is found, see `solvers.occupancy_polytope`.
    """

    domain: Domain
    violation_allowance: ArrayLike = 0.0
    norm: float = 2
    rows: Matrix | None = None
    functions: tuple[ConvexConstraint, ...] = ()
    entropic_within: float | None = None
    route: Route = "auto"
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        preference = Preference(allowance=self.violation_allowance, rows=self.rows, functions=self.functions)
        object.__setattr__(self, "preference", preference)
        preference.limits(self.domain)
        Mismatch(norm=self.norm)
        if self.entropic_within is not None and not self.entropic_within > 0:
            raise InvalidModel(f"entropic_within must be positive, got {self.entropic_within}")

    def respond(self, lesson: Lesson) -> Response:
        """The projection, or the most entropic policy near it; raises `InfeasibleConstraints` where there is none."""
        check_lesson(self.domain, lesson)
        found, tangents = self._project(lesson.expectation)
        if self.entropic_within is None:
            return self._response(lesson, found, tangents)
        return self._entropic(lesson, found, self.entropic_within)

    def _project(self, target: Vector) -> tuple[ConstrainedOptimum, Tangents]:
        """The projection, convex constraints by as many tangents as it takes."""
        domain, preference = self.domain, self.preference

        def solve(tangents: Tangents, _: Vector) -> Answer[ConstrainedOptimum]:
            limits = tangents.half_spaces(preference, domain)
            found = nearest_policy(domain, target, limits, norm=self.norm, route=self.route)
            return Answer(found, found.multipliers, found.expectation.preference)

        opening = Tangents.opening(preference, domain)
        answer, tangents = tighten(preference, domain, opening, np.zeros(len(opening.offsets)), solve)
        return answer.found, tangents

    def _response(self, lesson: Lesson, found: ConstrainedOptimum, tangents: Tangents) -> Response:
        domain, preference = self.domain, self.preference
        reached = found.expectation
        excess = np.maximum(preference.values(domain, reached.preference) - preference.limits(domain), 0.0)
        pull = found.price[: domain.n_reward]
        beta = tangents.by_constraint(preference, domain, found.multipliers)
        return Response(
            lesson=lesson,
            policy=found.policy,
            expectation=reached,
            learned_weights=found.price,
            multipliers=Multipliers(freeze(np.maximum(pull, 0.0)), freeze(np.maximum(-pull, 0.0)), freeze(beta)),
            mismatch_excess=freeze(np.abs(reached.reward - lesson.expectation)),
            violation_excess=freeze(excess),
            certificate=Certificate(
                primal=-found.value,
                dual=-found.bound,
                residual=max(found.gap, float(excess.max(initial=0.0))),
                n_steps=found.n_rounds,
                ended=found.ended,
                uncertainty=lesson.uncertainty,
            ),
            reward_names=domain.reward_names,
            constraint_names=preference.names(domain),
        )

    def _entropic(self, lesson: Lesson, found: ConstrainedOptimum, within: float) -> Response:
        """The most entropic policy that stays near the projection."""
        near = Mismatch(norm=np.inf, allowance=within)
        # Eased by what the projection itself, up to rounding, exceeds: at least one policy must be left.
        excess = self.preference.values(self.domain, found.expectation.preference) - self.preference.limits(self.domain)
        eased = self.preference.limits(self.domain) + np.maximum(excess, 0.0)
        preference = replace(self.preference, allowance=eased)
        answer = GenericLearner(self.domain, near, preference).respond(
            Lesson.from_expectation(found.expectation.reward)
        )
        gone = freeze(np.abs(answer.expectation.reward - lesson.expectation))
        proof = replace(answer.certificate, uncertainty=lesson.uncertainty)
        return replace(answer, lesson=lesson, mismatch_excess=gone, certificate=proof)
