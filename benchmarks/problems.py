"""What the benchmarks solve: published object worlds, seed 0 unless said otherwise, of any size."""

from typing import NamedTuple

import numpy as np

from tutelage.arrays import Vector
from tutelage.environments.object_world import object_world
from tutelage.mdp.expectations import Expectation
from tutelage.mdp.model import Domain
from tutelage.roles import Lesson
from tutelage.solvers.bellman import solve_hard
from tutelage.solvers.half_spaces import HalfSpaces, no_limits, preference_limits
from tutelage.solvers.occupancy_polytope import best_policy

ACCURACY, ALLOWANCE = 1e-8, 2.5
# Of what the optimal policy visits most of what is minded.
BINDING_SHARE = 0.3
MISMATCH_PENALTY, VIOLATION_PENALTY = 5.0, 10.0


class Problem(NamedTuple):
    """What a learner of some name knows of a world, the teacher's weights, and how many visits the learner grants."""

    domain: Domain
    weights: Vector
    allowance: float = ALLOWANCE

    @property
    def reward(self) -> Vector:
        """(S,)."""
        return np.asarray(self.domain.reward_features @ self.weights)

    @property
    def limits(self) -> HalfSpaces:
        """The allowance of every preference that the learner has."""
        return preference_limits(self.domain, self.allowance)

    def best_lesson(self) -> Lesson:
        """The optimal policy, with ties split."""
        return Lesson.from_policy(self.domain, solve_hard(self.domain.mdp, self.reward).policy)

    def far_lesson(self) -> Lesson:
        """The expectation of one optimal policy: a point that a learner with limits must project."""
        return Lesson.from_expectation(self._optimal().reward)

    def binding(self) -> "Problem":
        """The same with an allowance that binds. The larger the world, the further the objects, and the fewer
        discounted visits has even the optimal policy: from 500x500 on 2.5 is more than it makes, and limits nothing.
        """
        return self._replace(allowance=BINDING_SHARE * float(self._optimal().preference.max()))

    def _optimal(self) -> Expectation:
        return best_policy(self.domain, self.weights, no_limits(self.domain)).expectation


def problem(size: int, learner: str, seed: int = 0) -> Problem:
    """Of the published world of this size and seed."""
    world = object_world(size=size, seed=seed)
    return Problem(world.domain(learner), world.true_weights)
