"""A learner that takes a few gradient steps for each lesson, and goes on from there at the next one.

The sequential learner of maximum-causal-entropy IRL (Kamalaruban et al. 2019, Yengera et al. 2021): with reward weights
a, shown mu_hat from the start of the lesson, it steps along the gradient of the log-likelihood,

    a <- a + rate * (mu_hat - mu_r(pi_a)),        clipped to |a_i| <= C_r

With the preferences of Sec. 3.2 it also steps along the dual of App. E, b <- b + rate * (mu_c(pi) - delta), clipped to
0 <= b_j <= C_c, and acts by the soft policy of the weights (a, -b). Shown one lesson for ever with a small rate it
arrives where `SoftLearner` does. A reward that is not linear in its parameters is a function x -> (a(x), da/dx); the
step in x is then rate * (da/dx)' (mu_hat - mu_r).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, check_length, check_numbers, floats, set_fields
from tutelage.bellman.equations import solve_soft
from tutelage.chains.expectations import expectation
from tutelage.learners.penalties import Preference
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain, combined_features
from tutelage.roles import Lesson, Response, check_lesson, recalled

# The error of the soft value: gradient steps keep what it leaves of the policy's error.
STEP_ACCURACY = 1e-11


@dataclass(frozen=True, eq=False)
class SequentialLearner(Readable):
    """rate: of a step. n_steps: for each lesson. start: (n,), the first parameters, zero by default.

    mismatch_penalty: C_r, infinite for no limit. violation_penalty: C_c, zero for no preferences.
    violation_allowance: delta. reward: the function x -> (a, da/dx), a of shape (d_r,); linear by default.
    """

    domain: Domain
    rate: float = 0.1
    n_steps: int = 1
    start: ArrayLike | None = None
    mismatch_penalty: float = math.inf
    violation_penalty: float = 0.0
    violation_allowance: Allowance = 0.0
    reward: Callable[[Vector], tuple[Vector, Matrix]] | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "n_steps", least=1, is_whole=True)
        check_numbers(self, "rate")
        check_numbers(self, "mismatch_penalty", most=math.inf)
        check_numbers(self, "violation_penalty", least=0.0, most=math.inf)
        start = np.zeros(self.domain.n_reward) if self.start is None else floats(self.start, "start", ndim=1)
        if self.reward is None:
            check_length(start, self.domain.n_reward, "start", "reward features")
        set_fields(self, start=start)

    @property
    def preference(self) -> Preference:
        """Its preferences; without a penalty, no constraint at all."""
        if self.violation_penalty == 0:
            return Preference(rows=np.zeros((0, self.domain.n_preference)))
        return Preference(penalty=self.violation_penalty, allowance=self.violation_allowance)

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The response after `n_steps` steps from where the last one ended."""
        domain = self.domain
        x, b = np.asarray(self.start), np.zeros(domain.n_preference)
        if memory := recalled(after, weights=x.shape, costs=b.shape):
            x, b = memory["weights"], memory["costs"]
        there = check_lesson(domain, lesson).seen_in(domain)
        limits = self.preference.on(domain)
        for _ in range(self.n_steps):
            reached = expectation(there, self.policy(x, b))
            slope = self._weights(x)[1].T @ (lesson.expectation - reached.reward)
            x = np.clip(x + self.rate * slope, -self.mismatch_penalty, self.mismatch_penalty)
            if self.violation_penalty > 0:
                b = np.clip(b + self.rate * (reached.preference - limits.allowance), 0.0, self.violation_penalty)
        return Response.of(domain, lesson, self.policy(x, b), weights=x, memory={"weights": x, "costs": b})

    def policy(self, parameters: Vector, costs: Vector) -> Vector:
        """(C,), the soft policy of the reward a(x) and the costs b."""
        weights = np.concatenate([self._weights(parameters)[0], -costs])
        return solve_soft(self.domain.mdp, combined_features(self.domain) @ weights, accuracy=STEP_ACCURACY).policy

    def _weights(self, parameters: Vector) -> tuple[Vector, Matrix]:
        return (parameters, np.eye(len(parameters))) if self.reward is None else self.reward(parameters)
