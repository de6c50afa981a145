"""The learners of the paper, solved exactly: those that value causal entropy (Eq. 1; App. D and E), and their limit."""

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tutelage.arrays import Matrix, Readable, check_numbers, freeze, set_fields
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import nearest_policy
from tutelage.constrained.problem import ConstrainedOptimum, Route, sizes
from tutelage.learners.convex_constraints import ConvexConstraint
from tutelage.learners.dual import Dual
from tutelage.learners.penalties import Constraints, Mismatch, Preference, Tangents, build_response, check_norm
from tutelage.learners.without_entropy import optimum_within
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import Ended, NotConverged, OnProgress, OutOfTime, watched
from tutelage.roles import Certificate, CertifiedResponse, Lesson, Response, check_lesson

# The largest relative gap of a response that counts as solved.
LOOSEST = 1e-6
# A gap this small, relative to the entropy of one bit in every step, is rounding.
ENTROPY_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class EntropyLearner(Readable):
    """The data of Eq. 1's learner: C_r, C_c and delta_c^hard. dual: both penalties, bound to the domain."""

    domain: Domain
    mismatch: Mismatch
    preference: Preference
    dual: Dual = field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_fields(self, dual=Dual.of(self.domain, self.mismatch, self.preference))

    @property
    def constraints(self) -> Constraints:
        """The preferences on the domain."""
        return self.dual.constraints

    @property
    def mismatch_penalty(self) -> float:
        return self.mismatch.penalty

    @property
    def violation_penalty(self) -> float:
        return self.preference.penalty

    @property
    def violation_allowance(self) -> Allowance:
        return self.preference.allowance


def moved(learner: Any, lesson: Lesson) -> Any:
    """The same learner in its domain with the start of the lesson."""
    if lesson.initial is None:
        return learner
    there = copy.copy(learner)
    set_fields(there, domain=lesson.seen_in(learner.domain))
    there.__post_init__()
    return there


def respond_there(learner: Any, lesson: Lesson, **options: Any) -> CertifiedResponse:
    """The response to a lesson with a start of its own: Eq. 1 from there, also in its preferences and its certificate.

    The expectation of the response is from the start of the domain.
    """
    response: CertifiedResponse = moved(learner, lesson).respond(replace(lesson, initial=None), **options)
    done = expectation(learner.domain, response.policy)
    return replace(response, lesson=lesson, expectation=done, reward_there=response.expectation.reward)


@dataclass(frozen=True, eq=False)
class GenericLearner(EntropyLearner):
    """Eq. 1 with any mismatch penalty and any preference penalty."""

    # Of its responses: each is the optimum of its penalties (`roles.is_exact`).
    is_exact: ClassVar[bool] = True

    def respond(
        self,
        lesson: Lesson,
        after: Response | None = None,
        *,
        start: CertifiedResponse | None = None,
        time_limit: float | None = None,
        progress: OnProgress | None = None,
    ) -> CertifiedResponse:
        """The response, as close to the optimum as rounding allows; its certificate says how close.

        Its relative gap is at most 1e-6. Where rounding allows no such gap, it may be larger, but the gap is at most
        1e-8 nats for each step of the horizon, and `certificate.ended` is `Ended.ROUNDING`. Raises `NotConverged`, with
        the best response as its answer, where neither holds. after: the last response, which changes nothing. start: an
        earlier response of a similar learner, to start from. time_limit: in seconds; `OutOfTime` is raised after it.
        progress: called with a `Progress` after each step.
        """
        shown = check_lesson(self.domain, lesson).expectation
        if lesson.initial is not None:
            return respond_there(self, lesson, start=start, time_limit=time_limit, progress=progress)
        weights, guess = np.zeros(len(shown)), None
        if start is not None:
            weights, guess = start.learned_weights[: len(shown)], start.multipliers.preference
        try:
            with watched(time_limit, progress):
                minimum, tangents = self.dual.optimise(shown, weights, guess)
        except OutOfTime as late:
            late.answer = self.dual.response(lesson, *late.answer) if isinstance(late.answer, tuple) else None
            raise
        response = self.dual.response(lesson, minimum, tangents)
        if response.certificate.relative_gap <= LOOSEST:
            return response
        others = self.dual.warmer(lesson, minimum, tangents)
        response = max([response, *others], key=lambda either: either.certificate.primal)
        proof = response.certificate
        if not proof.relative_gap <= LOOSEST and proof.gap > ENTROPY_ROUNDING * self.domain.mdp.steps:
            message, gap = self._too_wide(response), proof.relative_gap
            failure = NotConverged(message, residual=gap, n_steps=minimum.n_steps, answer=response)
            # An exact match on the boundary of the reachable set has no finite weights.
            self.dual.diagnose(shown, tangents, failure)
            raise failure
        return replace(response, certificate=replace(proof, ended=Ended.ROUNDING))

    def _too_wide(self, response: CertifiedResponse) -> str:
        """Which two numbers are too far apart for double precision."""
        reward = float(np.abs(combined_features(self.domain) @ response.learned_weights).max())
        entropy = float(np.log(self.domain.mdp.choices_per_state).max()) * self.domain.mdp.steps
        of_reward, of_preference = np.split(np.abs(response.learned_weights), [self.domain.n_reward])
        advice = "use smaller penalties"
        if self.preference.is_hard and of_preference.max(initial=0.0) > of_reward.max(initial=0.0):
            advice = "the limits leave hardly any policy; allow a little more"
        return (
            f"the response was computed to a relative gap of {response.certificate.relative_gap:.3g} only: its reward "
            f"reaches {reward:.3g} in one step, but its entropy at most {entropy:.3g} in all; {advice}"
        )


