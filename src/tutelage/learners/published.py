"""The learners of the published experiments: gradient ascent on the dual with a fixed step schedule (App. E).

`SoftLearner` and `ApproximateHardLearner` solve the same problems exactly (docs/learners.md). The schedule is not in
the paper; it reproduces all printed agnostic entries of Table 1 and App. B.1. Multipliers start at zero. Step
t = 1, 2, ... moves 1 / sqrt(t) along the dual gradient and clips each multiplier to its range. The ascent stops when
the change of (lower - upper, beta) has 2-norm below 5e-4 and t >= 25, or after step t = max_steps + 1.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import Vector, check_numbers
from tutelage.bellman.equations import solve_soft
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import require_feasible
from tutelage.learners.exact import EntropyLearner, respond_there
from tutelage.learners.penalties import Mismatch, Preference, Tangents, signed_multipliers
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain, choice_reward, combined_features
from tutelage.outcomes import Ended, InvalidModel, OnProgress, report, watched
from tutelage.roles import CertifiedResponse, Lesson, Multipliers, Response, check_lesson

LEAST_STEPS = 25
SMALL_CHANGE = 5e-4
# Of each soft value.
ACCURACY = 1e-8


@dataclass(frozen=True, eq=False)
class _ScheduledLearner(EntropyLearner, ABC):
    """Eq. 1's learner by the published schedule. Each soft value starts from the last."""

    max_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "max_steps", least=1, is_whole=True)
        if self.constraints.names != self.domain.preference_names:
            raise InvalidModel("the published schedule limits every preference; give an allowance to 'others' too")

    @abstractmethod
    def _step(self, now: Multipliers, size: float, missing: Vector, over: Vector) -> Multipliers:
        """The next multipliers. size: of the step. missing: (d_r,), mu_hat - mu_r. over: (d_c,), mu_c - delta."""

    def respond(
        self,
        lesson: Lesson,
        after: Response | None = None,
        *,
        time_limit: float | None = None,
        progress: OnProgress | None = None,
    ) -> CertifiedResponse:
        """The response where the schedule stops; its certificate tells how far from converged it is.

        Raises `InfeasibleConstraints` where no policy satisfies hard preferences: their multipliers would diverge.
        after, time_limit, progress: as of `GenericLearner`.
        """
        if check_lesson(self.domain, lesson).initial is not None:
            return respond_there(self, lesson, time_limit=time_limit, progress=progress)
        shown = lesson.expectation
        tangents = Tangents.linear(self.constraints)
        with watched(time_limit, progress):
            if self.preference.is_hard:
                require_feasible(self.domain, tangents.half_spaces())
            multipliers, n_steps, ended = self._ascend(shown)
        x = np.concatenate([multipliers.lower - multipliers.upper, multipliers.preference])
        reached = replace(self.dual.program(shown, tangents).evaluated(x), n_steps=n_steps, ended=ended)
        return replace(self.dual.response(lesson, reached, tangents), multipliers=multipliers)

    def _ascend(self, shown: Vector) -> tuple[Multipliers, int, Ended]:
        from tutelage.bellman.backups import CompiledOperators, soft_newton

        domain, mdp = self.domain, self.domain.mdp
        features = combined_features(domain)
        now = signed_multipliers(np.zeros(domain.n_reward), np.zeros(domain.n_preference))
        value = solve_soft(mdp, np.zeros(mdp.n_choices)).value.copy()
        for n_steps in range(1, self.max_steps + 2):
            reward = choice_reward(mdp, features @ _weights(now))
            policy = np.empty(mdp.n_choices)
            start = value.copy()
            error = soft_newton(CompiledOperators(mdp, reward).problem, value, policy)
            if not error * mdp.horizon <= ACCURACY:
                solved = solve_soft(mdp, reward, accuracy=ACCURACY, start=start)
                value, policy = solved.value.copy(), solved.policy
            reached = expectation(domain, policy)
            over = reached.preference - self.constraints.allowance
            last, now = now, self._step(now, 1 / np.sqrt(n_steps), shown - reached.reward, over)
            change = float(np.linalg.norm(_weights(now) - _weights(last)))
            report("gradient steps", n_steps, change)
            if change < SMALL_CHANGE and n_steps >= LEAST_STEPS:
                return now, n_steps, Ended.SETTLED
        return now, n_steps, Ended.STEP_LIMIT


@dataclass(frozen=True, eq=False, init=False)
class PublishedLearner(_ScheduledLearner):
    """Sec. 3.2's learner as published: 1-norm penalties C_r and C_c, at most max_steps + 1 gradient steps."""

    def __init__(
        self,
        domain: Domain,
        *,
        mismatch_penalty: float,
        violation_penalty: float,
        violation_allowance: Allowance = 0.0,
        max_steps: int = 300,
    ) -> None:
        preference = Preference(penalty=violation_penalty, allowance=violation_allowance)
        super().__init__(domain, Mismatch(norm=1, penalty=mismatch_penalty), preference, max_steps)

    def _step(self, now: Multipliers, size: float, missing: Vector, over: Vector) -> Multipliers:
        return Multipliers(
            np.clip(now.lower + size * missing, 0.0, self.mismatch_penalty),
            np.clip(now.upper - size * missing, 0.0, self.mismatch_penalty),
            np.clip(now.preference + size * over, 0.0, self.violation_penalty),
        )


@dataclass(frozen=True, eq=False, init=False)
class PublishedHardLearner(_ScheduledLearner):
    """Footnote 1's learner by the same schedule: hard preferences, C_r norm_2(mu_r - mu_hat)^2 for a mismatch.

    A response that has not converged may violate its preferences, in Sec. 6.2 by up to 1.5 above the allowance of 2.5.
    Such a policy is infeasible for hard preferences: its certificate has a primal of -inf, and so an infinite gap.
    `violation_excess` says by how much; the residual is at least that, and the dual is still a bound. Near its limits
    the ascent is chaotic: the last digits of a lesson decide the response after 300 steps (docs/reproduction.md).
    """

    def __init__(
        self,
        domain: Domain,
        *,
        mismatch_penalty: float = 20.0,
        violation_allowance: Allowance = 0.0,
        max_steps: int = 1000,
    ) -> None:
        mismatch = Mismatch(norm=2, penalty=mismatch_penalty, squared=True)
        super().__init__(domain, mismatch, Preference(allowance=violation_allowance), max_steps)

    def _step(self, now: Multipliers, size: float, missing: Vector, over: Vector) -> Multipliers:
        a = now.lower - now.upper
        new = a + size * (missing - a / (2 * self.mismatch_penalty))
        return signed_multipliers(new, np.maximum(now.preference + size * over, 0.0))


def _weights(multipliers: Multipliers) -> Vector:
    """w_lambda = (lower - upper, -beta) (App. E)."""
    return np.concatenate([multipliers.lower - multipliers.upper, -multipliers.preference])
