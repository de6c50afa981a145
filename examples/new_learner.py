"""A new learner: every object with `respond(lesson) -> Response` can be taught.

This example shows how to add a learner, and how to teach a learner that violates the assumptions of the teacher. A lazy
learner follows its habit in one of ten steps. So its response is not a projection, and the cuts of volume search
contradict its responses. The teacher then reports an infinite bound, but still finds a much better lesson.
"""

from dataclasses import dataclass

import numpy as np

import tutelage as tl


@dataclass(frozen=True)
class LazyLearner:
    """Responds as the hard learner does, but follows its habit (C,), a policy, with probability `laziness`."""

    domain: tl.Domain
    violation_allowance: float
    habit: np.ndarray
    laziness: float

    def respond(self, lesson: tl.Lesson) -> tl.Response:
        intended = tl.HardLearner(self.domain, self.violation_allowance).respond(lesson)
        policy = (1 - self.laziness) * intended.policy + self.laziness * self.habit
        return tl.Response.of(self.domain, lesson, policy)  # without a certificate


world = tl.object_world(size=6, seed=1)
domain = world.domain("L3")
learner = LazyLearner(domain, 2.5, habit=tl.uniform_policy(domain.mdp), laziness=0.1)
agnostic = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), learner).final.response_reward
adaptive = tl.teach(tl.VolumeSearchTeacher(domain, world.true_weights), learner, max_rounds=20)
print(f"Reward of the learner after an optimal policy: {agnostic:.2f}. With adaptive lessons:\n{adaptive}")
assert adaptive.final.response_reward > 1.5 * agnostic and adaptive.final.bound == np.inf
