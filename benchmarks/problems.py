"""The problems of the benchmarks: published object worlds of any size, by default with seed 0."""

from typing import NamedTuple

import numpy as np

from tutelage.arrays import Vector
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import Expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces, no_limits, preference_limits
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import Domain
from tutelage.roles import Lesson

ACCURACY, ALLOWANCE = 1e-8, 2.5
# Binding allowance: this share of the largest expected preference feature of the optimal policy.
BINDING_SHARE = 0.3
MISMATCH_PENALTY, VIOLATION_PENALTY = 5.0, 10.0


class Problem(NamedTuple):
    """The domain of one learner in a world, the teacher's weights, and the learner's allowance per preference."""

    domain: Domain
    weights: Vector
    allowance: float = ALLOWANCE

    @property
    def reward(self) -> Vector:
        """(S,), R = phi_r w."""
        return np.asarray(self.domain.reward_features @ self.weights)

    @property
    def limits(self) -> HalfSpaces:
        """mu_c(pi) <= allowance, for each preference of the learner."""
        return preference_limits(self.domain, self.allowance)

    def best_lesson(self) -> Lesson:
        """The optimal policy; tied choices share its probability equally."""
        return Lesson.from_policy(self.domain, solve_hard(self.domain.mdp, self.reward).policy)

    def far_lesson(self) -> Lesson:
        """The expectation of one optimal policy, outside the feasible set of a learner with limits."""
        return Lesson.from_expectation(self._optimal().reward)

    def binding(self) -> "Problem":
        """The same problem with an allowance that binds.

        In larger worlds the objects are farther apart, so the optimal policy has fewer discounted visits. From 500x500
        on it stays below 2.5, and the paper's allowance does not bind.
        """
        return self._replace(allowance=BINDING_SHARE * float(self._optimal().preference.max()))

    def _optimal(self) -> Expectation:
        return best_policy(self.domain, self.weights, no_limits(self.domain)).expectation


def problem(size: int, learner: str, seed: int = 0) -> Problem:
    """The problem of a learner in the published world of this size and seed."""
    world = object_world(size=size, seed=seed)
    return Problem(world.domain(learner), world.true_weights)