@dataclass(frozen=True, eq=False, init=False)
class SoftLearner(GenericLearner):
    """Sec. 3.2: 1-norm penalties on mismatch and on violation, g_j(mu_c) = mu_c[j]."""

    def __init__(
        self, domain: Domain, *, mismatch_penalty: float, violation_penalty: float, violation_allowance: Allowance = 0.0
    ) -> None:
        mismatch = Mismatch(norm=1, penalty=mismatch_penalty)
        super().__init__(domain, mismatch, Preference(penalty=violation_penalty, allowance=violation_allowance))


@dataclass(frozen=True, eq=False, init=False)
class StandardLearner(GenericLearner):
    """Standard MCE-IRL (App. D): an exact match, no preferences."""

    def __init__(self, domain: Domain) -> None:
        super().__init__(domain, Mismatch(), Preference(rows=np.zeros((0, domain.n_preference))))


@dataclass(frozen=True, eq=False, init=False)
class ApproximateHardLearner(GenericLearner):
    """Footnote 1: hard preferences, and a 2-norm penalty on mismatch that approximates the exact projection.

    squared: the penalty C_r norm_2(x)^2, which the published experiments used with C_r = 20; otherwise C_r norm_2(x).
    """

    def __init__(
        self,
        domain: Domain,
        *,
        mismatch_penalty: float = 20.0,
        violation_allowance: Allowance = 0.0,
        squared: bool = True,
    ) -> None:
        mismatch = Mismatch(norm=2, penalty=mismatch_penalty, squared=squared)
        super().__init__(domain, mismatch, Preference(allowance=violation_allowance))

    @property
    def squared(self) -> bool:
        return self.mismatch.squared


@dataclass(frozen=True, slots=True, eq=False)
class HardLearner(Readable):
    """Sec. 3.1, the limit without entropy: the exact L^p projection onto what its preferences allow.

        minimise over pi   norm_p(mu_r(pi) - mu_hat)   subject to   g_j(mu_c(pi)) <= delta_c[j]

    Many policies may have the expectation nearest to that shown; the same input always yields the same one. With
    `entropic_within`, it is the most entropic one within that distance, per feature, of the projection. A distance of
    zero would need infinite weights, because the projection lies on the boundary of the reachable set.

    violation_allowance: delta_c^hard. It, rows and functions are as of a `Preference`. norm: p = 1, 2 or inf.
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
    is_exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_norm(self.norm, "mismatch")
        if self.entropic_within is not None:
            check_numbers(self, "entropic_within")
        preference = Preference(allowance=self.violation_allowance, rows=self.rows, functions=self.functions)
        set_fields(self, constraints=preference.on(self.domain))

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

        after, time_limit, progress: as of `GenericLearner`.
        """
        shown = check_lesson(self.domain, lesson).expectation
        if lesson.initial is not None:
            return respond_there(self, lesson, time_limit=time_limit, progress=progress)

        constraints = self.constraints
        solve = partial(nearest_policy, self.domain, shown, norm=self.norm, route=self.route)
        with watched(time_limit, progress):
            if constraints.preference.functions:
                unit = float(sizes(self.domain)[: self.domain.n_reward].max())
                best, tangents = optimum_within(
                    constraints, solve, lambda done: float(np.linalg.norm(done.reward - shown, self.norm)), unit
                )
            else:
                tangents = Tangents.linear(constraints)
                best = solve(tangents.half_spaces())
            if self.entropic_within is not None:
                return self._entropic(lesson, best, self.entropic_within)
        reached = best.expectation
        residual = max(best.gap, float(constraints.excess(reached.preference).max(initial=0.0)))
        proof = Certificate(-best.value, -best.bound, residual, best.n_rounds, best.ended, lesson.uncertainty)
        beta = tangents.by_constraint(best.multipliers)
        return build_response(lesson, proof, best.policy, reached, best.price, beta, Mismatch(), constraints)

    def _entropic(self, lesson: Lesson, best: ConstrainedOptimum, within: float) -> CertifiedResponse:
        """The most entropic policy within that distance of the projection."""
        # Relax the allowance by the rounding error of the projection, so that a policy remains feasible.
        relaxed = self.constraints.allowance + self.constraints.excess(best.expectation.preference)
        # By position: preferences without a limit are left out already.
        preference = replace(self.preference, rows=self.constraints.rows, allowance=relaxed)
        learner = GenericLearner(self.domain, Mismatch(norm=np.inf, allowance=within), preference)
        answer = learner.respond(Lesson(best.expectation.reward, lesson.uncertainty))
        excess = freeze(np.abs(answer.expectation.reward - lesson.expectation))
        return replace(answer, lesson=lesson, mismatch_excess=excess)
