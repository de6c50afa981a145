"""The learner of the published experiments: projected gradient ascent on the dual, with its own step schedule (App. E).

Kept for comparison, and named for it: it stops well before it has converged, and the printed tables show what it had
reached. `SoftLearner` solves the same problem exactly. The schedule is not in the paper but in code that descends from
the authors', and it reproduces the printed agnostic entries: multipliers start at zero; step t = 1, 2, ... is 1 /
sqrt(t) along the dual gradient, each multiplier clipped to [0, C]; it stops when the change of (lower - upper, beta)
has 2-norm below 5e-4 and t >= 25, or when t passes 300.
"""

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
from tutelage.solvers.blocks import natural_step
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
        if self.max_steps < 1:
            raise InvalidModel(f"max_steps must be at least one, got {self.max_steps}")
        object.__setattr__(self, "mismatch", Mismatch(norm=1, penalty=self.mismatch_penalty))
        object.__setattr__(
            self,
            "preference",
            Preference(norm=1, penalty=self.violation_penalty, allowance=self.violation_allowance),
        )
        self.preference.limits(self.domain)

    def respond(self, lesson: Lesson) -> Response:
        """What the published learner answers; its certificate tells how far from converged that is."""
        check_lesson(self.domain, lesson)
        multipliers, n_steps, ended = self._ascend(lesson.expectation)
        return self._response(lesson, multipliers, n_steps, ended)

    def _ascend(self, shown: Vector) -> tuple[Multipliers, int, Ended]:
        limits = self.preference.limits(self.domain)
        none = np.zeros(self.domain.n_reward)
        now = Multipliers(none, none, np.zeros(self.domain.n_preference))
        for n_steps in range(1, self.max_steps + 2):
            reached = self._expected(now)[1]
            size, short = 1 / np.sqrt(n_steps), shown - reached.reward
            new = Multipliers(
                np.clip(now.lower + size * short, 0.0, self.mismatch_penalty),
                np.clip(now.upper - size * short, 0.0, self.mismatch_penalty),
                np.clip(now.preference + size * (reached.preference - limits), 0.0, self.violation_penalty),
            )
            change = float(np.linalg.norm(_weights(new) - _weights(now)))
            now = new
            if change < SMALL_CHANGE and n_steps >= LEAST_STEPS:
                return now, n_steps, Ended.SETTLED
        return now, n_steps, Ended.STEP_LIMIT

    def _expected(self, multipliers: Multipliers) -> tuple[Optimum, Expectation]:
        """The soft optimum at the multipliers, and what its policy expects."""
        reward = combined_features(self.domain) @ _weights(multipliers)
        solved = solve_soft(self.domain.mdp, reward)
        return solved, expectation(self.domain, solved.policy)

    def _response(self, lesson: Lesson, multipliers: Multipliers, n_steps: int, ended: Ended) -> Response:
        domain, shown = self.domain, lesson.expectation
        solved, reached = self._expected(multipliers)
        limits, weights = self.preference.limits(domain), _weights(multipliers)
        deviation, excess = reached.reward - shown, np.maximum(reached.preference - limits, 0.0)
        a, y = multipliers.lower - multipliers.upper, multipliers.preference
        tangents = Tangents.opening(self.preference, domain)
        blocks = [self.mismatch.block(domain), *tangents.blocks(self.preference)]
        gradient, x = np.concatenate([deviation, -reached.preference]), np.concatenate([a, y])
        return Response(
            lesson=lesson,
            policy=solved.policy,
            expectation=reached,
            learned_weights=freeze(weights),
            multipliers=multipliers,
            mismatch_excess=freeze(self.mismatch.excess(deviation)),
            violation_excess=freeze(excess),
            certificate=Certificate(
                primal=causal_entropy(domain.mdp, solved.policy)
                - self.mismatch.cost(deviation)
                - self.preference.cost(excess),
                dual=float(domain.mdp.initial @ solved.value - a @ shown + limits @ y),
                residual=float(np.abs(x - natural_step(gradient, blocks, x)).max()),
                n_steps=n_steps,
                ended=ended,
                uncertainty=lesson.uncertainty,
            ),
            reward_names=domain.reward_names,
            constraint_names=self.preference.names(domain),
        )


def _weights(multipliers: Multipliers) -> Vector:
    """w_lambda = (lower - upper, -beta) (App. E)."""
    return np.concatenate([multipliers.lower - multipliers.upper, -multipliers.preference])
