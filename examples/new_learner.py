"""A learner of your own: anything with `respond(lesson) -> Response` can be taught.

Learn how to add one, and that it can be taught without being understood. A lazy learner does as it always did once in
ten steps, whatever it was shown. So it projects onto nothing: the cuts of volume search contradict its answers, and the
teacher says that nothing is certified any more. It finds a lesson that makes far more of this learner all the same.
"""

from dataclasses import dataclass, replace

import numpy as np

import tutelage as tl


@dataclass(frozen=True)
class LazyLearner:
    """Means to answer as the hard learner does, but falls back on its habit (C,) with probability `laziness`."""

    domain: tl.Domain
    violation_allowance: float
    habit: np.ndarray
    laziness: float

    def respond(self, lesson: tl.Lesson) -> tl.Response:
        meant = tl.HardLearner(self.domain, self.violation_allowance).respond(lesson)
        policy = (1 - self.laziness) * meant.policy + self.laziness * self.habit
        done = tl.expectation(self.domain, policy)
        missed = np.abs(done.reward - lesson.expectation)
        excess = np.maximum(done.preference - self.violation_allowance, 0)
        # The certificate stays that of what was meant.
        return replace(meant, policy=policy, expectation=done, mismatch_excess=missed, violation_excess=excess)


world = tl.object_world(size=6, seed=1)
domain = world.domain("L3")
learner = LazyLearner(domain, 2.5, habit=tl.uniform_policy(domain.mdp), laziness=0.1)
agnostic = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), learner).final.response_reward
found_out = tl.teach(tl.VolumeSearchTeacher(domain, world.true_weights), learner, max_rounds=20)
print(f"Shown an optimal policy, it earns {agnostic:.2f}. Taught round by round:\n{found_out}")
assert found_out.final.response_reward > 2 * agnostic and found_out.final.bound == np.inf
