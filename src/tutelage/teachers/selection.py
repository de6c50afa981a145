"""Demonstrations for a lesson; `data.selection` has the method."""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Vector
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.selection import select
from tutelage.model.mdp import Domain
from tutelage.roles import Lesson, check_lesson


@dataclass(frozen=True, slots=True, eq=False)
class SelectedDemonstrations:
    """The demonstrations selected for a lesson.

    demonstrations: n trajectories. expectation: (d_r,), their empirical reward expectation, mu_hat_r(Xi).
    distance: 2-norm of its difference from the lesson's expectation. random_distance: the mean distance of 400 random
    selections of n trajectories from the same pool. pool_size: the number of trajectories in the pool.
    """

    demonstrations: Demonstrations
    expectation: Vector
    distance: float
    random_distance: float
    pool_size: int


def select_demonstrations(
    domain: Domain, lesson: Lesson, n: int, *, rng: int | np.random.Generator = 0
) -> SelectedDemonstrations:
    """n trajectories with an empirical reward expectation close to that of the lesson, by greedy search and exchange.

    The pool consists of the lesson's recorded demonstrations, each used at most once; otherwise of samples from the
    lesson's policy; and for a lesson with an expectation only, of samples from the policy nearest to this expectation.
    The selection is not a random sample, so the standard error of `empirical_expectation` does not apply to it.

    rng: a seed or a generator, for the pool and the random selections. The default is seed 0, so equal calls give
    equal demonstrations.
    """
    check_lesson(domain, lesson)
    found = select(domain, lesson.expectation, n, policy=lesson.policy, recorded=lesson.recorded, rng=rng)
    return SelectedDemonstrations(
        found.demonstrations, found.expectation, found.distance, found.random_distance, found.pool_size
    )
