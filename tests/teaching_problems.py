"""Learners to be found out: random domains, and the published worlds with an allowance of 2.5 (Sec. 6.2)."""

from dataclasses import dataclass

import numpy as np
from strategies import random_domain

from tutelage.arrays import Vector
from tutelage.environments.object_world import object_world
from tutelage.learners.entropy import ApproximateHardLearner
from tutelage.learners.projection import HardLearner
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import Domain
from tutelage.roles import Learner, Lesson, Response
from tutelage.solvers.bellman import solve_hard
from tutelage.solvers.half_spaces import HalfSpaces, preference_limits
from tutelage.solvers.occupancy_polytope import best_policy

ALLOWANCE = 2.5


@dataclass(frozen=True)
class TeachingProblem:
    """A learner that projects onto the policies within `limits`, and the most reward that it can be taught."""

    domain: Domain
    true_weights: Vector
    limits: HalfSpaces
    learner: HardLearner
    aware: float

    @property
    def most_lost(self) -> float:
        """What a distance of one costs at most: norm_2(w*)."""
        return float(np.linalg.norm(self.true_weights))

    def reward_of(self, response: Response) -> float:
        """What the learner's own policy earns, whatever was seen of it."""
        return float(self.true_weights @ expectation(self.domain, response.policy).reward)

    def taught(self, lesson: Lesson, learner: Learner) -> float:
        """What a learner earns after one lesson."""
        return self.reward_of(learner.respond(lesson))


def teaching_problem(domain, true_weights, allowance):
    limits = preference_limits(domain, allowance)
    aware = best_policy(domain, true_weights, limits).value
    return TeachingProblem(domain, np.asarray(true_weights), limits, HardLearner(domain, allowance), aware)


def random_problem(seed):
    """A random domain, weights of either sign, and an allowance that a policy of least reward just keeps: so most bind.

    Two reward features, or with odd seeds three, and then few choices: in space a polytope soon has many corners.
    """
    rng = np.random.default_rng(seed)
    n_reward, max_choices = (3, 2) if seed % 2 else (2, 3)
    domain = random_domain(rng, max_states=6, max_choices=max_choices, n_reward=n_reward, n_preference=2)
    weights = rng.normal(size=n_reward)
    worst = solve_hard(domain.mdp, domain.reward_features @ -weights).policy
    return teaching_problem(domain, weights, 1.02 * expectation(domain, worst).preference)


def published_problem(name, seed):
    world = object_world(size=10, seed=seed)
    return teaching_problem(world.domain(name), world.true_weights, ALLOWANCE)


def soft_learner(problem):
    """Footnote 1: hard preferences, and C_r = 20 times the squared mismatch instead of the projection."""
    return ApproximateHardLearner(problem.domain, violation_allowance=ALLOWANCE)
