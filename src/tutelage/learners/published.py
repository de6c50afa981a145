"""The learners of the published experiments: gradient ascent on the dual, with a step schedule of its own (App. E).

Kept for comparison, and named for it: it stops well before it has converged, and the printed tables show what it had
reached. `SoftLearner` and `ApproximateHardLearner` solve the same problems exactly. The schedule is not in the paper
but in code that descends from the authors', and it reproduces the printed agnostic entries: multipliers start at zero;
step t = 1, 2, ... is 1 / sqrt(t) along the dual gradient, each multiplier clipped to where it may lie; it stops when
the change of (lower - upper, beta) has 2-norm below 5e-4 and t >= 25, or when t passes the step limit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, freeze
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.tangents import Tangents
from tutelage.mdp.expectations import Expectation, causal_entropy, expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import Ended, InvalidModel
from tutelage.roles import Certificate, Lesson, Multipliers, Response, check_lesson
from tutelage.solvers.bellman import Optimum, solve_soft
from tutelage.solvers.blocks import natural_step, terms
from tutelage.solvers.half_spaces import preference_limits
from tutelage.solvers.occupancy_polytope import require_feasible
from tutelage.solvers.soft_expectations import combined_features

LEAST_STEPS = 25
SMALL_CHANGE = 5e-4


@dataclass(frozen=True, slots=True, eq=False)
class PublishedLearner:
    """Sec. 3.2's learner as published: C_r and C_c, 1-norm penalties, and at most `max_steps` gradient steps."""

    domain: Domain
    mismatch_penalty: float
    violation_penalty: float
    violation_allowance: ArrayLike = 0.0
    max_steps: int = 300
    mismatch: Mismatch = field(init=False)
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mismatch", Mismatch(norm=1, penalty=self.mismatch_penalty))
        object.__setattr__(
            self,
            "preference",
            Preference(norm=1, penalty=self.violation_penalty, allowance=self.violation_allowance),
        )
        self._schedule()

    def respond(self, lesson: Lesson) -> Response:
        """What the published learner answers; its certificate tells how far from converged that is."""
        return self._schedule().response(lesson)

    def _schedule(self) -> "_Schedule":
        return _Schedule(self.domain, self.mismatch, self.preference, self.max_steps, self._step)

    def _step(self, now: Multipliers, size: float, short: Vector, over: Vector) -> Multipliers:
        return Multipliers(
            np.clip(now.lower + size * short, 0.0, self.mismatch_penalty),
            np.clip(now.upper - size * short, 0.0, self.mismatch_penalty),
            np.clip(now.preference + size * over, 0.0, self.violation_penalty),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PublishedHardLearner:
    """Footnote 1's learner by the same schedule: hard preferences, C_r norm_2(mu_r - mu_hat)^2 for a mismatch.

    An answer that has not converged may violate its preferences, in Sec. 6.2 by up to 1.5 beyond the 2.5 allowed. Then
    it reaches nothing that hard preferences allow: its certificate has a primal of -inf, and so an infinite gap.
    `violation_excess` says by how much; the residual is at least that, and the dual still is a bound.
    """

    domain: Domain
    violation_allowance: ArrayLike
    mismatch_penalty: float = 20.0
    max_steps: int = 1000
    mismatch: Mismatch = field(init=False)
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mismatch", Mismatch(norm=2, penalty=self.mismatch_penalty, squared=True))
        object.__setattr__(self, "preference", Preference(allowance=self.violation_allowance))
        self._schedule()

    def respond(self, lesson: Lesson) -> Response:
        """What the published learner answers; its certificate tells how far from converged that is.

        Preferences that no policy keeps, whose multipliers would run off, raise `InfeasibleConstraints`.
        """
        require_feasible(self.domain, preference_limits(self.domain, self.violation_allowance))
        return self._schedule().response(lesson)

    def _schedule(self) -> "_Schedule":
        return _Schedule(self.domain, self.mismatch, self.preference, self.max_steps, self._step, is_warm=True)

    def _step(self, now: Multipliers, size: float, short: Vector, over: Vector) -> Multipliers:
        a = now.lower - now.upper
        new = a + size * (short - a / (2 * self.mismatch_penalty))
        return Multipliers(np.maximum(new, 0.0), np.maximum(-new, 0.0), np.maximum(now.preference + size * over, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Schedule:
    """The published schedule for one learner.

    step: from the multipliers, the step size, mu_hat - mu_r (d_r,) and mu_c - delta (d_c,) to the next multipliers.
    is_warm: each soft value starts from the last, three times as fast; the answers agree to about ten digits.
    """

    domain: Domain
    mismatch: Mismatch
    preference: Preference
    max_steps: int
    step: Callable[[Multipliers, float, Vector, Vector], Multipliers]
    is_warm: bool = False

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise InvalidModel(f"max_steps must be at least one, got {self.max_steps}")
        self.preference.limits(self.domain)

    def response(self, lesson: Lesson) -> Response:
        """The policy where the schedule stops, with what it costs and how far from converged it is."""
        check_lesson(self.domain, lesson)
        domain, shown, limits = self.domain, lesson.expectation, self.preference.limits(self.domain)
        multipliers, n_steps, ended = self._ascend(shown, limits)
        solved, reached = self._expected(multipliers, None)
        deviation, excess = reached.reward - shown, np.maximum(reached.preference - limits, 0.0)
        a, y = multipliers.lower - multipliers.upper, multipliers.preference
        paid = math.inf if self.preference.is_hard and excess.any() else self.preference.cost(excess)
        blocks = [self.mismatch.block(domain), *Tangents.opening(self.preference, domain).blocks(self.preference)]
        gradient, x = np.concatenate([deviation, -reached.preference]), np.concatenate([a, y])
        return Response(
            lesson=lesson,
            policy=solved.policy,
            expectation=reached,
            learned_weights=freeze(_weights(multipliers)),
            multipliers=multipliers,
            mismatch_excess=freeze(self.mismatch.excess(deviation)),
            violation_excess=freeze(excess),
            certificate=Certificate(
                primal=causal_entropy(domain.mdp, solved.policy) - self.mismatch.cost(deviation) - paid,
                dual=float(domain.mdp.initial @ solved.value - a @ shown) + terms(blocks, x),
                residual=float(np.abs(x - natural_step(gradient, blocks, x)).max()),
                n_steps=n_steps,
                ended=ended,
                uncertainty=lesson.uncertainty,
            ),
            reward_names=domain.reward_names,
            constraint_names=self.preference.names(domain),
        )

    def _ascend(self, shown: Vector, limits: Vector) -> tuple[Multipliers, int, Ended]:
        none = np.zeros(self.domain.n_reward)
        now = Multipliers(none, none, np.zeros(self.domain.n_preference))
        value = None
        for n_steps in range(1, self.max_steps + 2):
            solved, reached = self._expected(now, value)
            value = solved.value if self.is_warm else None
            new = self.step(now, 1 / np.sqrt(n_steps), shown - reached.reward, reached.preference - limits)
            change = float(np.linalg.norm(_weights(new) - _weights(now)))
            now = new
            if change < SMALL_CHANGE and n_steps >= LEAST_STEPS:
                return now, n_steps, Ended.SETTLED
        return now, n_steps, Ended.STEP_LIMIT

    def _expected(self, multipliers: Multipliers, start: Vector | None) -> tuple[Optimum, Expectation]:
        """The soft optimum at the multipliers, and what its policy expects."""
        reward = combined_features(self.domain) @ _weights(multipliers)
        solved = solve_soft(self.domain.mdp, reward, start=start)
        return solved, expectation(self.domain, solved.policy)


def _weights(multipliers: Multipliers) -> Vector:
    """w_lambda = (lower - upper, -beta) (App. E)."""
    return np.concatenate([multipliers.lower - multipliers.upper, -multipliers.preference])
