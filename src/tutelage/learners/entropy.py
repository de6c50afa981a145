"""The learners that value causal entropy (Eq. 1; App. D and E): they differ in their penalties alone."""

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tutelage.arrays import Readable, set_fields
from tutelage.bellman.soft_expectations import combined_features
from tutelage.chains.expectations import expectation
from tutelage.learners.dual import Dual
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged, OutOfTime
from tutelage.roles import CertifiedResponse, Lesson, Response, check_lesson
from tutelage.watch import OnProgress, watched

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
        dual = Dual(self.domain, self.mismatch.on(self.domain), self.preference.on(self.domain))
        object.__setattr__(self, "dual", dual)

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
    done, there = expectation(learner.domain, response.policy), response.expectation.reward
    return replace(response, lesson=lesson, expectation=done, reward_there=there)


@dataclass(frozen=True, eq=False)
class GenericLearner(EntropyLearner):
    """Eq. 1 with any mismatch penalty and any preference penalty."""

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
        shown, d_r = check_lesson(self.domain, lesson).expectation, self.domain.n_reward
        if lesson.initial is not None:
            return respond_there(self, lesson, start=start, time_limit=time_limit, progress=progress)
        weights = np.zeros(d_r) if start is None else start.learned_weights[:d_r]
        guess = None if start is None else start.multipliers.preference
        try:
            with watched(time_limit, progress):
                found, tangents = self.dual.optimise(shown, weights, guess)
        except OutOfTime as late:
            late.answer = self.dual.response(lesson, *late.answer) if isinstance(late.answer, tuple) else None
            raise
        response = self.dual.response(lesson, found, tangents)
        if response.certificate.relative_gap > LOOSEST:
            other = self.dual.response(lesson, found, tangents, is_cheapest=True)
            response = max(response, other, key=lambda either: either.certificate.primal)
        gap = response.certificate.relative_gap
        if not gap <= LOOSEST and response.certificate.gap > ENTROPY_ROUNDING * self.domain.mdp.steps:
            failure = NotConverged(self._too_wide(response), residual=gap, n_steps=found.n_steps, answer=response)
            # An exact match on the boundary of the reachable set has no finite weights.
            self.dual.diagnose(shown, tangents, failure)
            raise failure
        if gap > LOOSEST:
            response = replace(response, certificate=replace(response.certificate, ended=Ended.ROUNDING))
        return response

    def _too_wide(self, response: CertifiedResponse) -> str:
        """Which two numbers are too far apart for double precision."""
        reward = float(np.abs(combined_features(self.domain) @ response.learned_weights).max())
        entropy = float(np.log(self.domain.mdp.choices_per_state).max()) * self.domain.mdp.steps
        of_reward, of_preference = np.split(np.abs(response.learned_weights), [self.domain.n_reward])
        is_narrow = math.isinf(self.preference.penalty) and of_preference.max(initial=0.0) > of_reward.max(initial=0.0)
        advice = "the limits leave hardly any policy; allow a little more" if is_narrow else "use smaller penalties"
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
